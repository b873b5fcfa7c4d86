"""Deadlines of connections, by the bucket: no timer object per connection, no work per packet.

A connection is filed under the moment at which it *might* be overdue. When that moment comes it is
asked for its true deadline, which later packets have moved on, and filed again. Ten thousand
clients that ping once a minute cost ten thousand cheap questions in ninety seconds, nothing else.

Pure: time comes in as an argument.
"""

from typing import Protocol

__all__ = ["Deadlines", "Timed"]

_PER_SECOND = 4
"""Buckets in a second: a deadline is met at most a quarter of a second late."""


class Timed(Protocol):
    """Something with a deadline that may move."""

    def overdue(self, now: float) -> float | None:
        """Act if the deadline passed; return when to ask again, None for never."""
        ...


class Deadlines:
    """Who is to be asked when."""

    __slots__ = ("_buckets", "_next")

    def __init__(self, now: float) -> None:
        self._buckets: dict[int, list[Timed]] = {}
        self._next = int(now * _PER_SECOND)

    def add(self, timed: Timed, when: float) -> None:
        """Ask ``timed`` at ``when``, or at the next turn if that has passed."""
        bucket = max(int(when * _PER_SECOND) + 1, self._next)
        self._buckets.setdefault(bucket, []).append(timed)

    def turn(self, now: float) -> None:
        """Ask everyone whose moment has come."""
        last = int(now * _PER_SECOND)
        while self._next <= last:
            if not self._buckets:
                self._next = last + 1
                return
            due = self._buckets.pop(self._next, ())
            self._next += 1
            for timed in due:
                again = timed.overdue(now)
                if again is not None:
                    self.add(timed, again)
