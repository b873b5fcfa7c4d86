"""Where other nodes connect: strangers first, then nodes that have proven who they are.

Strangers are few, say little and have little time; see :mod:`penstock.cluster.handshake`. Once a
node is known, a new incarnation of it ends all connections of the last one. A second connection
for the same purpose ends the first, which its maker has given up.
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
from penstock.cluster.handshake import (
    NONCE_BYTES,
    Answerer,
    Hello,
    Identity,
    PeerSession,
    Purpose,
)
from penstock.cluster.peer_connection import HANDSHAKE_S, PeerConnection, tune
from penstock.cluster.security import PeerSecurity
from penstock.config.address import Address
from penstock.errors import Refused
from penstock.obs.reasons import PeerReason
from penstock.raft.types import NodeId

STRANGERS_MAX = 32
"""Connections at once that have not proven who they are: enough for all nodes to start together."""
BACKLOG = 64

_Way: TypeAlias = tuple[NodeId, Purpose]


class PeerListenerOwner(Protocol):
    """Who is told about nodes that came in."""

    def admit(self, hello: Hello) -> None:
        """A proven node asks to come in; raises PeerFault if it is not wanted."""
        ...

    def arrived(self, session: PeerSession) -> None:
        """It is in."""
        ...

    def received(self, link: PeerConnection, payload: bytes) -> None:
        """It says something. May raise PeerFault."""
        ...

    def writable(self, link: PeerConnection) -> None:
        """It takes more of what is sent to it (snapshots are answered)."""
        ...

    def ended(self, link: PeerConnection, fault: PeerFault) -> None:
        """A connection is over: that of a node, or (without session) a stranger's."""
        ...


class PeerListener:
    """A listening socket for nodes."""

    def __init__(
        self, guests: PeerListenerOwner, identity: Callable[[], Identity], security: PeerSecurity
    ) -> None:
        self._guests = guests
        self._identity = identity
        self._security = security
        self._socket: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._greetings: set[asyncio.Task[None]] = set()
        self._strangers: set[PeerConnection] = set()
        self._nodes: dict[_Way, PeerConnection] = {}

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
        """Listen no more, and close all connections."""
        for task in (self._accepting, *self._greetings):
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
        if self._socket is not None:
            self._socket.close()
        for link in (*self._strangers, *self._nodes.values()):
            link.close(PeerReason.NODE_STOPPED, "this node stops")

    # ── Accepting ─────────────────────────────────────────────────────────────────────────────

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(listening)
            except OSError:  # no descriptor left, or the other side was gone before we looked
                await asyncio.sleep(0.1)
                continue
            task = loop.create_task(self._greet(connection))
            self._greetings.add(task)
            task.add_done_callback(self._greetings.discard)
            task.add_done_callback(partial(_close_if_cancelled, connection))

    async def _greet(self, connection: socket.socket) -> None:
        """Have a stranger's handshake begin, TLS before it. Connecting in itself is no merit."""
        link = self._link()
        if len(self._strangers) >= STRANGERS_MAX:
            connection.close()
            link.close(PeerReason.TOO_MANY_STRANGERS, f"{STRANGERS_MAX} strangers are here already")
            return
        self._strangers.add(link)
        loop = asyncio.get_running_loop()
        tls = self._security.server_tls
        patience = {"ssl_handshake_timeout": HANDSHAKE_S} if tls else {}
        try:
            tune(connection)
            await loop.connect_accepted_socket(lambda: link, connection, ssl=tls, **patience)
        except (OSError, TimeoutError) as error:
            connection.close()
            is_tls = isinstance(error, ssl.SSLError)
            reason = PeerReason.WRONG_CERTIFICATE if is_tls else PeerReason.CONNECTION_LOST
            link.close(reason, f"TLS failed: {error}" if is_tls else f"lost at once: {error}")

    def _link(self) -> PeerConnection:
        secret, nonce = self._security.secret, os.urandom(NONCE_BYTES)
        link = PeerConnection(
            self, Answerer(self._identity(), secret, nonce, lambda h: self._admit(link, h))
        )
        return link

    def _admit(self, link: PeerConnection, hello: Hello) -> None:
        self._security.check_certificate(hello.node_id, link.certificate)
        self._guests.admit(hello)

    # ── What connections tell ─────────────────────────────────────────────────────────────────

    def opened(self, link: PeerConnection, session: PeerSession) -> None:
        self._strangers.discard(link)
        for other in list(self._nodes.values()):
            self._part(other, session)
        self._nodes[session.node_id, session.purpose] = link
        self._guests.arrived(session)

    def _part(self, other: PeerConnection, session: PeerSession) -> None:
        """End a connection that a new one makes superfluous."""
        old = other.session
        if old is None or old.node_id != session.node_id:
            return
        if old.incarnation != session.incarnation:
            other.close(PeerReason.NEW_INCARNATION, f"node {old.node_id} was started anew")
        elif old.purpose is session.purpose:
            other.close(PeerReason.REPLACED, f"node {old.node_id} has connected again")

    def received(self, link: PeerConnection, payload: bytes) -> None:
        self._guests.received(link, payload)

    def writable(self, link: PeerConnection) -> None:
        self._guests.writable(link)

    def ended(self, link: PeerConnection, fault: PeerFault) -> None:
        self._strangers.discard(link)
        session = link.session
        if session is not None and self._nodes.get((session.node_id, session.purpose)) is link:
            del self._nodes[session.node_id, session.purpose]
        self._guests.ended(link, fault)


def _close_if_cancelled(connection: socket.socket, greeting: asyncio.Task[None]) -> None:
    """Close a connection of whose greeting nothing came, as this node stops."""
    if greeting.cancelled():
        connection.close()


def _listening(found: tuple[int, int, int, str, tuple[object, ...]]) -> socket.socket:
    family, kind, protocol, _, place = found
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(place)
        listening.listen(BACKLOG)
        listening.setblocking(False)
    except OSError:
        listening.close()
        raise
    return listening
