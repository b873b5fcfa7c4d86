"""When to ping, when to give a connection up, when to retry. Time and chance are parameters.

**Ping.** The broker closes connections that are idle for minutes, and a connection on which nothing
arrives may be dead. ``PingTimer`` pings after an interval in which nothing was sent or nothing was
received. If nothing follows a ping for two more intervals, the connection is dead. Silence counts
only after a ping: a program that was busy for an hour has not read, which says nothing about the
broker.

**Retry.** The pause doubles with each attempt, up to a limit, with jitter of up to half of it:
clients that lost one broker should not all return at once. An attempt has succeeded when the broker
has sent something other than a farewell, not when the socket opened: a broker that accepts and
closes must not be retried in a tight loop.
"""

from math import inf

import msgspec

_DOUBLINGS_MAX = 32  # far beyond any longest pause


class Backoff(msgspec.Struct, frozen=True):
    """Pauses between attempts to reconnect: from ``first_s``, doubling, to ``longest_s``.

    ``give_up_s`` after the connection was lost the client gives up, with an error.
    """

    first_s: float = 0.1
    longest_s: float = 30.0
    give_up_s: float = inf

    def pause_s(self, attempt: int, chance: float) -> float:
        """Return the pause before an attempt, counted from 0; ``chance`` is in [0, 1)."""
        whole = min(self.first_s * (1 << min(attempt, _DOUBLINGS_MAX)), self.longest_s)
        return whole * (1 - chance / 2)


class Retry:
    """One client's attempts to reconnect."""

    def __init__(self, backoff: Backoff) -> None:
        self._backoff = backoff
        self._attempts = 0
        self._since: float | None = None

    def next_at(self, now: float, chance: float) -> float | None:
        """Return when to try again after a loss or a failed attempt, None to give up."""
        if self._since is None:
            self._since = now
        when = now + self._backoff.pause_s(self._attempts, chance)
        self._attempts += 1
        return when if when <= self._since + self._backoff.give_up_s else None

    def succeeded(self) -> None:
        self._attempts = 0
        self._since = None


class PingTimer:
    """The ping timer of one connection; an ``interval_s`` of 0 switches it off."""

    def __init__(self, interval_s: float, now: float) -> None:
        self._interval_s = interval_s or inf
        self._sent_at = self._heard_at = self._pinged_at = now
        self._lost_at = inf

    @property
    def next_at(self) -> float:
        """When to check again; infinity if never."""
        return min(self._ping_at, self._lost_at)

    @property
    def is_pinging(self) -> bool:
        return self._lost_at < inf

    @property
    def _ping_at(self) -> float:
        quiet_since = min(self._sent_at, self._heard_at)
        return max(quiet_since, self._pinged_at) + self._interval_s

    def sent(self, now: float) -> None:
        self._sent_at = now

    def heard(self, now: float) -> None:
        self._heard_at = now
        self._lost_at = inf

    def ping_due(self, now: float) -> bool:
        """Whether to ping now; if so, the ping counts as sent."""
        if now < self._ping_at:
            return False
        self._pinged_at = self._sent_at = now
        self._lost_at = min(self._lost_at, now + 2 * self._interval_s)
        return True

    def is_lost(self, now: float) -> bool:
        return now >= self._lost_at
