"""A consumer that asked for new entries of a group, in one stream or in several."""

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

from penstock.doors.resp.faults import CommandError

ROUND_COUNT_MAX = 10_000  # entries that one round hands out; a client that wants more asks again


class NewEntries(NamedTuple):
    """What a consumer got, and from which stream."""

    topic: bytes
    entries: list[bytes]
    known: "KnownEntries | None" = None  # what they are, if no other look-up is needed for it


class KnownEntries(NamedTuple):
    """Ids and offsets of entries, and of which incarnation of their topic."""

    incarnation: int
    ids: list[bytes]
    offsets: list[int]


Found = NewEntries | Exception | None  # None: nothing in time
Done = Callable[[Found], None]


class WaitingConsumer:
    """One XREADGROUP for new entries; ``done`` is called once, with its result."""

    __slots__ = (
        "_done",
        "_is_over",
        "_is_served",
        "consumer",
        "count_max",
        "serve_again",
        "settle",
        "timer",
        "waits",
    )

    def __init__(
        self, consumer: bytes, count_max: int | None, *, settle: bool, waits: bool, done: Done
    ) -> None:
        self.consumer = consumer
        self.count_max = ROUND_COUNT_MAX if count_max is None else count_max
        self.settle = settle  # NOACK
        self.waits = waits  # whether it stays when there is nothing for it
        self.serve_again: Sequence[Callable[[], None]] = ()  # start a round of each queue
        self.timer: asyncio.TimerHandle | None = None
        self._done = done
        self._is_over = False
        self._is_served = False

    @property
    def is_over(self) -> bool:
        return self._is_over

    @property
    def is_free(self) -> bool:
        return not (self._is_served or self._is_over)

    def reserve(self) -> None:
        self._is_served = True

    def release(self) -> None:
        self._is_served = False
        if not self.waits:
            self.answer(None)
        elif self.is_free:
            for serve in self.serve_again:
                serve()

    def answer(self, found: Found) -> None:
        if not self._is_over:
            self._is_over = True
            self._done(found)

    def fail(self, error: Exception) -> None:
        self.answer(error)

    def unblock(self, fault: str) -> None:
        """End the wait, with an error or without; a round that serves it is still awaited."""
        if fault and self.is_free:
            self.fail(CommandError(fault))
        else:
            self.expire()

    def expire(self) -> None:
        self.waits = False
        if not self._is_served:
            self.answer(None)

    def abandon(self) -> None:
        """The client has left: whatever comes is for nobody."""
        self._is_over = True
