"""What no key can be judged on alone: rules between keys, checked once all values are known."""

from collections.abc import Iterator

from penstock.config.address import Address, parse_listen
from penstock.config.problems import Fault
from penstock.config.schema import Config

__all__ = ["cross_faults"]


def cross_faults(config: Config) -> Iterator[Fault]:
    """Everything about ``config`` that contradicts itself; each fault names its key."""
    yield from _listener_faults(config)
    yield from _exposure_faults(config)
    yield from _order_faults(config)


def _listeners(config: Config) -> Iterator[tuple[str, Address]]:
    for key, texts in (("listen", config.listen), ("http_listen", config.http_listen)):
        for text in texts:
            yield key, parse_listen(text)


def _listener_faults(config: Config) -> Iterator[Fault]:
    """Two listeners cannot share an address, and none at all would be a broker nobody reaches."""
    taken: set[Address] = set()
    for key, address in _listeners(config):
        if address in taken:
            yield Fault(f"{address} is listed twice", "remove one, or change its port", key)
        if address.port:  # port 0 is a different port each time
            taken.add(address)
    if not config.listen and not config.http_listen:
        yield Fault(
            "there is no address to listen on", 'write listen = ["127.0.0.1:1883"]', "listen"
        )


def _exposure_faults(config: Config) -> Iterator[Fault]:
    """Safe by default: with no credentials, everyone who reaches a listener may do everything."""
    if config.allow_anonymous:
        return
    for key, address in _listeners(config):
        if not address.is_loopback:
            yield Fault(
                f"{address} can be reached from other machines, and nobody is asked who they are",
                "add allow_anonymous = true (flag --allow-anonymous) if that is meant,"
                f" or listen on 127.0.0.1:{address.port}",
                key,
            )


def _order_faults(config: Config) -> Iterator[Fault]:
    """A packet must fit through every bound it meets after the one that let it in."""
    limits = config.limits
    if limits.connect_bytes_max > limits.packet_bytes_max:
        yield Fault(
            "is above limits.packet_bytes_max",
            "lower it, or raise the other",
            "limits.connect_bytes_max",
        )
    if limits.packet_bytes_max > limits.outbound_bytes_max:
        yield Fault(
            "is above limits.outbound_bytes_max, so the largest messages could never be delivered",
            "lower it, or raise the other",
            "limits.packet_bytes_max",
        )
