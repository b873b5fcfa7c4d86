"""The store without a disk: the simple specification of ``LmdbStore``, with the same tests."""

import threading
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from operator import attrgetter
from time import perf_counter
from typing import TypeVar

from penstock.errors import StorageError
from penstock.model.message import Message
from penstock.store.batch import Batch
from penstock.store.copies.copied_store import StoreCopy
from penstock.store.deletions import NOTHING, OffsetRange, Ranges, erase, ranges_of
from penstock.store.entry import Entry, GroupView, Placement, decode, encode
from penstock.store.history import History, HistoryGathering, HistoryStep, first_of_last
from penstock.store.index import Reference, reference
from penstock.store.log_tail import LogTail, log_entry
from penstock.store.measure import GroupOverlap, reach
from penstock.store.raw import gather_raw, raw_next, raw_span
from penstock.store.raw_scan import OpenTopic, ScanGathering
from penstock.store.raw_slice import RawSlice
from penstock.store.scan import Scan, ScanStep
from penstock.store.slices import GroupRange, cut, gather, gather_flags, part_bytes
from penstock.store.store import (
    CLOCK_ERROR_MS_MAX,
    LOG_UNBOUND,
    Commit,
    EncodedBatch,
    LogEntry,
    RawQuery,
    RetentionRequest,
    RetentionResult,
    StoreSize,
    TopicFlags,
    TopicInfo,
    TopicRange,
    Write,
    Written,
)
from penstock.store.topics import StoredTopic
from penstock.store.topics_ahead import TopicsAhead

Result = TypeVar("Result")

_next_offset = attrgetter("next_offset")


class _MemoryTopic(StoredTopic):
    """A topic with references to its groups, oldest first, and its deleted ranges."""

    __slots__ = ("deleted", "references")

    def __init__(self, topic_id: int, name: bytes) -> None:
        super().__init__(topic_id, name)
        self.references: list[Reference] = []
        self.deleted: Ranges = NOTHING

    def view(self) -> TopicInfo:
        return self.info(self.deleted)


