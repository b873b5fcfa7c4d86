"""Why a connection to another node has to end, as an exception."""

from penstock.errors import RemoteProtocolError
from penstock.obs.reasons import PeerReason


class PeerFault(RemoteProtocolError):  # noqa: N818 - it is the other node's, or the way's
    """The other side said or did what ends this connection; ``reason`` is counted."""

    def __init__(self, reason: PeerReason, message: str, advice: str = "") -> None:
        super().__init__(message, advice)
        self.reason = reason
