"""The store on LMDB.

Databases: ``journal`` (entries), and derived from it ``index`` (see index.py) and ``topics``;
``rows`` (checkpoint rows of the broker's state); ``live`` (how many groups of an entry are left,
for entries that retention took something from); ``deleted`` (offsets that were deleted from groups
still there, see deletions.py); ``meta`` (the marks, see marks.py; topics that were dropped, see
dropped.py).

**Commit** runs in one write transaction: the entry is appended at the right edge of ``journal``,
the batch's rows are put, and a slice of the index's current round rides along. Memory (topic
states, index, counters) changes only after the transaction has committed, so a failure leaves
nothing to undo.

**Start** reads the marks, applies the entries after the last complete round into memory, verifying
checksum and order of each, and looks at a sample of the older ones. Its cost follows the length of
a round, not of the journal.

**Reads** are in reader.py, **retention** in retention.py; commits wait for it where the store would
outgrow its total (room.py).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from time import perf_counter
from typing import NamedTuple, TypeVar

import msgspec

from penstock.errors import StorageError
from penstock.limits import MAP_BYTES_INITIAL
from penstock.model.message import Message
from penstock.obs.progress import ProgressLog
from penstock.store.batch import Batch
from penstock.store.copying import copy_in_process
from penstock.store.deletions import (
    DELETED_ROW_BYTES,
    Deletion,
    OffsetRange,
    erase,
    load_deleted,
    put_deleted,
    stretches_of,
)
from penstock.store.directory import DataDirectory
from penstock.store.disk_budget import DiskBudget, bytes_expected, row_bytes
from penstock.store.dropped import Dropped, load_dropped, put_dropped
from penstock.store.entry import Entry, decode
from penstock.store.environment import Environment, Transaction
from penstock.store.index import MemoryIndex, references, row_span
from penstock.store.journal import broken_order
from penstock.store.keys import KEY_BYTES_MAX, index_key, journal_key, name_key, row_prefix
from penstock.store.log_tail import (
    LogTail,
    get_record,
    log_entry,
    put_record,
    put_tail,
    read_tail,
)
from penstock.store.marks import Marks, get_marks, put_marks
from penstock.store.offset_assigner import AssignedBatch, OffsetAssigner
from penstock.store.reader import Reader
from penstock.store.retention import RetentionEngine
from penstock.store.store import (
    LOG_UNBOUND,
    NO_LOW_WATER_MARKS,
    NOTHING_PROTECTED,
    Commit,
    EncodedBatch,
    LogEntry,
    ProtectedTopics,
    RawQuery,
    RawSlice,
    RetentionRequest,
    RetentionResult,
    RetentionRules,
    StoreSize,
    TopicFlags,
    TopicInfo,
    TopicRange,
    Write,
    Written,
)
from penstock.store.topics import StoredTopic, TopicStates, put_topic

SAMPLE_ENTRIES = 8
"""Older entries that a start verifies, spread evenly."""
SLICE_TOPICS_ALONE = 4_096
"""Topics whose rows of the index are written at a time when nothing else is."""
ROUNDS_RECOVERED_MAX = 3
"""Rounds of the index that a start leaves to the commits that follow; it writes what is more."""
RETAIN_S = 0.02
"""After this time one call of ``retain`` begins no other slice; commits wait for it."""


Result = TypeVar("Result")


class _Written(NamedTuple):
    """What a commit's transaction did, to be taken over into memory once it is durable."""

    draft: AssignedBatch
    slice_topics: list[int]
    marks: Marks


