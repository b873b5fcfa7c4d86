"""How a long-running command ends: by a signal, or because its output is no longer read."""

import os
import signal
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def signals_as_input() -> Iterator[int]:
    """Yield a descriptor that a signal makes readable. A second one interrupts blocked output."""
    reading, writing = os.pipe()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def note(_number: int, _frame: FrameType | None) -> None:
        os.write(writing, b"!")
        restore()

    for number in before:
        signal.signal(number, note)
    try:
        yield reading
    finally:
        restore()
        os.close(reading)
        os.close(writing)


def watchable(descriptor: int) -> list[int]:
    """Return it if it is a pipe: only a pipe tells when its reader is gone."""
    return [descriptor] if stat.S_ISFIFO(os.fstat(descriptor).st_mode) else []


def discard_output() -> None:
    """Redirect output to nowhere: its reader is gone, and the last flush must not fail."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
