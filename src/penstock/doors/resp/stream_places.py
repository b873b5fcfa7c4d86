"""A consumer's place in the line of its group, or in several lines; what it gets there."""

from typing import TYPE_CHECKING, NamedTuple, Protocol

from penstock.doors.resp.stream_faults import UNBLOCKED, StreamFault
from penstock.node.hub import Hub

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence


ROUND_COUNT_MAX = 10_000
"""Entries that one round hands out at most; those who want more ask again."""


class Found(NamedTuple):
    """What a consumer got, and from which stream."""

    topic: bytes
    entries: list[bytes]


class Line(Protocol):
    """A line as one who stands in it sees it."""

    def serve(self) -> None:
        """Begin a round, unless one is under way or there is nothing to hand out."""
        ...


class Place:
    """A consumer's place, in one line or in several."""

    def __init__(
        self, hub: Hub, consumer: bytes, count_max: int | None, *, settle: bool, waits: bool
    ) -> None:
        self.consumer = consumer
        self.count_max = ROUND_COUNT_MAX if count_max is None else count_max
        self.settle = settle
        self.waits = waits
        """Whether it stays when there is nothing for it."""
        self.lines: Sequence[Line] = ()
        self.found: asyncio.Future[Found | None] = hub.loop.create_future()
        self._is_served = False

    @property
    def is_free(self) -> bool:
        """Whether a round may serve it: none else does, and it did not get anything yet."""
        return not self._is_served and not self.found.done()

    def reserve(self) -> None:
        """A round is about to give it something: no other may, then."""
        self._is_served = True

    def release(self) -> None:
        """The round is over; if it brought nothing, another may serve it."""
        self._is_served = False
        if not self.waits:
            self.answer(None)
        elif self.is_free:
            for line in self.lines:
                line.serve()

    def answer(self, found: Found | None) -> None:
        """It has what it came for, or leaves without."""
        if not self.found.done():
            self.found.set_result(found)

    def fail(self, error: Exception) -> None:
        """It cannot be served."""
        if not self.found.done():
            self.found.set_exception(error)

    def unblock(self, is_error: bool) -> None:
        """It is to wait no longer; a round that serves it is still awaited."""
        if is_error and self.is_free:
            self.fail(StreamFault(UNBLOCKED))
        else:
            self.expire()

    def expire(self) -> None:
        """Its time is over; a round that serves it is still awaited."""
        self.waits = False
        if not self._is_served:
            self.answer(None)
