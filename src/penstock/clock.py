"""Clocks; the only module that reads the system's time."""

import time
from typing import Protocol


class Clock(Protocol):
    """A monotonic clock for durations, and a wall clock."""

    def monotonic(self) -> float: ...

    def wall_ms(self) -> int:
        """Milliseconds since 1970, UTC."""


class SystemClock:
    """The machine's clocks."""

    monotonic = staticmethod(time.monotonic)

    @staticmethod
    def wall_ms() -> int:
        return time.time_ns() // 1_000_000


class SteadyClock:
    """The wall clock at the start, advanced by the monotonic clock; never goes back.

    For durations that outlast a process (a session's absence, a lease): a wall clock that jumps by
    days when the network comes up must not expire all sessions at once, or keep a lease forever.
    In a cluster it follows the leader's clock, so that all nodes agree when a lease ends.
    """

    def __init__(self, clock: Clock) -> None:
        self._monotonic = clock.monotonic
        self._offset_ms = clock.wall_ms() - int(clock.monotonic() * 1000)
        self._last_ms = 0
        self._is_following = False

    def now_ms(self) -> int:
        now_ms = self._offset_ms + int(self._monotonic() * 1000)
        self._last_ms = max(self._last_ms, now_ms)
        return self._last_ms

    def follow(self, now_ms: int) -> None:
        """Adopt the leader's time; if this clock is ahead, it stands still until then.

        The first time it may go back: no other node has used it yet, and a clock that is wrong by
        hours must not stand still for hours.
        """
        self._offset_ms = now_ms - int(self._monotonic() * 1000)
        if not self._is_following:
            self._is_following = True
            self._last_ms = now_ms
