"""Rules between options.

A rule is checked only if all its options could be read: a default may replace an invalid value.
"""

from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Final

from penstock.config.address import Address, parse_listen
from penstock.config.cluster import CLUSTER_KEYS, cluster_faults
from penstock.config.problems import ConfigFault
from penstock.config.schema import Config


def cross_faults(config: Config, unknown: AbstractSet[str] = frozenset()) -> Iterator[ConfigFault]:
    """Check all rules; ``unknown`` names the options whose values could not be read."""
    for keys, rule in _RULES:
        if keys.isdisjoint(unknown):
            yield from rule(config)


def _addresses(config: Config, key: str) -> list[Address]:
    texts: tuple[str, ...] = getattr(config, key)
    return [parse_listen(text) for text in texts]


def _listener_faults(config: Config) -> Iterator[ConfigFault]:
    taken: set[Address] = set()
    for key in ("listen", "http_listen"):
        for address in _addresses(config, key):
            if address in taken:
                yield ConfigFault(f"{address} is listed twice", "remove it or change its port", key)
            if address.port:  # port 0 is a different port each time
                taken.add(address)
    if not config.listen and not config.http_listen:
        yield ConfigFault(
            "there is no address to listen on", 'write listen = ["127.0.0.1:1883"]', "listen"
        )


def _exposure_faults(config: Config, *, key: str) -> Iterator[ConfigFault]:
    """Secure by default: clients are not authenticated, so listen on loopback only."""
    if config.allow_anonymous:
        return
    for address in _addresses(config, key):
        if not address.is_loopback:
            yield ConfigFault(
                f"{address} is reachable from other machines, and clients are not authenticated",
                "add allow_anonymous = true (flag --allow-anonymous) if that is intended,"
                f" or listen on 127.0.0.1:{address.port}",
                key,
            )


def _order_faults(config: Config, *, key: str, other: str, why: str = "") -> Iterator[ConfigFault]:
    if getattr(config.limits, key) > getattr(config.limits, other):
        what = f"is above limits.{other}{why}"
        yield ConfigFault(what, "lower it or raise the other", f"limits.{key}")


_CONNECT_ORDER = partial(_order_faults, key="connect_bytes_max", other="packet_bytes_max")
_PACKET_ORDER = partial(
    _order_faults,
    key="packet_bytes_max",
    other="outbound_bytes_max",
    why=", so the largest messages could never be delivered",
)

_RULES: Final[list[tuple[AbstractSet[str], Callable[[Config], Iterator[ConfigFault]]]]] = [
    ({"listen", "http_listen"}, _listener_faults),
    ({"listen", "allow_anonymous"}, partial(_exposure_faults, key="listen")),
    ({"http_listen", "allow_anonymous"}, partial(_exposure_faults, key="http_listen")),
    ({"limits.connect_bytes_max", "limits.packet_bytes_max"}, _CONNECT_ORDER),
    ({"limits.packet_bytes_max", "limits.outbound_bytes_max"}, _PACKET_ORDER),
    (CLUSTER_KEYS, cluster_faults),
]
"""Each rule with the options that it reads."""
