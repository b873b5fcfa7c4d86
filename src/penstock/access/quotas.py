"""Quotas of users: how much each may use of this node.

**Rates** (messages and bytes a second) pause reading: a chunk is handled, its user's buckets pay
for it, and while they owe something none of the user's connections reads on. Nothing is lost.
**Counts** (connections, subscriptions, sessions) refuse what is too many; the reason is ``quota``.

A door has little to do. ``Connection.become`` takes a meter, which leaves with the connection, and
``Logins`` refuses a connection too many. Before a door adds subscriptions it asks
``connection.meter.admit_subscriptions(total)``, before a new session
``connection.meter.admit_session(others)``; there is no meter if the user has no quotas.
"""

from penstock.core.rate import TokenBucket, milli_rate
from penstock.trust.book import AccessBook
from penstock.trust.rows import Quotas as Limits

PAUSE_S_MAX = 1.0  # then a paused connection looks again: the quota may have been raised

FORGOTTEN_MAX = 1_000  # deleted users whose usage is remembered


class _Rate:
    """A rate that is paid for afterwards: what is owed when tokens run out is paid first."""

    __slots__ = ("_bucket", "_per_s", "owed")

    def __init__(self, per_s: int, now: float) -> None:
        self._bucket = TokenBucket(milli_rate(per_s), per_s, now)
        self._per_s = per_s
        self.owed = 0

    def configure(self, per_s: int) -> None:
        self._bucket.configure(milli_rate(per_s), per_s)
        self._per_s = per_s

    def pay(self, amount: int, now: float) -> float:
        """Owe ``amount`` more and pay what can be paid; return the seconds until all is paid."""
        self.owed += amount
        if self.owed:
            self.owed -= self._bucket.take(self.owed, now)
        return self.owed / self._per_s


class _Usage:
    """What one user uses on this node."""

    __slots__ = ("_bytes", "_messages", "connections", "limits", "subscriptions", "user")

    def __init__(self, user: str) -> None:
        self.user = user
        self.limits = Limits()
        self.connections = 0
        self.subscriptions = 0
        self._messages: _Rate | None = None
        self._bytes: _Rate | None = None

    def limit(self, limits: Limits, now: float) -> None:
        if limits != self.limits:
            self.limits = limits
            self._messages = _configured(self._messages, limits.messages_per_s, now)
            self._bytes = _configured(self._bytes, limits.bytes_per_s, now)

    def pay(self, messages: int, bytes_: int, now: float) -> float:
        wait_s = self._messages.pay(messages, now) if self._messages else 0.0
        return max(wait_s, self._bytes.pay(bytes_, now) if self._bytes else 0.0)


class UserMeter:
    """Implements ``net.meter.Meter``."""

    __slots__ = ("_quotas", "_subscriptions", "_usage", "bytes_owed", "messages_owed")

    def __init__(self, quotas: "Quotas", usage: _Usage) -> None:
        self._quotas = quotas
        self._usage = usage
        self._subscriptions = 0  # of this connection
        self.messages_owed = self.bytes_owed = 0
        usage.connections += 1

    def pay(self, now: float) -> float:
        usage = self._quotas.refreshed(self._usage, now)
        messages, self.messages_owed = self.messages_owed, 0
        bytes_, self.bytes_owed = self.bytes_owed, 0
        return min(usage.pay(messages, bytes_, now), PAUSE_S_MAX)

    def admit_subscriptions(self, total: int) -> str:
        usage = self._usage
        most = self._quotas.limits_of(usage.user).subscriptions
        more = total - self._subscriptions
        if more > 0 and most and usage.subscriptions + more > most:
            return f"user {usage.user} may have {most} subscriptions on each node"
        self._subscriptions = total
        usage.subscriptions += more
        return ""

    def admit_session(self, others: int) -> str:
        most = self._quotas.limits_of(self._usage.user).sessions
        if most and others >= most:
            return f"user {self._usage.user} may have {most} sessions"
        return ""

    def leave(self) -> None:
        self._usage.connections -= 1
        self._usage.subscriptions -= self._subscriptions
        self._subscriptions = 0


class Quotas:
    """The usage of all users with quotas that were connected to this node.

    It is kept when they leave: nobody gets rid of a debt by connecting anew.
    """

    def __init__(self, book: AccessBook) -> None:
        self._book = book
        self._usage: dict[str, _Usage] = {}

    def limits_of(self, user: str) -> Limits:
        found = self._book.users.get(user)
        return Limits() if found is None else found.quotas

    def admit_connection(self, user: str) -> str:
        """Why a user may not have one more connection; empty if it may."""
        most = self.limits_of(user).connections
        usage = self._usage.get(user)
        if most and usage is not None and usage.connections >= most:
            return f"user {user} may have {most} connections to each node"
        return ""

    def meter(self, user: str) -> UserMeter | None:
        """The meter of a new connection; None if its user has no quotas."""
        if self.limits_of(user) == Limits():
            return None
        if len(self._usage) > len(self._book.users) + FORGOTTEN_MAX:
            self._forget_deleted()
        return UserMeter(self, self._usage.setdefault(user, _Usage(user)))

    def refreshed(self, usage: _Usage, now: float) -> _Usage:
        usage.limit(self.limits_of(usage.user), now)
        return usage

    def _forget_deleted(self) -> None:
        self._usage = {
            user: usage
            for user, usage in self._usage.items()
            if usage.connections or user in self._book.users
        }


def _configured(rate: _Rate | None, per_s: int, now: float) -> _Rate | None:
    if not per_s:
        return None
    if rate is None:
        return _Rate(per_s, now)
    rate.configure(per_s)
    return rate
