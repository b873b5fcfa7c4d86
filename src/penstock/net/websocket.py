"""WebSocket as a transport: takes the frames off what a socket receives, frames what is written.

A ``WebSocketTransport`` stands between the transport of a socket (or of TLS) and a connection,
which uses it like any other transport. A read becomes one call of ``data_received``, however many
frames it has, and a write one binary frame; a large one several, each with whole MQTT packets,
since some clients expect a packet in one message and limit the size of those.

**Ping** is answered at once, unless the client does not read its answers: then only the last one
is remembered. The connection hears of neither, so they do not count for its keep-alive.

**The end.** ``close`` sends a Close frame, whose code tells why, and reads on until the client's
own comes. The connection aborts after ``CLOSE_TIMEOUT_S``, as it does with every client that does
not read its last bytes. A Close of the client is no MQTT DISCONNECT: the connection is lost, and
its will is published. After a fault nothing can be read any more, so no Close is awaited.
"""

import asyncio
import contextlib
from collections.abc import Iterable, Mapping
from typing import Protocol, cast

from penstock.limits import KIB
from penstock.net.wrapped_transport import WrappedTransport
from penstock.obs.reasons import DisconnectReason
from penstock.wire.mqtt.boundaries import pieces
from penstock.wire.websocket import (
    CloseCode,
    Closed,
    Fault,
    Ping,
    WebSocketServerMachine,
    binary_frame,
    close_frame,
    pong_frame,
)
from penstock.wire.websocket.machine import Event

FRAME_BYTES = 64 * KIB  # after which a frame ends with the packet it is in
_CLOSE_CODES: Mapping[DisconnectReason, CloseCode] = {
    DisconnectReason.CLIENT_DISCONNECT: CloseCode.NORMAL,
    DisconnectReason.CONNECTION_LOST: CloseCode.NORMAL,
    DisconnectReason.SESSION_TAKEN_OVER: CloseCode.NORMAL,
    DisconnectReason.SERVER_SHUTDOWN: CloseCode.GOING_AWAY,
    DisconnectReason.SESSION_ENDED: CloseCode.GOING_AWAY,
    DisconnectReason.LEADERSHIP_LOST: CloseCode.GOING_AWAY,
    DisconnectReason.MALFORMED_PACKET: CloseCode.PROTOCOL_ERROR,
    DisconnectReason.PROTOCOL_VIOLATION: CloseCode.PROTOCOL_ERROR,
    DisconnectReason.TOPIC_ALIAS_INVALID: CloseCode.PROTOCOL_ERROR,
    DisconnectReason.UNACCEPTABLE_PROTOCOL: CloseCode.PROTOCOL_ERROR,
    DisconnectReason.PACKET_TOO_LARGE: CloseCode.TOO_BIG,
    DisconnectReason.INTERNAL_ERROR: CloseCode.INTERNAL_ERROR,
    DisconnectReason.STORAGE_FULL: CloseCode.INTERNAL_ERROR,
    DisconnectReason.STORAGE_FAILED: CloseCode.INTERNAL_ERROR,
    DisconnectReason.NO_QUORUM: CloseCode.INTERNAL_ERROR,
}
"""Codes of Close frames; every other reason is a rule of this broker, code 1008."""


class FramedConnection(Protocol):
    """The connection behind a WebSocket."""

    @property
    def reason(self) -> DisconnectReason | None: ...  # why it has ended
    def data_received(self, data: bytes) -> None: ...
    def connection_lost(self, exc: Exception | None) -> None: ...
    def pause_writing(self) -> None: ...
    def resume_writing(self) -> None: ...
    def close(self, reason: DisconnectReason, detail: str = "") -> None: ...


class WebSocketTransport(WrappedTransport):
    """The protocol of a socket's transport, and the transport of a connection."""

    __slots__ = (
        "_fault",
        "_is_answered",
        "_is_paused",
        "_machine",
        "_pong",
        "_protocol",
    )

    def __init__(self, raw: asyncio.Transport) -> None:
        super().__init__(raw)
        self._machine = WebSocketServerMachine()
        self._protocol: FramedConnection | None = None
        self._is_answered = False  # whether the client sends no more frames
        self._is_paused = False  # whether the client has yet to read what was written
        self._pong: bytes | None = None  # to be written once it has
        self._fault: CloseCode | None = None
        raw.set_protocol(self)

    # ── from the socket ───────────────────────────────────────────────────────────────────────

    def data_received(self, data: bytes) -> None:
        payload, events = self._machine.receive(data)
        if payload and not self._is_closing and self._protocol is not None:
            self._protocol.data_received(payload)
        for event in events:
            self._on_event(event)

    def _on_event(self, event: Event) -> None:
        if isinstance(event, Closed):
            self._is_answered = True
            self._end(DisconnectReason.CONNECTION_LOST, f"closed with code {event.code}")
        elif isinstance(event, Fault):
            self._is_answered, self._fault = True, event.code
            self._end(DisconnectReason.WEBSOCKET_VIOLATION, event.detail)
        else:
            self._on_ping(event)

    def _on_ping(self, ping: Ping) -> None:
        if self._is_paused:
            self._pong = ping.data
        elif not self._is_closing:
            self._raw.write(pong_frame(ping.data))

    def _end(self, reason: DisconnectReason, detail: str) -> None:
        if self._is_closing:
            self._raw.close()  # our Close was answered
        elif self._protocol is not None:
            self._protocol.close(reason, detail)  # which calls ``close``

    def eof_received(self) -> bool:
        return False  # closes the socket, without a Close as well

    def connection_lost(self, exc: Exception | None) -> None:
        protocol, self._protocol = self._protocol, None  # breaks a cycle
        self._is_closing = True
        if protocol is not None:
            protocol.connection_lost(exc)

    def pause_writing(self) -> None:
        self._is_paused = True
        if self._protocol is not None:
            self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._is_paused = False
        if self._pong is not None and not self._is_closing:
            self._raw.write(pong_frame(self._pong))
        self._pong = None
        if self._protocol is not None:
            self._protocol.resume_writing()

    # ── for the connection ────────────────────────────────────────────────────────────────────

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._is_closing or not data:
            return
        packets = bytes(data)  # which are bytes already: no copy
        if len(packets) <= FRAME_BYTES:
            self._raw.write(binary_frame(packets))
        else:
            self._raw.writelines(map(binary_frame, pieces(packets, FRAME_BYTES)))

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.write(b"".join(list_of_data))

    def can_write_eof(self) -> bool:
        return False

    def close(self) -> None:
        """Send a Close; the socket is closed when the client has answered it."""
        if self._is_closing:
            return
        self._is_closing = True
        reason = self._protocol.reason if self._protocol is not None else None
        code = self._fault or close_code(reason)
        self._raw.write(close_frame(code, reason.value if reason is not None else ""))
        if not self._is_answered:
            self._read_on()
        elif self._fault and self._raw.can_write_eof():
            # With unread input, closing would reset the connection and lose the Close. The client
            # closes its side as soon as it sees the end of ours.
            self._read_on()
            with contextlib.suppress(OSError):
                self._raw.write_eof()
        else:
            self._raw.close()

    def _read_on(self) -> None:
        if not self._raw.is_closing() and not self._raw.is_reading():
            self._raw.resume_reading()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = cast("FramedConnection", protocol)

    def get_protocol(self) -> asyncio.BaseProtocol:
        return cast("asyncio.BaseProtocol", self._protocol)


def close_code(reason: DisconnectReason | None) -> CloseCode:
    if reason is None:
        return CloseCode.NORMAL
    return _CLOSE_CODES.get(reason, CloseCode.POLICY_VIOLATION)