class LmdbStore:
    """See ``Store``. Opening raises a StorageError that says what to do."""

    def __init__(self, path: Path, map_bytes: int = MAP_BYTES_INITIAL) -> None:
        self._directory = DataDirectory(path)
        try:
            self._environment = Environment(path, map_bytes)
            try:
                self._create()
                self._open()
            except BaseException:
                self._environment.close()
                raise
        except BaseException:
            self._directory.close()
            raise

    def _create(self) -> None:
        if not self._directory.marker.ready:
            self._environment.write(0, lambda t: put_marks(self._environment, t, Marks()))
            self._directory.ready()

    def _open(self) -> None:
        self._memory = MemoryIndex()
        self._topics = TopicStates(self._memory.holds)
        self._drafts = OffsetAssigner(self._environment, self._topics)
        self._verified: dict[int, None] = {}
        with self._environment.reading() as transaction:
            self._marks = get_marks(self._environment, transaction)
            self._dropped = load_dropped(self._environment, transaction)
            self._record, self._committed = get_record(self._environment, transaction)
            deleted = load_deleted(self._environment, transaction, self._dropped)
        with self._topics.lock:
            for name, ranges in deleted.values():
                self._topics.set_deleted(name, ranges)
        self._round_wanted = True
        self.on_removed: Callable[[RetentionResult], None] = lambda _removed: None
        self.log_floor = self.start_floor = LOG_UNBOUND
        self._topics.next_id = self._marks.next_topic_id
        self._next_index = self._marks.flushed_index + 1
        self._next_sequence = self._marks.flushed_sequence
        self._reader = Reader(self._environment, self._topics, self._memory, self._verified)
        self._retention = RetentionEngine(
            self._environment, self._reader, self._topics, self._dropped
        )
        self._room = DiskBudget(self._environment, self._memory, self._remove, self._flush_further)
        self._recover()
        self._load_tail()
        self._load_topics_with_deletions()
        with self._environment.reading() as transaction:
            self._reader.journal(transaction).sample(SAMPLE_ENTRIES, self._next_sequence)

    # ── Writing ───────────────────────────────────────────────────────────────────────────────

    @property
    def next_sequence(self) -> int:
        """See ``Store``."""
        return self._next_sequence

    @property
    def next_index(self) -> int:
        """See ``Store``."""
        return self._next_index

    def commit(self, batch: Batch) -> Commit:
        """See ``Store``."""
        started = perf_counter()
        size = bytes_expected(batch)
        self._room.before(size)
        self._begin_round_if_due()
        written, fsync_s = self._environment.write(
            size, lambda transaction: self._write(transaction, batch)
        )
        draft = written.draft
        commit = Commit(
            index=self._next_index if draft.entry else self._next_index - 1,
            base_sequence=self._next_sequence,
            count=batch.count,
            bytes=len(draft.entry),
            commit_s=perf_counter() - started,
            fsync_s=fsync_s,
            first_offsets=draft.first_offsets,
        )
        self._take_over(written)
        return commit

    def prepare(self) -> None:
        """See ``Store``."""
        self._environment.prepare()
        self._room.after()

    def _write(self, transaction: Transaction, batch: Batch) -> _Written:
        assert not self._tail.entries, "an entry is committed alone only where nobody has a say"
        drawn = self._draw(transaction, batch)
        if drawn.entry:
            key = journal_key(self._next_sequence, self._next_index)
            transaction.put(key, drawn.entry, db=self._environment["journal"], append=True)
        slice_topics, marks = self._write_beside(transaction, batch.rows, batch.checkpoint)
        marks = self._write_drops(transaction, marks, drawn.gone)
        if marks is not self._marks:
            put_marks(self._environment, transaction, marks)
        return _Written(drawn, slice_topics, marks)

    def _draw(self, transaction: Transaction, batch: Batch) -> AssignedBatch:
        """The entry that follows all that is applied."""
        return self._drafts.draw(transaction, batch, self._next_index, self._next_sequence)

    def _write_beside(
        self,
        transaction: Transaction,
        rows: Sequence[tuple[str, bytes, bytes | None]],
        checkpoint: int | None,
    ) -> tuple[list[int], Marks]:
        """Write what rides along: rows of the checkpoint, and a slice of the index."""
        for table, name, value in rows:
            self._write_row(transaction, row_prefix(table) + name, value)
        marks = self._marks
        if checkpoint is not None:
            assert marks.checkpoint <= checkpoint <= self._next_index
            marks = msgspec.structs.replace(marks, checkpoint=checkpoint)
        return self._write_slice(transaction, marks)

    def _write_drops(
        self, transaction: Transaction, marks: Marks, gone: list[StoredTopic]
    ) -> Marks:
        """Turn topics' rows into records; after the slice of the index, which may put such rows."""
        if not gone:
            return marks
        for state in gone:
            transaction.delete(name_key(state.name), db=self._environment["topics"])
            put_dropped(self._environment, transaction, Dropped(self._next_index, state))
        counts = (state.info(self._topics.deleted(state.name)).count for state in gone)
        removed = marks.removed_messages + sum(counts)
        return msgspec.structs.replace(marks, removed_messages=removed)

    def _write_row(self, transaction: Transaction, name: bytes, value: bytes | None) -> None:
        key = name_key(name)
        if value is None:
            transaction.delete(key, db=self._environment["rows"])
        elif len(key) < KEY_BYTES_MAX:
            transaction.put(key, value, db=self._environment["rows"])
        else:  # the key was cut: the value carries the whole name
            full = len(name).to_bytes(4, "little") + name + value
            transaction.put(key, full, db=self._environment["rows"])

    def _take_over(self, written: _Written) -> None:
        """Make memory say what is now on disk."""
        self._marks = written.marks
        self._advance(written.slice_topics)
        draft = written.draft
        if draft.entry:
            entry = decode(draft.entry, verify=False)
            self._apply(entry, len(draft.entry), draft.states, draft.gone)
            self._tail.applied(entry.index, entry.end_sequence)

    def _apply(
        self,
        entry: Entry,
        entry_bytes: int,
        states: Sequence[StoredTopic],
        gone: Sequence[StoredTopic] = (),
    ) -> None:
        found = references(entry)
        self._memory.add(entry, found, entry_bytes)  # before a reader learns that there is more
        keep = self._topics.keep
        with self._topics.lock:
            for state in gone:
                self._forget(state)
            for number, (fields, state) in enumerate(zip(found, states, strict=True)):
                if state.next_offset == 0:
                    first_run = entry.group_runs[number - 1] if number else 0
                    state.created_ms = entry.time_ms + entry.run_times[first_run]
                state.apply(first_offset=fields[0], count=fields[-2], size=fields[-1])
                if state.id not in self._dropped:
                    keep(state)
            newest_id = max((state.id for state in states), default=0)
            self._topics.next_id = max(self._topics.next_id, newest_id + 1)
        self._next_index = entry.index + 1
        self._next_sequence = entry.end_sequence

    def _forget(self, state: StoredTopic) -> None:
        """Make memory say that a topic was dropped."""
        self._topics.remove(state)
        self._dropped[state.id] = Dropped(self._next_index, state)
        self._retention.forget(state.name)

    # ── The log ───────────────────────────────────────────────────────────────────────────────

    @property
    def first_index(self) -> int:
        """See ``LogStore``."""
        return self._marks.compacted + 1

    @property
    def last_index(self) -> int:
        """See ``Store``."""
        return self._tail.last_index

    def record(self) -> bytes | None:
        """See ``Store``."""
        return self._record

    @property
    def committed(self) -> int | None:
        """See ``Store``."""
        if self._committed is None:
            return None
        return max(self._committed, self._next_index - 1)

    def encode_batch(self, batch: Batch) -> EncodedBatch:
        """See ``Store``."""
        assert not self._tail.entries, "offsets follow from what is applied"
        with self._environment.reading() as transaction:
            draft = self._draw(transaction, batch)
        return EncodedBatch(draft.entry, draft.first_offsets)

    def write(self, write: Write) -> Written:
        """See ``Store``."""
        started = perf_counter()
        size = sum(len(entry.data) for entry in write.entries) + row_bytes(write.rows)
        self._room.before(size)
        self._begin_round_if_due()
        tail, fresh = self._tail.joined(write.entries) if write.entries else (None, [])
        cut = self._tail.cut(write.entries[0].index) if write.entries else []
        record = write.record
        if record is None and write.committed != self._committed:
            record = self._record or b""

        def job(transaction: Transaction) -> tuple[list[int], Marks]:
            put_tail(self._environment, transaction, cut, fresh)
            topics, marks = self._write_beside(transaction, write.rows, write.checkpoint)
            if marks is not self._marks:
                put_marks(self._environment, transaction, marks)
            if record is not None:
                put_record(self._environment, transaction, record, write.committed)
            return topics, marks

        (topics, self._marks), fsync_s = self._environment.write(size, job)
        if tail is not None:
            self._tail.entries = tail
        if record is not None:
            self._record, self._committed = record, write.committed
        self._advance(topics)
        return Written(perf_counter() - started, fsync_s)

    def apply(self, index: int) -> list[Entry]:
        """See ``Store``."""
        applied = []
        for found in self._tail.entries:
            if found.index > index:
                break
            entry = decode(found.data, verify=False)
            self._apply_committed(entry)
            applied.append(entry)
        self._tail.applied(self._next_index - 1, self._next_sequence)
        return applied

    def _apply_committed(self, entry: Entry) -> None:
        """Fold an entry that is on disk, and write down which topics it has dropped."""
        gone = self._gone_by(entry)
        if gone:
            self._write_gone(gone)
        with self._topics.lock:
            for state in gone:
                self._forget(state)
        self._apply(entry, len(entry.buffer), self._recovered_states(entry))

    def _gone_by(self, entry: Entry) -> list[StoredTopic]:
        """Topics that an entry has dropped, those that are not on record as such."""
        dropped = [(number, name) for number, name in entry.dropped if number not in self._dropped]
        if not dropped:
            return []
        with self._environment.reading() as transaction:
            found = [self._drafts.topic(transaction, name) for _, name in dropped]
        states = [state for state in found if state is not None]
        if [state.id for state in states] != [number for number, _ in dropped]:
            raise broken_order(entry.index, "drops a topic that is not on record as dropped")
        return states

    def _write_gone(self, gone: list[StoredTopic]) -> None:
        def job(transaction: Transaction) -> Marks:
            marks = self._write_drops(transaction, self._marks, gone)
            put_marks(self._environment, transaction, marks)
            return marks

        self._marks, _ = self._environment.write(0, job)

    def log_entries(self, low: int, high: int, bytes_max: int) -> list[LogEntry]:
        """See ``Store``."""
        found: list[LogEntry] = []
        size = 0
        with self._environment.reading() as transaction:
            for entry in self._reader.journal(transaction).after(low - 1):
                size += len(entry.buffer)
                is_next = entry.index == low + len(found) < high
                if not is_next or (found and size > bytes_max):
                    break
                found.append(log_entry(bytes(entry.buffer)))
        if not found:
            raise LookupError(f"entry {low} is not in the log")
        return found

    def copy(self, file: int) -> None:
        """See ``Store``."""
        copy_in_process(self._directory.path, self._environment, file)

    # ── Rounds of the index ───────────────────────────────────────────────────────────────────

    def _begin_round_if_due(self) -> None:
        if not self._memory.is_writing and self._memory.fullness >= 1:
            self._begin_round()

    def _begin_round(self) -> None:
        self._memory.begin_round(self._next_index - 1, self._next_sequence)

    def _write_slice(
        self, transaction: Transaction, marks: Marks, topics_min: int = 0
    ) -> tuple[list[int], Marks]:
        """Write a slice of the current round; return its topics, and the marks after it."""
        memory = self._memory
        if not memory.is_writing:
            return [], marks
        rows = memory.slice(topics_min)
        for topic_id, row in rows:
            first_offset, _ = row_span(row)
            key = index_key(topic_id, first_offset)
            transaction.put(key, bytes(row), db=self._environment["index"])
            state = self._topics.by_id(topic_id)
            if state is not None:
                put_topic(self._environment, transaction, state)
        if memory.is_last(len(rows)):
            marks = msgspec.structs.replace(
                marks,
                next_topic_id=self._topics.next_id,
                flushed_index=memory.round_index,
                flushed_sequence=memory.round_sequence,
            )
        return [topic_id for topic_id, _ in rows], marks

    def flush(self) -> bool:
        """Write a slice of the index by itself; tell whether more is left. Writer thread only."""
        memory = self._memory
        if not memory.is_writing:
            if not memory.is_gathering:
                return False
            self._begin_round()
        self._flush_slice(SLICE_TOPICS_ALONE)
        return memory.is_writing or memory.is_gathering

    def _flush_further(self) -> bool:
        """Write a slice of the index, if that lets retention remove more."""
        if self._marks.flushed_index >= self._retention.disposable(self._marks):
            return False
        self.flush()
        return True

    def _flush_slice(self, topics_min: int = 0) -> None:
        def job(transaction: Transaction) -> tuple[list[int], Marks]:
            topics, marks = self._write_slice(transaction, self._marks, topics_min)
            if marks is not self._marks:
                put_marks(self._environment, transaction, marks)
            return topics, marks

        (topics, self._marks), _ = self._environment.write(0, job)
        self._advance(topics)

    def _advance(self, slice_topics: list[int]) -> None:
        if not self._memory.is_writing:
            return
        states = [state for state in map(self._topics.by_id, slice_topics) if state is not None]
        with self._topics.lock:
            for state in states:
                self._retention.examine(state.name)
                self._topics.idle(state)
        self._memory.advance(len(slice_topics))
        self._topics.evict()

    # ── Start ─────────────────────────────────────────────────────────────────────────────────

    def _recover(self) -> None:
        """Fold the entries after the last complete round into memory, proving their order.

        The index is left to the commits that follow, unless there is more than lives usually leave
        behind: a start is not the time to write.
        """
        progress, last = ProgressLog("reading the end of the journal"), self._reader.last_index()
        for entry in self._reader.entries_after(self._marks.flushed_index):
            if not self._is_committed(entry.index):
                break  # it may still be replaced
            if entry.index != self._next_index:
                raise broken_order(entry.index, f"follows entry {self._next_index - 1}")
            if entry.base_sequence != self._next_sequence:
                raise broken_order(
                    entry.index,
                    f"begins at sequence {entry.base_sequence} instead of {self._next_sequence}",
                )
            self._apply_committed(entry)
            progress.reached(entry.index, last)
            if self._memory.fullness >= ROUNDS_RECOVERED_MAX:
                while self.flush():
                    progress.reached(entry.index, last)

    def _is_committed(self, index: int) -> bool:
        """Whether a start may count on an entry: what rows of the checkpoint hold, always."""
        return self._committed is None or index <= max(self._committed, self._marks.checkpoint)

    def _recovered_states(self, entry: Entry) -> list[StoredTopic]:
        states = []
        with self._environment.reading() as transaction:
            for _, topic_id, name, first_offset, _, _ in entry.extents(0, entry.group_count):
                dropped = self._dropped.get(topic_id)  # by a later entry
                state = dropped.state if dropped else self._drafts.topic(transaction, name)
                if state is None:
                    state = StoredTopic(topic_id, name)
                if state.id != topic_id or state.next_offset < first_offset:
                    raise broken_order(entry.index, f"leaves a gap in topic {name!r}")
                states.append(state)
        return states

    def _load_tail(self) -> None:
        """Take note of what is in the log, but was not committed when the last life ended."""
        self._tail = LogTail(self._next_index - 1, self._next_sequence)
        with self._environment.reading() as transaction:
            journal = self._reader.journal(transaction)
            self._tail.entries = read_tail(journal, self._next_index - 1)
        last = self._committed
        if last is not None and last >= self._next_index:
            raise broken_order(self._next_index, f"is missing, though {last} are committed")

    def _load_topics_with_deletions(self) -> None:
        """Those that the entries just applied did not bring to memory."""
        with self._environment.reading() as transaction:
            for name in self._topics.deleted_names():
                self._drafts.topic(transaction, name)

    # ── Deleting ──────────────────────────────────────────────────────────────────────────────

    def trim(self, topic: bytes, offset: int) -> int:
        """See ``Store``."""
        return self._erase(topic, lambda first, end: [(first, min(offset, end))])

    def delete(self, topic: bytes, offsets: Sequence[int]) -> int:
        """See ``Store``."""
        return self._erase(topic, lambda first, end: stretches_of(offsets, first, end))

    def _erase(self, name: bytes, wanted: Callable[[int, int], list[OffsetRange]]) -> int:
        with self._environment.reading() as transaction:
            state = self._drafts.topic(transaction, name)
        if state is None:
            return 0
        erased = erase(
            self._topics.deleted(name),
            wanted(state.first_offset, state.next_offset),
            lambda stretches: self._reader.payload_bytes(state.id, stretches),
        )
        if erased.messages:
            self._write_erased(state, erased)
        return erased.messages

    def _write_erased(self, state: StoredTopic, erased: Deletion) -> None:
        removed = self._marks.removed_messages + erased.messages
        marks = msgspec.structs.replace(self._marks, removed_messages=removed)

        def job(transaction: Transaction) -> None:
            topic = (state.id, state.name)
            put_deleted(self._environment, transaction, topic, erased.ranges, erased.changes)
            put_marks(self._environment, transaction, marks)

        self._environment.write(len(erased.changes) * DELETED_ROW_BYTES, job)
        self._marks = marks
        with self._topics.lock:
            self._topics.set_deleted(state.name, erased.ranges)
        self._retention.examine(state.name)

    # ── Reading, retention, the end ───────────────────────────────────────────────────────────

    def replay(self) -> Iterator[Entry]:
        """See ``Store``."""
        entries = self._reader.entries_after(self._marks.checkpoint)
        return takewhile(lambda entry: entry.index < self._next_index, entries)

    def rows(self, table: str) -> Iterator[tuple[bytes, bytes]]:
        """See ``Store``."""
        return self._reader.rows(table)

    def read(self, sequences: Sequence[int]) -> list[Message | None]:
        """See ``Store``."""
        return self._reader.read(sequences)

    def read_topic(self, topic: bytes, offset: int, count_max: int, bytes_max: int) -> TopicRange:
        """See ``Store``."""
        return self._reader.read_topic(topic, offset, count_max, bytes_max)

    def read_raw(
        self, query: RawQuery, make: Callable[[TopicInfo, int, list[RawSlice]], Result]
    ) -> Result | None:
        """See ``Store``."""
        return self._reader.read_raw(query, make)

    def measure(self, topic: bytes, offset: int, bytes_max: int) -> int:
        """See ``Store``."""
        return self._reader.measure(topic, offset, bytes_max)

    def read_flags(self, topic: bytes, offset: int, count_max: int) -> TopicFlags:
        """See ``Store``."""
        return self._reader.read_flags(topic, offset, count_max)

    def topic(self, name: bytes) -> TopicInfo | None:
        """See ``Store``."""
        return self._reader.topic(name)

    def topics(self, prefix: bytes = b"", after: bytes = b"") -> Iterator[TopicInfo]:
        """See ``Store``."""
        return self._reader.topics(prefix, after)

    def retain(
        self,
        rules: RetentionRules,
        now_ms: int,
        floor_sequence: int,
        protected: ProtectedTopics = NOTHING_PROTECTED,
        low_water_marks: Mapping[bytes, int] = NO_LOW_WATER_MARKS,
    ) -> RetentionResult:
        """See ``Store``."""
        deadline = perf_counter() + RETAIN_S
        request = RetentionRequest(rules, now_ms, floor_sequence, protected, low_water_marks)
        self._room.keep_to(request)
        total = RetentionResult(more=True)
        while total.more:
            try:
                self._retain_slice(request, total)
            except StorageError:
                if not total.messages:
                    raise
                return total  # what was removed must be told; the next call meets the error first
            if total.more and perf_counter() >= deadline:
                return total
        self._round_wanted = True
        return total

    def _retain_slice(self, request: RetentionRequest, total: RetentionResult) -> None:
        self._flush_for_retention()
        self._retention.keep_from(self.log_floor, self.start_floor)
        removed, self._marks = self._retention.slice(request, self._marks)
        total.add(removed)
        total.more = removed.more or self._is_flush_left()

    def _remove(self, request: RetentionRequest, total: int) -> RetentionResult:
        """Make room beside commits; whoever must know is told."""
        self._retention.keep_from(self.log_floor, self.start_floor)
        removed, self._marks = self._retention.make_room(request, self._marks, total)
        if removed.messages:
            self.on_removed(removed)
        return removed

    def _flush_for_retention(self) -> None:
        """Write a slice of the index, so that retention gets to see what was committed last.

        It begins a round of its own only once until it is done, lest under load every call
        write the rows of all busy topics again.
        """
        if self._round_wanted and not self._memory.is_writing and self._memory.is_gathering:
            self._round_wanted = False
            self._begin_round()
        if self._memory.is_writing:
            self._flush_slice()

    def _is_flush_left(self) -> bool:
        memory = self._memory
        return memory.is_writing or (self._round_wanted and memory.is_gathering)

    def size(self) -> StoreSize:
        """See ``Store``."""
        with self._environment.reading() as transaction:
            oldest = self._reader.journal(transaction).first()
            return StoreSize(
                bytes_used=self._environment.used_bytes(transaction),
                map_bytes=self._environment.map_bytes,
                entries=transaction.stat(self._environment["journal"])["entries"],
                messages=self._next_sequence - 1 - self._marks.removed_messages,
                sequence_oldest=oldest.base_sequence if oldest else self._next_sequence,
                sequence_newest=self._next_sequence - 1,
            )

    def close(self) -> None:
        """See ``Store``."""
        self._environment.close()
        self._directory.close()
