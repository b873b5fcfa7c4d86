"""Accepting connections and finding out what they speak.

The **door** of a protocol takes over the transport and the bytes read. It is any callable
``(transport, data, origin)``; a protocol without one is refused with a reason.

Before anything is read, the address is judged: bans, and the limits of ``net.visitors``. On a
listener for proxies the address is the one in the PROXY header, which only trusted proxies may
send; no other header, of HTTP or anything else, is ever believed.
"""

import asyncio
import os
import ssl
from collections.abc import Callable, Mapping
from typing import cast

from msgspec.structs import replace

from penstock.config.address import Address
from penstock.config.listeners import ListenerSettings
from penstock.errors import Refused
from penstock.limits import DETECT_BYTES_MAX, PROXY_TIMEOUT_S
from penstock.model.ip import is_loopback, parse_ip
from penstock.net.connections import Connections
from penstock.net.detect import Protocol, detect
from penstock.net.origin import Approach, Origin, shared
from penstock.net.sockets import Server
from penstock.net.tls import TlsTransport
from penstock.net.tls_entrance import CLEAR_TEXT_ANSWERS, TlsEntrance, alpn_fault
from penstock.obs.log import get_logger
from penstock.obs.reasons import DisconnectReason
from penstock.trust.bans import Bans
from penstock.wire.proxy import ProxyFault, decode_header

_log = get_logger("net")
Door = Callable[[asyncio.Transport, bytes, Origin], None]
BEYOND_CLIENTS = 64  # connections beyond ``clients_max``: a full broker must still answer probes
NOWHERE = Origin(0.0)
BACKLOG = 1024  # connections that the kernel queues when a fleet reconnects at once


class Listener:
    """All listening sockets of a broker; each speaks every protocol that has a door."""

    def __init__(
        self,
        connections: Connections,
        doors: Mapping[Protocol, Door],
        bans: Bans,
        tls: TlsEntrance | None = None,
    ) -> None:
        """``tls`` is None if there is no certificate."""
        self.connections = connections
        self.doors = doors
        self.bans = bans
        self.tls = tls
        self.undetected: set[_UndetectedConnection] = set()
        self._servers: list[Server] = []

    async def listen(self, settings: ListenerSettings) -> Address:
        address = settings.address
        try:
            server = await self.connections.sockets.listen(
                lambda: _UndetectedConnection(self, settings), address.host, address.port, BACKLOG
            )
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else str(error)
            raise Refused(
                f"cannot listen on {address}: {reason}",
                "Is another program, or another broker, using the port? Choose others with"
                " --listen and --http-listen HOST:PORT.",
            ) from error
        self._servers.append(server)
        return Address(address.host, server.port)

    def stop_accepting(self) -> None:
        for server in self._servers:
            server.close()
        self._servers.clear()

    def abort_undetected(self) -> None:
        for connection in list(self.undetected):
            connection.refuse(DisconnectReason.SERVER_SHUTDOWN)

    def forgive(self, stalled_s: float) -> None:
        for connection in self.undetected:
            connection.forgive(stalled_s)

    def admits_connection(self) -> bool:
        known = self.connections.open_count + len(self.undetected)
        return known < self.connections.limits.clients_max + BEYOND_CLIENTS

    def admits(self, protocol: Protocol) -> bool:
        """Whether there is room for a client; HTTP connections are not counted as such."""
        return (
            protocol is Protocol.HTTP
            or len(self.connections.clients) < self.connections.limits.clients_max
        )


