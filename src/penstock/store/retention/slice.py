"""One slice of retention: what it changes, and the one transaction that makes it last.

Removing messages is moving a topic's ``first_offset``. What lies below it in blocks is *dead*: it
is counted in the block's row, and a block without living messages goes, its row with the
transaction, its file after it. What lies below it in the tail is left out when the tail is folded.

A slice reads a snapshot from before it began. If its transaction fails, nothing has happened;
memory follows once it has committed.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple, TypeAlias

import msgspec

from penstock.store.blocks.registry import BlockRow, Blocks, OpenBlock, dead_in
from penstock.store.blocks.tail_folding import TailFolding
from penstock.store.deletions import OFFSET_MAX, Changes, Ranges, put_deleted
from penstock.store.dropped import Dropped, delete_dropped, put_dropped
from penstock.store.environment import Environment, Transaction
from penstock.store.index import MemoryIndex
from penstock.store.journal import JournalCursor
from penstock.store.keys import name_key
from penstock.store.marks import Marks, put_marks
from penstock.store.reader import Reader
from penstock.store.store import RetentionRequest, RetentionResult
from penstock.store.topic_groups import StoredGroup
from penstock.store.topics import StoredTopic, TopicStates, moved_row, pack_topic

ROW_BYTES = 4_096  # upper bound of what a changed row costs: a copy of its page


class PlaceCursor(NamedTuple):
    """Where to go on (see retention_places.py): entry, and group of the place that begins there."""

    entry_index: int = 0
    number: int = 0
    block_number: int | None = None

    def within(self, first_index: int, block_number: int | None) -> int:
        """Number of the group to begin with in a place."""
        is_there = (self.entry_index, self.block_number) == (first_index, block_number)
        return self.number if is_there else 0


class AgeCursor(NamedTuple):
    """Where an age has come to, and when the block there is looked at again."""

    place: PlaceCursor = PlaceCursor()
    again_ms: int = 0


class StoredParts(NamedTuple):
    """The parts of a store that retention works on."""

    environment: Environment
    reader: Reader
    memory: MemoryIndex
    topics: TopicStates
    blocks: Blocks
    dropped: dict[int, Dropped]
    tail: TailFolding


class TopicLeft:
    """The slice's own copy of a topic: state, deleted ranges, how much is left."""

    __slots__ = ("bytes", "changes", "deleted", "messages", "state")

    def __init__(self, state: StoredTopic, deleted: Ranges) -> None:
        self.state = state
        self.deleted = deleted
        self.changes: Changes = {}  # of the rows of deleted ranges
        self.messages = state.next_offset - state.first_offset - deleted.count
        self.bytes = state.bytes - deleted.bytes

    def move(self, end: int, size: int, deleted_size: int) -> None:
        """Begin at ``end``; ``size`` bytes lie below it, ``deleted_size`` of them deleted."""
        self.state.first_offset = end
        self.state.bytes -= size
        self.deleted, changes = self.deleted.beyond(end, deleted_size)
        self.changes.update(changes)
        self.messages = self.state.next_offset - end - self.deleted.count
        self.bytes = self.state.bytes - self.deleted.bytes


# A topic that lost a whole group and has no deleted messages: its state before the slice, its new
# first offset and bytes. A plain tuple, as there are thousands.
MovedTopic: TypeAlias = tuple[StoredTopic, int, int]


