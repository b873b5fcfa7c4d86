"""What ``/clients`` shows of a client, whichever protocol it speaks."""

from typing import NamedTuple


class ClientView(NamedTuple):
    """A connection, or the stored session of a client that is away."""

    client_id: bytes  # empty if the client gave none
    protocol: str
    peer: str  # its address; empty while it is away
    idle_s: float | None  # since it last sent something; None while it is away
    is_persistent: bool = False
    subscriptions: int = 0
    in_flight: int = 0  # messages not acknowledged yet
    waiting: int = 0  # messages queued behind those
    user: str = ""  # empty if it has not logged in
    is_encrypted: bool = False
    is_websocket: bool = False
    version: str = ""  # of the protocol: 5 or 3.1.1; empty if it is not MQTT
