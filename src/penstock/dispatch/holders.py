"""Which worker was given which leases, for people who look: the journal names no holder.

A lease is a number, and whoever has it may settle it; that is all that correctness needs. So the
holder is known only to the node that handed the messages out, since its start, and only of the
latest shares: one entry per share, however many messages it has.
"""

from array import array
from bisect import bisect_left, bisect_right

SHARES_KEPT = 32_768  # at least; twice as many at most


class Holders:
    """Workers by lease."""

    __slots__ = ("_ends", "_firsts", "_names")

    def __init__(self) -> None:
        self._firsts = array("q")
        self._ends = array("q")
        self._names: list[bytes] = []

    def note(self, first: int, count: int, worker: bytes) -> None:
        """``worker`` has the leases ``first … first + count - 1``, which nobody had before."""
        place = len(self._firsts)
        if place and first < self._firsts[-1]:  # a share that was committed later
            place = bisect_left(self._firsts, first)
        self._firsts.insert(place, first)
        self._ends.insert(place, first + count)
        self._names.insert(place, worker)
        if len(self._names) > 2 * SHARES_KEPT:
            del self._firsts[:SHARES_KEPT], self._ends[:SHARES_KEPT], self._names[:SHARES_KEPT]

    def of(self, lease: int) -> bytes:
        """The worker that was given a lease; empty if that is not known."""
        place = bisect_right(self._firsts, lease) - 1
        return self._names[place] if place >= 0 and lease < self._ends[place] else b""
