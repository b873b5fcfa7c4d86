"""The one place that asks what time it is."""

import time
from typing import Protocol


class Clock(Protocol):
    """Two readings: one for durations, one for the calendar."""

    def monotonic(self) -> float:
        """Seconds since some fixed moment; never goes back."""
        ...

    def wall_ms(self) -> int:
        """Milliseconds since 1970, UTC."""
        ...


class SystemClock:
    """The machine's clocks."""

    monotonic = staticmethod(time.monotonic)

    @staticmethod
    def wall_ms() -> int:
        """Milliseconds since 1970, UTC."""
        return time.time_ns() // 1_000_000


class SteadyClock:
    """The wall clock of our start, moved on by a clock that nobody sets. It never goes back.

    For durations that outlast a process (a session's absence, a lease): a clock that jumps by days
    when the network comes up must not let every session expire at once, nor a lease never. In a
    cluster it follows the leader's, so that a lease ends when it should, whoever looks.
    """

    def __init__(self, clock: Clock) -> None:
        self._monotonic = clock.monotonic
        self._offset_ms = clock.wall_ms() - int(clock.monotonic() * 1000)
        self._last_ms = 0
        self._is_following = False

    def now_ms(self) -> int:
        """The time in milliseconds since 1970."""
        now_ms = self._offset_ms + int(self._monotonic() * 1000)
        self._last_ms = max(self._last_ms, now_ms)
        return self._last_ms

    def follow(self, now_ms: int) -> None:
        """It is so late at the leader; where we are ahead, our time stands still for a while.

        Not so the first time: what we took for the time until then was of no consequence to others,
        and a node whose clock is wrong by hours must not stand still for hours.
        """
        self._offset_ms = now_ms - int(self._monotonic() * 1000)
        if not self._is_following:
            self._is_following = True
            self._last_ms = now_ms