class MemoryStore:
    """See ``Store``. One lock around everything."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._next_sequence = 1
        self._next_index = 1
        self._checkpoint = 0
        self._removed_messages = 0
        self._next_topic_id = 1
        self._entries: dict[int, Entry] = {}
        self._topics: dict[bytes, _MemoryTopic] = {}
        self._rows: dict[str, dict[bytes, bytes]] = {}
        self._is_closed = False
        self._tail = LogTail(0, 1)
        self._compacted = 0
        self._record: bytes | None = None
        self._committed: int | None = None
        self.log_floor = LOG_UNBOUND
        self.start_floor = LOG_UNBOUND
        self.on_removed: Callable[[RetentionResult], None] = lambda _removed: None

    @property
    def next_sequence(self) -> int:
        return self._next_sequence

    @property
    def next_index(self) -> int:
        return self._next_index

    def commit(self, batch: Batch) -> Commit:
        started = perf_counter()
        if self._is_closed:
            raise StorageError("the store is closed")
        with self._lock:
            base_sequence = self._next_sequence
            drawn = self._draw(batch)
            if drawn.data:
                self._apply(decode(drawn.data, verify=False))
            self._put_beside(batch.rows, batch.checkpoint)
            index = self._next_index - 1
        return Commit(
            index=index,
            base_sequence=base_sequence,
            count=batch.count,
            bytes=len(drawn.data),
            commit_s=perf_counter() - started,
            fsync_s=0.0,
            first_offsets=drawn.first_offsets,
        )

    def commit_small(self, batch: Batch) -> Commit:
        return self.commit(batch)

    def _draw(self, batch: Batch) -> EncodedBatch:
        if not batch.has_content:
            return EncodedBatch(b"", ())
        placements, tail = self._placements(batch), self._tail
        gone = [self._topics[name] for name in batch.drops if name in self._topics]
        dropped = [(topic.id, topic.name) for topic in gone]
        data = encode(batch, tail.next_index, tail.next_sequence, placements, dropped)
        return EncodedBatch(data, tuple([place.first_offset for place in placements]))

    def _put_beside(
        self, rows: Sequence[tuple[str, bytes, bytes | None]], checkpoint: int | None
    ) -> None:
        for table, key, value in rows:
            self._put_row(table, key, value)
        if checkpoint is not None:
            assert self._checkpoint <= checkpoint <= self._next_index
            self._checkpoint = checkpoint

    # ── the log ───────────────────────────────────────────────────────────────────────────────

    @property
    def first_index(self) -> int:
        return self._compacted + 1

    @property
    def last_index(self) -> int:
        return self._tail.last_index

    def record(self) -> bytes | None:
        return self._record

    @property
    def committed(self) -> int | None:
        return self._committed

    def encode_batch(self, batch: Batch) -> EncodedBatch:
        with self._lock:
            return self._draw(batch)

    def write(self, write: Write) -> Written:
        started = perf_counter()
        if self._is_closed:
            raise StorageError("the store is closed")
        with self._lock:
            if write.entries:
                self._tail.entries, _ = self._tail.joined(write.entries)
            self._put_beside(write.rows, write.checkpoint)
            self._committed = write.committed
            if write.record is not None:
                self._record = write.record
        return Written(perf_counter() - started, 0.0)

    def apply(self, index: int) -> list[Entry]:
        with self._lock:
            entries = [entry for entry in self._tail.entries if entry.index <= index]
            for entry in entries:
                self._apply(entry)
            return entries

    def log_entries(self, low: int, high: int, bytes_max: int) -> list[LogEntry]:
        found: list[LogEntry] = []
        with self._lock:
            tail = {entry.index: entry for entry in self._tail.entries}
            for index in range(low, high):
                entry = self._entries.get(index) or tail.get(index)
                size = sum(len(other.data) for other in found)
                if entry is None or (found and size + len(entry.buffer) > bytes_max):
                    break
                found.append(log_entry(entry))
        if not found:
            raise LookupError(f"entry {low} is not in the log")
        return found

    def copy(self, is_wanted: Callable[[], bool] = lambda: True) -> StoreCopy:  # noqa: ARG002 - as ``LogStore`` has it
        raise StorageError("a store in memory cannot be copied")

    @property
    def has_room(self) -> bool:
        return True

    def prepare(self) -> None: ...

    def _placements(self, batch: Batch) -> list[Placement]:
        placements = []
        ahead = self._tail.ahead(batch) or TopicsAhead()
        next_id = max(self._next_topic_id, ahead.next_id)
        for name in batch.topics:
            topic = ahead.states.get(name) or self._topics.get(name)
            if topic is None or name in batch.drops:
                placements.append(Placement(next_id, 0))
                next_id += 1
            else:
                placements.append(Placement(topic.id, topic.next_offset))
        return placements

    def _apply(self, entry: Entry) -> None:
        for _, name in entry.dropped:
            self._removed_messages += self._topics.pop(name).view().count
        for group in entry.groups:
            topic = self._topics.get(group.name)
            if topic is None:
                topic = self._topics[group.name] = _MemoryTopic(group.topic_id, group.name)
                self._next_topic_id = group.topic_id + 1
                topic.created_ms = entry.time_ms + entry.run_times[group.run_start]
            found = reference(entry, group.number)
            topic.references.append(found)
            topic.apply(found.first_offset, found.message_count, found.bytes)
        self._entries[entry.index] = entry
        self._next_index = entry.index + 1
        self._next_sequence = entry.end_sequence
        self._tail.applied(entry.index, entry.end_sequence)

    @property
    def _removable(self) -> int:
        """The last entry that neither a start nor another node needs."""
        return min(self._disposable, self.log_floor - 1)

    @property
    def _disposable(self) -> int:
        """The last entry that no start needs; the total may remove what other nodes need."""
        return min(self._checkpoint, self.start_floor - 1)

    def _put_row(self, table: str, key: bytes, value: bytes | None) -> None:
        rows = self._rows.setdefault(table, {})
        if value is None:
            rows.pop(key, None)
        else:
            rows[key] = value

    def replay(self) -> Iterator[Entry]:
        with self._lock:
            entries = [e for index, e in self._entries.items() if index > self._checkpoint]
        return iter(entries)

    def rows(self, table: str) -> Iterator[tuple[bytes, bytes]]:
        with self._lock:
            return iter(sorted(self._rows.get(table, {}).items()))

    def read(self, sequences: Sequence[int]) -> list[Message | None]:
        with self._lock:
            entries = [entry for entry in self._entries.values() if entry.count]
            ends = [entry.end_sequence for entry in entries]
            messages: list[Message | None] = []
            for sequence in sequences:
                place = bisect_left(ends, sequence + 1)
                here = place < len(entries) and entries[place].base_sequence <= sequence
                found = entries[place].located(sequence) if here else None
                messages.append(found[1] if found and self._is_kept(*found) else None)
            return messages

    def _is_kept(self, topic_id: int, message: Message) -> bool:
        topic = self._topics.get(message.topic)
        if topic is None or topic.id != topic_id:
            return False
        return message.offset >= topic.first_offset and not topic.deleted.contains(message.offset)

    def read_topic(self, topic: bytes, offset: int, count_max: int, bytes_max: int) -> TopicRange:
        with self._lock:
            state = self._topics.get(topic)
            if state is None:
                return TopicRange(topic, 0, 0, [])
            end = start = state.deleted.skip(max(offset, state.first_offset))
            parts = self._parts(state, state.deleted.living(start))
            slices = gather(parts, count_max, bytes_max)
            if slices:
                end = state.deleted.skip(slices[-1].first_offset + slices[-1].count)
            return TopicRange(topic, state.view().first_offset, end, slices)

    def read_raw(
        self, query: RawQuery, make: Callable[[TopicInfo, int, list[RawSlice]], Result]
    ) -> Result | None:
        with self._lock:
            state = self._topics.get(query.topic)
            if state is None:
                return None
            info, deleted = state.view(), state.deleted
            start, end = span = raw_span(query, info, deleted)
            parts = self._parts(state, deleted.living(start, end))
            slices = gather_raw(parts, query.count_max, query.bytes_max, query.columns)
            return make(info, raw_next(query, span, deleted, slices), slices)

    def read_raw_many(
        self, scan: Scan, count_max: int, bytes_max: int, make: Callable[[ScanStep], Result]
    ) -> Result:
        def view(name: bytes) -> tuple[TopicInfo, Ranges] | None:
            state = self._topics.get(name)
            return None if state is None else (state.view(), state.deleted)

        gathering = ScanGathering(scan.columns, count_max, bytes_max)
        with self._lock:
            for topic, info, deleted in scan.upcoming(view, count_max, bytes_max):
                living = deleted.living(*topic.span(info, deleted))
                parts = self._parts(self._topics[topic.name], living)
                if not gathering.read(OpenTopic(topic, info, deleted, parts)):
                    break
            return make(gathering.step())

    def read_history(
        self, history: History, low: int, end: int, count_max: int, bytes_max: int
    ) -> HistoryStep:
        with self._lock:
            if not history.is_listed:
                history.list(self._listed(history), self._next_topic_id - 1)
            gathering = HistoryGathering(history, low, end, count_max, bytes_max)
            for entry in self._entries.values():
                if entry.end_sequence > gathering.low and gathering.wants_more:
                    gathering.take_entry(entry)
            if gathering.wants_more:
                gathering.low = end
            found = [m for _, number, m in gathering.found if self._is_kept(number, m)]
            return HistoryStep(found, min(gathering.low, end))

    def _listed(self, history: History) -> Iterator[tuple[TopicInfo, int]]:
        last, horizon = history.start.last, history.horizon
        for info in history.topics(self.topic, self.topics):
            end = info.next_offset
            for entry in self._entries.values() if last and horizon else ():
                found = [m for m in entry.messages() if m.topic == info.name]
                end = min([end, *(m.offset for m in found if m.sequence > horizon)])
            deleted = self._topics[info.name].deleted
            yield info, first_of_last(info, deleted, end, last) if last else 0

    def measure(self, topic: bytes, offset: int, bytes_max: int) -> int:
        with self._lock:
            state = self._topics.get(topic)
            if state is None:
                return offset
            start = state.deleted.skip(max(offset, state.first_offset))
            return reach(self._spans(state, start), start, bytes_max)

    def _spans(self, topic: _MemoryTopic, start: int) -> Iterator[GroupOverlap]:
        for first, end in topic.deleted.living(start, topic.next_offset):
            place = bisect_right(topic.references, first, key=_next_offset)
            for found in islice(topic.references, place, None):
                if found.first_offset >= end:
                    break
                entry = self._entries[found.entry_index]
                yield GroupOverlap(found, first, end, partial(found.part, entry, first, end))

    def read_flags(self, topic: bytes, offset: int, count_max: int) -> TopicFlags:
        with self._lock:
            state = self._topics.get(topic)
            if state is None:
                return TopicFlags(0, [], {})
            start = state.deleted.skip(max(offset, state.first_offset))
            found = gather_flags(self._parts(state, state.deleted.living(start)), start, count_max)
            found.next_offset = state.deleted.skip(found.next_offset)
            return found

    def _parts(
        self, topic: _MemoryTopic, offset_ranges: Iterable[OffsetRange]
    ) -> Iterator[GroupRange]:
        for first, end in offset_ranges:
            place = bisect_right(topic.references, first, key=_next_offset)
            for found in islice(topic.references, place, None):
                if found.first_offset >= end:
                    break
                yield found.part(self._entries[found.entry_index], first, end)

    def topic(self, name: bytes) -> TopicInfo | None:
        with self._lock:
            topic = self._topics.get(name)
            return topic.view() if topic else None

    def count_from(self, topic: bytes, offset: int) -> int:
        with self._lock:
            state = self._topics.get(topic)
            if state is None:
                return 0
            info = state.view()
            return state.deleted.left(max(offset, info.first_offset), info.next_offset)

    def topics(self, prefix: bytes = b"", after: bytes = b"") -> Iterator[TopicInfo]:
        with self._lock:
            behind = (name for name in self._topics if name > after)
            names = sorted(name for name in behind if name.startswith(prefix))
            return iter([self._topics[name].view() for name in names])

    def size(self) -> StoreSize:
        with self._lock:
            oldest = next(iter(self._entries.values()), None)
            used = self._used_bytes()
            return StoreSize(
                bytes_used=used,
                map_bytes=used,
                entries=len(self._entries),
                messages=self._next_sequence - 1 - self._removed_messages,
                sequence_oldest=oldest.base_sequence if oldest else self._next_sequence,
                sequence_newest=self._next_sequence - 1,
            )

    def close(self) -> None:
        self._is_closed = True

    # ── Deleting ──────────────────────────────────────────────────────────────────────────────

    def trim(self, topic: bytes, offset: int) -> int:
        with self._lock:
            state = self._topics.get(topic)
            if state is None:
                return 0
            return self._erase(state, [(state.first_offset, min(offset, state.next_offset))])

    def delete(self, topic: bytes, offsets: Sequence[int]) -> int:
        with self._lock:
            state = self._topics.get(topic)
            if state is None:
                return 0
            return self._erase(state, ranges_of(offsets, state.first_offset, state.next_offset))

    def _erase(self, topic: _MemoryTopic, wanted: list[OffsetRange]) -> int:
        erased = erase(
            topic.deleted,
            wanted,
            lambda offset_ranges: [
                self._payload_bytes(topic, offset_range) for offset_range in offset_ranges
            ],
        )
        topic.deleted = erased.ranges
        self._removed_messages += erased.messages
        return erased.messages

    def _payload_bytes(self, topic: _MemoryTopic, *offset_ranges: OffsetRange) -> int:
        return sum(map(part_bytes, self._parts(topic, offset_ranges)))

    # ── Retention ─────────────────────────────────────────────────────────────────────────────

    def retain(self, request: RetentionRequest) -> RetentionResult:
        removed = RetentionResult()
        with self._lock:
            for topic in self._topics.values():
                self._cut(topic, self._first_kept(topic, request), removed)
            self._sweep(self._removable)
            self._shrink(request, removed)
            self._removed_messages += removed.messages
        return removed

    def _first_kept(self, topic: _MemoryTopic, request: RetentionRequest) -> int:
        """The first offset that limits, and what holds them back, leave."""
        first, end = topic.first_offset, self._excess_end(topic, request)
        floor = request.floor(topic.name)
        if floor is not None:
            end = min(end, max(floor, first))
        end = max(end, min(request.low_water_marks.get(topic.name, 0), topic.next_offset))
        for message in self._messages(topic):
            if message.offset >= end or message.sequence >= request.floor_sequence:
                end = min(end, message.offset)
                break
        return topic.deleted.skip(max(end, first))

    def _excess_end(self, topic: _MemoryTopic, request: RetentionRequest) -> int:
        """The end of what exceeds the limits: count or bytes without it, or age."""
        limits, now_ms = request.rules.limits(topic.name), request.now_ms
        messages_max, bytes_max, age = limits.messages_max, limits.bytes_max, limits.age_ms_max
        count, size, end = topic.view().count, topic.view().bytes, topic.first_offset
        low = request.low_water_marks.get(topic.name, 0)
        is_young = age is None
        for message in self._messages(topic):
            count, size = count - 1, size - len(message.payload)
            is_beyond = (messages_max is not None and count >= messages_max) or (
                bytes_max is not None and size >= bytes_max
            )
            is_believable = message.time_ms <= now_ms + CLOCK_ERROR_MS_MAX
            if is_beyond:
                end = message.offset + 1  # whatever its age, and that of those behind it
                continue
            if message.offset < low and age is not None:
                continue
            is_young |= age is not None and is_believable and message.time_ms > now_ms - age
            if is_believable and not is_young:
                end = message.offset + 1
            elif is_young:
                break
        return end

    def _messages(self, topic: _MemoryTopic) -> Iterator[Message]:
        """All living messages of a topic."""
        for part in self._parts(topic, topic.deleted.living(topic.first_offset)):
            yield from cut(part, part.end - part.first, LOG_UNBOUND).messages(topic.name)

    def _shrink(self, request: RetentionRequest, removed: RetentionResult) -> None:
        total = request.rules.total_bytes_max
        for entry in list(self._entries.values()):
            if total is None or entry.index > self._disposable or self._used_bytes() <= total:
                return
            for group in entry.groups:
                if not request.protected.spares(group.name) and not self._is_dropped(group):
                    topic = self._topics[group.name]
                    self._cut(topic, topic.deleted.skip(_end(group)), removed)
            self._sweep(self._disposable)

    def _is_dropped(self, group: GroupView) -> bool:
        topic = self._topics.get(group.name)
        return topic is None or topic.id != group.topic_id

    def _cut(self, topic: _MemoryTopic, end: int, removed: RetentionResult) -> None:
        """Remove a topic's messages below an offset."""
        first = topic.first_offset
        if end <= first:
            return
        size = self._payload_bytes(topic, (first, end))
        deleted_size = self._payload_bytes(topic, *topic.deleted.within(first, end))
        removed.note(topic.name, list(topic.deleted.living(first, end)))
        removed.bytes += size - deleted_size
        topic.first_offset = end
        topic.bytes -= size
        topic.deleted, _ = topic.deleted.beyond(end, deleted_size)
        while topic.references and topic.references[0].next_offset <= end:
            del topic.references[0]

    def _sweep(self, last: int) -> None:
        for entry in list(self._entries.values()):
            if entry.index > last:
                return
            if not any(map(self._is_live, entry.groups)):
                del self._entries[entry.index]
                self._compacted = max(self._compacted, entry.index)

    def _is_live(self, group: GroupView) -> bool:
        if self._is_dropped(group):
            return False
        return _end(group) > self._topics[group.name].first_offset

    def _used_bytes(self) -> int:
        return sum(len(entry.buffer) for entry in self._entries.values())


def _end(group: GroupView) -> int:
    """The offset after a group."""
    return group.first_offset + group.message_end - group.message_start
