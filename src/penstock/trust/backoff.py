"""Back-off: who gave wrong credentials too often has to wait, before anything is hashed.

An **address** (``model.ip.block_of``) has some failures a minute free. Each further one makes it
wait, 1 s at first and twice as long each time, up to 5 minutes. After five quiet minutes everything
is forgotten. A **user** is treated likewise, whoever tries it from wherever.

A user at an address where it has logged in before is **known** there and has an account of its own:
neither guessing at that user elsewhere nor others at its address make it wait. So nobody can lock a
user out, nor does one broken device lock out all others behind the same router.

Both tables are bounded, and separate: guessing does not push out the addresses that users are known
at. The oldest entries are forgotten first. Time is that of a monotonic clock, and is passed in.
"""

from collections import OrderedDict

ENTRIES_MAX = 65_536  # of each table
FREE = 10
MINUTE_S = 60.0
WAIT_S_MIN = 1.0
WAIT_S_MAX = 300.0


class _Failures:
    """The failures of one address or user."""

    __slots__ = ("count", "since", "until", "waits")

    def __init__(self, now: float) -> None:
        self.count = 0  # in the minute from ``since`` on
        self.since = now
        self.waits = 0  # how often it had to wait
        self.until = now

    def is_forgotten(self, now: float) -> bool:
        return now >= max(self.until + WAIT_S_MAX, self.since + MINUTE_S)

    def note(self, free: int, now: float) -> None:
        if not self.waits and now >= self.since + MINUTE_S:
            self.count, self.since = 0, now
        self.count += 1
        if self.count > free:
            self.until = now + min(WAIT_S_MIN * 2.0**self.waits, WAIT_S_MAX)
            self.waits = min(self.waits + 1, 16)


class Backoff:
    """The failures of all addresses and users at one node."""

    def __init__(self, free: int = FREE, entries_max: int = ENTRIES_MAX) -> None:
        self._free = free
        self._entries_max = entries_max
        self._failures: OrderedDict[tuple[str, str], _Failures] = OrderedDict()
        self._known: OrderedDict[tuple[str, str], None] = OrderedDict()  # address and user

    def wait_s(self, address: str, user: str, now: float) -> float:
        """How long this user must wait at this address; 0: it may try."""
        return max(self._wait_s(key, now) for key in self._keys(address, user))

    def _keys(self, address: str, user: str) -> list[tuple[str, str]]:
        """The accounts that an attempt is counted in."""
        if (address, user) in self._known:
            return [(address, user)]
        return [(address, ""), ("", user)] if user else [(address, "")]

    def _wait_s(self, key: tuple[str, str], now: float) -> float:
        failures = self._failures.get(key)
        return 0.0 if failures is None else max(failures.until - now, 0.0)

    def failed(self, address: str, user: str, now: float) -> None:
        """Note a wrong login. ``user`` is empty if there can be no such user."""
        for key in self._keys(address, user):
            self._note(key, now)

    def _note(self, key: tuple[str, str], now: float) -> None:
        failures = self._failures.pop(key, None)
        if failures is None or failures.is_forgotten(now):
            failures = _Failures(now)
        failures.note(self._free, now)
        self._failures[key] = failures
        if len(self._failures) > self._entries_max:
            self._failures.popitem(last=False)

    def succeeded(self, address: str, user: str) -> None:
        """Note a right login; failures before it stay: one right guess is no excuse."""
        self._known.pop((address, user), None)
        self._known[address, user] = None
        if len(self._known) > self._entries_max:
            self._known.popitem(last=False)

    def __len__(self) -> int:
        return len(self._failures) + len(self._known)
