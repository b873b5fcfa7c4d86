"""Where a connection comes from: what the listener knows before a protocol is spoken."""

from msgspec import Struct

from penstock.net.visitors import Visitor


class Origin(Struct, frozen=True, gc=False):
    """How a client reached the broker. A door decides by it what a client may do unnamed."""

    accepted_at: float  # monotonic
    # address and port of the client; behind a proxy, what the PROXY header says; else ``owner``
    peer: str = "unknown"
    is_local: bool = False  # both ends are loopback addresses, and there is no proxy between
    is_encrypted: bool = False
    certificate: str = ""  # user that a verified client certificate names
    certificate_expires_ms: int = 0
    listener_user: str = ""  # user of clients that cannot log in, by configuration of the listener
    owner: str = ""  # who came by the administrator's socket of the data directory, as in "uid 0"
    visitor: Visitor | None = None  # its part in the limits of its address
    protocols: frozenset[str] = frozenset()  # that its listener accepts; empty: all
    is_websocket: bool = False

    @property
    def host(self) -> str:
        """The address without the port; empty if there is none."""
        return self.peer.rpartition(":")[0]

    @property
    def port(self) -> int:
        return int(self.peer.rpartition(":")[2]) if self.host else 0

    def accepts(self, protocol: str) -> bool:
        """Whether the listener does; the administrator's socket speaks HTTP alone."""
        return not self.owner and (not self.protocols or protocol in self.protocols)
