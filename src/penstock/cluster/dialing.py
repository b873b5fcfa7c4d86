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
    """Dials as this node. ``identity`` is called each time, since it may change."""

    def __init__(self, identity: Callable[[], Identity], security: PeerSecurity) -> None:
        self._identity = identity
        self._security = security

    async def dial(
        self, owner: PeerConnectionOwner, node: NodeId, text: str, purpose: Purpose
    ) -> PeerConnection:
        """Connect to a node, and begin the handshake. Raises PeerFault."""
        address = self._address(node, text)
        dialer = Dialer(
            self._identity(), node, purpose, self._security.secret, os.urandom(NONCE_BYTES)
        )
        connection = PeerConnection(owner, dialer)
        try:
            async with asyncio.timeout(HANDSHAKE_S):
                await self._connect(connection, address)
        except (OSError, TimeoutError) as error:
            raise _not_reached(node, address, error) from error
        return connection

    def check_certificate(self, connection: PeerConnection, node: NodeId) -> None:
        self._security.check_certificate(node, connection.certificate)

    def _address(self, node: NodeId, text: str) -> Address:
        if not text:
            raise PeerFault(PeerReason.NOT_REACHED, f"the address of node {node} is unknown")
        try:
            address = parse_listen(text)
            self._security.check(address)
        except (ValueError, ConfigError) as error:
            raise PeerFault(PeerReason.NOT_REACHED, f"node {node}: {error}") from error
        return address

    async def _connect(self, connection: PeerConnection, address: Address) -> None:
        tls = self._security.client_tls
        transport, _ = await asyncio.get_running_loop().create_connection(
            lambda: connection,
            address.host,
            address.port,
            ssl=tls,
            server_hostname="" if tls else None,
        )
        tune(transport.get_extra_info("socket"))


def _not_reached(node: NodeId, address: Address, error: Exception) -> PeerFault:
    if isinstance(error, ssl.SSLError):
        return PeerFault(
            PeerReason.WRONG_CERTIFICATE, f"TLS with node {node} at {address} failed: {error}"
        )
    return PeerFault(PeerReason.NOT_REACHED, f"not reached at {address}: {_why(error)}")


def _why(error: Exception) -> str:
    """The system's own text, if any: asyncio puts a call and its arguments there."""
    if isinstance(error, TimeoutError):
        return f"no answer within {HANDSHAKE_S:g} s"
    if not isinstance(error, OSError) or error.errno is None:
        return str(error)
    return os.strerror(error.errno) if error.errno > 0 else error.strerror or str(error)
