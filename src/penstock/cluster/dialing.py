"""Making a connection to another node."""

import asyncio
import os
import ssl
from collections.abc import Callable

from penstock.cluster.faults import PeerFault
from penstock.cluster.handshake import NONCE_BYTES, Dialer, Identity, Purpose
from penstock.cluster.peer_connection import HANDSHAKE_S, PeerConnection, PeerConnectionOwner, tune
from penstock.cluster.security import PeerSecurity
from penstock.config.address import Address, parse_listen
from penstock.errors import ConfigError
from penstock.obs.reasons import PeerReason
from penstock.raft.types import NodeId


class PeerDialer:
    """Knows who we are and what we can prove. ``identity`` is asked each time: it may change."""

    def __init__(self, identity: Callable[[], Identity], security: PeerSecurity) -> None:
        self._identity = identity
        self._security = security

    async def dial(
        self, owner: PeerConnectionOwner, node: NodeId, text: str, purpose: Purpose
    ) -> PeerConnection:
        """Connect to a node; the handshake goes on by itself. Raises PeerFault if it can not be."""
        address = self._address(node, text)
        dialer = Dialer(
            self._identity(), node, purpose, self._security.secret, os.urandom(NONCE_BYTES)
        )
        link = PeerConnection(owner, dialer)
        try:
            async with asyncio.timeout(HANDSHAKE_S):
                await self._connect(link, address)
        except (OSError, TimeoutError) as error:
            raise _not_reached(node, address, error) from error
        return link

    def check_certificate(self, link: PeerConnection, node: NodeId) -> None:
        """Refuse an answerer whose certificate is another node's; raises PeerFault."""
        self._security.check_certificate(node, link.certificate)

    def _address(self, node: NodeId, text: str) -> Address:
        if not text:
            raise PeerFault(PeerReason.NOT_REACHED, f"nobody knows the address of node {node}")
        try:
            address = parse_listen(text)
            self._security.check(address)
        except (ValueError, ConfigError) as error:
            raise PeerFault(PeerReason.NOT_REACHED, f"node {node}: {error}") from error
        return address

    async def _connect(self, link: PeerConnection, address: Address) -> None:
        tls = self._security.client_tls
        transport, _ = await asyncio.get_running_loop().create_connection(
            lambda: link, address.host, address.port, ssl=tls, server_hostname="" if tls else None
        )
        tune(transport.get_extra_info("socket"))


def _not_reached(node: NodeId, address: Address, error: Exception) -> PeerFault:
    if isinstance(error, ssl.SSLError):
        return PeerFault(
            PeerReason.WRONG_CERTIFICATE, f"TLS with node {node} at {address} failed: {error}"
        )
    return PeerFault(PeerReason.NOT_REACHED, f"not reached at {address}: {_why(error)}")


def _why(error: Exception) -> str:
    """In the system's words where it has some: asyncio puts a call and its arguments there."""
    if isinstance(error, TimeoutError):
        return f"no answer within {HANDSHAKE_S:g} s"
    if not isinstance(error, OSError) or error.errno is None:
        return str(error)
    return os.strerror(error.errno) if error.errno > 0 else error.strerror or str(error)
