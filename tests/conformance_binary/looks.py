"""Reads counters of a test's own broker."""

from penstock.obs.reasons import DisconnectReason, DropReason
from penstock.testing import Broker

__all__ = ["disconnects", "drops"]


def disconnects(broker: Broker, reason: str) -> int:
    """Return the number of connections closed for this reason."""
    counted = broker.server.counters.disconnects
    return broker.call(lambda: counted[DisconnectReason(reason)])


def drops(broker: Broker, reason: str) -> int:
    """Return the number of messages dropped for this reason."""
    counted = broker.server.counters.drops
    return broker.call(lambda: counted[DropReason(reason)])
