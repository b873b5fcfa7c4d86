"""Room for the next commit: a store does not outgrow its total, commits wait instead.

Retention runs every now and then, and between commits. Publishers may be faster than that. So each
commit first looks at how much is stored (pages in use, of what retention can free), and removes the
oldest entries until it fits. Who waits for the commit waits for that, too, and so publishers are
slowed down to what retention can do. The same on every node of a cluster: a follower makes room
before it writes what the leader sends.

Three things keep this from costing much. Far from the total nothing is measured: what commits can
have added since the last look is known well enough (``_unseen``). After a commit, when nobody
waits, a slice of the work is done in advance. And once begun it goes on until there is room for
many commits, because the row of a topic is written once per slice, however many entries the slice
removes.

What cannot be removed is not waited for: entries that a start would replay, topics that are kept
whole. If there is more than the total allows already (it was made smaller), each commit frees twice
what it adds; the rest is left to retention.

**The file** never becomes shorter, and is larger than what is in use: LMDB copies each page that it
changes, and frees the old one for use after the next commit. How many those are depends on how many
topics one commit touches. So the file is watched, too. If it grows although as much is stored as
may be, less will be: three times what it grew by is kept free from then on.
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
ENTRY_BYTES_PER_GROUP = 256
"""Generous estimates of what an entry needs beside its payloads."""

SPARE_BYTES = 4 * MIB
"""Room that stays free for copies of pages, or a quarter of a small total."""

FIXED = tuple(name for name in DATABASES if name not in FREEABLE)
"""The databases of which no message that is removed makes anything free."""

GROWTH_BYTES = 64 * KIB
"""What a commit may add beside twice its size: pages of the index, rows, marks."""

SHARE_MIN_BYTES = 64 * KIB
"""Least part of the total that is worth to be looked at by itself."""


class _Removing(Protocol):
    """What does the removing: one slice towards a total."""

    def __call__(self, request: RetentionRequest, total: int) -> RetentionResult: ...


class DiskBudget:
    """Sees to it that there is room. Writer thread only.

    ``flush`` writes more of the index, if that lets more entries go, and tells whether it did.
    """

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
        self._total = 0
        """How much may be stored; 0: no limit is known."""
        self._spare = 0
        """How much of the total stays free, lest the file grow."""
        self._end = 0
        """Where the file ended at its longest, without what retention cannot free."""
        self._size = 0
        """Of the last commit."""
        self._is_going_on = False
        """Whether removing in advance has begun and is not done."""
        self._unseen = 0
        """How much more may be written before the store is measured again: that takes as long as a
        tenth of a small commit, and far from the total nothing depends on it."""

    def keep_to(self, request: RetentionRequest) -> None:
        """Keep to the total of these rules from now on."""
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
        """Make room for a commit of so many bytes, as far as there is anything to remove."""
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
        """Remove some, or let more be removed; tell whether there is anything."""
        removed = self._remove(request, total)
        return bool(removed.entries or removed.more) or self._flush()

    def after(self) -> None:
        """Remove some in advance, if the next commits would have to wait for it."""
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
        """Store less, if the file grows though it need not."""
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
    """Bytes that rows of the checkpoint take."""
    return sum(len(name) + len(value or b"") for _, name, value in rows)


def bytes_expected(batch: Batch) -> int:
    """Bytes that a commit will take, or some more."""
    return (
        batch.payload_bytes
        + row_bytes(batch.rows)
        + len(batch.drops) * ENTRY_BYTES_PER_GROUP
        + batch.count * ENTRY_BYTES_PER_MESSAGE
        + len(batch.groups) * ENTRY_BYTES_PER_GROUP
    )
