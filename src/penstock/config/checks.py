"""Rules between options.

A rule is checked only if all its options could be read: a default may replace an invalid value.
"""

from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Final

from penstock.config.address import Address, parse_listen, parse_listener
from penstock.config.bridges import bridge_faults
from penstock.config.cluster import CLUSTER_KEYS, cluster_faults
from penstock.config.problems import ConfigFault
from penstock.config.schema import Config
from penstock.config.tls import TLS_KEYS, tls_faults


def cross_faults(config: Config, unknown: AbstractSet[str] = frozenset()) -> Iterator[ConfigFault]:
    """Check all rules; ``unknown`` names the options whose values could not be read."""
    for keys, rule in _RULES:
        if keys.isdisjoint(unknown):
            yield from rule(config)


def _addresses(config: Config, key: str) -> list[tuple[str, Address]]:
    """The addresses of an option, each with the name of the value that has it."""
    if key == "listeners":
        options = enumerate(config.listeners)
        return [(f"listeners[{at}].address", parse_listen(one.address)) for at, one in options]
    texts: tuple[str, ...] = getattr(config, key)
    return [(key, parse_listener(text)[0]) for text in texts]


def _listener_faults(config: Config) -> Iterator[ConfigFault]:
    taken: set[Address] = set()
    for option in ("listen", "http_listen", "listeners"):
        for key, address in _addresses(config, option):
            if address in taken:
                yield ConfigFault(f"{address} is listed twice", "remove it or change its port", key)
            if address.port:  # port 0 is a different port each time
                taken.add(address)
    if not any((config.listen, config.http_listen, config.listeners)):
        yield ConfigFault(
            "there is no address to listen on", 'write listen = ["127.0.0.1:1883"]', "listen"
        )


def _option_faults(config: Config) -> Iterator[ConfigFault]:
    """A setting of a listener that could have no effect, or not the one that is meant."""
    for at, one in enumerate(config.listeners):
        key = f"listeners[{at}]"
        if one.proxy and not one.trusted:
            what = "a listener that expects PROXY headers must know from whom to believe them"
            yield ConfigFault(what, 'add trusted = ["ADDRESS OF THE PROXY"]', f"{key}.proxy")
        if one.trusted and not one.proxy:
            what = "has no effect without proxy = true"
            yield ConfigFault(what, "add it, or remove trusted", f"{key}.trusted")
        if one.tls == "off" and one.client_certs in {"optional", "required"}:
            what = "clients show certificates in TLS handshakes only, and tls is off"
            yield ConfigFault(what, 'write tls = "required"', f"{key}.client_certs")


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


def _tracing_faults(config: Config) -> Iterator[ConfigFault]:
    endpoint = config.tracing.endpoint
    if endpoint and not endpoint.startswith(("http://", "https://")):
        advice = 'write "http://HOST:4318/v1/traces"'
        yield ConfigFault("is no address of HTTP", advice, "tracing.endpoint")


_RULES: Final[list[tuple[AbstractSet[str], Callable[[Config], Iterator[ConfigFault]]]]] = [
    ({"listen", "http_listen", "listeners"}, _listener_faults),
    ({"listeners"}, _option_faults),
    ({"limits.connect_bytes_max", "limits.packet_bytes_max"}, _CONNECT_ORDER),
    ({"limits.packet_bytes_max", "limits.outbound_bytes_max"}, _PACKET_ORDER),
    ({"bridges"}, bridge_faults),
    ({"tracing.endpoint"}, _tracing_faults),
    (CLUSTER_KEYS, cluster_faults),
    (TLS_KEYS, tls_faults),
]
"""Each rule with the options that it reads."""
