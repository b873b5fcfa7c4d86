"""Who is banned: address ranges, users, client ids.

Ranges are judged for every connection before anything is read, so there may be ten thousand of them
without a search: they are grouped by their length, and an address is looked up once per length.
"""

from collections.abc import Iterable
from ipaddress import ip_network

from penstock.model.ip import IpAddress, parse_ip
from penstock.trust.book import AccessBook
from penstock.trust.rows import Ban

_Ranges = dict[tuple[int, int], dict[int, Ban]]
"""By IP version and prefix length: the bans by the leading bits of their range."""


class Bans:
    """The bans of a book, which may change at any time."""

    def __init__(self, book: AccessBook) -> None:
        self._book = book
        self._read: dict[str, Ban] = {}  # the bans that ``_ranges`` was made from
        self._ranges: _Ranges = {}

    def of_address(self, host: str, now_ms: int) -> Ban | None:
        """The ban in force of an address, if there is one."""
        bans = self._book.bans
        if not bans:
            return None
        if bans is not self._read:
            self._read, self._ranges = bans, _by_length(bans.values())
        address = parse_ip(host)
        return None if address is None else self._in_range(address, now_ms)

    def _in_range(self, address: IpAddress, now_ms: int) -> Ban | None:
        number, bits = int(address), address.max_prefixlen
        for (version, length), ranges in self._ranges.items():
            if version == address.version:
                ban = ranges.get(number >> (bits - length))
                if ban is not None and _is_in_force(ban, now_ms):
                    return ban
        return None

    def of_user(self, user: str, now_ms: int) -> Ban | None:
        return self._of(f"user:{user}", now_ms)

    def of_client(self, client_id: str, now_ms: int) -> Ban | None:
        return self._of(f"client:{client_id}", now_ms)

    def _of(self, name: str, now_ms: int) -> Ban | None:
        ban = self._book.bans.get(name)
        return ban if ban is not None and _is_in_force(ban, now_ms) else None


def _is_in_force(ban: Ban, now_ms: int) -> bool:
    return not ban.until_ms or now_ms < ban.until_ms


def _by_length(bans: Iterable[Ban]) -> _Ranges:
    ranges: _Ranges = {}
    for ban in bans:
        what, _, text = ban.name.partition(":")
        if what == "address":
            network = ip_network(text, strict=False)
            host_bits = network.max_prefixlen - network.prefixlen
            group = ranges.setdefault((network.version, network.prefixlen), {})
            found = group.get(key := int(network.network_address) >> host_bits)
            group[key] = ban if found is None else max(found, ban, key=_end_ms)
    return ranges


def _end_ms(ban: Ban) -> float:
    return ban.until_ms or float("inf")
