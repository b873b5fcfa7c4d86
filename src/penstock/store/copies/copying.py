"""Copy a store while it is in use: ``python -m penstock.store.copies.copying DIR``.

A copy within the broker's process would keep LMDB's map from growing until it is complete, and
commits would wait. The copy is the state of one moment, without unused pages.
"""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from penstock.errors import StorageError
from penstock.store.environment import Environment

ERROR_CHARACTERS_MAX = 500
LOOK_S = 0.2  # how often is asked whether the copy is still wanted


def copy_in_process(
    data: Path,
    environment: Environment,
    file: int,
    is_wanted: Callable[[], bool] = lambda: True,
) -> None:
    """Write a copy of the database to an open file or pipe. Blocks; raises StorageError.

    The copy ends early, with an error, once ``is_wanted`` returns False.
    """
    try:
        _run(data, file, is_wanted)
    finally:
        environment.forget_dead_readers()


def _run(data: Path, file: int, is_wanted: Callable[[], bool]) -> None:
    with subprocess.Popen(  # noqa: S603 - our own module; nothing of it is a stranger's
        [sys.executable, "-P", "-m", __spec__.name, str(data)],
        stdin=subprocess.DEVNULL,
        stdout=file,
        stderr=subprocess.PIPE,
    ) as process:
        text = _error_text(process, is_wanted)
    if process.returncode:
        raise StorageError(
            f"the store could not be copied: {text or f'ended with {process.returncode}'}",
            "Check the disk and the memory of this machine.",
        )


def _error_text(process: "subprocess.Popen[bytes]", is_wanted: Callable[[], bool]) -> str:
    """Wait for the end of the process; what it wrote to stderr."""
    try:
        while True:
            try:
                errors = process.communicate(timeout=LOOK_S)[1]
                return errors.decode("utf-8", "replace").strip()[-ERROR_CHARACTERS_MAX:]
            except subprocess.TimeoutExpired:
                if not is_wanted():
                    process.kill()
    except BaseException:
        process.kill()
        raise


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
