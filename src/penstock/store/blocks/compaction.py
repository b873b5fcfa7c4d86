"""Folding blocks again, so that what is dead is freed and small blocks become large ones.

The fold leaves out what lies below its topic's first offset, as the topics' rows have it. What is
removed while it runs is dead in the new block: so many messages as it has more than were alive in
the old ones when it takes their place. That happens in one transaction; then the old files go.
"""

from collections.abc import Iterator, Mapping, Sequence

from penstock.errors import StorageDamaged
from penstock.store.blocks.block import BlockSummary
from penstock.store.blocks.choice import Candidate, blocks_to_fold
from penstock.store.blocks.folder import Folder, FoldJob
from penstock.store.blocks.registry import BlockRow, Blocks, OpenBlock, dead_in
from penstock.store.blocks.tail_folding import TailFolding, folded
from penstock.store.deletions import OFFSET_MAX
from penstock.store.dropped import Dropped
from penstock.store.environment import Environment, Transaction
from penstock.store.marks import StorePosition


class Compaction:
    """Jobs that make one block of several. Writer thread only."""

    def __init__(
        self,
        environment: Environment,
        blocks: Blocks,
        folder: Folder,
        position: StorePosition,
        tail: TailFolding,
        dropped: Mapping[int, Dropped],
    ) -> None:
        self._environment = environment
        self._blocks = blocks
        self._folder = folder
        self._position = position
        self._tail = tail
        self._dropped = dropped
        self._damaged: set[int] = set()  # numbers of blocks that cannot be folded again

    def begin(self, last_index: int, *, is_pressed: bool) -> Iterator[bool] | None:
        del last_index, is_pressed  # blocks wait for nothing
        numbers = set(blocks_to_fold(self._candidates(), self._tail.block_bytes))
        chosen = [b for b in self._blocks.current.blocks if b.row.summary.number in numbers]
        return self._fold(chosen) if chosen else None

    def _candidates(self) -> list[Candidate]:
        indexed = self._position.marks.indexed
        found: list[Candidate] = []
        is_before, is_beside_damage, base = True, False, 0
        for each in self._blocks.current.blocks:
            summary, dead = each.row.summary, each.row.dead_bytes
            was_before, is_before = is_before, summary.first_index <= indexed
            is_beside_damage |= any(
                base < unopened < summary.base_sequence for unopened in self._blocks.unopened
            )
            base = summary.base_sequence
            if summary.number in self._damaged:
                is_beside_damage = True
                continue
            follows = was_before == is_before  # entries that are not converted lie between
            alive = summary.payload_bytes - dead
            found.append(Candidate(summary.number, alive, dead, follows and not is_beside_damage))
            is_beside_damage = False
        return found

    def _fold(self, chosen: Sequence[OpenBlock]) -> Iterator[bool]:
        first, last = chosen[0].row.summary, chosen[-1].row.summary
        numbers = [each.row.summary.number for each in chosen]
        sequences = first.base_sequence, last.end_sequence
        fold = self._blocks.fold(sequences, (first.first_index, last.last_index))
        job = FoldJob(fold, tuple(numbers), is_settled=True)
        try:
            summary = yield from folded(self._folder, job)
        except StorageDamaged as error:
            self._damaged.update(_named(error, numbers))
            raise
        self._register(summary, numbers)

    def _register(self, summary: BlockSummary, numbers: list[int]) -> None:
        """Put the new block in the place of the old ones."""
        old = [b for b in self._blocks.current.blocks if b.row.summary.number in numbers]
        made = self._opened(summary, old)
        fresh = [] if made.row.is_dead else [made]

        def job(transaction: Transaction) -> None:
            for each in old:
                self._blocks.delete(self._environment, transaction, each.row)
            for each in fresh:
                self._blocks.put(self._environment, transaction, each.row)

        with self._blocks.unless_registered(summary.number):
            self._environment.write(0, job)
        self._blocks.replace(fresh, numbers)
        if not fresh:
            self._blocks.files.remove(summary.number)

    def _opened(self, summary: BlockSummary, old: Sequence[OpenBlock]) -> OpenBlock:
        """The new block, with as many alive as in the old ones.

        Dropped topics count as alive until their records go. The fold may have left them out.
        """
        block = self._blocks.files.open(summary)
        rows = [each.row for each in old]
        dead = summary.count - sum(row.summary.count - row.dead_messages for row in rows)
        size = summary.payload_bytes
        size -= sum(row.summary.payload_bytes - row.dead_bytes for row in rows)
        row = BlockRow(summary, dead, size)
        for _, state in self._dropped.values():
            for each in old:
                row = row.without(*dead_in(each.block, state.id, OFFSET_MAX, state.first_offset))
            messages, size = dead_in(block, state.id, OFFSET_MAX, state.first_offset)
            row = row.without(-messages, -size)
        return OpenBlock(row, block)


def _named(error: StorageDamaged, numbers: list[int]) -> list[int]:
    """The blocks that an error is about: damage costs one block, and not all work on the others."""
    return [number for number in numbers if f"{number:016x}" in error.message] or numbers
