"""The log of one participant: stable entries below, unstable ones above.

::

    index   1   2   3   4   5   6   7   8   9   10   11
            └ compacted ┘   └── stable ──┘   └ unstable ┘
                            first        offset-1       last

    applied ≤ applying ≤ committed ≤ last

Stable entries are on disk and are read through the ``LogView``. Unstable ones are here until they
are durable; up to ``in_progress`` they were handed out to be written. A leader with another log may
replace entries while they are being written. Then "index 12 is durable" may mean an entry 12 that
was replaced. So persistence is reported with the term of the last entry, and ignored if that does
not match.

A received snapshot is unstable in the same way, and stands for everything up to its index.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence

from penstock.raft.config import Trace, no_trace
from penstock.raft.errors import LogDamaged
from penstock.raft.types import Compacted, EntriesUnavailable, LogView, RaftEntry, SnapshotMeta


def data_size(entries: Sequence[RaftEntry]) -> int:
    return sum([len(entry.data) for entry in entries])


def _limited(
    entries: list[RaftEntry], start: int, stop: int, bytes_max: int
) -> tuple[RaftEntry, ...]:
    """As many entries as fit, at least one. Costs what is taken, not what there is."""
    size = 0
    for place in range(start, stop):
        size += len(entries[place].data)
        if size > bytes_max and place > start:
            return tuple(entries[start:place])
    return tuple(entries[start:stop])


class Unstable:
    """Entries from ``offset`` on, handed out before ``in_progress``, and perhaps a snapshot."""

    __slots__ = ("entries", "in_progress", "is_snapshot_in_progress", "offset", "snapshot", "trace")

    def __init__(self, offset: int, trace: Trace) -> None:
        self.offset = offset
        self.in_progress = offset
        self.entries: list[RaftEntry] = []
        self.snapshot: SnapshotMeta | None = None
        self.is_snapshot_in_progress = False
        self.trace = trace

    def term(self, index: int) -> int | None:
        """None if the entry is not here."""
        place = index - self.offset
        if place >= 0:
            return self.entries[place].term if place < len(self.entries) else None
        if self.snapshot is not None and self.snapshot.index == index:
            return self.snapshot.term
        return None

    def next_entries(self) -> tuple[RaftEntry, ...]:
        return tuple(self.entries[self.in_progress - self.offset :])

    def next_snapshot(self) -> SnapshotMeta | None:
        return None if self.is_snapshot_in_progress else self.snapshot

    def accept(self) -> None:
        self.in_progress = self.offset + len(self.entries)
        self.is_snapshot_in_progress = self.snapshot is not None

    def append(self, entries: Sequence[RaftEntry]) -> None:
        """Append entries, replacing what is there from the first of them on."""
        start = entries[0].index
        place = start - self.offset
        if place == len(self.entries):
            self.entries += entries
        elif place <= 0:
            self.trace("INFO", f"replace the unstable entries from index {start}")
            self.entries = list(entries)
            self.offset = self.in_progress = start
        else:
            self.trace("INFO", f"truncate the unstable entries before index {start}")
            self.entries[place:] = entries
            self.in_progress = min(self.in_progress, start)

    def stable_to(self, index: int, term: int) -> None:
        """Drop entries up to one that is durable, if it was not replaced meanwhile."""
        here = self.term(index)
        if here == term and index >= self.offset:
            del self.entries[: index + 1 - self.offset]
            self.offset = index + 1
            self.in_progress = max(self.in_progress, self.offset)
        else:
            self.trace("INFO", self._why_not(index, term, here))

    def _why_not(self, index: int, term: int, here: int | None) -> str:
        if here is None:
            return f"entry at index {index} missing from unstable log; ignoring"
        if index < self.offset:
            return f"entry at index {index} matched unstable snapshot; ignoring"
        return (
            f"entry at (index,term)=({index},{term}) mismatched with entry at "
            f"({index},{here}) in unstable log; ignoring"
        )

    def stable_snapshot_to(self, index: int) -> None:
        if self.snapshot is not None and self.snapshot.index == index:
            self.snapshot = None
            self.is_snapshot_in_progress = False

    def restore(self, snapshot: SnapshotMeta) -> None:
        self.offset = self.in_progress = snapshot.index + 1
        self.entries = []
        self.snapshot = snapshot
        self.is_snapshot_in_progress = False


class RaftLog:
    """All entries, and how far they are committed and applied.

    ``applying``: the last entry that was handed out to be applied. ``last_index`` and the range of
    equal terms at the end are cached, because every message needs them.
    """

    __slots__ = (
        "_applying_bytes",
        "_applying_bytes_max",
        "_handed_out",
        "_is_applying_paused",
        "_tail_start",
        "_tail_term",
        "applied",
        "applying",
        "committed",
        "last_index",
        "trace",
        "unstable",
        "view",
    )

    def __init__(self, view: LogView, applying_bytes_max: int, trace: Trace = no_trace) -> None:
        self.view = view
        self.trace = trace
        self.last_index = view.last_index()
        self.unstable = Unstable(self.last_index + 1, trace)
        self.committed = self.applying = self.applied = view.first_index() - 1
        self._tail_start = self.last_index
        self._tail_term = view.term(self.last_index)
        self._applying_bytes = 0
        self._applying_bytes_max = applying_bytes_max
        self._is_applying_paused = False
        self._handed_out: deque[tuple[int, int]] = deque()

    def __str__(self) -> str:
        """As etcd prints it."""
        unstable = self.unstable
        return (
            f"committed={self.committed}, applied={self.applied}, applying={self.applying}, "
            f"unstable.offset={unstable.offset}, unstable.offsetInProgress={unstable.in_progress}, "
            f"len(unstable.Entries)={len(unstable.entries)}"
        )

    def first_index(self) -> int:
        snapshot = self.unstable.snapshot
        return self.view.first_index() if snapshot is None else snapshot.index + 1

    @property
    def last_term(self) -> int:
        return self._tail_term

    def term(self, index: int) -> int:
        """Works for the entry before the first, too. Raises Compacted, EntriesUnavailable."""
        unstable = self.unstable.term(index)
        if unstable is not None:
            return unstable
        if index > self.last_index:
            raise EntriesUnavailable(index)
        if index < self.first_index() - 1:
            raise Compacted(index)
        return self._tail_term if index >= self._tail_start else self.view.term(index)

    def term_or_zero(self, index: int) -> int:
        try:
            return self.term(index)
        except (Compacted, EntriesUnavailable):
            return 0

    def matches(self, index: int, term: int) -> bool:
        try:
            return self.term(index) == term
        except (Compacted, EntriesUnavailable):
            return False

    def is_up_to_date(self, index: int, term: int) -> bool:
        """Whether a log that ends like this has all that ours may have committed."""
        return (term, index) >= (self._tail_term, self.last_index)

    def entries(self, low: int, bytes_max: int) -> tuple[RaftEntry, ...]:
        """Entries from ``low`` on: as many as fit, at least one if there is any."""
        return () if low > self.last_index else self._slice(low, self.last_index + 1, bytes_max)

    def _slice(self, low: int, high: int, bytes_max: int) -> tuple[RaftEntry, ...]:
        unstable = self.unstable
        offset = unstable.offset
        if low >= offset:
            return _limited(unstable.entries, low - offset, high - offset, bytes_max)
        if low < self.first_index():
            raise Compacted(low)
        cut = min(high, offset)
        stable = self.view.entries(low, cut, bytes_max)
        size = data_size(stable)
        if cut == high or len(stable) < cut - low or size >= bytes_max:
            return stable
        rest = _limited(unstable.entries, 0, high - offset, bytes_max - size)
        # ``_limited`` returns one even if it does not fit; here it is not the first.
        return stable if size + data_size(rest) > bytes_max else stable + rest

    def has_conf_change(self, low: int, high: int, bytes_max: int) -> bool:
        while low <= high:
            page = self._slice(low, high + 1, bytes_max)
            if any(entry.kind for entry in page):
                return True
            low = page[-1].index + 1
        return False

    def find_conflict_by_term(self, index: int, term: int) -> tuple[int, int]:
        """The last entry up to ``index`` whose term is at most ``term``, with its term.

        The logs cannot agree behind it. If it cannot be read: where reading ends, and term 0. A
        binary search, since terms only grow, and the log may be long and on disk.
        """
        first = self.first_index() - 1
        if not first <= index <= self.last_index:
            return index, 0
        at = first + bisect_right(range(first, index + 1), term, key=self.term) - 1
        return (at, self.term(at)) if at >= first else (max(at, 0), 0)

    def append(self, entries: Sequence[RaftEntry]) -> None:
        """Append entries, replacing what is there from the first of them on."""
        start = entries[0].index - 1
        if start < self.committed:
            raise LogDamaged(f"entry {start + 1} is committed (to {self.committed}) and must stay")
        if start < self._tail_start:
            self._tail_term = self.term(start)
            self._tail_start = start
        self.unstable.append(entries)
        self.last_index = entries[-1].index
        if entries[-1].term != self._tail_term:
            self._tail_term = entries[-1].term
            self._tail_start = next(e.index for e in entries if e.term == self._tail_term)

    def maybe_append(
        self, previous: int, previous_term: int, entries: Sequence[RaftEntry], commit: int
    ) -> int | None:
        """Append a leader's entries if ``previous`` is here, else return None.

        Entries that we have stay, and so does what follows them: the message may be old, and what
        it does not mention may have been acknowledged since. Only a conflict truncates.
        """
        if not self.matches(previous, previous_term):
            return None
        last_new = previous + len(entries)
        conflict = self._find_conflict(entries)
        if conflict:
            self.append(entries[conflict - previous - 1 :])
        self.commit_to(min(commit, last_new))
        return last_new

    def _find_conflict(self, entries: Sequence[RaftEntry]) -> int:
        """The first entry that differs from ours; 0 if none does."""
        for entry in entries:
            if entry.index > self.last_index:
                return entry.index
            if not self.matches(entry.index, entry.term):
                self.trace(
                    "INFO",
                    f"found conflict at index {entry.index} [existing term: "
                    f"{self.term_or_zero(entry.index)}, conflicting term: {entry.term}]",
                )
                return entry.index
        return 0

    def restore(self, snapshot: SnapshotMeta) -> None:
        self.trace(
            "INFO",
            f"log [{self}] starts to restore snapshot "
            f"[index: {snapshot.index}, term: {snapshot.term}]",
        )
        self.committed = self.last_index = self._tail_start = snapshot.index
        self._tail_term = snapshot.term
        self.unstable.restore(snapshot)

    def commit_to(self, index: int) -> None:
        if index <= self.committed:
            return
        if index > self.last_index:
            raise LogDamaged(
                f"entry {index} is committed and this log ends at {self.last_index}: "
                "it was damaged, truncated or lost"
            )
        self.committed = index

    def maybe_commit(self, index: int, term: int) -> bool:
        """Commit ``index``, which a quorum has, if it is of the leader's own term.

        An entry of an older term may still be overwritten although a quorum has it; it is committed
        with the next one of this term.
        """
        if index <= self.committed or not self.matches(index, term):
            return False
        self.commit_to(index)
        return True

    def _appliable(self, applies_unstable: bool) -> int:
        stable = self.unstable.offset - 1
        return self.committed if applies_unstable else min(self.committed, stable)

    def has_next_committed(self, applies_unstable: bool) -> bool:
        if self._is_applying_paused or self.unstable.snapshot is not None:
            return False
        return self.applying < self._appliable(applies_unstable)

    def next_committed(self, applies_unstable: bool) -> tuple[RaftEntry, ...]:
        """Entries to apply; none while a snapshot is not installed."""
        if not self.has_next_committed(applies_unstable):
            return ()
        room = self._applying_bytes_max - self._applying_bytes
        return self._slice(self.applying + 1, self._appliable(applies_unstable) + 1, room)

    def accept_applying(self, entries: Sequence[RaftEntry], applies_unstable: bool) -> None:
        """Note handed-out entries. Pause if they fill the room, or the next did not fit."""
        self.applying = entries[-1].index
        size = data_size(entries)
        self._handed_out.append((self.applying, size))
        self._applying_bytes += size
        self._is_applying_paused = (
            self._applying_bytes >= self._applying_bytes_max
            or self.applying < self._appliable(applies_unstable)
        )

    def applied_to(self, index: int) -> int:
        """Returns the bytes of the handed-out entries that are applied."""
        assert self.applied <= index <= self.committed, "applied what is not committed"
        self.applied = index
        self.applying = max(self.applying, index)
        size = 0
        while self._handed_out and self._handed_out[0][0] <= index:
            size += self._handed_out.popleft()[1]
        self._applying_bytes -= size
        self._is_applying_paused = self._applying_bytes >= self._applying_bytes_max
        return size
