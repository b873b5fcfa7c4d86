"""Notices that the whole broker was stopped: SIGSTOP, a stalled machine, a suspended laptop.

What clients sent meanwhile lies unread in their sockets. So the pause is not counted as silence of
any client, and nothing times out until that input has been read.
"""

from collections.abc import Callable

STALL_S = 1.0  # a turn of the loop that is this late counts as a pause of the broker
SETTLE_S = 0.5  # how long after a pause nothing times out, so that the sockets are read first


class StallDetector:
    """Compares two clocks, so a test that moves its own clock does not look like a pause."""

    def __init__(self, loop_time: Callable[[], float], monotonic: Callable[[], float]) -> None:
        self._loop_time = loop_time
        self._monotonic = monotonic
        self._due_at = float("inf")  # of the next beat, by the loop's time
        self._clock_due_at = float("inf")
        self._settled_at = float("-inf")

    def beat(self, interval_s: float) -> float:
        """Return how long the loop was stopped; call this every ``interval_s``."""
        now, clock = self._loop_time(), self._monotonic()
        stalled_s = min(now - self._due_at, clock - self._clock_due_at)
        self._due_at, self._clock_due_at = now + interval_s, clock + interval_s
        if stalled_s < STALL_S:
            return 0.0
        self._settled_at = now + SETTLE_S
        return stalled_s

    @property
    def is_catching_up(self) -> bool:
        """Whether there was a pause, and input of that time may not have been read yet."""
        now = self._loop_time()
        return now < self._settled_at or now - self._due_at > STALL_S
