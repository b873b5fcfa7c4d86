"""Bridges to other MQTT brokers: answers of ``/api/v1/bridges``."""

import msgspec

from penstock.api.documents.common import Moment
from penstock.api.documents.lists import Missing


class BridgeDirection(msgspec.Struct, frozen=True):
    """What a bridge copies in one direction; the numbers are since the broker started."""

    filters: list[str]  # as subscribed where the messages come from, with the prefix of that side
    copied: int  # acknowledged by the other side, or sent with QoS 0
    dropped: dict[str, int]  # by reason
    in_flight: int  # sent, and not acknowledged yet


class BridgeRow(msgspec.Struct, frozen=True, kw_only=True):
    """A bridge. ``state`` is standby, connecting, connected or waiting (to try again)."""

    name: str
    url: str
    state: str
    since: Moment
    mqtt: str  # the version that the other broker speaks: 5 or 3.1.1; empty: not known yet
    error: str  # why it was not able to connect; empty while it is connected
    advice: str
    retry_at: Moment | None  # when it tries again
    incoming: BridgeDirection
    outgoing: BridgeDirection


class Bridges(msgspec.Struct, frozen=True):
    """All bridges of the node that was asked, in the order of its configuration."""

    items: list[BridgeRow]
    next: str | None = None
    incomplete: list[Missing] = []
