"""The priorities and schedules of the messages of a topic.

They are stored only with the messages. So they are read from the journal, from some offset on, a
range at a time and off the loop, and then updated with every commit. What is known so far can be
used meanwhile.
"""

from collections.abc import Callable

from penstock.commit.feed import CommittedMessages
from penstock.core.priority_offsets import OffsetsByPriority
from penstock.dispatch.parts import RETRY_S, DispatchParts
from penstock.model.message import FLAG_PRIORITY, PRIORITY_SHIFT
from penstock.store.message_columns import RUN_WIDTH
from penstock.store.store import TopicFlags

MARKS_AT_ONCE = 8_192
"""Messages whose priorities are read at a time; adding them takes time of the loop."""


class PriorityCatalog:
    """One topic from an offset on; ``grown`` is called when more is known."""

    def __init__(
        self, parts: DispatchParts, topic: bytes, start: int, grown: Callable[[], None]
    ) -> None:
        self._parts = parts
        self._topic = topic
        self._grown = grown
        self.offsets = OffsetsByPriority(start)
        self.known_to = start  # everything below was read; deleted messages are left out
        self.is_reading = False
        self._is_closed = False
        self.read_on()

    def close(self) -> None:
        self._is_closed = True

    def read_on(self) -> None:
        """Read what the journal has beyond what is known."""
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
        offsets = self.offsets
        for first, count, flags in marks.runs:
            _extend(offsets, first, count, flags)
        self.known_to = max(marks.next_offset, offsets.start)
        for offset, (due_ms, expires_ms) in marks.schedule.items():
            offsets.schedule(offset, due_ms, expires_ms)
        self.read_on()
        self._grown()

    def _read_failed(self) -> None:
        """Retry: the disk may recover. The error was counted and logged."""
        self.is_reading = False
        self._parts.connections.loop.call_later(RETRY_S, self.read_on)

    def committed(self, committed: CommittedMessages) -> None:
        if committed.first_offset <= self.known_to and not self.is_reading:
            _extend_by_commit(self.offsets, committed)
            self.known_to = max(self.known_to, committed.first_offset + committed.count)
        self.read_on()


def _extend(offsets: OffsetsByPriority, first: int, count: int, flags: int) -> None:
    """Add messages that are neither known nor forgotten because every group is past them."""
    known = max(offsets.end - first, 0)
    if known < count:
        offsets.extend(first + known, count - known, (flags & FLAG_PRIORITY) >> PRIORITY_SHIFT)


def _extend_by_commit(offsets: OffsetsByPriority, committed: CommittedMessages) -> None:
    first = committed.first_offset
    counts, flags = committed.group.runs[1::RUN_WIDTH], committed.group.runs[3::RUN_WIDTH]
    for count, flag in zip(counts, flags, strict=True):
        _extend(offsets, first, count, flag)
        first += count
    for number, extras in committed.extras.items():
        if extras.due_ms or extras.expires_ms:
            offsets.schedule(committed.first_offset + number, extras.due_ms, extras.expires_ms)
