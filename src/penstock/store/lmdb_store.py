"""The store: the tail of the journal on LMDB, and blocks of what came before.

Databases: ``journal`` (entries of the tail), ``blocks`` (blocks/registry.py), ``topics``; ``rows``
(checkpoint rows of the broker's state); ``deleted`` (deletions.py); ``meta`` (marks.py,
dropped.py). ``index`` and ``live`` are of earlier versions, until their entries are converted.

**Commit** runs in one write transaction: it appends the entry to ``journal`` and puts the batch's
rows. Memory changes only after the transaction has committed, so a failure leaves nothing to undo.
Between commits the oldest entries of the tail are folded into blocks (blocks/tail_folding.py).
**Start** applies the entries after the last block, verifying checksum and order of each, and
verifies a sample of the older ones.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import msgspec
import structlog

from penstock.errors import StorageError
from penstock.limits import BLOCK_BYTES, MAP_BYTES_INITIAL
from penstock.obs.progress import ProgressLog
from penstock.store.applier import Applier
from penstock.store.batch import Batch
from penstock.store.blocks.compaction import Compaction
from penstock.store.blocks.conversion import Conversion
from penstock.store.blocks.files import BlockFiles
from penstock.store.blocks.folder import Folder, process_folder
from penstock.store.blocks.format import ZSTD
from penstock.store.blocks.registry import BlockList, Blocks
from penstock.store.blocks.tail_folding import BLOCK_SHARE, TailFolding
from penstock.store.blocks.work import BlockWork
from penstock.store.copies.copied_store import StoreCopy
from penstock.store.copies.copying import copy_in_process
from penstock.store.copies.store_copy import copy_store
from penstock.store.deleter import Deleter
from penstock.store.deletions import load_deleted
from penstock.store.directory import DataDirectory
from penstock.store.disk_budget import DiskBudget, bytes_expected, row_bytes
from penstock.store.dropped import load_dropped
from penstock.store.entry import Entry
from penstock.store.environment import Environment, Transaction
from penstock.store.free_space import free_bytes
from penstock.store.index import MemoryIndex
from penstock.store.journal import JournalCursor, broken_order
from penstock.store.keys import KEY_BYTES_MAX, journal_key, name_key, row_prefix
from penstock.store.log_tail import LogTail, get_record, log_entry, put_record, put_tail, read_tail
from penstock.store.marks import Marks, StorePosition, get_marks, put_marks
from penstock.store.offset_assigner import AssignedBatch, OffsetAssigner
from penstock.store.reader import IndexedZone, Reader
from penstock.store.retention.engine import RetentionEngine
from penstock.store.retention.slice import StoredParts
from penstock.store.store import (
    LOG_UNBOUND,
    Commit,
    EncodedBatch,
    LogEntry,
    RetentionRequest,
    RetentionResult,
    StoreSize,
    Write,
    Written,
)
from penstock.store.topics import TopicStates
from penstock.store.unsettled import Unsettled
from penstock.store.write_ahead import Record, WriteAhead

_log = structlog.get_logger(__name__)

SAMPLE_ENTRIES = 8  # older entries that a start verifies, spread evenly
REST_MS = 5_000  # a tail that was not written to for so long is folded before it is due
REST_REFERENCES_MIN = 1_024  # unless it is small
RETAIN_S = 0.02  # after this ``retain`` begins no other slice: commits wait for it


class _Written(NamedTuple):
    """What a commit's transaction did; memory follows once it is durable."""

    assigned: AssignedBatch
    marks: Marks


