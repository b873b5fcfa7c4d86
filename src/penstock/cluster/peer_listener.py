"""Where other nodes connect: unauthenticated connections first, then those of known nodes.

Connections that have not authenticated are limited in number, bytes and time; see
:mod:`penstock.cluster.handshake`. A new incarnation of a node ends all connections of the last
one. A second connection for the same purpose ends the first, which its maker has given up.
"""

import asyncio
import contextlib
import os
import socket
import ssl
from collections.abc import Callable
from functools import partial
from typing import Protocol, TypeAlias

from penstock.cluster.faults import PeerFault
from penstock.cluster.handshake import NONCE_BYTES, Answerer, Hello, Identity, PeerSession, Purpose
from penstock.cluster.peer_connection import HANDSHAKE_S, PeerConnection, tune
from penstock.cluster.security import PeerSecurity
from penstock.config.address import Address
from penstock.errors import Refused
from penstock.obs.reasons import PeerReason
from penstock.raft.types import NodeId

UNAUTHENTICATED_MAX = 32  # connections: enough for all nodes to start together
BACKLOG = 64

_Key: TypeAlias = tuple[NodeId, Purpose]


class PeerListenerOwner(Protocol):
    """Receives the events of incoming connections."""

    def admit(self, hello: Hello) -> None: ...

    def arrived(self, session: PeerSession) -> None: ...

    def received(self, connection: PeerConnection, payload: bytes) -> None:
        """A frame arrived. May raise PeerFault, which ends the connection."""

    def ended(self, connection: PeerConnection, fault: PeerFault) -> None:
        """A connection has ended; without a session it never authenticated."""


class PeerListener:
    """A listening socket for nodes."""

    def __init__(
        self, owner: PeerListenerOwner, identity: Callable[[], Identity], security: PeerSecurity
    ) -> None:
        self._owner = owner
        self._identity = identity
        self._security = security
        self._socket: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._handshakes: set[asyncio.Task[None]] = set()
        self._unauthenticated: set[PeerConnection] = set()
        self._nodes: dict[_Key, PeerConnection] = {}

    async def listen(self, address: Address) -> Address:
        """Listen; return the address with the port that was really taken. Raises Refused."""
        self._security.check(address)
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
            self._socket = _listening(found[0])
        except OSError as error:
            raise Refused(
                f"cannot listen for other nodes on {address}: {error.strerror or error}",
                "Is another broker using the port? Choose another with cluster.peer_listen.",
            ) from error
        self._accepting = loop.create_task(self._accept(self._socket))
        return Address(address.host, self._socket.getsockname()[1])

    async def stop(self) -> None:
        for task in (self._accepting, *self._handshakes):
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
        if self._socket is not None:
            self._socket.close()
        for connection in (*self._unauthenticated, *self._nodes.values()):
            connection.close(PeerReason.NODE_STOPPED, "this node stops")

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, _ = await loop.sock_accept(listening)
            except OSError:  # no descriptor left, or the other side was gone before we looked
                await asyncio.sleep(0.1)
                continue
            task = loop.create_task(self._begin_handshake(accepted))
            self._handshakes.add(task)
            task.add_done_callback(self._handshakes.discard)
            task.add_done_callback(partial(_close_if_cancelled, accepted))

    async def _begin_handshake(self, accepted: socket.socket) -> None:
        connection = self._new_connection()
        if len(self._unauthenticated) >= UNAUTHENTICATED_MAX:
            accepted.close()
            connection.close(
                PeerReason.TOO_MANY_STRANGERS,
                f"{UNAUTHENTICATED_MAX} connections have not authenticated yet",
            )
            return
        self._unauthenticated.add(connection)
        loop = asyncio.get_running_loop()
        tls = self._security.server_tls
        timeout = {"ssl_handshake_timeout": HANDSHAKE_S} if tls else {}
        try:
            tune(accepted)
            await loop.connect_accepted_socket(lambda: connection, accepted, ssl=tls, **timeout)
        except (OSError, TimeoutError) as error:
            accepted.close()
            is_tls = isinstance(error, ssl.SSLError)
            reason = PeerReason.WRONG_CERTIFICATE if is_tls else PeerReason.CONNECTION_LOST
            connection.close(reason, f"TLS failed: {error}" if is_tls else f"lost at once: {error}")

    def _new_connection(self) -> PeerConnection:
        def admit(hello: Hello) -> None:
            self._security.check_certificate(hello.node_id, connection.certificate)
            self._owner.admit(hello)

        security = self._security
        answerer = Answerer(
            self._identity(),
            security.secret,
            os.urandom(NONCE_BYTES),
            admit,
            security.other_secrets,
        )
        connection = PeerConnection(self, answerer)
        return connection

    def opened(self, connection: PeerConnection, session: PeerSession) -> None:
        self._unauthenticated.discard(connection)
        for other in list(self._nodes.values()):
            _close_if_replaced(other, session)
        self._nodes[session.node_id, session.purpose] = connection
        self._owner.arrived(session)

    def received(self, connection: PeerConnection, payload: bytes) -> None:
        self._owner.received(connection, payload)

    def writable(self, connection: PeerConnection) -> None:
        """Nothing to do: all that is sent here is one short answer to a snapshot."""

    def ended(self, connection: PeerConnection, fault: PeerFault) -> None:
        self._unauthenticated.discard(connection)
        session = connection.session
        if session is not None:
            key = session.node_id, session.purpose
            if self._nodes.get(key) is connection:
                del self._nodes[key]
        self._owner.ended(connection, fault)


def _close_if_replaced(connection: PeerConnection, session: PeerSession) -> None:
    old = connection.session
    if old is None or old.node_id != session.node_id:
        return
    if old.incarnation != session.incarnation:
        connection.close(PeerReason.NEW_INCARNATION, f"node {old.node_id} was restarted")
    elif old.purpose is session.purpose:
        connection.close(PeerReason.REPLACED, f"node {old.node_id} has connected again")


def _close_if_cancelled(accepted: socket.socket, handshake: asyncio.Task[None]) -> None:
    if handshake.cancelled():
        accepted.close()


def _listening(found: tuple[int, int, int, str, tuple[object, ...]]) -> socket.socket:
    family, kind, protocol, _, address = found
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(BACKLOG)
        listening.setblocking(False)
    except OSError:
        listening.close()
        raise
    return listening
