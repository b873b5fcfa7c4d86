"""The exception that ends a connection to another node."""

from penstock.errors import RemoteProtocolError
from penstock.obs.reasons import PeerReason


class PeerFault(RemoteProtocolError):  # noqa: N818 - a fault of the other node, or of the network
    """Ends a connection; ``reason`` is counted."""

    def __init__(self, reason: PeerReason, message: str, advice: str = "") -> None:
        super().__init__(message, advice)
        self.reason = reason
