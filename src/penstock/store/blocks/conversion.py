"""Converting entries of earlier versions: they become blocks, oldest first, while a broker runs.

Those versions kept every entry in ``journal`` with references on disk, in ``index``, up to the mark
``indexed``. Entries after ``converted`` are still like that: the *zone*. Each job folds some of the
oldest, registers the block with the new mark, and deletes the entries. With the last of them the
references go, too. New entries are folded meanwhile, beyond the zone.
"""

from collections.abc import Callable, Iterator
from itertools import islice

import msgspec

from penstock.obs.log import get_logger
from penstock.store.blocks.block import BlockSummary
from penstock.store.blocks.fold import Fold
from penstock.store.blocks.folder import Folder, FoldJob
from penstock.store.blocks.registry import Blocks, OpenBlock
from penstock.store.blocks.tail_folding import ENTRIES_PER_STEP, TailFolding, block_row, folded
from penstock.store.environment import Environment, Transaction
from penstock.store.journal import JournalCursor
from penstock.store.marks import Marks, StorePosition, put_marks

ROWS_PER_STEP = 4_096  # rows of the index that one step deletes

_log = get_logger("store")


class Conversion:
    """Jobs that convert the zone. Calls ``moved`` when the zone has become smaller."""

    def __init__(
        self,
        environment: Environment,
        position: StorePosition,
        blocks: Blocks,
        folder: Folder,
        tail: TailFolding,
        moved: Callable[[], None],
    ) -> None:
        self._environment = environment
        self._position = position
        self._blocks = blocks
        self._folder = folder
        self._tail = tail
        self._moved = moved
        self._is_index_gone = False  # nothing is ever added to it

    @property
    def is_over(self) -> bool:
        marks = self._position.marks
        return marks.converted >= marks.indexed

    def begin(self, last_index: int, *, is_pressed: bool) -> Iterator[bool] | None:
        del is_pressed
        marks = self._position.marks
        end = min(last_index, marks.indexed)
        if marks.converted >= marks.indexed:
            self._is_index_gone = self._is_index_gone or not self._is_index_left()
            return None if self._is_index_gone else self._delete_index()
        if marks.converted >= end:
            return None  # a start may need what comes next
        return self._convert(end)

    def _convert(self, end: int) -> Iterator[bool]:
        fold = self._next_fold(end)
        self._tail.moved.clear()
        summary = None
        if fold.end_sequence > fold.base_sequence:
            job = FoldJob(fold, (), fold.first_index, fold.last_index, is_settled=True)
            summary = yield from folded(self._folder, job)
        with self._blocks.unless_registered(fold.number):
            self._register(summary, fold)
        yield from self._delete_entries()

    def _next_fold(self, end: int) -> Fold:
        """The oldest entries of the zone, as many as make a block."""
        first = self._position.marks.converted + 1
        base = last_sequence = size = 0
        last = end
        with self._environment.reading() as transaction:
            for entry in JournalCursor(self._environment, transaction, None).after(first - 1):
                size += len(entry.buffer)
                if entry.index > end or (last_sequence and size > self._tail.block_bytes):
                    last = entry.index - 1
                    break
                base = base or entry.base_sequence
                last_sequence = entry.end_sequence
        return self._blocks.fold((base, last_sequence), (first, min(last, end)))

    def _register(self, summary: BlockSummary | None, fold: Fold) -> None:
        old = self._position.marks
        compacted = max(old.compacted, fold.last_index)
        marks = msgspec.structs.replace(old, converted=fold.last_index, compacted=compacted)
        fresh = []
        if summary is not None:
            block = self._blocks.files.open(summary)
            row = block_row(block, self._tail.moved)
            fresh += [] if row.is_dead else [OpenBlock(row, block)]

        def job(transaction: Transaction) -> Marks:
            for each in fresh:
                self._blocks.put(self._environment, transaction, each.row)
            put_marks(self._environment, transaction, marks)
            return marks

        self._position.marks, _ = self._environment.write(0, job)
        self._blocks.replace(fresh)
        if summary is not None and not fresh:
            self._blocks.files.remove(summary.number)
        self._moved()
        _log.info("journal_converted", entry=fold.last_index, of=old.indexed)

    def _delete_entries(self) -> Iterator[bool]:
        converted = self._position.marks.converted

        def job(transaction: Transaction) -> bool:
            cursor = JournalCursor(self._environment, transaction, None)
            found = list(islice(cursor.keys_after(0), ENTRIES_PER_STEP))
            gone = [key for key, index in found if index <= converted]
            for key in gone:
                transaction.delete(key, db=self._environment["journal"])
                transaction.delete(key, db=self._environment["live"])
            return len(gone) == ENTRIES_PER_STEP

        while self._environment.write(0, job)[0]:
            yield True

    def _is_index_left(self) -> bool:
        with self._environment.reading() as transaction:
            left = transaction.stat(self._environment["index"])["entries"]
            return bool(left)

    def _delete_index(self) -> Iterator[bool]:
        def job(transaction: Transaction) -> bool:
            cursor = transaction.cursor(self._environment["index"])
            found = cursor.first()
            for _ in range(ROWS_PER_STEP):
                if not found:
                    return False
                found = cursor.delete()
            return True

        while self._environment.write(0, job)[0]:
            yield True
