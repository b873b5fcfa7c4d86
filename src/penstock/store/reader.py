"""Reads on LMDB, from any thread.

The order matters: first memory (under its locks), then the snapshot. The snapshot is then at least
as new as what memory said, so nothing that was committed can be missed. Iterators take a new
snapshot for every chunk, so that none stays open while the caller is busy.
"""

import heapq
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import takewhile
from operator import attrgetter, itemgetter
from typing import NamedTuple, TypeVar

from msgspec.structs import replace

from penstock.errors import StorageDamaged
from penstock.model.message import Message
from penstock.store.blocks.registry import BlockList, Blocks, Damage
from penstock.store.blocks.scan import Topics as WalkedTopics
from penstock.store.blocks.scan import walk_of
from penstock.store.deletions import NOTHING, OFFSET_MAX, OffsetRange, Ranges
from penstock.store.entry import Entry, decode
from penstock.store.environment import Environment, Transaction
from penstock.store.history import History, HistoryGathering, HistoryStep, first_of_last
from penstock.store.index import MemoryIndex, Reference, references_from
from penstock.store.journal import JournalCursor, RememberingCursor
from penstock.store.keys import KEY_BYTES_MAX, NAME_BYTES_WHOLE, index_key, name_key, row_prefix
from penstock.store.measure import GroupOverlap, reach
from penstock.store.raw import gather_raw, raw_next, raw_span
from penstock.store.raw_scan import OpenTopic, ScanGathering
from penstock.store.raw_slice import RawSlice
from penstock.store.scan import Scan, ScanStep
from penstock.store.slices import GroupRange, gather, gather_flags, offset_at
from penstock.store.store import RawQuery, TopicFlags, TopicInfo, TopicRange, TopicSlice
from penstock.store.topic_groups import TopicGroups
from penstock.store.topics import StoredTopic, TopicStates, unpack_topic

Result = TypeVar("Result")

_NO_BLOCKS = BlockList(Damage())

# groups per entry from which on a scan reads the tail entry by entry instead of topic by topic
TAIL_GROUPS_MIN = 64

FIRST_CHUNK_ROWS = 4
CHUNK_ROWS = 256  # rows that an iterator takes from one snapshot


class IndexedZone(NamedTuple):
    """Entries after the first index up to the second have references on disk, and no block."""

    converted: int
    indexed: int

    @property
    def is_open(self) -> bool:
        return self.converted < self.indexed

    @property
    def end(self) -> int:
        """The entry after the zone; 0 if there is none."""
        return self.indexed + 1 if self.is_open else 0

    def has(self, entry_index: int) -> bool:
        return self.converted < entry_index <= self.indexed


NO_ZONE = IndexedZone(0, 0)


