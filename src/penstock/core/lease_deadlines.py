"""When the leases of a group end.

A heap of times, each with a range of leases that end then: what is delivered together has one
entry. Most leases are settled long before, and some are extended, so an entry is valid only for
leases that still exist and end at that time. Void entries are skipped when they come up. A client
that extends leases again and again would let the heap grow without bound: when more entries are
void than valid, it is rebuilt.
"""

from heapq import heappop, heappush, heapreplace

from penstock.core.pending import Pending

VOID_MAX = 1_024  # void entries allowed, besides as many as there are leases


RESUMED_MS_MAX = 60_000  # how much a lease is extended at most after the broker was unavailable


class LeaseDeadlines:
    """Deadlines of leases; both dicts belong to the group and are only read."""

    __slots__ = ("_heap", "_leases", "_pending")

    def __init__(self, leases: dict[int, int], pending: dict[int, Pending]) -> None:
        self._leases = leases
        self._pending = pending
        self._heap: list[tuple[int, int, int]] = []  # time, first lease, end of the range of leases

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, until_ms: int, first: int, end: int) -> None:
        heappush(self._heap, (until_ms, first, end))
        self._tidy()

    def _tidy(self) -> None:
        if len(self._heap) > 2 * len(self._leases) + VOID_MAX:
            self.renew()

    def renew(self) -> None:
        ends = ((self._pending[offset].until_ms, n) for n, offset in self._leases.items())
        self._heap = sorted((until_ms, n, n + 1) for until_ms, n in ends if until_ms)

    def resume(self, now_ms: int) -> list[int]:
        """Extend leases after the broker was unavailable; return the offsets of their messages.

        Each gets its original duration again, up to a maximum, from now on, because nobody could
        acknowledge or extend it meanwhile.
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
        """Up to ``enough`` leases that have ended.

        The earliest first, then those with the lowest number, so that the result does not depend on
        the shape of the heap, which differs after a restart.
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
        offset = self._leases.get(lease)
        return offset is not None and self._pending[offset].until_ms == until_ms
