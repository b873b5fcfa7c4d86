"""Deadlines of connections, by the bucket: no timer object per connection, no work per packet.

A connection is filed under the moment at which it *might* be overdue. When that moment comes it is
asked for its true deadline, which later packets have moved on, and filed again. Ten thousand
clients that ping once a minute cost ten thousand cheap questions in ninety seconds, nothing else.

Pure: time comes in as an argument.
"""

from heapq import heappop, heappush
from typing import Protocol

_PER_SECOND = 20
"""Buckets in a second: a deadline is met at most so much late, plus the time between two turns."""


class Timed(Protocol):
    """Something with a deadline that may move."""

    def overdue(self, now: float) -> float | None:
        """Act if the deadline passed; return when to ask again, None for never."""
        ...


class Deadlines:
    """Who is to be asked when."""

    __slots__ = ("_buckets", "_moments")

    def __init__(self) -> None:
        self._buckets: dict[int, list[Timed]] = {}
        self._moments: list[int] = []
        """A heap of the buckets there are."""

    def add(self, timed: Timed, when: float) -> None:
        """Ask ``timed`` soon after ``when``, or at the next turn if that has passed."""
        moment = int(when * _PER_SECOND) + 1
        bucket = self._buckets.get(moment)
        if bucket is None:
            self._buckets[moment] = [timed]
            heappush(self._moments, moment)
        else:
            bucket.append(timed)

    def turn(self, now: float) -> None:
        """Ask everyone whose moment has come."""
        last = int(now * _PER_SECOND)
        due: list[Timed] = []
        while self._moments and self._moments[0] <= last:
            due += self._buckets.pop(heappop(self._moments))
        while due:
            timed = due.pop()
            try:
                again = timed.overdue(now)
            except BaseException:
                for left in due:
                    self.add(left, now)  # one that fails must not take the others with it
                raise
            if again is not None:
                self.add(timed, again)
