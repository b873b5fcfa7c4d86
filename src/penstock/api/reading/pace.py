"""Giving way: a reader thread lets the event loop run.

A thread that often enters the database gives up the interpreter each time and takes it back at
once, before the loop has woken. So the loop would wait for the end of the whole read: tens of
milliseconds have been seen. A short sleep lets it in.
"""

from collections.abc import Iterable, Iterator
from time import monotonic, sleep
from typing import Final, TypeVar

_Item = TypeVar("_Item")

TURN_S: Final = 0.002  # of work between two pauses
PAUSE_S: Final = 0.000_05


class Pace:
    """Call it for each item; it costs a look at the clock."""

    __slots__ = ("_rests_at",)

    def __init__(self) -> None:
        self._rests_at = monotonic() + TURN_S

    def __call__(self) -> None:
        if monotonic() >= self._rests_at:
            sleep(PAUSE_S)
            self._rests_at = monotonic() + TURN_S


def paced(items: Iterable[_Item]) -> Iterator[_Item]:
    """The items, with pauses."""
    pace = Pace()
    for item in items:
        pace()
        yield item
