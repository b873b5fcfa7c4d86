"""How much may be on its way through the quorum at once. Pure.

One entry after the other would give each the time of a round trip; over a link of 20 ms that is 50
a second. With several in flight a link is busy all the time. But what waits meanwhile shares an
entry, and a few large entries cost less than many small ones. So no more are in flight than the
link makes worthwhile: the shortest time that any has taken lately, in steps of ``SPACING_S``, less
one step for flushing and applying it. Where a commit takes less than three steps, as in one rack,
one goes after the other. The shortest time, because it is the link's: a busy processor or disk adds
to it, and more entries would too.
"""

from collections import deque
from collections.abc import Sequence

import msgspec

from penstock.core.stale_publishes import Moving
from penstock.raft.types import NodeId
from penstock.store.batch import NodeSegment

SPACING_S = 0.002  # between two in flight: in this time about a hundred commands share a batch

COUNT_MAX = 32
"""Batches of a node, and entries, in flight: with ``SPACING_S`` enough for 66 ms there and back."""

ENTRIES_BYTES_MAX = 16 << 20
"""Of entries in flight: a follower is sent as much again at worst when a connection is lost."""

BATCHES_BYTES_MAX = 8 << 20  # of a node's own batches in flight; one may be larger

_SAMPLES = 64  # whose shortest time counts

Origins = dict[NodeId, tuple[int, int]]  # incarnation and number of each node's last batch


class FlightWindow:
    """``width``: how many may be in flight."""

    def __init__(self) -> None:
        self._times: deque[float] = deque(maxlen=_SAMPLES)
        self.width = 1

    def landed(self, seconds: float) -> None:
        self._times.append(seconds)
        self.width = max(1, min(int(min(self._times) / SPACING_S) - 1, COUNT_MAX))


class EntryInFlight(msgspec.Struct, frozen=True):
    """An entry that was proposed and is not applied yet."""

    index: int
    bytes: int
    at: float
    segments: Sequence[NodeSegment]
    drops: bool  # whether it drops topics: then nothing may be encoded before it is applied
    makes_stale: bool
    moving: Moving = frozenset()


class EntriesInFlight:
    """A leader's entries between proposal and application, oldest first."""

    def __init__(self) -> None:
        self._entries: deque[EntryInFlight] = deque()
        self._window = FlightWindow()

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def last_index(self) -> int:
        return self._entries[-1].index if self._entries else 0

    @property
    def has_room(self) -> bool:
        entries = self._entries
        if not entries:
            return True
        is_small = sum([entry.bytes for entry in entries]) < ENTRIES_BYTES_MAX
        return is_small and len(entries) < self._window.width and not entries[-1].drops

    @property
    def makes_stale(self) -> bool:
        return any(entry.makes_stale for entry in self._entries)

    @property
    def moving(self) -> Moving:
        return frozenset().union(*[entry.moving for entry in self._entries])

    def origins(self, applied: Origins) -> Origins:
        """``applied`` as it will be once all of these are applied."""
        found = dict(applied)
        for entry in self._entries:
            for node, incarnation, number, *_ in entry.segments:
                found[node] = max(found.get(node, (0, 0)), (incarnation, number))
        return found

    def add(self, entry: EntryInFlight) -> None:
        self._entries.append(entry)

    def applied(self, index: int, now: float) -> None:
        while self._entries and self._entries[0].index <= index:
            self._window.landed(now - self._entries.popleft().at)

    def clear(self) -> None:
        """Forget them: this node does not lead any more. They may be committed or replaced."""
        self._entries.clear()
