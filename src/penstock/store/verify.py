"""Examine everything in a store, and report what is wrong.

Nothing is changed, and a running broker is not disturbed: one snapshot is read, though pages are
not reused while it is open. Run it in a process of its own, as LMDB forbids to open a file twice in
one process.
"""

from collections.abc import Callable, Mapping
from itertools import chain, pairwise
from pathlib import Path

import msgspec

from penstock.errors import StorageDamaged, StorageError, StorageForeign
from penstock.obs.printable import printable
from penstock.store.blocks.block import Block
from penstock.store.blocks.files import BlockFiles
from penstock.store.blocks.registry import BlockRow, block_rows
from penstock.store.deletions import NOTHING, Ranges, load_deleted
from penstock.store.directory import DATA_NAME, check_switched, marker_missing, read_marker
from penstock.store.dropped import Dropped, load_dropped
from penstock.store.entry import Entry, GroupView
from penstock.store.environment import Environment, Transaction
from penstock.store.index import MemoryIndex, reference
from penstock.store.journal import JournalCursor
from penstock.store.marks import Marks, get_marks
from penstock.store.reader import IndexedZone, Reader
from penstock.store.slices import part_bytes
from penstock.store.topics import StoredTopic, TopicStates, unpack_topic

ATTEMPTS_MAX = 20  # snapshots that are tried while a broker removes blocks

FAULTS_MAX = 100  # faults that are listed; a store with more is not examined further


class VerifyReport(msgspec.Struct):
    """What was examined, and every fault in words. Entries and messages are those of /metrics."""

    entries: int = 0
    blocks: int = 0
    messages: int = 0  # readable ones, as the broker counts them
    removed: int = 0  # unreadable, but in entries that other messages keep
    topics: int = 0
    faults: list[str] = []

    @property
    def is_sound(self) -> bool:
        return not self.faults


def verify(
    path: Path, progress: Callable[[int, int], None] = lambda _done, _of: None
) -> VerifyReport:
    """Examine a data directory; raises a StorageError only if there is no store to open.

    ``progress`` is called with the bytes that are done, and all of them.
    """
    _check_directory(path)
    environment = Environment(path, map_bytes=0, readonly=True)
    unreadable: set[int] = set()
    try:
        for _attempt in range(ATTEMPTS_MAX):
            with environment.reading() as transaction:
                blocks = _opened(environment, transaction, BlockFiles(path))
                damage = {n for n, block in blocks.items() if isinstance(block, StorageDamaged)}
                if damage <= unreadable:
                    return _Examination(environment, transaction, blocks, progress).run()
                unreadable |= damage
    finally:
        environment.close()
    raise StorageError(
        "the blocks could not be opened: the broker removes them too quickly",
        "Try again when it has less to do, or verify a backup.",
    )


def _opened(
    environment: Environment, transaction: Transaction, files: BlockFiles
) -> dict[int, Block | StorageDamaged]:
    """All blocks by number: a file that is open outlives its removal by the broker.

    One that is gone already is not damaged if a later snapshot does not list it any more.
    """
    found: dict[int, Block | StorageDamaged] = {}
    for row in block_rows(environment, transaction):
        try:
            found[row.summary.number] = files.open(row.summary)
        except StorageDamaged as error:
            found[row.summary.number] = error
    return found


def _check_directory(path: Path) -> None:
    if path.is_file():
        advice = "Name the directory that the broker was started with."
        if (path.parent / DATA_NAME).exists():
            advice = f"Name the directory that contains it: {path.parent}"
        raise StorageForeign(f"{path} is a file, not a data directory", advice)
    check_switched(path)
    if read_marker(path) is not None and (path / DATA_NAME).exists():
        return
    if (path / DATA_NAME).exists():
        raise marker_missing(path)
    raise StorageForeign(
        f"{path} is not a Penstock data directory: there is no {DATA_NAME}",
        "Name the directory that the broker was started with.",
    )


