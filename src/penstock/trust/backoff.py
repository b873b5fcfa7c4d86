"""Back-off: who gave wrong credentials too often has to wait, before anything is hashed.

An **address** (of IPv6 its /64 network) has some failures a minute free. Each further one makes it
wait, 1 s at first and twice as long each time, up to 5 minutes. After five quiet minutes everything
is forgotten. A **user** is treated likewise, whoever tries it from wherever, but not at addresses
where it has logged in before: so nobody can lock a user out by guessing at it.

Both tables are bounded, and separate: guessing does not push out the addresses that users are known
at. The oldest entries are forgotten first. Time is that of a monotonic clock, and is passed in.
"""

from collections import OrderedDict
from ipaddress import IPv6Address, ip_address, ip_network

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
        """How long this user must wait at this address (``network_of``); 0: it may try."""
        wait_s = self._wait_s((address, ""), now)
        if user and (address, user) not in self._known:
            wait_s = max(wait_s, self._wait_s(("", user), now))
        return wait_s

    def _wait_s(self, key: tuple[str, str], now: float) -> float:
        failures = self._failures.get(key)
        return 0.0 if failures is None else max(failures.until - now, 0.0)

    def failed(self, address: str, user: str, now: float) -> None:
        """Note a wrong login. ``user`` is empty if there can be no such user."""
        self._note((address, ""), now)
        if user and (address, user) not in self._known:
            self._note(("", user), now)

    def _note(self, key: tuple[str, str], now: float) -> None:
        failures = self._failures.pop(key, None)
        if failures is None or failures.is_forgotten(now):
            failures = _Failures(now)
        failures.note(self._free, now)
        self._failures[key] = failures
        if len(self._failures) > self._entries_max:
            self._failures.popitem(last=False)

    def succeeded(self, address: str, user: str) -> None:
        """Note a right login; the failures of the address stay: one right guess is no excuse."""
        self._known.pop((address, user), None)
        self._known[address, user] = None
        if len(self._known) > self._entries_max:
            self._known.popitem(last=False)

    def __len__(self) -> int:
        return len(self._failures) + len(self._known)


def network_of(host: str) -> str:
    """What counts as one address: that of IPv4, the /64 network of IPv6, or the text itself."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if not isinstance(address, IPv6Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ip_network((address, 64), strict=False))
