"""Folding the tail: its oldest entries become a block, in steps between commits.

1. A *job* is started once enough entries have gathered that no start and no other node needs. It
   runs in the background (folder.py) and ends with a file on disk.
2. The rows of the topics in these entries are put, a slice at a time.
3. One transaction registers the block and moves the marks. From here on readers find the messages
   in the block.
4. The entries are deleted, and their references leave memory, a slice at a time.

A crash before the third step leaves a file that a start removes, one after it leaves entries that a
start deletes. Nothing is ever missing, and nothing is found twice: offsets tell.
"""

from collections.abc import Generator, Iterable, Iterator, Mapping
from itertools import islice

import msgspec

from penstock.errors import StorageError
from penstock.limits import BLOCK_BYTES
from penstock.store.blocks.block import Block, BlockSummary
from penstock.store.blocks.fold import Fold
from penstock.store.blocks.folder import Folder, FoldJob
from penstock.store.blocks.registry import BlockRow, Blocks, OpenBlock, dead_in
from penstock.store.environment import Environment, Transaction
from penstock.store.index import MemoryIndex
from penstock.store.journal import JournalCursor
from penstock.store.marks import Marks, StorePosition, put_marks
from penstock.store.topics import StoredTopic, TopicStates, put_topic

# Entries and references that wait for folding: they bound memory and the work of a start.
ENTRIES_MAX = 16_384
REFERENCES_MAX = 131_072

# A block of less than this part of all that is too small to be worth a fold: it waits for more.
BLOCK_SHARE = 8

TOPICS_PER_STEP = 2_048  # rows of topics that one step puts: some milliseconds
ENTRIES_PER_STEP = 2_048  # entries that one step deletes