class _Examination:
    def __init__(
        self,
        environment: Environment,
        transaction: Transaction,
        blocks: Mapping[int, Block | StorageDamaged],
        progress: Callable[[int, int], None],
    ) -> None:
        self._environment = environment
        self._transaction = transaction
        self._opened = blocks
        self._progress = progress
        self._done_bytes, self._total_bytes = 0, 0
        self._reader = Reader(environment, TopicStates(), MemoryIndex(), {})
        self._marks = Marks()
        self._report = VerifyReport()
        # living messages found in blocks and in entries that are not converted, by topic id
        self._live: dict[int, int] = {}
        self._tail: dict[int, int] = {}  # the same for the tail
        self._dropped: dict[int, Dropped] = {}
        # names and ranges by topic id, from the table
        self._deleted: dict[int, tuple[bytes, Ranges]] = {}
        # messages and bytes in those ranges, from the journal
        self._found: dict[int, tuple[int, int]] = {}
        self._end_sequence = 1
        self._left = 0  # messages in groups that retention has left, without dropped topics
        self._seen = 0  # messages in all groups

    def run(self) -> VerifyReport:
        try:
            self._marks = get_marks(self._environment, self._transaction)
            self._dropped = load_dropped(self._environment, self._transaction)
            self._deleted = load_deleted(self._environment, self._transaction, self._dropped)
            self._reader.zone = IndexedZone(self._marks.converted, self._marks.indexed)
            self._measure()
            self._blocks()
            self._entries()
            self._topic_rows()
            self._deleted_ranges()
            self._total()
        except _TooManyError:
            self._report.faults.append("and more; the rest was not examined")
        except StorageDamaged as error:
            self._report.faults.append(error.message)
        self._report.messages = self._left - self._deleted_count
        self._report.removed = self._seen - self._report.messages
        return self._report

    @property
    def _deleted_count(self) -> int:
        return sum(ranges.count for _, ranges in self._deleted.values())

    def _measure(self) -> None:
        rows = block_rows(self._environment, self._transaction)
        self._total_bytes = sum(row.summary.file_bytes for row in rows)
        self._total_bytes += self._environment.used_bytes(self._transaction, ["journal"])

    def _done(self, size: int) -> None:
        self._done_bytes = min(self._done_bytes + size, self._total_bytes)
        self._progress(self._done_bytes, self._total_bytes)

    def _fault(self, what: str) -> None:
        if len(self._report.faults) >= FAULTS_MAX:
            raise _TooManyError
        self._report.faults.append(what)

    def _blocks(self) -> None:
        sequence = 1
        for row in block_rows(self._environment, self._transaction):
            summary = row.summary
            self._report.blocks += 1
            if summary.base_sequence < sequence:
                self._fault(f"block {summary.number} is out of order")
            sequence = summary.end_sequence
            block = self._opened[summary.number]
            try:
                if isinstance(block, StorageDamaged):
                    raise block
                self._block(row, block)
            except StorageDamaged as error:
                self._fault(error.message)
            self._done(summary.file_bytes)

    def _block(self, row: BlockRow, block: Block) -> None:
        faults = list(block.verify())
        for fault in faults:
            self._fault(fault.message)
        alive = 0
        for part in block.sound_entries():
            self._seen += part.count
            alive += sum([self._group_alive(part, group, in_tail=False) for group in part.groups])
        if not faults and alive != row.summary.count - row.dead_messages:
            expected = row.summary.count - row.dead_messages
            self._fault(
                f"block {block.summary.number} should have {expected} messages alive, has {alive}"
            )

    def _entries(self) -> None:
        journal = JournalCursor(self._environment, self._transaction, {})
        marks = self._marks
        index, sequence = 0, 1
        if not self._reader.zone.is_open:
            index, sequence = marks.flushed_index, marks.flushed_sequence
        for found in journal.each():
            if isinstance(found, StorageDamaged):
                self._fault(found.message)
                continue
            self._done(len(found.buffer))
            if found.index <= marks.flushed_index and not self._reader.zone.has(found.index):
                continue  # a block has it; the entry has not been deleted yet
            self._report.entries += 1
            self._seen += found.count
            self._order(found, index, sequence)
            index, sequence = found.index, found.end_sequence
            self._groups(found)
            self._drops(found)
        self._end_sequence = max(sequence, marks.flushed_sequence)

    def _order(self, entry: Entry, index: int, sequence: int) -> None:
        adjacent = entry.index == index + 1
        if entry.index <= index or entry.base_sequence < sequence:
            self._fault(f"entry {entry.index} is out of order after entry {index}")
        elif adjacent and entry.base_sequence != sequence:
            self._fault(f"entry {entry.index} begins at {entry.base_sequence}, not at {sequence}")
        elif not adjacent and entry.index - 1 > self._removable:
            self._fault(f"entries {index + 1} to {entry.index - 1} are missing")

    @property
    def _removable(self) -> int:
        """The last entry after which none may be missing."""
        return max(self._marks.compacted, min(self._marks.flushed_index, self._marks.checkpoint))

    def _groups(self, entry: Entry) -> None:
        in_tail = entry.index > self._marks.flushed_index
        for group in entry.groups:
            alive = self._group_alive(entry, group, in_tail=in_tail)
            if alive and not in_tail:
                self._in_index(entry, group)

    def _group_alive(self, entry: Entry, group: GroupView, *, in_tail: bool) -> int:
        """Count the messages of a group that retention has left."""
        self._find_deleted(entry, group)
        end = group.first_offset + group.message_end - group.message_start
        state = self._state(group)
        if state is None and not in_tail:
            return 0  # it was dropped
        first = max(group.first_offset, state.first_offset if state else 0)
        alive = max(end - first, 0)
        if group.topic_id not in self._dropped:
            self._left += alive
        found = self._tail if in_tail else self._live
        found[group.topic_id] = found.get(group.topic_id, 0) + alive
        return alive

    def _state(self, group: GroupView) -> StoredTopic | None:
        """The state of a group's topic: its row, or its record if it was dropped."""
        if group.topic_id in self._dropped:
            return self._dropped[group.topic_id].state
        state = self._reader.row_state(self._transaction, group.name)
        return state if state and state.id == group.topic_id else None

    def _drops(self, entry: Entry) -> None:
        for topic_id, name in entry.dropped:
            state = self._reader.row_state(self._transaction, name)
            if state is not None and state.id == topic_id:
                self._fault(f"topic {_quoted(name)}, dropped by entry {entry.index}, has a row")

    def _in_index(self, entry: Entry, group: GroupView) -> None:
        expected = reference(entry, group.number)
        found = self._reader.indexed(
            self._transaction, self._reader.zone, group.topic_id, group.first_offset
        )
        if next(found, None) != expected:
            where = f"offset {group.first_offset} of topic {_quoted(group.name)}"
            self._fault(f"the index does not lead to {where} in entry {entry.index}")

    def _topic_rows(self) -> None:
        cursor = self._transaction.cursor(self._environment["topics"])
        rows = map(unpack_topic, cursor.iternext(keys=False, values=True))
        topic_ids = set(self._tail)  # a topic gets its row with its first block
        for state in rows:
            info = state.info()
            topic_ids.add(info.id)
            if info.id in self._dropped:
                self._fault(f"topic {_quoted(info.name)}, which was dropped, has a row")
            live = self._live.get(info.id, 0)
            # A row may be ahead of the last block, by entries of the tail.
            if not live <= info.count <= live + self._tail.get(info.id, 0):
                self._fault(
                    f"topic {_quoted(info.name)} should have {info.count} messages, has {live}"
                )
        self._report.topics = len(topic_ids - self._dropped.keys())

    def _find_deleted(self, entry: Entry, group: GroupView) -> None:
        name, ranges = self._deleted.get(group.topic_id, (group.name, NOTHING))
        if name != group.name:
            self._fault(
                f"deleted messages of {_quoted(group.name)} are stored under {_quoted(name)}"
            )
        end = group.first_offset + group.message_end - group.message_start
        for offset_range in ranges.within(group.first_offset, end):
            count, size = self._found.get(group.topic_id, (0, 0))
            size += part_bytes(reference(entry, group.number).part(entry, *offset_range))
            self._found[group.topic_id] = (count + offset_range[1] - offset_range[0], size)

    def _deleted_ranges(self) -> None:
        for topic_id, (name, ranges) in self._deleted.items():
            ordered = list(chain.from_iterable(zip(ranges.firsts, ranges.ends, strict=True)))
            if any(end <= first for first, end in pairwise(ordered)):
                self._fault(f"deleted ranges of topic {_quoted(name)} touch or are out of order")
            elif (ranges.count, ranges.bytes) != self._found.get(topic_id):
                self._fault(
                    f"deleted ranges of topic {_quoted(name)} do not agree with the journal"
                )

    def _total(self) -> None:
        """Everything ever written, less what was removed, must exist."""
        there = self._left - self._deleted_count
        expected = self._end_sequence - 1 - self._marks.removed_messages
        if there != expected:
            self._fault(f"{there:,} messages exist, not {expected:,}")


def _quoted(name: bytes) -> str:
    return f"'{printable(name)}'"


class _TooManyError(Exception):
    """Enough faults were found."""
