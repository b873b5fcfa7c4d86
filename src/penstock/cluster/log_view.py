"""The stable log as the Raft core sees it: entries of the store, with their terms.

The newest entries stay in memory: the core reads each once more when it is committed, and those
that a follower lacks, which is seldom far behind. Older ones are read from disk.
"""

from collections import deque
from collections.abc import Sequence

from penstock.cluster.record import RaftRecord, term_of
from penstock.raft.types import (
    Compacted,
    ConfState,
    EntriesUnavailable,
    EntryKind,
    HardState,
    RaftEntry,
    SnapshotMeta,
)
from penstock.store.store import LogStore

RECENT_BYTES_MAX = 16 << 20
RECENT_ENTRIES_MAX = 1_024  # entries that are kept in memory; at least the last one


class StoreLog:
    """A ``LogView`` on store and record. ``last_index`` moves when the core hears of a write."""

    def __init__(self, store: LogStore, record: RaftRecord) -> None:
        self._store = store
        self._record = record
        self._last = store.last_index
        self._commit = store.next_index - 1
        self._recent: deque[RaftEntry] = deque()
        self._recent_bytes = 0

    def initial_state(self) -> tuple[HardState, ConfState]:
        """Everything that is applied is committed, whatever the record says."""
        record = self._record
        return HardState(record.term, record.vote, self._commit), record.conf

    def first_index(self) -> int:
        """The first entry of the store, or that the core has yet to hear of.

        On a lone node retention may be ahead of the core, which hears of entries in bulk. With
        peers it waits for the core. There what is gone from the store is gone: its terms are
        forgotten, and a follower would be probed forever for an entry of term 0.
        """
        first = self._store.first_index
        if not self._record.is_alone():
            return first
        recent = self._recent
        return min(first, recent[0].index if recent else self._last + 1)

    def last_index(self) -> int:
        return self._last

    def term(self, index: int) -> int:
        if index > self._last:
            raise EntriesUnavailable(f"the log ends with entry {self._last}")
        if index < self.first_index() - 1:
            raise Compacted(f"the log begins with entry {self.first_index()}")
        return term_of(self._record.terms, index)

    def entries(self, low: int, high: int, bytes_max: int) -> tuple[RaftEntry, ...]:
        if high > self._last + 1:
            raise EntriesUnavailable(f"the log ends with entry {self._last}")
        if low < self.first_index():
            raise Compacted(f"the log begins with entry {self.first_index()}")
        recent = self._recent
        if recent and low >= recent[0].index:
            start = low - recent[0].index
            return _bounded([recent[n] for n in range(start, start + high - low)], bytes_max)
        try:
            found = self._store.log_entries(low, high, bytes_max)
        except LookupError as error:
            raise Compacted(str(error)) from error
        terms = self._record.terms
        return tuple(
            [RaftEntry(term_of(terms, e.index), e.index, e.data, EntryKind(e.kind)) for e in found]
        )

    def snapshot(self) -> SnapshotMeta:
        """What is applied; the copy that is sent may have more."""
        index = self._record.applied
        return SnapshotMeta(index, term_of(self._record.terms, index), self._record.conf)

    def stable(self, entries: Sequence[RaftEntry]) -> None:
        """These are on disk, in place of what the log had from the first of them on."""
        if not entries:
            return
        recent = self._recent
        while recent and recent[-1].index >= entries[0].index:
            self._recent_bytes -= len(recent.pop().data)
        if recent and recent[-1].index != entries[0].index - 1:
            self.forget()
        recent.extend(entries)
        self._recent_bytes += sum([len(entry.data) for entry in entries])
        self._last = entries[-1].index
        self._shrink()

    def forget(self) -> None:
        """Read everything from disk: the entries in memory have no content."""
        self._recent.clear()
        self._recent_bytes = 0

    def _shrink(self) -> None:
        recent = self._recent
        while len(recent) > 1 and (
            self._recent_bytes > RECENT_BYTES_MAX or len(recent) > RECENT_ENTRIES_MAX
        ):
            self._recent_bytes -= len(recent.popleft().data)


def _bounded(entries: list[RaftEntry], bytes_max: int) -> tuple[RaftEntry, ...]:
    """As many as fit, at least one."""
    size = 0
    for count, entry in enumerate(entries):
        size += len(entry.data)
        if count and size > bytes_max:
            return tuple(entries[:count])
    return tuple(entries)
