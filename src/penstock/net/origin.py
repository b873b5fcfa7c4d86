"""Where a connection comes from: what the listener knows before a protocol is spoken."""

from functools import lru_cache

from msgspec import Struct

from penstock.net.visitors import Visitor


class Approach(Struct, frozen=True, gc=False):
    """What most clients of a listener have in common; ``shared`` makes it one object for all."""

    is_local: bool = False  # both ends are loopback addresses, and there is no proxy between
    is_encrypted: bool = False
    certificate: str = ""  # user that a verified client certificate names
    certificate_expires_ms: int = 0
    listener_user: str = ""  # user of clients that cannot log in, by configuration of the listener
    owner: str = ""  # who came by the administrator's socket of the data directory, as in "uid 0"
    protocols: frozenset[str] = frozenset()  # that its listener accepts; empty: all
    is_websocket: bool = False


@lru_cache(maxsize=64)
def shared(approach: Approach) -> Approach:
    """An equal object, the same one for all who come alike: there may be very many."""
    return approach


class Origin(Struct, frozen=True, gc=False):
    """How a client reached the broker. A door decides by it what a client may do unnamed."""

    accepted_at: float  # monotonic
    # address and port of the client; behind a proxy, what the PROXY header says; else ``owner``
    peer: str = "unknown"
    approach: Approach = Approach()
    visitor: Visitor | None = None  # its part in the limits of its address

    @property
    def is_local(self) -> bool:
        return self.approach.is_local

    @property
    def is_encrypted(self) -> bool:
        return self.approach.is_encrypted

    @property
    def certificate(self) -> str:
        return self.approach.certificate

    @property
    def certificate_expires_ms(self) -> int:
        return self.approach.certificate_expires_ms

    @property
    def listener_user(self) -> str:
        return self.approach.listener_user

    @property
    def owner(self) -> str:
        return self.approach.owner

    @property
    def is_websocket(self) -> bool:
        return self.approach.is_websocket

    @property
    def host(self) -> str:
        """The address without the port; empty if there is none."""
        return self.peer.rpartition(":")[0]

    @property
    def port(self) -> int:
        return int(self.peer.rpartition(":")[2]) if self.host else 0

    def accepts(self, protocol: str) -> bool:
        """Whether the listener does; the administrator's socket speaks HTTP alone."""
        protocols = self.approach.protocols
        return not self.owner and (not protocols or protocol in protocols)
