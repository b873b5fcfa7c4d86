"""Copy a store while it is in use, in a separate process: ``python -m penstock.store.copying DIR``.

A copy within the broker's process would keep LMDB's map from growing until it is complete, and
commits would wait. The copy is the state of one moment, without unused pages.
"""

import subprocess
import sys
from pathlib import Path

from penstock.errors import StorageError
from penstock.store.environment import Environment

ERROR_CHARACTERS_MAX = 500


def copy_in_process(data: Path, environment: Environment, file: int) -> None:
    """Write a copy of the store to an open file or pipe. Blocks; raises StorageError."""
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
            "Check the disk and the memory of this machine.",
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
