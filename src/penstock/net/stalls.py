"""Notices that the whole broker stood still: SIGSTOP, a stalled machine, a suspended laptop.

When it goes on, timers are due before a single byte has been read, and what clients sent meanwhile
lies unread in their sockets. Their silence was ours. So the time of the pause is not counted
against anybody, and nothing that time alone decides is done until input has been read.
"""

from collections.abc import Callable

STALL_S = 1.0
"""A turn of the loop that is late by so much counts as a pause of the broker."""

SETTLE_S = 0.5
"""How long after a pause nothing is timed out: by then all that waited in sockets was read."""


class StallDetector:
    """Beats at each turn. By two clocks: a test that moves its own does not look like a pause."""

    def __init__(self, loop_time: Callable[[], float], monotonic: Callable[[], float]) -> None:
        self._loop_time = loop_time
        self._monotonic = monotonic
        self._due_at = float("inf")
        """When the next beat is due, by the loop's time."""
        self._clock_due_at = float("inf")
        self._settled_at = float("-inf")

    def beat(self, interval_s: float) -> float:
        """The loop runs, and the next beat is due after the interval; how long it stood still."""
        now, clock = self._loop_time(), self._monotonic()
        stalled_s = min(now - self._due_at, clock - self._clock_due_at)
        self._due_at, self._clock_due_at = now + interval_s, clock + interval_s
        if stalled_s < STALL_S:
            return 0.0
        self._settled_at = now + SETTLE_S
        return stalled_s

    @property
    def is_catching_up(self) -> bool:
        """Whether there was a pause, and what came meanwhile may not have been read yet."""
        now = self._loop_time()
        return now < self._settled_at or now - self._due_at > STALL_S