class TailFolding:
    """Makes blocks of the tail, without what is removed or dropped. Writer thread."""

    def __init__(
        self,
        environment: Environment,
        memory: MemoryIndex,
        topics: TopicStates,
        position: StorePosition,
        blocks: Blocks,
        folder: Folder,
        dropped: Iterable[int],
    ) -> None:
        self._environment = environment
        self._memory = memory
        self._topics = topics
        self._position = position
        self._blocks = blocks
        self._folder = folder
        self._dropped = dropped
        self.block_bytes = BLOCK_BYTES
        # first living offsets, by topic id, of topics of whose tail retention has removed some
        self.cuts: dict[int, int] = {}
        # the same for all topics, while entries of an earlier version are converted
        self.moved: dict[int, int] = {}
        # entries up to these are too few for such a share of a block, when last looked at
        self._scarce: dict[int, int] = {}
        # whether entries may have been left that a block contains: a crash came in between
        self._is_leftover = True

    def removed(self, topic_id: int, first_offset: int) -> None:
        """Retention removed a topic's messages below an offset: folds leave them out."""
        if self._memory.holds(topic_id):
            self.cuts[topic_id] = first_offset
        marks = self._position.marks
        if marks.converted < marks.indexed:
            self.moved[topic_id] = first_offset

    def recover(self) -> None:
        """Learn at a start which messages of the tail were removed."""
        for topic_id, first_offset in self._memory.first_offsets().items():
            state = self._topics.by_id(topic_id)
            if state is not None and state.first_offset > first_offset:
                self.cuts[topic_id] = state.first_offset

    @property
    def is_due(self) -> bool:
        """Whether enough has gathered, whether or not it may be folded yet: see ``has_share``."""
        memory = self._memory
        return (
            memory.bytes >= self.block_bytes
            or len(memory.entries) >= ENTRIES_MAX
            or memory.references >= REFERENCES_MAX
        )

    def has_share(self, last_index: int, share: int = BLOCK_SHARE) -> bool:
        """Whether the entries up to one make such a share of a block, which is worth a fold.

        Else every entry would become a block where a start, or another node, needs most of a long
        tail, or where the total consists of what is kept.
        """
        if last_index == self._scarce.get(share):
            return False  # what was folded since made them fewer
        size = references = 0
        for number, entry in enumerate(self._memory.entries, 1):
            if entry.entry_index > last_index:
                break
            size, references = size + entry.bytes, references + entry.references
            if (
                size * share >= self.block_bytes
                or number * share >= ENTRIES_MAX
                or references * share >= REFERENCES_MAX
            ):
                return True
        self._scarce[share] = last_index
        return False

    def begin(self, last_index: int, *, is_pressed: bool) -> Iterator[bool] | None:
        """The steps of the next job, on entries up to ``last_index``; None if none is due.

        ``is_pressed``: fold whatever there is.
        """
        self._is_leftover = self._is_leftover and self._has_leftover()
        if self._is_leftover:
            return self.delete_entries()
        if not is_pressed and not (self.is_due and self.has_share(last_index)):
            return None
        last = self._last_of_block(last_index)
        return self._fold(*last) if last is not None else None

    def _last_of_block(self, last_index: int) -> tuple[int, int] | None:
        """Index of the last entry for a block, and the sequence after it."""
        size, found = 0, None
        self._memory.forget_entries(self._position.marks.flushed_index)  # after a failure
        for entry in self._memory.entries:
            size += entry.bytes
            if entry.entry_index > last_index or (found and size > self.block_bytes):
                break
            found = entry.entry_index, entry.end_sequence
        return found

    def _fold(self, last_index: int, end_sequence: int) -> Iterator[bool]:
        marks = self._position.marks
        first = marks.flushed_index + 1
        sequences = marks.flushed_sequence, end_sequence
        dropped = filter(self._memory.holds, self._dropped)
        fold = self._blocks.fold(sequences, (first, last_index), self.cuts, dropped)
        summary = None
        self._environment.settle()  # another process reads what is folded
        if end_sequence > marks.flushed_sequence:
            summary = yield from folded(
                self._folder, FoldJob(fold, first_index=first, last_index=last_index)
            )
        topic_ids = self._memory.topic_ids(last_index)
        with self._blocks.unless_registered(fold.number):
            yield from self._put_topics(topic_ids)
            self._is_leftover = True
            self._register(summary, fold)
        yield from self._forget(topic_ids, last_index)
        yield from self.delete_entries()

    def _put_topics(self, topic_ids: list[int]) -> Iterator[bool]:
        for some in _slices(topic_ids, TOPICS_PER_STEP):
            states = [state for state in map(self._topics.by_id, some) if state is not None]

            def job(transaction: Transaction, states: list[StoredTopic] = states) -> None:
                for state in states:
                    put_topic(self._environment, transaction, state)

            self._environment.write(0, job)
            self._topics.have_rows(states)
            yield True

    def _register(self, summary: BlockSummary | None, fold: Fold) -> None:
        before = self._position.marks
        marks = msgspec.structs.replace(
            before,
            next_topic_id=self._topics.next_id,
            flushed_index=fold.last_index,
            flushed_sequence=fold.end_sequence,
            compacted=max(before.compacted, fold.last_index),
        )
        made = self._opened(summary, fold) if summary is not None else None
        fresh = [made] if made is not None and not made.row.is_dead else []

        def job(transaction: Transaction) -> Marks:
            for each in fresh:
                self._blocks.put(self._environment, transaction, each.row)
            put_marks(self._environment, transaction, marks)
            return marks

        self._position.marks, _ = self._environment.write(0, job)
        self._blocks.replace(fresh)
        if summary is not None and not fresh:
            self._blocks.files.remove(summary.number)

    def _opened(self, summary: BlockSummary, fold: Fold) -> OpenBlock:
        """A new block; what was removed while it was made is dead in it.

        Not so what was dropped: that is counted with the record of the topic (dropped_freeing.py).
        """
        block = self._blocks.files.open(summary)
        moved = {i: cut for i, cut in self.cuts.items() if cut > fold.cuts.get(i, 0)}
        return OpenBlock(block_row(block, moved), block)

    def _forget(self, topic_ids: list[int], last_index: int) -> Iterator[bool]:
        """Let references leave memory; the topics' rows equal their states unless more came."""
        for some in _slices(topic_ids, TOPICS_PER_STEP):
            self._memory.forget(some, last_index)
            yield True
        self._memory.forget_entries(last_index)
        held = set(self._memory.topic_ids())
        for some in _slices(topic_ids, TOPICS_PER_STEP):
            with self._topics.lock:
                for state in map(self._topics.by_id, some):
                    if state is not None and state.id not in held:
                        self._topics.idle(state)
            yield True
        held = set(self._memory.topic_ids())  # commits may have come meanwhile
        self.cuts = {i: cut for i, cut in self.cuts.items() if i in held}
        self._topics.evict(held)

    def _has_leftover(self) -> bool:
        with self._environment.reading() as transaction:
            return bool(self._leftover(transaction, 1))

    def _leftover(self, transaction: Transaction, count_max: int) -> list[bytes]:
        """Keys of entries that blocks contain, after those that are not converted."""
        marks = self._position.marks
        after = marks.indexed if marks.converted < marks.indexed else 0
        cursor = JournalCursor(self._environment, transaction, None)
        found = islice(cursor.keys_after(after), count_max)
        return [key for key, index in found if index <= marks.flushed_index]

    def delete_entries(self) -> Iterator[bool]:
        """Delete the entries that blocks contain."""

        def job(transaction: Transaction) -> bool:
            journal = self._environment["journal"]
            gone = self._leftover(transaction, ENTRIES_PER_STEP)
            for key in gone:
                transaction.delete(key, db=journal)
            return len(gone) == ENTRIES_PER_STEP

        while self._environment.write(0, job)[0]:
            yield True
        self._is_leftover = False


def folded(folder: Folder, job: FoldJob) -> Generator[bool, None, BlockSummary]:
    """Run a job in the background, yielding False while it runs; raises a StorageError."""
    folder.start(job)
    while (answer := folder.result()) is None:
        yield False
    if isinstance(answer, StorageError):
        raise answer
    return answer


def block_row(block: Block, moved: Mapping[int, int]) -> BlockRow:
    """The row of a new block; what lies below a topic's new first offset is dead in it."""
    row = BlockRow(block.summary)
    for topic_id, cut in sorted(moved.items()):  # as the parts have them: each is decoded once
        row = row.without(*dead_in(block, topic_id, cut))
    return row


def _slices(topic_ids: list[int], size: int) -> Iterator[list[int]]:
    for start in range(0, len(topic_ids), size):
        yield topic_ids[start : start + size]
