"""Reads one topic of the journal for one subscriber, from an offset on, without end.

A cursor has two states. **Behind**, it reads the journal off the loop in slices and sends what it
finds. **Live**, it gets every commit from the feed and sends from memory. It knows the offset that
it sends next: a commit that was already read from disk is skipped, and one after a gap makes it
read again. So nothing is missed or repeated, whatever the timing, and nothing is kept per message.
The cursor of a slow subscriber falls behind and catches up when the outbox has room again.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Protocol

from penstock.commit.feed import CommittedMessages, Stretch, shifted
from penstock.core.progress import Progress
from penstock.errors import StorageError
from penstock.limits import KIB
from penstock.net.budget import Budget
from penstock.reading.readers import JournalReaders
from penstock.store.store import TopicRange, TopicSlice

READ_MESSAGES_MAX = 1_024
READ_BYTES_MAX = 512 * KIB  # read from the journal at a time; as much may wait in the outbox


class Sink(Protocol):
    """Sends a cursor's messages."""

    def room(self) -> int:
        """How many messages may be sent now; call ``Cursor.resume`` when there is room again."""

    def still_takes(self, count: int) -> bool:
        """Whether there still is the room that was there when the reading of these began."""

    def take(self, stretch: Stretch) -> None: ...

    def missed(self, topic: bytes, count: int) -> None:
        """Retention removed ``count`` messages before they were sent."""

    def unreadable(self, error: StorageError) -> None: ...


class Cursor:
    """Skips what ``progress`` has; ``caught_up`` is called once the initial backlog is sent."""

    __slots__ = (
        "_budget",
        "_caught_up",
        "_end",
        "_history_end",
        "_is_closed",
        "_is_live",
        "_is_reading",
        "_progress",
        "_readers",
        "_sink",
        "_tells_missed",
        "offset",
        "topic",
    )

    def __init__(
        self,
        readers: JournalReaders,
        budget: Budget,
        topic: bytes,
        sink: Sink,
        progress: Progress | None,
        caught_up: Callable[[], None],
        start: int = 0,
    ) -> None:
        """``start``: the offset where a subscriber without progress begins."""
        self._readers = readers
        self._budget = budget
        self.topic = topic
        self._sink = sink
        self._progress = progress
        self._caught_up: Callable[[], None] | None = caught_up
        self.offset = progress.mark if progress else start  # of the message that is sent next
        self._tells_missed = progress is not None  # a new subscriber misses no removed message
        self._history_end = 0
        self._end = 0  # one past the last message that the feed reported
        self._is_live = False
        self._is_reading = False
        self._is_closed = False

    def start(self) -> None:
        """Begin to read; from now on the caller must call ``feed`` for every commit."""
        info = self._readers.store.topic(self.topic)
        self._history_end = info.next_offset if info else 0
        self._read()

    def close(self) -> None:
        self._is_closed = True

    def renewed(self) -> "Cursor":
        """Close, and return a cursor from offset 0: the topic was deleted, so offsets restart."""
        self.close()
        caught_up, self._caught_up = self._caught_up, None
        return Cursor(
            self._readers, self._budget, self.topic, self._sink, None, caught_up or (lambda: None)
        )

    def resume(self) -> None:
        self._read()

    # ── live ──────────────────────────────────────────────────────────────────────────────────

    def feed(self, part: CommittedMessages) -> None:
        """Send committed messages if all before them were sent."""
        self._end = part.first_offset + part.count
        if not self._is_live or self._is_closed:
            return
        if part.first_offset > self.offset:
            self._fall_behind()
            return
        for stretch in part.stretches(self.offset):  # without what was read from disk before
            if self._sink.room() < len(stretch.payloads):
                self._fall_behind()
                return
            self._sink.take(stretch)
            self.offset = stretch.offset + len(stretch.payloads)

    def _fall_behind(self) -> None:
        self._is_live = False
        self._read()

    # ── behind ────────────────────────────────────────────────────────────────────────────────

    def _read(self) -> None:
        room = min(self._sink.room(), READ_MESSAGES_MAX)
        if self._is_live or self._is_reading or self._is_closed or room <= 0:
            return
        self._is_reading = True
        read, topic, offset = self._readers.store.read_topic, self.topic, self.offset
        bytes_max = self._budget.read_bytes_max(READ_BYTES_MAX)
        self._readers.run(
            lambda: read(topic, offset, room, bytes_max),
            self._found,
            self._unreadable,
        )

    def _found(self, found: TopicRange) -> None:
        self._is_reading = False
        if self._is_closed:
            return
        if not self._sink.still_takes(sum([part.count for part in found.slices])):
            self._read()
            return
        if found.first_offset > self.offset:
            self._note_missed(found.first_offset)
        for part in found.slices:
            self._send_slice(part)
        advanced = found.next_offset > self.offset
        self.offset = max(self.offset, found.next_offset)
        self._tells_missed = True
        is_in_history = advanced and self.offset < self._history_end
        # The initial backlog and all that the feed reported since are sent; the feed has the rest.
        self._is_live = not is_in_history and self.offset >= self._end
        if not self._is_live:
            self._readers.loop.call_soon(self._read)
        if not is_in_history:
            self._tell_caught_up()

    def _tell_caught_up(self) -> None:
        caught_up, self._caught_up = self._caught_up, None
        if caught_up is not None:
            caught_up()

    def _note_missed(self, first_offset: int) -> None:
        if self._tells_missed:
            missing = [(self.offset, first_offset)]
            if self._progress is not None:
                missing = list(self._progress.missing(self.offset, first_offset))
            count = sum(end - start for start, end in missing)
            if count:
                self._sink.missed(self.topic, count)
        self.offset = first_offset

    def _send_slice(self, part: TopicSlice) -> None:
        """Send what the subscriber has not acknowledged."""
        payloads = _payloads(part)
        for number, count, sequence in _runs(part):
            first = part.first_offset + number
            wanted: Iterable[tuple[int, int]] = ((first, first + count),)
            if self._progress is not None:
                wanted = self._progress.missing(first, first + count)
            for start, end in wanted:
                self._send_part(part, payloads, start, end, sequence + start - first)

    def _send_part(
        self, part: TopicSlice, payloads: list[bytes], low: int, high: int, sequence: int
    ) -> None:
        number, end = low - part.first_offset, high - part.first_offset
        extras = shifted(part.extras, number, end)
        self._sink.take(Stretch(self.topic, low, sequence, payloads[number:end], extras))

    def _unreadable(self, error: StorageError) -> None:
        self._is_reading = False
        if not self._is_closed:
            self._sink.unreadable(error)


def _payloads(part: TopicSlice) -> list[bytes]:
    bounds = memoryview(part.bounds).cast("I").tolist()
    base, blob = bounds[0], part.blob
    return [blob[start - base : end - base] for start, end in pairwise(bounds)]


def _runs(part: TopicSlice) -> Iterator[tuple[int, int, int]]:
    """Runs of consecutive sequences: number of the first message, count, first sequence."""
    starts = [*memoryview(part.run_starts).cast("I"), part.count]
    positions = memoryview(part.run_positions).cast("I")
    for (start, end), position in zip(pairwise(starts), positions, strict=True):
        yield start, end - start, part.base_sequence + position
