"""A catalogue: which priority the messages of a topic have, and when they are due.

That is nowhere stored but with the messages themselves. So it is read from the journal, from some
offset on, a stretch at a time and off the loop, and then kept up with every commit. What is known
so far can be used meanwhile.
"""

from collections.abc import Callable

from penstock.commit.feed import CommittedMessages
from penstock.core.priority_offsets import OffsetsByPriority
from penstock.dispatch.parts import DispatchParts
from penstock.model.message import FLAG_PRIORITY, PRIORITY_SHIFT
from penstock.store.batch import RUN_WIDTH
from penstock.store.store import TopicFlags

MARKS_AT_ONCE = 8_192
"""Messages whose priorities are read from the journal at a time; to note them takes the loop."""

READ_AGAIN_S = 0.5
"""Pause before the journal is read again, if it could not be."""


class PriorityCatalog:
    """What is known of one topic from an offset on; ``grown`` is called when that is more."""

    def __init__(
        self, parts: DispatchParts, topic: bytes, start: int, grown: Callable[[], None]
    ) -> None:
        self._parts = parts
        self._topic = topic
        self._grown = grown
        self.lanes = OffsetsByPriority(start)
        self.known_to = start
        """Everything below was looked at; messages that were deleted are in no lane."""
        self.is_reading = False
        """Whether more than is known is about to be."""
        self._is_closed = False
        self.read_on()

    def close(self) -> None:
        """Nobody wants to know."""
        self._is_closed = True

    def read_on(self) -> None:
        """Read what the journal has beyond what is known, if it has."""
        info = self._parts.store.topic(self._topic)
        is_whole = info is None or self.known_to >= info.next_offset
        if is_whole or self.is_reading or self._is_closed:
            return
        self.is_reading = True
        read_flags, topic, start = self._parts.store.read_flags, self._topic, self.known_to
        self._parts.readers.run(
            lambda: read_flags(topic, start, MARKS_AT_ONCE),
            self._read,
            lambda _error: self._read_failed(),
        )

    def _read(self, marks: TopicFlags) -> None:
        self.is_reading = False
        if self._is_closed:
            return
        lanes = self.lanes
        for first, count, flags in marks.runs:
            _extend(lanes, first, count, flags)
        self.known_to = max(marks.next_offset, lanes.start)
        for offset, (due_ms, expires_ms) in marks.schedule.items():
            lanes.schedule(offset, due_ms, expires_ms)
        self.read_on()
        self._grown()

    def _read_failed(self) -> None:
        """It was counted and logged; the disk may recover."""
        self.is_reading = False
        self._parts.connections.loop.call_later(READ_AGAIN_S, self.read_on)

    def committed(self, part: CommittedMessages) -> None:
        """The topic has grown by a commit."""
        if part.first_offset <= self.known_to and not self.is_reading:
            _extend_by_part(self.lanes, part)
            self.known_to = max(self.known_to, part.first_offset + part.count)
        self.read_on()


def _extend(lanes: OffsetsByPriority, first: int, count: int, flags: int) -> None:
    """Add messages, as far as they are not known, nor forgotten as every group is past them."""
    known = max(lanes.end - first, 0)
    if known < count:
        lanes.extend(first + known, count - known, (flags & FLAG_PRIORITY) >> PRIORITY_SHIFT)


def _extend_by_part(lanes: OffsetsByPriority, part: CommittedMessages) -> None:
    """Add what a commit brought, as far as it is not known."""
    first = part.first_offset
    counts, flags = part.group.runs[1::RUN_WIDTH], part.group.runs[3::RUN_WIDTH]
    for count, flag in zip(counts, flags, strict=True):
        _extend(lanes, first, count, flag)
        first += count
    for number, extras in part.extras.items():
        if extras.due_ms or extras.expires_ms:
            lanes.schedule(part.first_offset + number, extras.due_ms, extras.expires_ms)
