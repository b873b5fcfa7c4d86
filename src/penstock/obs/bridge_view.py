"""A bridge as lists, metrics and pages show it."""

from enum import Enum
from typing import Protocol

from msgspec import Struct

from penstock.obs.reasons import BridgeDropReason


class BridgeState(Enum):
    """Where a bridge is. The value is what people see."""

    STANDBY = "standby"
    """Another node of the cluster leads; its bridge of this name does the work."""
    CONNECTING = "connecting"
    """It is about to connect, or to subscribe."""
    CONNECTED = "connected"
    """It copies messages."""
    WAITING = "waiting"
    """It was not able to connect, and will try again; what it copies waits at both brokers."""


class Copying(Struct, frozen=True):
    """One direction of a bridge."""

    filters: list[str]  # as subscribed, with the prefix of the side that the messages come from
    copied: int  # since the broker started: acknowledged by the other side, or QoS 0 and sent
    drops: dict[BridgeDropReason, int]
    in_flight: int


class BridgeView(Struct, frozen=True, kw_only=True):
    """One bridge, as it is now."""

    name: str
    url: str
    state: BridgeState
    since_ms: int
    version: int  # of MQTT at the other end: 5, or 4 for 3.1.1; 0: not known yet
    error: str  # why it was not able to connect last; empty while it is connected
    advice: str
    retry_ms: int  # when it tries again; 0: it does not wait
    incoming: Copying
    outgoing: Copying


class BridgeViews(Protocol):
    """All bridges of a node."""

    def views(self) -> list[BridgeView]: ...
