"""A bulk read of many topics, in steps: which offsets are wanted, and how far it has come.

A scan is not tied to a snapshot. Each step reads some messages and moves the position of their
topics, always to the end of what it has passed on: messages of a topic come in order, each once.
Topics may come in any order, and in turns. What the store cannot give any more is noted: messages
that were removed before their turn (``ScanStep.removed``), and topics that are gone.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple, Protocol, TypeVar

from penstock.store.deletions import Ranges
from penstock.store.raw_slice import RawSlice

TOPICS_AT_ONCE: Final = 1_024  # topics that one step looks at


class Extent(Protocol):
    """The part of ``TopicInfo`` that a scan needs."""

    @property
    def id(self) -> int: ...
    @property
    def first_offset(self) -> int: ...
    @property
    def next_offset(self) -> int: ...
    @property
    def bytes(self) -> int: ...


ExtentT = TypeVar("ExtentT", bound=Extent)


class ScanTopic:
    """Offsets ``next … end - 1`` of a topic are left to read."""

    __slots__ = ("end", "incarnation", "is_done", "name", "next", "number", "stalls")

    def __init__(
        self, number: int, name: bytes, start: int = 0, end: int = 0, incarnation: int = 0
    ) -> None:
        """``number`` is its place in the request. 0: to the end; whatever incarnation there is."""
        self.number = number
        self.name = name
        self.next = start
        self.end = end
        self.incarnation = incarnation
        self.is_done = False
        self.stalls = 0  # looks in a row that have found nothing though there should be more

    def begin(self, info: Extent | None) -> bool:
        """Look at the topic as it is now; False if there is nothing more to read."""
        if self.is_done or info is None or self.incarnation not in {0, info.id}:
            self.is_done = True
            return False
        self.incarnation = info.id
        self.end = self.end or info.next_offset
        self.is_done = self.next >= min(self.end, info.next_offset)
        return not self.is_done

    def span(self, info: Extent, deleted: Ranges) -> tuple[int, int]:
        return deleted.skip(max(self.next, info.first_offset)), min(self.end, info.next_offset)

    def reached(self, offset: int, info: Extent) -> None:
        last = min(self.end, info.next_offset)
        self.next = max(self.next, min(offset, last))
        self.is_done = self.next >= last


class ScanStep(NamedTuple):
    """What one step has read; columns are views that are valid until its reader returns."""

    slices: list[RawSlice]
    removed: list[tuple[int, int, int]]  # number of a topic; offsets, the second is the end


class Scan:
    """The topics of a scan, in the order in which they are read."""

    def __init__(self, topics: Sequence[ScanTopic], columns: int) -> None:
        self.topics = list(topics)  # as they were asked for
        self.columns = columns
        self.walk: object = None  # through blocks; the store keeps here where it is
        self._place = 0  # topics before it are done

    @property
    def is_done(self) -> bool:
        return next(self.left(), None) is None

    def upcoming(
        self,
        view: Callable[[bytes], tuple[ExtentT, Ranges] | None],
        count_max: int,
        bytes_max: int,
    ) -> Iterator[tuple[ScanTopic, ExtentT, Ranges]]:
        """The next topics, as they are now: about as many as an answer takes."""
        for topic in islice(self.left(), TOPICS_AT_ONCE):
            seen = view(topic.name)
            if not topic.begin(seen[0] if seen else None):
                continue
            assert seen is not None
            info, deleted = seen
            yield topic, info, deleted
            rows = min(topic.end, info.next_offset) - topic.next
            count_max -= rows
            bytes_max -= rows * info.bytes // max(info.next_offset - info.first_offset, 1)
            if count_max <= 0 or bytes_max <= 0:
                return

    def left(self) -> Iterator[ScanTopic]:
        """Topics that are not done."""
        topics = self.topics
        while self._place < len(topics) and topics[self._place].is_done:
            self._place += 1
        for place in range(self._place, len(topics)):
            if not topics[place].is_done:
                yield topics[place]
