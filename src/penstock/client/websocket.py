"""A WebSocket that carries MQTT, for the blocking client: what that uses of a socket.

It is around a plain socket or one with TLS. After ``recv`` nothing readable is left inside, so that
``poll`` on the descriptor is enough. It is for one thread. A pong is sent when its ping is read, or
with the next bytes of ours if the system takes none.
"""

import socket
from contextlib import suppress
from os import urandom
from time import monotonic
from typing import TYPE_CHECKING, Final

from penstock.client.errors import BrokerProtocolError, UnreachableError
from penstock.wire.websocket.frames import CloseCode, Opcode, close_payload, masked_frame
from penstock.wire.websocket.handshake import (
    HandshakeFault,
    check_handshake_response,
    handshake_request,
)
from penstock.wire.websocket.machine import Closed, Fault, Ping, WebSocketClientMachine

if TYPE_CHECKING:
    from penstock.client.tls_socket import TlsSocket

FRAME_BYTES: Final = 64 * 1024  # of a frame, so that masking never copies a large message at once
NONCE_BYTES: Final = 16
READ_BYTES: Final = 16 * 1024


class WebSocket:
    """See the module."""

    def __init__(self, connection: "socket.socket | TlsSocket") -> None:
        self._raw = connection
        self._machine = WebSocketClientMachine()
        self._unsent = bytearray()  # frames that a non-blocking ``send`` left over
        self._owed = 0  # payload in them, which ``send`` has not reported as sent yet
        self._early = b""  # payload that came together with the answer to the handshake
        self.fileno = connection.fileno
        self.setblocking = connection.setblocking
        self.settimeout = connection.settimeout
        self.setsockopt = connection.setsockopt
        self.close = connection.close

    def shake_hands(self, host: str, path: str, timeout_s: float) -> None:
        """Raises OSError or HandshakeFault."""
        request, key = handshake_request(host, path, urandom(NONCE_BYTES))
        self._raw.sendall(request)
        deadline = monotonic() + timeout_s
        answer, rest = b"", None
        while rest is None:
            self._raw.settimeout(max(0.001, deadline - monotonic()))
            data = self._raw.recv(READ_BYTES)
            if not data:
                raise HandshakeFault("closed the connection")
            answer += data
            rest = check_handshake_response(answer, key)
        if rest:
            self._early = self._payload(rest)

    def recv(self, size: int) -> bytes:
        """Return payload, a little more than ``size`` perhaps; empty at the end."""
        if self._early:
            early, self._early = self._early, b""
            return early
        while not self._machine.closed:
            data = self._raw.recv(size)
            if not data:
                return b""
            if payload := self._payload(data):
                return payload
        return b""

    def _payload(self, data: bytes) -> bytes:
        payload, events = self._machine.receive(data)
        for event in events:
            match event:
                case Ping():
                    self._say(Opcode.PONG, event.data)
                case Closed():
                    self._say(Opcode.CLOSE, close_payload(CloseCode.NORMAL))
                case Fault():
                    self._say(Opcode.CLOSE, close_payload(event.code))
                    raise BrokerProtocolError(f"the answer is not WebSocket ({event.detail})")
        return payload

    def _say(self, opcode: Opcode, data: bytes) -> None:
        """Send a control frame, now if the system takes it."""
        self._unsent += masked_frame(opcode, data, urandom(4))
        with suppress(OSError):
            self._flush()

    def send(self, data: bytes | bytearray) -> int:
        """Send a part of ``data``; return its length once the system has all of its frame.

        As long as this raises BlockingIOError the next call must begin with the same bytes.
        """
        if not self._owed:
            self._owed = min(len(data), FRAME_BYTES)
            part = bytes(memoryview(data)[: self._owed])
            self._unsent += masked_frame(Opcode.BINARY, part, urandom(4))
        self._flush()
        sent, self._owed = self._owed, 0
        return sent

    def _flush(self) -> None:
        while self._unsent:
            del self._unsent[: self._raw.send(self._unsent)]

    def sendall(self, data: bytes) -> None:
        view = memoryview(data)
        for start in range(0, len(view), FRAME_BYTES):
            part = bytes(view[start : start + FRAME_BYTES])
            self._unsent += masked_frame(Opcode.BINARY, part, urandom(4))
        self._flush()

    def shutdown(self, how: int) -> None:
        """Say that we have nothing more to send; the broker answers, and closes."""
        if how == socket.SHUT_WR:
            self._say(Opcode.CLOSE, close_payload(CloseCode.NORMAL))
        else:
            self._raw.shutdown(how)


def open_websocket(
    connection: "socket.socket | TlsSocket | WebSocket", host: str, path: str, timeout_s: float
) -> WebSocket:
    """Upgrade a new connection; raise a ``ClientError`` with the reason if that fails."""
    assert not isinstance(connection, WebSocket)
    websocket = WebSocket(connection)
    try:
        websocket.shake_hands(host, path, timeout_s)
    except BaseException as error:
        connection.close()
        if isinstance(error, HandshakeFault):
            raise UnreachableError(
                f"no WebSocket with {host}{path}: it {error}",
                "is the path right? Penstock has /mqtt; or connect by mqtt://",
            ) from error
        if isinstance(error, OSError):
            what = f"no WebSocket with {host}{path}: {error.strerror or error}"
            raise UnreachableError(what, "is it the address of a broker?") from error
        raise
    return websocket
