"""When the leases of a group end.

A heap of times, each with a stretch of leases that end then: what is handed out together has one
entry. Most of it is settled long before, and some is extended, so an entry is true only as far as
the group still has such a lease, and it ends at that time. What is not true is passed over when its
turn comes. Whoever extends leases again and again, to a time that never comes, would let the heap
grow without end: with more void entries than true ones it is made anew.
"""

from heapq import heappop, heappush, heapreplace

from penstock.core.pending import Pending

VOID_MAX = 1_024  # entries that may be void, beside as many as there are leases


RESUMED_MS_MAX = 60_000
"""How much time a lease is given at most when the broker was away; clients are back by then."""


class LeaseDeadlines:
    """The times at which leases end; both dicts are the group's own, and are only looked at."""

    __slots__ = ("_heap", "_leases", "_pending")

    def __init__(self, leases: dict[int, int], pending: dict[int, Pending]) -> None:
        self._leases = leases
        self._pending = pending
        self._heap: list[tuple[int, int, int]] = []
        """Times, and the first and the end of a stretch of leases."""

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, until_ms: int, first: int, end: int) -> None:
        """These leases end at a time."""
        heappush(self._heap, (until_ms, first, end))
        self._tidy()

    def _tidy(self) -> None:
        if len(self._heap) > 2 * len(self._leases) + VOID_MAX:
            self.renew()

    def renew(self) -> None:
        """Make all entries anew."""
        ends = ((self._pending[offset].until_ms, n) for n, offset in self._leases.items())
        self._heap = sorted((until_ms, n, n + 1) for until_ms, n in ends if until_ms)

    def resume(self, now_ms: int) -> list[int]:
        """The broker was away: give leases more time; return the offsets of their messages.

        Each runs for as long again as it was given, or for a while, from now on. Before, nobody
        could acknowledge or extend it.
        """
        resumed = []
        for offset in self._leases.values():
            pending = self._pending[offset]
            if pending.until_ms:
                more_ms = min(max(pending.until_ms - pending.taken_ms, 0), RESUMED_MS_MAX)
                pending.until_ms = max(pending.until_ms, now_ms + more_ms)
                resumed.append(offset)
        self.renew()
        return resumed

    def next_ms(self) -> int | None:
        """When a lease ends next; None: none does."""
        self._tidy()  # many may have been settled at once
        while self._heap:
            until_ms, first, end = self._heap[0]
            held = filter(self._leases.__contains__, range(first, end))
            lease = next((n for n in held if self._ends(n, until_ms)), end)
            if lease == first:
                return until_ms
            if lease < end:
                heapreplace(self._heap, (until_ms, lease, end))
                return until_ms
            heappop(self._heap)
        return None

    def take(self, now_ms: int, enough: int) -> list[int]:
        """Leases that have ended by now: all, or just enough of them.

        The earliest, then those with the lowest number: however they are gathered in the heap,
        which is another way after a restart, they are the same ones.
        """
        ended: dict[int, None] = {}  # a lease has two entries if it was extended twice at a time
        while self._heap and self._heap[0][0] <= now_ms and len(ended) < enough:
            until_ms, first, end = heappop(self._heap)
            held = (n for n in range(first, end) if self._ends(n, until_ms))
            for lease in held:
                if len(ended) == enough:
                    heappush(self._heap, (until_ms, lease, end))
                    break
                ended[lease] = None
        return list(ended)

    def _ends(self, lease: int, until_ms: int) -> bool:
        """Whether there is this lease, and it ends then."""
        offset = self._leases.get(lease)
        return offset is not None and self._pending[offset].until_ms == until_ms