class LmdbStore:
    """See ``Store``. Opening raises a StorageError with advice."""

    def __init__(
        self,
        path: Path,
        map_bytes: int = MAP_BYTES_INITIAL,
        folder: Callable[[Path, Environment, BlockFiles], Folder] = process_folder,
        block_bytes: int = BLOCK_BYTES,
        codec: int = ZSTD,
    ) -> None:
        self._ahead: WriteAhead | None = None
        self._directory = DataDirectory(path)
        self._make_folder = folder
        self._block_bytes = block_bytes
        self._codec = codec
        try:
            self._environment = Environment(path, map_bytes)
            try:
                self._create()
                self._open()
            except BaseException:
                self._close()
                raise
        except BaseException:
            self._directory.close()
            raise

    def _create(self) -> None:
        if not self._directory.marker.ready:
            self._environment.write(0, lambda t: put_marks(self._environment, t, Marks()))
            self._directory.ready()
        self._directory.upgrade()

    def _open(self) -> None:
        ahead = self._ahead = WriteAhead(self._environment)
        self._commit_lost(ahead.records())
        ahead.prepare()
        self._unsettled = Unsettled(self._environment, ahead, self._put)
        self._load()
        self._make_reader()
        self._make_background()
        self._applier = Applier(
            self._environment, self._memory, self._assigner, self._dropped, self._retention.forget
        )
        deleter = Deleter(
            self._environment,
            self._assigner,
            self._reader,
            self._position,
            self._retention.examine,
        )
        self.trim, self.delete = deleter.trim, deleter.delete
        self._recover()
        self._folding.recover()
        self._load_tail()
        with self._environment.reading() as transaction:
            for name in self._topics.deleted_names():
                self._assigner.topic(transaction, name)
            self._reader.journal(transaction).sample(SAMPLE_ENTRIES, self.next_sequence)

    def _load(self) -> None:
        """Read what is in memory of everything but the tail."""
        environment = self._environment
        self._memory = MemoryIndex()
        self._topics = TopicStates()
        self._assigner = OffsetAssigner(environment, self._topics)
        self._blocks = Blocks(BlockFiles(self._directory.path), self._codec)
        with environment.reading() as transaction:
            self._position = StorePosition(get_marks(environment, transaction))
            self._dropped = load_dropped(environment, transaction)
            self._record, self._committed = get_record(environment, transaction)
            deleted = load_deleted(environment, transaction, self._dropped)
            self._blocks.load(environment, transaction)
        with self._topics.lock:
            for name, ranges in deleted.values():
                self._topics.set_deleted(name, ranges)
        self._topics.next_id = self._position.marks.next_topic_id
        self._rest_index, self._rest_since_ms = 0, 0
        self.on_removed: Callable[[RetentionResult], None] = lambda _removed: None
        self.log_floor = self.start_floor = LOG_UNBOUND

    def _make_reader(self) -> None:
        reader = self._reader = Reader(
            self._environment, self._topics, self._memory, {}, self._blocks
        )
        reader.tail = lambda: (self._position.marks.flushed_index, self.next_index - 1)
        self._set_zone()
        self.rows, self.topic, self.topics = reader.rows, reader.topic, reader.topics
        self.read, self.read_topic, self.read_raw = reader.read, reader.read_topic, reader.read_raw
        self.read_raw_many, self.read_history = reader.read_raw_many, reader.read_history
        self.measure, self.read_flags = reader.measure, reader.read_flags
        self.count_from = reader.count_from

    def _make_background(self) -> None:
        """Make what works between commits: folding, retention, the bound of the disk."""
        environment, blocks, position = self._environment, self._blocks, self._position
        memory, topics, dropped = self._memory, self._topics, self._dropped
        folder = self._make_folder(self._directory.path, environment, blocks.files)
        tail = TailFolding(environment, memory, topics, position, blocks, folder, dropped)
        tail.block_bytes = self._block_bytes
        conversion = Conversion(environment, position, blocks, folder, tail, self._set_zone)
        compaction = Compaction(environment, blocks, folder, position, tail, dropped)
        self._folder, self._folding = folder, tail
        self._work = BlockWork(tail, conversion, compaction)
        self._retention = RetentionEngine(
            StoredParts(environment, self._reader, memory, topics, blocks, dropped, tail)
        )
        self._budget = DiskBudget(
            environment, memory, blocks, tail, self._remove, self._fold_for_room
        )

    # ── Writing ───────────────────────────────────────────────────────────────────────────────

    @property
    def next_sequence(self) -> int:
        return self._position.next_sequence

    @property
    def next_index(self) -> int:
        return self._position.next_index

    def commit(self, batch: Batch) -> Commit:
        started = perf_counter()
        size = bytes_expected(batch)
        self._budget.before(size)
        written, fsync_s = self._written(size, batch)
        return self._committed_as(written, batch, started, fsync_s)

    def commit_small(self, batch: Batch) -> Commit:
        started = perf_counter()
        if not batch.has_content or batch.drops or not all(self._topics.known(batch.topics)):
            return self.commit(batch)
        assert not self._tail.entries, "as in ``_write``"
        position = self._position
        self._budget.before(bytes_expected(batch))
        assigned = self._assigner.assign(None, batch, position)
        flush_s = self._unsettled.commit(self._record_of(assigned, batch))
        if flush_s is None:
            return self.commit(batch)
        marks = self._marked(position.marks, batch.checkpoint)
        return self._committed_as(_Written(assigned, marks), batch, started, flush_s)

    def _committed_as(
        self, written: _Written, batch: Batch, started: float, fsync_s: float
    ) -> Commit:
        assigned, position = written.assigned, self._position
        commit = Commit(
            index=position.next_index if assigned.entry else position.next_index - 1,
            base_sequence=position.next_sequence,
            count=batch.count,
            bytes=len(assigned.entry),
            commit_s=perf_counter() - started,
            fsync_s=fsync_s,
            first_offsets=assigned.first_offsets,
        )
        self._take_over(written)
        return commit

    def _written(self, size: int, batch: Batch) -> tuple[_Written, float]:
        ahead = self._ahead
        assert ahead is not None

        def note(written: _Written, transaction_id: int) -> bool:
            assigned = written.assigned
            if not assigned.entry or assigned.gone:
                return False
            return ahead.note(transaction_id, self._record_of(assigned, batch))

        try:
            done = self._unsettled.write(
                size, lambda transaction: self._write(transaction, batch), note
            )
        except StorageError as error:
            ahead.erase(error)
            raise
        ahead.committed()
        return done

    def _record_of(self, assigned: AssignedBatch, batch: Batch) -> Record:
        position = self._position
        return Record(
            position.next_sequence,
            position.next_index,
            assigned.entry,
            batch.rows,
            batch.checkpoint,
        )

    @property
    def has_room(self) -> bool:
        return self._budget.has_room

    def prepare(self) -> None:
        self._environment.prepare()
        with suppress(StorageError):  # nobody waits for this; a commit meets it, if it lasts
            self._budget.after()
            self._work.step(self._foldable())

    def _foldable(self, *, is_short: bool = False) -> int:
        """The last entry that no start needs, nor another node unless the disk is short of room."""
        needed = self.start_floor if is_short else min(self.start_floor, self.log_floor)
        return min(self._position.marks.checkpoint, needed - 1, self.next_index - 1)

    def _write(self, transaction: Transaction, batch: Batch) -> _Written:
        assert not self._tail.entries, "an entry is committed directly only without other voters"
        position = self._position
        assigned = self._assigner.assign(transaction, batch, position)
        if assigned.entry:
            key = journal_key(position.next_sequence, position.next_index)
            transaction.put(key, assigned.entry, db=self._environment["journal"], append=True)
        marks = self._write_beside(transaction, position.marks, batch.rows, batch.checkpoint)
        if assigned.gone:
            marks = self._applier.write_drops(transaction, marks, assigned.gone, position)
        if marks is not position.marks:
            put_marks(self._environment, transaction, marks)
        return _Written(assigned, marks)

    def _write_beside(
        self,
        transaction: Transaction,
        marks: Marks,
        rows: Sequence[tuple[str, bytes, bytes | None]],
        checkpoint: int | None,
    ) -> Marks:
        for table, name, value in rows:
            self._write_row(transaction, row_prefix(table) + name, value)
        return self._marked(marks, checkpoint)

    def _marked(self, marks: Marks, checkpoint: int | None) -> Marks:
        if checkpoint is None:
            return marks
        assert marks.checkpoint <= checkpoint
        return msgspec.structs.replace(marks, checkpoint=checkpoint)

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
        self._position.marks = written.marks
        assigned = written.assigned
        if assigned.indexed is not None:
            self._applier.add(assigned.indexed, assigned.states, self._position, assigned.gone)
            self._tail.applied(self.next_index - 1, self.next_sequence)

    # ── The log ───────────────────────────────────────────────────────────────────────────────

    @property
    def first_index(self) -> int:
        return self._position.marks.compacted + 1

    @property
    def last_index(self) -> int:
        return self._tail.last_index

    def record(self) -> bytes | None:
        return self._record

    @property
    def committed(self) -> int | None:
        return None if self._committed is None else max(self._committed, self.next_index - 1)

    def encode_batch(self, batch: Batch) -> EncodedBatch:
        tail = self._tail
        with self._environment.reading() as transaction:
            assigned = self._assigner.assign(transaction, batch, tail, tail.ahead(batch))
        return EncodedBatch(assigned.entry, assigned.first_offsets)

    def write(self, write: Write) -> Written:
        started = perf_counter()
        size = sum(len(entry.data) for entry in write.entries) + row_bytes(write.rows)
        self._budget.before(size)
        tail, fresh = self._tail.joined(write.entries) if write.entries else (None, [])
        cut = self._tail.cut(write.entries[0].index) if write.entries else []
        record = write.record
        if record is None and write.committed != self._committed:
            record = self._record or b""

        def job(transaction: Transaction) -> Marks:
            put_tail(self._environment, transaction, cut, fresh)
            marks = self._position.marks
            marks = self._write_beside(transaction, marks, write.rows, write.checkpoint)
            if marks is not self._position.marks:
                put_marks(self._environment, transaction, marks)
            if record is not None:
                put_record(self._environment, transaction, record, write.committed)
            return marks

        self._position.marks, fsync_s = self._environment.write(size, job)
        if tail is not None:
            self._tail.entries = tail
        if record is not None:
            self._record, self._committed = record, write.committed
        return Written(perf_counter() - started, fsync_s)

    def apply(self, index: int) -> list[Entry]:
        entries = [entry for entry in self._tail.entries if entry.index <= index]
        for entry in entries:
            self._applier.add_committed(entry, self._position)
        self._tail.applied(self.next_index - 1, self.next_sequence)
        return entries

    def log_entries(self, low: int, high: int, bytes_max: int) -> list[LogEntry]:
        found: list[LogEntry] = []
        size = 0
        with self._environment.reading() as transaction:
            for entry in self._reader.journal(transaction).after(low - 1):
                size += len(entry.buffer)
                is_next = entry.index == low + len(found) < high
                if not is_next or (found and size > bytes_max):
                    break
                found.append(log_entry(entry))
        if not found:
            raise LookupError(f"entry {low} is not in the log")
        return found

    def copy(self, is_wanted: Callable[[], bool] = lambda: True) -> StoreCopy:
        self._environment.settle()  # it is copied by another process
        data, environment = self._directory.path, self._environment
        return copy_store(data, lambda file: copy_in_process(data, environment, file, is_wanted))

    def fold(self) -> None:
        """Fold, convert and compact whatever there is to do, now. Writer thread only."""
        while self._fold_now():
            pass

    def fold_step(self) -> bool:
        """Do a step of that; return whether there is more to do. Writer thread only."""
        return self._fold_now()

    @property
    def fold_failure(self) -> StorageError | None:
        """Why folding stopped before its end."""
        return self._work.failure

    @property
    def unconverted(self) -> int:
        """Entries of an earlier version that are not in blocks yet."""
        marks = self._position.marks
        return max(marks.indexed - marks.converted, 0)

    @property
    def work_left(self) -> int:
        """Entries that are to be folded or converted."""
        return self.unconverted + len(self._memory.entries)

    def _fold_now(self) -> bool:
        return self._fold_step(self._foldable(), is_pressed=True)

    def _fold_for_room(self, *, is_short: bool = False, is_any: bool = False) -> bool:
        """The same, for a commit that waits.

        Not for a block that is small: it is made in the background. ``is_short``: the disk is short
        of room, so smaller blocks and other kinds of work help. ``is_any``: no commit waits.
        """
        last_index = self._foldable(is_short=is_short)
        has_share = is_any or self._folding.has_share(last_index, BLOCK_SHARE if is_short else 1)
        return (has_share or is_short) and self._fold_step(last_index, is_pressed=has_share)

    def _fold_step(self, last_index: int, *, is_pressed: bool) -> bool:
        """Do a step of folding, waiting for a fold that runs; return whether there was one."""
        if self._work.step(last_index, is_pressed=is_pressed):
            return True
        self._folder.wait()
        return self._work.is_under_way

    # ── Start ─────────────────────────────────────────────────────────────────────────────────

    def _commit_lost(self, records: list[Record]) -> None:
        """Commit again what no transaction has; see write_ahead.py."""
        environment = self._environment
        with environment.reading() as transaction:
            newest = JournalCursor(environment, transaction, None).last()
            flushed_index = get_marks(environment, transaction).flushed_index
        last = max(newest.index if newest is not None else 0, flushed_index)
        lost: list[Record] = []
        for record in records:
            if record.index == last + len(lost) + 1:
                lost.append(record)
        if not lost:
            return

        def job(transaction: Transaction) -> None:
            for record in lost:
                self._put(record, transaction)

        environment.write(sum(len(record.entry) for record in lost), job)
        _log.warning("last_commits_repeated", entry=lost[0].index, entries=len(lost))

    def _put(self, record: Record, transaction: Transaction) -> None:
        """Put what a record says."""
        environment = self._environment
        key = journal_key(record.sequence, record.index)
        transaction.put(key, record.entry, db=environment["journal"], append=True)
        before = get_marks(environment, transaction) if record.checkpoint is not None else Marks()
        marks = self._write_beside(transaction, before, record.rows, record.checkpoint)
        if marks is not before:
            put_marks(environment, transaction, marks)

    def _recover(self) -> None:
        """Apply the entries after the last block."""
        progress, last = ProgressLog("reading the end of the journal"), self._reader.last_index()
        position = self._position
        for entry in self._reader.entries_after(position.marks.flushed_index):
            if not self._is_committed(entry.index):
                break  # it may still be replaced
            if entry.index != position.next_index:
                raise broken_order(entry.index, f"follows entry {position.next_index - 1}")
            if entry.base_sequence != position.next_sequence:
                expected = position.next_sequence
                what = f"begins at sequence {entry.base_sequence} instead of {expected}"
                raise broken_order(entry.index, what)
            self._applier.add_committed(entry, position)
            progress.reached(entry.index, last)

    def _is_committed(self, index: int) -> bool:
        """Whether a start may rely on an entry; those in checkpoint rows are always committed."""
        checkpoint = self._position.marks.checkpoint
        return self._committed is None or index <= max(self._committed, checkpoint)

    def _load_tail(self) -> None:
        self._tail = LogTail(self.next_index - 1, self.next_sequence)
        with self._environment.reading() as transaction:
            journal = self._reader.journal(transaction)
            self._tail.entries = read_tail(journal, self.next_index - 1)
        last = self._committed
        if last is not None and last >= self.next_index:
            raise broken_order(self.next_index, f"is missing, though {last} are committed")

    # ── Reading ───────────────────────────────────────────────────────────────────────────────

    def replay(self) -> Iterator[Entry]:
        entries = self._reader.entries_after(self._position.marks.checkpoint)
        return takewhile(lambda entry: entry.index < self.next_index, entries)

    def size(self) -> StoreSize:
        blocks = self._blocks.current
        with self._environment.reading() as transaction:
            oldest = self._oldest(self._reader.journal(transaction), blocks)
            newest = self.next_sequence - 1
            return StoreSize(
                bytes_used=self._environment.used_bytes(transaction) + blocks.file_bytes,
                map_bytes=self._environment.map_bytes,
                entries=transaction.stat(self._environment["journal"])["entries"],
                messages=newest - self._position.marks.removed_messages,
                sequence_oldest=min(oldest, newest + 1),
                sequence_newest=newest,
                blocks=len(blocks.blocks),
                block_bytes=blocks.file_bytes,
                tail_bytes=self._environment.end_bytes,
                damage=len(blocks.damage.found),
                disk_free_bytes=free_bytes(self._directory.path),
            )

    def _oldest(self, journal: JournalCursor, blocks: BlockList) -> int:
        entry = journal.first()
        found = [entry.base_sequence] if entry else []
        found += [block.base_sequence for block in blocks.blocks[:1]]
        return min(found, default=self.next_sequence)

    # ── Retention ─────────────────────────────────────────────────────────────────────────────

    def retain(self, request: RetentionRequest) -> RetentionResult:
        deadline = perf_counter() + RETAIN_S
        self._budget.keep_to(request)
        total = RetentionResult(more=True)
        while total.more:
            try:
                self._retain_slice(request, total)
            except StorageError:
                if not total.messages:
                    raise
                return total  # report what was removed; the next call meets the error first
            if total.more and perf_counter() >= deadline:
                return total
        total.more = self._budget.shrink() or self._work.step(
            self._foldable(), is_pressed=self._is_at_rest(request.now_ms)
        )
        return total

    def _is_at_rest(self, now_ms: int) -> bool:
        """Whether nothing was written for a while, so that the tail may be folded before it is due.

        Readers of many topics are faster in blocks.
        """
        if self.next_index != self._rest_index:
            self._rest_index, self._rest_since_ms = self.next_index, now_ms
        is_long = now_ms - self._rest_since_ms >= REST_MS
        return is_long and self._memory.references >= REST_REFERENCES_MIN

    def _retain_slice(self, request: RetentionRequest, total: RetentionResult) -> None:
        removed, self._position.marks = self._retention.slice(request, self._position.marks)
        total.add(removed)
        total.more = removed.more

    def _remove(self, request: RetentionRequest, total: int) -> RetentionResult:
        marks = self._position.marks
        removed, self._position.marks = self._retention.make_room(request, marks, total)
        if removed.messages:
            self.on_removed(removed)
        return removed

    def _set_zone(self) -> None:
        marks = self._position.marks
        self._reader.zone = IndexedZone(marks.converted, marks.indexed)

    def close(self) -> None:
        self._folder.close()
        self._unsettled.close()
        self._close()
        self._directory.close()

    def _close(self) -> None:
        if self._ahead is not None:
            self._ahead.close()
            self._ahead = None
        self._environment.close()