class _UndetectedConnection(asyncio.Protocol):
    """A connection whose protocol is not known yet."""

    __slots__ = (
        "_awaits_header",
        "_data",
        "_listener",
        "_origin",
        "_settings",
        "_transport",
    )

    def __init__(self, listener: Listener, settings: ListenerSettings) -> None:
        self._listener = listener
        self._settings = settings
        self._awaits_header = settings.proxy
        self._transport: asyncio.Transport | None = None
        self._data = b""
        self._origin = NOWHERE

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is one in all but name
        connections = self._listener.connections
        self._origin = origin_of(self._transport, connections.clock.monotonic(), self._settings)
        if not self._listener.admits_connection():
            self.refuse(DisconnectReason.TOO_MANY_CLIENTS)
        elif self._admit_proxy() if self._awaits_header else self._admit_visitor():
            self._listener.undetected.add(self)
            connections.deadlines.add(self, self._deadline())

    def _admit_proxy(self) -> bool:
        address = parse_ip(self._origin.host)
        is_trusted = address is not None and any(address in net for net in self._settings.trusted)
        if not is_trusted:
            self.refuse(DisconnectReason.PROXY_REFUSED, "not one of the trusted proxies")
        return is_trusted

    def _admit_visitor(self) -> bool:
        """Judge the client's address: bans, and the limits of each address."""
        connections, host = self._listener.connections, self._origin.host
        ban = self._listener.bans.of_address(host, connections.clock.wall_ms())
        if ban is not None:
            self.refuse(DisconnectReason.BANNED, ban.name)
            return False
        now, is_proxied = connections.clock.monotonic(), self._settings.proxy
        visitor = connections.visitors.admit(host, now, is_proxied=is_proxied)
        if isinstance(visitor, str):
            self.refuse(DisconnectReason.ADDRESS_LIMIT, visitor)
            return False
        self._origin = replace(self._origin, visitor=visitor)
        return True

    def _read_header(self) -> bool:
        """Read the PROXY header; return whether the client's own bytes may be looked at."""
        try:
            header = decode_header(self._data)
        except ProxyFault as fault:
            self.refuse(DisconnectReason.PROXY_REFUSED, str(fault))
            return False
        if header is None:
            return False
        self._awaits_header = False
        self._data = self._data[header.size :]
        if header.host:
            self._origin = replace(self._origin, peer=f"{header.host}:{header.port}")
        return self._admit_visitor()

    def data_received(self, data: bytes) -> None:
        if self._transport is None:
            return
        self._data += data
        if self._awaits_header and not self._read_header():
            return
        protocol = detect(self._data[:DETECT_BYTES_MAX])
        if protocol is None or not self._is_encrypted_as_agreed(protocol):
            return
        door = self._listener.doors.get(protocol)
        if door is None:
            detail = f"{protocol.value}, begins with {self._data[:DETECT_BYTES_MAX].hex(' ')}"
            self.refuse(DisconnectReason.UNKNOWN_PROTOCOL, detail)
            return
        if not self._settings.accepts(protocol.value):
            detail = f"{protocol.value} is not among the protocols of {self._settings.address}"
            self.refuse(DisconnectReason.UNKNOWN_PROTOCOL, detail)
            return
        if not self._listener.admits(protocol):
            detail = f"{self._listener.connections.limits.clients_max} clients are connected"
            self.refuse(DisconnectReason.TOO_MANY_CLIENTS, detail)
            return
        transport = self._let_go()
        assert transport is not None
        totals = self._listener.connections.counters.connections_total
        totals[protocol.value] = totals.get(protocol.value, 0) + 1
        _log.debug("connected", protocol=protocol.value, peer=self._origin.peer)
        data, origin = self._data, self._origin
        self._data, self._origin = b"", NOWHERE  # the deadlines will remember it for a while
        door(transport, data, origin)

    # ── TLS ───────────────────────────────────────────────────────────────────────────────────

    def _is_encrypted_as_agreed(self, protocol: Protocol) -> bool:
        """Whether to go on; otherwise a handshake has begun, or the connection was refused."""
        transport, tls = self._transport, self._listener.tls
        if isinstance(transport, TlsTransport):
            if fault := alpn_fault(transport, protocol):
                self.refuse(DisconnectReason.TLS_FAILED, fault)
            return not fault
        mode = self._settings.tls_mode(has_certificate=tls is not None)
        if protocol is Protocol.TLS and tls is not None and mode != "off":
            assert transport is not None
            data, self._data = self._data, b""
            tls.begin(transport, data, self._settings, self)
            return False
        if mode == "required":
            answer = CLEAR_TEXT_ANSWERS.get(protocol)
            self.refuse(DisconnectReason.TLS_REQUIRED, protocol.value, answer)
            return False
        return True

    def secured(self, transport: TlsTransport) -> None:
        """The handshake is done: what follows is detected like clear text."""
        if self._transport is None:
            transport.abort()
            return
        assert self._listener.tls is not None
        self._origin = self._listener.tls.origin(self._origin, transport)
        self._transport = transport
        transport.set_protocol(self)

    def tls_failed(self, why: str) -> None:
        if self._transport is not None:
            self.refuse(DisconnectReason.TLS_FAILED, why, b"")  # the alert is written

    # ── the end ───────────────────────────────────────────────────────────────────────────────

    def connection_lost(self, exc: Exception | None) -> None:
        if self._let_go() is not None:
            self._leave()
            is_tls = isinstance(exc, ssl.SSLError)
            reason = DisconnectReason.TLS_FAILED if is_tls else DisconnectReason.CONNECTION_LOST
            counters = self._listener.connections.counters
            counters.refused(reason, peer=self._origin.peer, detail=str(exc) if is_tls else "")

    def overdue(self, now: float) -> float | None:
        if self._transport is None:
            return None
        deadline = self._deadline()
        if now < deadline:
            return deadline
        is_proxy = self._awaits_header
        self.refuse(
            DisconnectReason.PROXY_REFUSED if is_proxy else DisconnectReason.CONNECT_TIMEOUT,
            "the header did not come in time" if is_proxy else "",
        )
        return None

    def _deadline(self) -> float:
        timeout_s = self._listener.connections.limits.connect_timeout_s
        if self._awaits_header:
            timeout_s = min(timeout_s, PROXY_TIMEOUT_S)
        return self._origin.accepted_at + timeout_s

    def forgive(self, stalled_s: float) -> None:
        self._origin = replace(self._origin, accepted_at=self._origin.accepted_at + stalled_s)

    def refuse(
        self, reason: DisconnectReason, detail: str = "", answer: bytes | None = None
    ) -> None:
        """Count and log the reason. With an answer, what was written still leaves."""
        transport = self._let_go()
        assert transport is not None
        connections = self._listener.connections
        connections.counters.refused(reason, peer=self._origin.peer, detail=detail)
        connections.throttled_log.info(
            "refused", reason.value, reason=reason.value, peer=self._origin.peer, detail=detail
        )
        self._leave()
        if answer is None:
            transport.abort()
            return
        transport.write(answer)
        transport.close()

    def _leave(self) -> None:
        if self._origin.visitor is not None:
            self._origin.visitor.left()

    def _let_go(self) -> asyncio.Transport | None:
        self._listener.undetected.discard(self)
        transport, self._transport = self._transport, None
        return transport


def origin_of(
    transport: asyncio.BaseTransport, accepted_at: float, settings: ListenerSettings
) -> Origin:
    """The origin of a connection as it is accepted: nothing has been read yet.

    It is local if the listener can be reached from this machine only, and the peer is on it. A
    proxy on this machine passes on connections of others, so it is not local.
    """
    host, port = (transport.get_extra_info("peername") or ("", 0))[:2]
    is_local = not settings.is_reachable and is_loopback(host)
    approach = Approach(is_local, listener_user=settings.user, protocols=settings.protocols)
    peer = f"{host}:{port}" if host else NOWHERE.peer
    return Origin(accepted_at, peer, shared(approach))
