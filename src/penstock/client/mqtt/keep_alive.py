"""When to ping, and when to give up. Time is a parameter, in seconds.

A client must send something within each keep-alive interval [MQTT-3.1.2-23]. It pings after half of
it, to allow for a late wake-up. An unanswered ping means that the connection is dead; without pings
an idle subscriber would wait for ever.
"""

from math import inf


class KeepAlive:
    """The timer of one connection; an ``interval_s`` of 0 switches it off."""

    def __init__(self, interval_s: float, timeout_s: float, now: float) -> None:
        self._idle_s = interval_s / 2 or inf
        self._timeout_s = timeout_s
        self._sent_at = now
        self._given_up_at = inf

    @property
    def next_at(self) -> float:
        """When to check again; infinity if never."""
        return min(self._sent_at + self._idle_s, self._given_up_at)

    def sent(self, now: float) -> None:
        self._sent_at = now

    def heard(self) -> None:
        self._given_up_at = inf

    def ping_due(self, now: float) -> bool:
        """Whether to ping now; if so, the ping counts as sent."""
        if now < self._sent_at + self._idle_s:
            return False
        self._sent_at = now
        self._given_up_at = min(self._given_up_at, now + self._timeout_s)
        return True

    def is_lost(self, now: float) -> bool:
        return now >= self._given_up_at
