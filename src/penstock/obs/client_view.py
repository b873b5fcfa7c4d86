"""What is shown of a client, whichever protocol it speaks."""

from typing import NamedTuple


class ClientView(NamedTuple):
    """A connection, or a session that is kept while its client is away."""

    client_id: bytes
    """Empty if it has given none."""
    protocol: str
    peer: str
    """Its address; empty while it is away."""
    idle_s: float | None
    """Time since it said something; None while it is away."""
    is_persistent: bool = False
    subscriptions: int = 0
    in_flight: int = 0
    """Messages that it has not acknowledged."""
    waiting: int = 0
    """Messages that wait for those."""
