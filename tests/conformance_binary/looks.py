"""Looks into a broker of the test's own: what it has counted."""

from penstock.obs.reasons import DisconnectReason, DropReason
from penstock.testing import Broker

__all__ = ["disconnects", "drops"]


def disconnects(broker: Broker, reason: str) -> int:
    """How many connections ended for this reason."""
    counted = broker.server.counters.disconnects
    return broker.call(lambda: counted[DisconnectReason(reason)])


def drops(broker: Broker, reason: str) -> int:
    """How many messages went no further for this reason."""
    counted = broker.server.counters.drops
    return broker.call(lambda: counted[DropReason(reason)])
