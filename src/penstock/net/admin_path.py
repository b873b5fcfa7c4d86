"""The path of the administrator's socket, for the broker that listens there and for commands.

A path longer than some 100 bytes does not fit into the address of a Unix socket; it is reached by
way of a descriptor of its directory.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

NAME = "admin.sock"


@contextlib.contextmanager
def reachable(path: Path) -> Iterator[str]:
    """An address for a socket file, however long its path is."""
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)
