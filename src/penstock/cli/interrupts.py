"""The end of a command that runs on: by a signal, or because nobody reads its output."""

import os
import signal
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def signals_as_input() -> Iterator[int]:
    """Give a file descriptor that can be read once SIGINT or SIGTERM has come.

    A second signal interrupts, should the reader of our output have stopped reading.
    """
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
    """Return it if it is a pipe: only of a pipe can we see that its reader has gone."""
    return [descriptor] if stat.S_ISFIFO(os.fstat(descriptor).st_mode) else []


def discard_output() -> None:
    """Our reader has gone, as ``head`` does: let the interpreter's last flush go nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
