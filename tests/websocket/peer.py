"""A WebSocket client that sends exactly what a test tells it to.

Frames are made and read by the library ``websockets``, not by the broker's own codec.
"""

import base64
import contextlib
import socket
from collections.abc import Mapping
from typing import Self

from websockets.frames import Close, Frame, Opcode
from websockets.protocol import OPEN, Protocol, Side

from tests.conformance.wire_client import connack, connect_packet

__all__ = ["ASKED", "Peer", "Refusal", "connected", "frame", "refusal"]

TIMEOUT_S = 30.0
KEY = base64.b64encode(bytes(16)).decode()
ASKED = {
    "Host": "127.0.0.1",
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Key": KEY,
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Protocol": "mqtt",
}


def frame(opcode: Opcode, data: bytes = b"", *, fin: bool = True) -> bytes:
    return Frame(opcode, data, fin=fin).serialize(mask=True)


def request(path: str = "/mqtt", headers: Mapping[str, str | None] | None = None) -> bytes:
    """A handshake; a header that is None is left out."""
    lines = [
        f"{name}: {value}" for name, value in (ASKED | (headers or {})).items() if value is not None
    ]
    return "\r\n".join([f"GET {path} HTTP/1.1", *lines, "", ""]).encode()


class Refusal(Exception):  # noqa: N818
    """The answer to a handshake that was refused."""

    def __init__(self, status: int, head: str, body: str) -> None:
        super().__init__(f"{status} {body}")
        self.status, self.head, self.body = status, head, body


class Peer:
    """A connection after its handshake. ``behind`` is sent in the same write as the request."""

    def __init__(
        self,
        broker,
        *,
        path: str = "/mqtt",
        headers: Mapping[str, str | None] | None = None,
        context=None,
        behind: bytes = b"",
        asking: bytes = b"",
    ) -> None:
        self.socket = socket.create_connection((broker.host, broker.port), TIMEOUT_S)
        if context is not None:
            self.socket = context.wrap_socket(self.socket, server_hostname="localhost")
        self.socket.sendall((asking or request(path, headers)) + behind)
        self.protocol = Protocol(Side.CLIENT, state=OPEN, max_size=None)
        self.frames = []
        self.payload = b""
        self._shake()

    def _shake(self) -> None:
        data = b""
        while b"\r\n\r\n" not in data:
            part = self.socket.recv(65_536)
            assert part, f"closed after {data!r}"
            data += part
        head, _, rest = data.partition(b"\r\n\r\n")
        self.head = head.decode()
        status = int(self.head.split()[1])
        if status != 101:
            while part := self.socket.recv(65_536):
                rest += part
            self.socket.close()
            raise Refusal(status, self.head, rest.decode())
        self.protocol.receive_data(rest)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.socket.close()

    def send_raw(self, *data: bytes) -> None:
        self.socket.sendall(b"".join(data))

    def send(self, *packets: bytes) -> None:
        """Each packet as one binary frame, in one write."""
        self.send_raw(*(frame(Opcode.BINARY, data) for data in packets))

    def next_frame(self) -> Frame:
        while not self.frames:
            self.frames += self.protocol.events_received()
            if self.frames:
                break
            data = self.socket.recv(65_536)
            if not data:
                raise EOFError
            self.protocol.receive_data(data)
        return self.frames.pop(0)

    def next_data(self) -> bytes:
        """The payload of the next frame, which must be binary and whole."""
        got = self.next_frame()
        assert (got.opcode, got.fin) == (Opcode.BINARY, True), got
        return bytes(got.data)

    def expect(self, *packets: bytes) -> None:
        expected = b"".join(packets)
        while len(self.payload) < len(expected):
            self.payload += self.next_data()
        assert self.payload[: len(expected)] == expected
        self.payload = self.payload[len(expected) :]

    def expect_close(self) -> Close:
        """The next frame is a Close; answer it, and see the socket closed."""
        got = self.next_frame()
        assert got.opcode is Opcode.CLOSE, got
        self.answer(got)
        self.expect_end()
        return Close.parse(bytes(got.data))

    def answer(self, close: Frame) -> None:
        with contextlib.suppress(OSError):  # after a fault the broker does not wait for it
            self.send_raw(frame(Opcode.CLOSE, bytes(close.data)))

    def expect_end(self) -> None:
        try:
            while self.socket.recv(65_536):
                pass
        except ConnectionResetError:
            pass


def connected(broker, client_id: str, **options) -> Peer:
    """A peer whose CONNECT was accepted; options of CONNECT are in ``connect``."""
    connect = options.pop("connect", {})
    peer = Peer(broker, **options)
    peer.send(connect_packet(client_id, **connect))
    peer.expect(connack())
    return peer


def refusal(broker, **options) -> Refusal:
    """How a handshake is refused."""
    try:
        with Peer(broker, **options):
            raise AssertionError("the handshake was accepted")
    except Refusal as refused:
        return refused
