"""Room for the next commit: the store does not exceed its total; commits wait instead.

On disk are the files of the blocks and LMDB's file. Blocks are what can be removed, so the total is
kept by removing the oldest, on a follower of a cluster too. LMDB's file has the tail and never
shrinks: it stays small because a commit waits while the tail has more than ``TAIL_BLOCKS`` blocks'
worth of entries that could be folded.

Far from the total nothing is measured (``_unseen``). After a commit a slice of the work is done in
advance, so that the next commits need not wait. Commits do not wait for what cannot be removed:
entries that a start would replay, topics that are kept. If the limit was lowered, each commit frees
twice what it adds; retention does the rest.
"""

from collections.abc import Sequence
from typing import Protocol

from penstock.errors import StorageError
from penstock.limits import KIB
from penstock.store.batch import Batch
from penstock.store.blocks.registry import Blocks
from penstock.store.blocks.tail_folding import REFERENCES_MAX, TailFolding
from penstock.store.environment import DATABASES, RUNWAY_BYTES, Environment
from penstock.store.index import MemoryIndex
from penstock.store.store import RetentionRequest, RetentionResult

ENTRY_BYTES_PER_MESSAGE = 32
ENTRY_BYTES_PER_GROUP = 256  # generous estimates of the overhead of an entry

BLOCKS_PER_TOTAL = 16  # a small total is divided into so many blocks
BLOCK_BYTES_MIN = 256 * KIB

TAIL_BLOCKS = 3  # one that is folded, one that gathers, one for pages that LMDB copies

# databases of the tail, which shrink when entries are folded or removed
FREEABLE = ("journal", "index", "live", "deleted")

# databases that do not shrink when messages are removed
FIXED = tuple(name for name in DATABASES if name not in FREEABLE)

GROWTH_BYTES = 64 * KIB  # what a commit may add besides twice its size: rows, marks


class _Removing(Protocol):
    """Removes one slice of the oldest blocks, towards so many bytes of files."""

    def __call__(self, request: RetentionRequest, total: int) -> RetentionResult: ...


class _Folding(Protocol):
    """Does a step of folding; ``is_short``: even of entries that other nodes may need.

    ``is_any``: even if it makes a small block.
    """

    def __call__(self, *, is_short: bool = False, is_any: bool = False) -> bool: ...


class DiskBudget:
    """Keeps the store within its total. ``fold`` does a step of folding, and waits for it."""

    def __init__(
        self,
        environment: Environment,
        memory: MemoryIndex,
        blocks: Blocks,
        tail: TailFolding,
        remove: _Removing,
        fold: _Folding,
    ) -> None:
        self._environment = environment
        self._memory = memory
        self._blocks = blocks
        self._tail = tail
        self._remove = remove
        self._fold = fold
        self._block_bytes_max = tail.block_bytes
        self._request: RetentionRequest | None = None
        self._total = 0  # 0: no limit is known
        # bytes that may be written before the store is measured again, which takes a tenth of the
        # time of a small commit
        self._unseen = 0

    def keep_to(self, request: RetentionRequest) -> None:
        self._request = request
        total = request.rules.total_bytes_max or 0
        if total != self._total:
            self._total, self._unseen = total, 0
            share = max(total // BLOCKS_PER_TOTAL, BLOCK_BYTES_MIN) if total else RUNWAY_BYTES * 4
            self._tail.block_bytes = min(self._block_bytes_max, share)
            self._environment.runway_bytes = min(RUNWAY_BYTES, share // 4)

    @property
    def has_room(self) -> bool:
        """Whether a small commit need not wait for anything to be measured, folded or removed."""
        is_seen = not self._total or self._unseen > 2 * GROWTH_BYTES
        return is_seen and not self._is_tail_long

    @property
    def _is_tail_long(self) -> bool:
        return (
            self._memory.bytes > TAIL_BLOCKS * self._tail.block_bytes
            or self._memory.references > TAIL_BLOCKS * REFERENCES_MAX
        )

    def before(self, size: int) -> None:
        """Make room for a commit of ``size`` bytes, as far as anything can be removed."""
        self._unseen -= 2 * size + GROWTH_BYTES
        try:
            while self._is_tail_long and self._fold():
                pass
            if self._request is None or not self._total or self._unseen > 0:
                return
            self._make_room(self._request, size)
        except StorageError:
            return  # the commit meets it again, if it lasts

    def _make_room(self, request: RetentionRequest, size: int) -> None:
        used = self.used()
        goal = max(self._total - size, used - 2 * size)
        while used > goal and self._shrink(request, used - goal):
            used = self.used()

    def shrink(self) -> bool:
        """Do a step towards the total, though nothing is written; return whether it did."""
        if self._request is None or not self._total:
            return False
        excess = self.used() - self._total
        return excess > 0 and self._shrink(self._request, excess, is_any=True)

    def _shrink(self, request: RetentionRequest, excess: int, *, is_any: bool = False) -> bool:
        """Remove a slice, or fold so that more can be removed; return whether it did either.

        ``is_any``: no commit waits, so a small block may be made.
        """
        removed = self._remove(request, max(self._blocks.current.file_bytes - excess, 0))
        return bool(removed.messages or removed.more) or self._fold(is_short=True, is_any=is_any)

    def after(self) -> None:
        """Remove a slice in advance, if the next commits would have to wait for it."""
        if self._request is None or not self._total or self._unseen > 0:
            return
        share = self._tail.block_bytes
        excess = self.used() - (self._total - share)
        self._unseen = min(-excess // 2, share)
        if excess > 0:
            self._remove(self._request, max(self._blocks.current.file_bytes - excess, 0))

    def used(self) -> int:
        """Bytes on disk that count: blocks, and the file of the tail without fixed rows.

        A file that an earlier version has left large counts with what is in use.
        """
        with self._environment.reading() as transaction:
            fixed = self._environment.used_bytes(transaction, FIXED)
            tail = self._environment.used_bytes(transaction, FREEABLE)
        block_bytes = max(self._tail.block_bytes, BLOCK_BYTES_MIN)
        tail_max = max(tail, TAIL_BLOCKS * block_bytes * 2)
        tail = max(tail, min(self._environment.end_bytes - fixed, tail_max))
        return self._blocks.current.file_bytes + tail


def row_bytes(rows: Sequence[tuple[str, bytes, bytes | None]]) -> int:
    return sum(len(name) + len(value or b"") for _, name, value in rows)


def bytes_expected(batch: Batch) -> int:
    """Upper bound of what a commit adds."""
    return (
        batch.payload_bytes
        + (row_bytes(batch.rows) if batch.rows else 0)
        + len(batch.drops) * ENTRY_BYTES_PER_GROUP
        + batch.count * ENTRY_BYTES_PER_MESSAGE
        + len(batch.topics) * ENTRY_BYTES_PER_GROUP
    )
