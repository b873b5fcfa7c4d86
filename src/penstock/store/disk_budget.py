"""Room for the next commit: the store does not exceed its total; commits wait instead.

Each commit first checks how much is stored (pages in use, of what retention can free), and removes
the oldest entries until it fits, on a follower of a cluster too. Far from the total nothing is
measured (``_unseen``). After a commit a slice of the work is done in advance, and once started it
goes on until there is room for many commits.

Commits do not wait for what cannot be removed: entries that a start would replay, topics that are
kept. If the limit was lowered, each commit frees twice what it adds; retention does the rest.

**The file** never shrinks, and is larger than what is in use, because LMDB copies each page that it
changes. If it grows at the limit, three times that growth is kept free from then on.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from penstock.errors import StorageError
from penstock.limits import KIB, MIB
from penstock.store.batch import Batch
from penstock.store.environment import DATABASES, RUNWAY_BYTES, Environment
from penstock.store.index import ROUND_BYTES, MemoryIndex
from penstock.store.retention import FREEABLE
from penstock.store.store import RetentionRequest, RetentionResult

ENTRY_BYTES_PER_MESSAGE = 32
ENTRY_BYTES_PER_GROUP = 256  # generous estimates of the overhead of an entry

SPARE_BYTES = 4 * MIB  # kept free for copies of pages, or a quarter of a small total

# databases that do not shrink when messages are removed
FIXED = tuple(name for name in DATABASES if name not in FREEABLE)

GROWTH_BYTES = 64 * KIB  # what a commit may add besides twice its size: index pages, rows, marks

SHARE_MIN_BYTES = 64 * KIB  # smallest part of the total that is used as a unit


class _Removing(Protocol):
    """Removes one slice towards a total."""

    def __call__(self, request: RetentionRequest, total: int) -> RetentionResult: ...


class DiskBudget:
    """Keeps the store within its total. ``flush`` returns whether it wrote more of the index."""

    def __init__(
        self,
        environment: Environment,
        memory: MemoryIndex,
        remove: _Removing,
        flush: Callable[[], bool],
    ) -> None:
        self._environment = environment
        self._memory = memory
        self._remove = remove
        self._flush = flush
        self._request: RetentionRequest | None = None
        self._total = 0  # 0: no limit is known
        self._spare = 0  # part of the total that is kept free, so that the file does not grow
        self._end = 0  # largest size of the file, without what retention cannot free
        self._size = 0  # of the last commit
        self._is_going_on = False  # whether removal in advance is under way
        # bytes that may be written before the store is measured again, which takes a tenth of the
        # time of a small commit
        self._unseen = 0

    def keep_to(self, request: RetentionRequest) -> None:
        self._request = request
        total = request.rules.total_bytes_max or 0
        if total != self._total:
            self._total, self._spare = total, min(total // 4, SPARE_BYTES)
            self._end = self._ends_at()
            self._unseen = 0
            share = max(total // 16, SHARE_MIN_BYTES) if total else ROUND_BYTES
            self._memory.round_bytes = min(ROUND_BYTES, share)
            self._environment.runway_bytes = min(RUNWAY_BYTES, share // 4)

    def before(self, size: int) -> None:
        """Make room for a commit of ``size`` bytes, as far as anything can be removed."""
        self._size = size
        self._unseen -= 2 * size + GROWTH_BYTES
        if self._request is None or not self._total or self._unseen > 0:
            return
        used = self._used()
        total = max(self._goal - size, used - 2 * size)
        try:
            while used > total and self._go_on(self._request, total):
                used = self._used()
        except StorageError:
            return  # the commit meets it again, if it lasts

    def _go_on(self, request: RetentionRequest, total: int) -> bool:
        """Remove a slice, or flush so that more can be removed; return whether it did either."""
        removed = self._remove(request, total)
        return bool(removed.entries or removed.more) or self._flush()

    def after(self) -> None:
        """Remove a slice in advance, if the next commits would have to wait for it."""
        if self._request is None or not self._total or self._unseen > 0:
            return
        self._watch_file()
        share = self._total // 32
        used, soon = self._used(), self._goal - min(4 * self._size, share)
        self._unseen = min(self._goal - share - used, 2 * share)
        enough = self._goal - min(64 * self._size, share)
        if used > (enough if self._is_going_on else soon):
            self._is_going_on = self._go_on(self._request, enough)
        else:
            self._is_going_on = False

    @property
    def _goal(self) -> int:
        return self._total - self._spare

    def _watch_file(self) -> None:
        end = self._ends_at()
        grown = end - max(self._end, self._total + self._total // 16)
        if grown > 0:
            self._spare = min(self._spare + 3 * grown, self._total // 2)
        self._end = max(self._end, end)

    def _ends_at(self) -> int:
        with self._environment.reading() as transaction:
            fixed = self._environment.used_bytes(transaction, FIXED)
        return self._environment.end_bytes - fixed

    def _used(self) -> int:
        with self._environment.reading() as transaction:
            return self._environment.used_bytes(transaction, FREEABLE)


def row_bytes(rows: Sequence[tuple[str, bytes, bytes | None]]) -> int:
    return sum(len(name) + len(value or b"") for _, name, value in rows)


def bytes_expected(batch: Batch) -> int:
    """Upper bound of what a commit adds."""
    return (
        batch.payload_bytes
        + row_bytes(batch.rows)
        + len(batch.drops) * ENTRY_BYTES_PER_GROUP
        + batch.count * ENTRY_BYTES_PER_MESSAGE
        + len(batch.topics) * ENTRY_BYTES_PER_GROUP
    )
