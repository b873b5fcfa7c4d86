"""Deadlines of connections in buckets: no timer object per connection, no work per packet.

A connection is put into the bucket of the time at which it *might* be overdue. At that time its
actual deadline is checked, which later packets have moved on, and it is put into another bucket.
"""

from heapq import heappop, heappush
from typing import Protocol

_PER_SECOND = 20  # buckets


class Timed(Protocol):
    """Something with a deadline that may move."""

    def overdue(self, now: float) -> float | None: ...  # return when to check again, if ever


class Deadlines:
    """Which deadlines to check when."""

    __slots__ = ("_buckets", "_times")

    def __init__(self) -> None:
        self._buckets: dict[int, list[Timed]] = {}
        self._times: list[int] = []  # a heap of the buckets

    def add(self, timed: Timed, when: float) -> None:
        time = int(when * _PER_SECOND) + 1
        bucket = self._buckets.get(time)
        if bucket is None:
            self._buckets[time] = [timed]
            heappush(self._times, time)
        else:
            bucket.append(timed)

    def turn(self, now: float) -> None:
        last = int(now * _PER_SECOND)
        due: list[Timed] = []
        while self._times and self._times[0] <= last:
            due += self._buckets.pop(heappop(self._times))
        while due:
            timed = due.pop()
            try:
                again = timed.overdue(now)
            except BaseException:
                for left in due:
                    self.add(left, now)  # a failure must not affect the others
                raise
            if again is not None:
                self.add(timed, again)
