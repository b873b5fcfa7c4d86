"""A copy of a store in use, made by a process of its own: ``python -m penstock.store.copying DIR``.

LMDB lets several processes have a database open. A copy within the broker's own process would keep
its map from growing for as long as the copy takes, minutes perhaps, and commits would wait for
that. A process of its own disturbs nobody, and whoever does not want the copy any more closes the
pipe. What is copied is the state of one moment, without the pages that nothing uses.
"""

import subprocess
import sys
from pathlib import Path

from penstock.errors import StorageError
from penstock.store.environment import Environment

ERROR_CHARACTERS_MAX = 500


def copy_in_process(data: Path, environment: Environment, file: int) -> None:
    """Write a copy of the store in ``data`` to an open file or pipe; raises StorageError.

    Blocks until all is written, so call it in a thread. ``environment`` is what this process has
    open there: it forgets the reader, in case that was killed.
    """
    try:
        _run(data, file)
    finally:
        environment.forget_dead_readers()


def _run(data: Path, file: int) -> None:
    done = subprocess.run(  # noqa: S603 - our own module; nothing of it is a stranger's
        [sys.executable, "-P", "-m", __spec__.name, str(data)],
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=file,
        stderr=subprocess.PIPE,
    )
    if done.returncode:
        text = done.stderr.decode("utf-8", "replace").strip()[-ERROR_CHARACTERS_MAX:]
        raise StorageError(
            f"the store could not be copied: {text or f'ended with {done.returncode}'}",
            "Look at the disk and at the memory of this machine.",
        )


def _main() -> None:
    environment = Environment(Path(sys.argv[1]), map_bytes=0, readonly=True)
    try:
        environment.copy(sys.stdout.fileno())
    except StorageError as error:
        sys.exit(str(error))
    finally:
        environment.close()


if __name__ == "__main__":
    _main()
