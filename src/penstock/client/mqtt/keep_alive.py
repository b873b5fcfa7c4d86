"""When to ping, and when to give the broker up. Time is a parameter, in seconds.

Something must be sent within each keep-alive interval [MQTT-3.1.2-23]; we ping after half of it, so
that a late wake-up is no reason to be thrown out. A ping that stays unanswered means that the
broker, or the way to it, is gone; without it a silent subscriber would wait for ever.
"""

from math import inf


class KeepAlive:
    """Watches one connection. ``interval_s`` 0 switches it off."""

    def __init__(self, interval_s: float, timeout_s: float, now: float) -> None:
        self._idle_s = interval_s / 2 or inf
        self._timeout_s = timeout_s
        self._sent_at = now
        self._given_up_at = inf

    @property
    def next_at(self) -> float:
        """When to look again; infinity if never."""
        return min(self._sent_at + self._idle_s, self._given_up_at)

    def sent(self, now: float) -> None:
        """Something was sent."""
        self._sent_at = now

    def heard(self) -> None:
        """Something was received: whatever it was, the broker is there."""
        self._given_up_at = inf

    def ping_due(self, now: float) -> bool:
        """Tell whether to ping now; true once, the ping is then taken as sent."""
        if now < self._sent_at + self._idle_s:
            return False
        self._sent_at = now
        self._given_up_at = min(self._given_up_at, now + self._timeout_s)
        return True

    def is_lost(self, now: float) -> bool:
        """Tell whether a ping has been without an answer for too long."""
        return now >= self._given_up_at