class RetentionSlice:
    """One slice of work."""

    def __init__(
        self,
        parts: StoredParts,
        request: RetentionRequest,
        snapshot: Transaction,
        transaction: Transaction,
        marks: Marks,
    ) -> None:
        self.parts = parts
        self.request = request
        self.snapshot = snapshot
        self.transaction = transaction
        self.marks = marks
        self.blocks = parts.blocks.current
        self.journal = JournalCursor(parts.environment, snapshot, None)
        self.steps = 0
        self.removed = RetentionResult()
        self._topics: dict[bytes, TopicLeft] = {}
        self.seen: set[int] = set()  # ids of the topics above
        self.changed: dict[bytes, TopicLeft] = {}
        self.moved: dict[int, MovedTopic] = {}
        self.cuts: dict[int, int] = {}  # first offsets, by id, of topics whose tail lost messages
        self._dead: dict[int, tuple[int, int]] = {}  # messages and bytes that blocks lost
        # dropped topics of which something was freed, by id; None: all of it
        self.freed: dict[int, Dropped | None] = {}
        # what the engine takes over
        self.walk: bytes | None = None
        self.ages: dict[int, AgeCursor] = {}
        self.oldest = PlaceCursor()
        self.examined: list[bytes] = []
        self.examined_ids = 0
        self.blocked: dict[bytes, None] = {}
        self.held: dict[bytes, int] = {}
        self.wakes: dict[bytes, int] = {}
        self.lowered: dict[bytes, int] = {}

    # ── Steps ─────────────────────────────────────────────────────────────────────────────────

    def begin_stage(self, steps: int) -> None:
        self.steps = steps

    def step(self) -> bool:
        """Take a step; return False if none is left."""
        self.steps -= 1
        self.removed.more |= self.steps < 0
        return self.steps >= 0

    def spend(self, steps: int) -> None:
        self.steps -= steps

    # ── Topics ────────────────────────────────────────────────────────────────────────────────

    def topic(self, name: bytes) -> TopicLeft | None:
        topic = self._topics.get(name)
        if topic is None:
            state = self.state(name)
            if state is not None:
                topic = TopicLeft(self._moved(state), self.parts.topics.deleted(name))
                self._topics[name] = topic
                self.seen.add(state.id)
        return topic

    def state(self, name: bytes) -> StoredTopic | None:
        """A topic as it was before this slice."""
        return self.parts.topics.get(name) or self.parts.reader.row_state(self.snapshot, name)

    def state_in_blocks(self, topic_id: int) -> StoredTopic | None:
        """The same for a topic whose name is not known; None if it was dropped."""
        for place in self.blocks.places(topic_id, 0):
            opened = self.blocks.opened(place)
            if opened is not None:
                entry, number = opened
                state = self.state(entry.group(number).name)
                return state if state is not None and state.id == topic_id else None
        return None

    def _moved(self, state: StoredTopic) -> StoredTopic:
        state, moved = state.copy(), self.moved.pop(state.id, None)
        if moved is not None:
            _, state.first_offset, state.bytes = moved
            self.changed[state.name] = TopicLeft(state, self.parts.topics.deleted(state.name))
        return state

    def groups(self, topic: TopicLeft, count_max: int) -> list[StoredGroup]:
        """A topic's oldest groups."""
        state, parts = topic.state, self.parts
        rows = parts.memory.rows(state.id)
        groups = parts.reader.groups(self.snapshot, state.id, rows)
        return list(islice(groups.following(state.first_offset), count_max))

    # ── Removing ──────────────────────────────────────────────────────────────────────────────

    def cut(self, topic: TopicLeft, end: int, groups: list[StoredGroup]) -> None:
        """Remove a topic's messages below ``end``, as far as ``groups`` reach."""
        state, deleted = topic.state, topic.deleted
        first, end = state.first_offset, min(end, groups[-1].next_offset)
        if end <= first:
            return
        size = 0
        for found in groups:
            if found.first_offset >= end:
                break
            start, stop = max(first, found.first_offset), min(end, found.next_offset)
            part_size = found.bytes_within(start, stop)
            size += part_size
            if found.block is None:
                self.cuts[state.id] = end
            else:
                self.note_dead(found.block.summary.number, stop - start, part_size)
        deleted_size = _deleted_bytes(deleted, end, groups)
        self.removed.note(state.name, list(deleted.living(first, end)))
        self.removed.bytes += size - deleted_size
        topic.move(end, size, deleted_size)
        self.changed[state.name] = topic

    def note_dead(self, block_number: int, messages: int, size: int) -> None:
        known_messages, known_size = self._dead.get(block_number, (0, 0))
        self._dead[block_number] = known_messages + messages, known_size + size

    def count_dropped(self, state: StoredTopic, end: int = OFFSET_MAX) -> None:
        """Count what is left of a dropped topic in blocks as dead, below an offset."""
        for block in self.blocks.with_topic(state.id):
            dead = dead_in(block, state.id, end, state.first_offset)
            self.note_dead(block.summary.number, *dead)

    def row(self, block: OpenBlock) -> BlockRow:
        """A block's row as this slice leaves it."""
        return block.row.without(*self._dead.get(block.row.summary.number, (0, 0)))

    # ── The end ───────────────────────────────────────────────────────────────────────────────

    @property
    def bytes_expected(self) -> int:
        return (len(self.moved) + len(self.changed)) * ROW_BYTES

    def write(self) -> None:
        """Put everything into the transaction."""
        environment, transaction = self.parts.environment, self.transaction
        self._put_topics()
        for topic in self.changed.values():
            if topic.changes:
                key = (topic.state.id, topic.state.name)
                put_deleted(environment, transaction, key, topic.deleted, topic.changes)
        for topic_id, dropped in self.freed.items():
            if dropped is None:
                delete_dropped(environment, transaction, topic_id)
            else:
                put_dropped(environment, transaction, dropped)
        for block in self._touched():
            row = self.row(block)
            if row.is_dead:
                self.parts.blocks.delete(environment, transaction, row)
                self.removed.blocks += 1
            else:
                self.parts.blocks.put(environment, transaction, row)
        if self.removed.messages:
            total = self.marks.removed_messages + self.removed.messages
            self.marks = msgspec.structs.replace(self.marks, removed_messages=total)
            put_marks(environment, transaction, self.marks)

    def _put_topics(self) -> None:
        rows = [moved_row(moved) for moved in self.moved.values()]
        rows += [(name_key(n), pack_topic(each.state)) for n, each in self.changed.items()]
        if rows:
            rows.sort()  # neighbours share pages
            self.transaction.cursor(self.parts.environment["topics"]).putmulti(rows)

    def _touched(self) -> Iterator[OpenBlock]:
        return (each for each in self.blocks.blocks if each.row.summary.number in self._dead)

    def take_over(self) -> None:
        """Let memory follow the transaction, and files."""
        topics = self.parts.topics
        with topics.lock:
            for state, first_offset, size in self.moved.values():
                state.first_offset, state.bytes = first_offset, size
            for name, changed in self.changed.items():
                known = topics.get(name)
                if known is not None:
                    known.first_offset = changed.state.first_offset
                    known.bytes = changed.state.bytes
                if changed.changes:
                    topics.set_deleted(name, changed.deleted)
        self._tell_folds()
        for topic_id, dropped in self.freed.items():
            if dropped is None:
                del self.parts.dropped[topic_id]
            else:
                self.parts.dropped[topic_id] = dropped
        self._take_over_blocks()

    def _tell_folds(self) -> None:
        """Let folds that run, or come, know what to leave out."""
        tail, marks = self.parts.tail, self.marks
        tail.cuts.update(self.cuts)
        if marks.converted < marks.indexed:
            tail.moved.update({topic_id: moved[1] for topic_id, moved in self.moved.items()})
            states = (changed.state for changed in self.changed.values())
            tail.moved.update({state.id: state.first_offset for state in states})

    def _take_over_blocks(self) -> None:
        if not self._dead:
            return
        fresh = [OpenBlock(self.row(each), each.block) for each in self._touched()]
        gone = {each.row.summary.number for each in fresh if each.row.is_dead}
        self.parts.blocks.replace(fresh, gone)


def _deleted_bytes(deleted: Ranges, end: int, groups: Iterable[StoredGroup]) -> int:
    """Bytes of the deleted messages below ``end``, which may be in the middle of a range."""
    size = 0
    for first, stop, range_size in zip(deleted.firsts, deleted.ends, deleted.sizes, strict=True):
        if stop <= end:
            size += range_size
        elif first < end:
            size += sum(
                found.bytes_within(max(first, found.first_offset), min(end, found.next_offset))
                for found in groups
                if found.first_offset < end and found.next_offset > first
            )
        else:
            break
    return size