class Reader:
    """Everything that reads; it shares memory with the store that writes."""

    def __init__(
        self,
        environment: Environment,
        topics: TopicStates,
        memory: MemoryIndex,
        verified: dict[int, None],
        blocks: Blocks | None = None,
    ) -> None:
        self._environment = environment
        self._topics = topics
        self._memory = memory
        self._verified = verified
        self._blocks = blocks
        self.zone = NO_ZONE
        # the last entry that blocks stand for, and the last one that may be read
        self.tail: Callable[[], tuple[int, int]] = lambda: (0, 0)

    @property
    def block_list(self) -> BlockList:
        return self._blocks.current if self._blocks else _NO_BLOCKS

    def journal(self, transaction: Transaction) -> JournalCursor:
        return JournalCursor(self._environment, transaction, self._verified)

    def last_index(self) -> int:
        with self._environment.reading() as transaction:
            last = self.journal(transaction).last()
            return last.index if last else 0

    def entries_after(self, index: int) -> Iterator[Entry]:
        entry: Entry | None = None
        while True:
            with self._environment.reading() as transaction:
                journal = self.journal(transaction)
                found = journal.following(entry) if entry else next(journal.after(index), None)
                if found is None:
                    return
                entry = decode(bytes(found.buffer), verify=False)
            yield entry

    def read(self, sequences: Sequence[int]) -> list[Message | None]:
        located: list[tuple[int, Message] | None] = []
        with self._environment.reading() as transaction:
            journal = self.journal(transaction)
            entry: Entry | None = None
            for sequence in sequences:
                if entry is None or not entry.base_sequence <= sequence < entry.end_sequence:
                    entry = journal.holding(sequence)
                found = entry.located(sequence) if entry else self.block_list.located(sequence)
                located.append(found)
        # Topics are asked after the snapshot: what was removed before it must not come back.
        views: dict[int, tuple[int, Ranges]] = {}
        return [
            found[1] if found is not None and self._is_kept(*found, views) else None
            for found in located
        ]

    def _is_kept(
        self, topic_id: int, message: Message, views: dict[int, tuple[int, Ranges]]
    ) -> bool:
        """Whether a message still exists; its entry may exist only for other topics."""
        view = views.get(topic_id)
        if view is None:
            view = views[topic_id] = self._kept_from(topic_id, message.topic)
        first_offset, deleted = view
        return message.offset >= first_offset and not deleted.contains(message.offset)

    def _kept_from(self, topic_id: int, name: bytes) -> tuple[int, Ranges]:
        view = self.view(name)
        if view is not None and view[0].id == topic_id:
            return view[0].first_offset, view[1]
        is_committed_just_now = topic_id >= self._topics.next_id  # else the topic was dropped
        return (0 if is_committed_just_now else OFFSET_MAX), NOTHING

    def read_topic(self, topic: bytes, offset: int, count_max: int, bytes_max: int) -> TopicRange:
        view = self.view(topic)
        if view is None:
            return TopicRange(topic, 0, 0, [])
        info, deleted = view
        start = deleted.skip(max(offset, info.first_offset))
        with self._open_parts(info.id, deleted.living(start)) as parts:
            slices = gather(parts, count_max, bytes_max)
        return self._range(info, start, deleted, slices)

    def read_raw(
        self, query: RawQuery, make: Callable[[TopicInfo, int, list[RawSlice]], Result]
    ) -> Result | None:
        view = self.view(query.topic)
        if view is None:
            return None
        info, deleted = view
        start, end = raw_span(query, info, deleted)
        with self._open_parts(info.id, deleted.living(start, end)) as parts:
            slices = gather_raw(parts, query.count_max, query.bytes_max, query.columns)
            if slices and slices[0].first_offset > start:  # the oldest were removed since
                info = replace(info, first_offset=slices[0].first_offset)
            return make(info, raw_next(query, (start, end), deleted, slices), slices)

    def read_raw_many(
        self, scan: Scan, count_max: int, bytes_max: int, make: Callable[[ScanStep], Result]
    ) -> Result:
        gathering = ScanGathering(scan.columns, count_max, bytes_max)
        walk, topics = walk_of(scan, self.view), WalkedTopics(self.view, self._topics.is_intact)
        if walk.is_over:
            return self._read_rest(scan, gathering, make)
        blocks = [each.block for each in self.block_list.blocks]
        if not walk.read_blocks(blocks, topics, gathering):
            return make(gathering.step())
        memory, (flushed, last) = self._memory, self.tail()
        if memory.references < TAIL_GROUPS_MIN * len(memory.entries):
            walk.skip_tail()
            if not gathering.is_empty:
                return make(gathering.step())
            return self._read_rest(scan, gathering, make)
        with self._environment.reading() as transaction:
            entries = self.journal(transaction).after(max(walk.entry_index, flushed))
            applied = takewhile(lambda entry: entry.index <= last, entries)
            is_through = walk.read_tail(applied, topics, gathering)
            if not (is_through and gathering.is_empty) or scan.is_done:
                return make(gathering.step())  # its columns are views of this snapshot
        return self._read_rest(scan, gathering, make)

    def _read_rest(
        self, scan: Scan, gathering: ScanGathering, make: Callable[[ScanStep], Result]
    ) -> Result:
        """Read what the walk through blocks and tail has left, topic by topic."""
        room = gathering.count_left, gathering.bytes_left
        chosen = [
            (topic, info, deleted, self._memory.rows(info.id))
            for topic, info, deleted in scan.upcoming(self.view, *room)
        ]
        with self._environment.reading() as transaction:
            journal = RememberingCursor(self._environment, transaction, self._verified)
            for topic, info, deleted, rows in chosen:
                living = deleted.living(*topic.span(info, deleted))
                parts = self._parts(self.groups(transaction, info.id, rows, journal), living)
                if not gathering.read(OpenTopic(topic, info, deleted, parts)):
                    break
            return make(gathering.step())

    def read_history(
        self, history: History, low: int, end: int, count_max: int, bytes_max: int
    ) -> HistoryStep:
        if not history.is_listed:
            listed_id = self._topics.next_id - 1
            history.list(self._listed(history), listed_id)
        gathering = HistoryGathering(history, low, end, count_max, bytes_max)
        with self._environment.reading() as transaction:
            journal, blocks = self.journal(transaction), self.block_list  # in this order
            while gathering.wants_more:
                self._gather_history(journal, blocks, gathering)
        views: dict[int, tuple[int, Ranges]] = {}  # after the snapshot, as in ``read``
        kept = [
            message
            for _, topic_id, message in gathering.found
            if self._is_kept(topic_id, message, views)
        ]
        return HistoryStep(kept, min(gathering.low, end))

    def _gather_history(
        self, journal: JournalCursor, blocks: BlockList, gathering: HistoryGathering
    ) -> None:
        entry, block = journal.reaching(gathering.low), blocks.reaching(gathering.low)
        if entry is None and block is None:
            gathering.low = gathering.end
        elif block is None or (
            entry is not None and entry.base_sequence <= block.summary.base_sequence
        ):
            assert entry is not None
            gathering.take_entry(entry)
        else:
            try:
                gathering.take_block(block)
            except StorageDamaged as error:
                blocks.damage.report(error)
                gathering.low = block.summary.end_sequence

    def _listed(self, history: History) -> Iterator[tuple[TopicInfo, int]]:
        """The topics of a history with their first offsets."""
        last, horizon = history.start.last, history.horizon
        found = history.topics(self.topic, self.topics)
        if last and horizon:  # the groups of topics with neighbouring ids are in the same parts
            found = iter(sorted(found, key=attrgetter("id")))
        for info in found:
            start = 0
            if last:
                end = self._end_at(info, horizon) if horizon else info.next_offset
                view = self.view(info.name)
                start = first_of_last(info, view[1] if view else NOTHING, end, last)
            yield info, start

    def _end_at(self, info: TopicInfo, horizon: int) -> int:
        """The offset after the last message of a topic up to a sequence."""
        with self._open_groups(info.id) as groups:
            for found in groups.following(info.first_offset):
                if found.base_sequence > horizon:
                    return found.first_offset
                if found.last_sequence > horizon:
                    part = found.part(found.first_offset, found.next_offset)
                    offset = offset_at(part, horizon + 1) if part else found.first_offset
                    if offset < found.next_offset:
                        return offset
        return info.next_offset

    def measure(self, topic: bytes, offset: int, bytes_max: int) -> int:
        view = self.view(topic)
        if view is None:
            return offset
        info, deleted = view
        start = deleted.skip(max(offset, info.first_offset))
        living = deleted.living(start, info.next_offset)
        with self._open_groups(info.id) as groups:
            spans = (
                GroupOverlap(found, first, end, partial(found.part, first, end))
                for first, end in living
                for found in groups.within(first, end)
            )
            return reach(spans, start, bytes_max)

    def read_flags(self, topic: bytes, offset: int, count_max: int) -> TopicFlags:
        view = self.view(topic)
        if view is None:
            return TopicFlags(0, [], {})
        info, deleted = view
        start = deleted.skip(max(offset, info.first_offset))
        with self._open_parts(info.id, deleted.living(start)) as parts:
            found = gather_flags(parts, start, count_max)
        found.next_offset = deleted.skip(found.next_offset)
        return found

    @contextmanager
    def _open_parts(
        self, topic_id: int, living: Iterator[OffsetRange]
    ) -> Iterator[Iterator[GroupRange]]:
        with self._open_groups(topic_id) as groups:
            yield self._parts(groups, living)

    def _parts(self, groups: TopicGroups, living: Iterator[OffsetRange]) -> Iterator[GroupRange]:
        for first, end in living:
            for found in groups.within(first, end):
                part = found.part(first, end)
                if part is not None:  # else removed since memory was asked, as the oldest can be
                    yield part

    @contextmanager
    def _open_groups(self, topic_id: int) -> Iterator[TopicGroups]:
        rows = self._memory.rows(topic_id)
        with self._environment.reading() as transaction:
            yield self.groups(transaction, topic_id, rows)

    def groups(
        self,
        transaction: Transaction,
        topic_id: int,
        rows: list[bytes],
        journal: JournalCursor | None = None,
    ) -> TopicGroups:
        """A topic's groups in a snapshot; ``rows`` are its references in memory from before."""
        zone = self.zone  # before the list of blocks, which grows before the zone shrinks
        indexed = partial(self.indexed, transaction, zone)
        journal, blocks = journal or self.journal(transaction), attrgetter("block_list")
        return TopicGroups(topic_id, journal, rows, partial(blocks, self), indexed, zone.end)

    def _range(
        self, before: TopicInfo, start: int, deleted: Ranges, slices: list[TopicSlice]
    ) -> TopicRange:
        info = self.topic(before.name)
        if info is None or info.id != before.id:
            info = before  # dropped meanwhile: the answer is that of before
        if not slices:
            return TopicRange(info.name, info.first_offset, max(start, info.first_offset), slices)
        first_offset = min(info.first_offset, slices[0].first_offset)
        end = slices[-1].first_offset + slices[-1].count
        return TopicRange(info.name, first_offset, deleted.skip(end), slices)

    def payload_bytes(self, topic_id: int, offset_ranges: list[OffsetRange]) -> list[int]:
        with self._open_groups(topic_id) as groups:
            return [
                sum(found.bytes_within(first, end) for found in groups.within(first, end))
                for first, end in offset_ranges
            ]

    def indexed(
        self, transaction: Transaction, zone: IndexedZone, topic_id: int, offset: int
    ) -> Iterator[Reference]:
        """References on disk, of an earlier version, to groups that end after ``offset``."""
        if not zone.is_open:
            return
        cursor = transaction.cursor(self._environment["index"])
        found = cursor.set_range(index_key(topic_id, offset + 1))
        found = cursor.prev() if found else cursor.last()
        prefix = index_key(topic_id, 0)[:4]
        if not found or bytes(cursor.key())[:4] != prefix:
            found = cursor.set_range(index_key(topic_id, 0))
        while found and bytes(cursor.key())[:4] == prefix:
            for reference in references_from(cursor.value(), offset):
                if zone.has(reference.entry_index):
                    yield reference
            found = cursor.next()

    def topic(self, name: bytes) -> TopicInfo | None:
        view = self.view(name)
        return view[0] if view else None

    def count_from(self, topic: bytes, offset: int) -> int:
        view = self.view(topic)
        return view[1].left(max(offset, view[0].first_offset), view[0].next_offset) if view else 0

    def view(self, name: bytes) -> tuple[TopicInfo, Ranges] | None:
        """A topic and its deleted ranges, consistently. Not to be called within a snapshot."""
        view = self._topics.view(name)
        if view is not None:
            return view
        with self._environment.reading() as transaction:
            state = self.row_state(transaction, name)
        if state is not None:
            return state.info(), NOTHING  # with ranges it would be in memory
        return self._topics.view(name)  # it may have been dropped and created again meanwhile

    def row_state(self, transaction: Transaction, name: bytes) -> StoredTopic | None:
        if not name:
            return None  # LMDB has no empty keys, and refuses to look for one
        row = transaction.get(name_key(name), db=self._environment["topics"])
        return None if row is None else unpack_topic(row)

    def topics(self, prefix: bytes = b"", after: bytes = b"") -> Iterator[TopicInfo]:
        """By name. The first costs a look-up in rows and in names without rows, whatever comes."""
        start = max(prefix, after)
        new = _items_from(self._topics.new.ordered(), start)
        last = after
        for name, row in heapq.merge(new, self._stored_topics(prefix, start), key=itemgetter(0)):
            if not name.startswith(prefix):
                if name > prefix:
                    return
            elif name > last:
                last = name
                view = self._topics.view(name)
                info = view[0] if view else row.info() if row else self.topic(name)
                if info is not None:
                    yield info

    def _stored_topics(
        self, prefix: bytes, start: bytes
    ) -> Iterator[tuple[bytes, StoredTopic | None]]:
        """Rows by name, from a name on. Long names with the same beginning have unordered keys."""
        alike: list[tuple[bytes, StoredTopic]] = []
        for key, row in self._chunks("topics", prefix[:NAME_BYTES_WHOLE], start[:NAME_BYTES_WHOLE]):
            state = unpack_topic(row)
            is_long = len(key) == KEY_BYTES_MAX
            if alike and not (is_long and state.name.startswith(alike[0][0][:NAME_BYTES_WHOLE])):
                yield from sorted(alike, key=itemgetter(0))
                alike = []
            if is_long:
                alike.append((state.name, state))
            else:
                yield state.name, state
        yield from sorted(alike, key=itemgetter(0))

    def rows(self, table: str) -> Iterator[tuple[bytes, bytes]]:
        prefix = row_prefix(table)
        for key, value in self._chunks("rows", prefix):
            if len(key) < KEY_BYTES_MAX:
                yield key[len(prefix) :], value
            else:
                end = 4 + int.from_bytes(value[:4], "little")
                yield value[4 + len(prefix) : end], value[end:]

    def _chunks(
        self, database: str, prefix: bytes, start: bytes = b""
    ) -> Iterator[tuple[bytes, bytes]]:
        """Copies of all pairs whose key begins with ``prefix``, from a key on."""
        start = max(prefix, start)
        count_max = FIRST_CHUNK_ROWS  # many look for one
        while True:
            chunk: list[tuple[bytes, bytes]] = []
            with self._environment.reading() as transaction:
                cursor = transaction.cursor(self._environment[database])
                found = cursor.set_range(start) if start else cursor.first()
                while found and len(chunk) < count_max:
                    key = bytes(cursor.key())
                    if not key.startswith(prefix):
                        break
                    chunk.append((key, bytes(cursor.value())))
                    found = cursor.next()
            yield from chunk
            if len(chunk) < count_max:
                return
            start = chunk[-1][0] + b"\0"
            count_max = CHUNK_ROWS


def _items_from(names: Sequence[bytes], start: bytes) -> Iterator[tuple[bytes, None]]:
    """Names from one on, as ``Reader.topics`` merges them."""
    for place in range(bisect_left(names, start), len(names)):
        yield names[place], None
