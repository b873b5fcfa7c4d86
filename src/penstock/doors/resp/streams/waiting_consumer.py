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


class WaitingConsumer:
    """One XREADGROUP for new entries; ``found`` is its result."""

    def __init__(
        self, consumer: bytes, count_max: int | None, *, settle: bool, waits: bool
    ) -> None:
        self.consumer = consumer
        self.count_max = ROUND_COUNT_MAX if count_max is None else count_max
        self.settle = settle  # NOACK
        self.waits = waits  # whether it stays when there is nothing for it
        self.serve_again: Sequence[Callable[[], None]] = ()  # start a round of each queue
        self.found: asyncio.Future[NewEntries | None]
        self.found = asyncio.get_running_loop().create_future()
        self._is_served = False

    @property
    def is_free(self) -> bool:
        return not self._is_served and not self.found.done()

    def reserve(self) -> None:
        self._is_served = True

    def release(self) -> None:
        self._is_served = False
        if not self.waits:
            self.answer(None)
        elif self.is_free:
            for serve in self.serve_again:
                serve()

    def answer(self, found: NewEntries | None) -> None:
        if not self.found.done():
            self.found.set_result(found)

    def fail(self, error: Exception) -> None:
        if not self.found.done():
            self.found.set_exception(error)

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
