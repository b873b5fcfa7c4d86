"""A WebSocket that looks like a socket: what is sent becomes frames, what is received loses them.

With ``PENSTOCK_TEST_WEBSOCKET=1`` the clients of ``tests/conformance`` use it, so that every claim
about MQTT is tested by WebSocket as well. Each write is cut into frames of odd sizes.
"""

import contextlib
import socket

from websockets.frames import Frame, Opcode
from websockets.protocol import OPEN, Protocol, Side

from tests.websocket.peer import request

__all__ = ["FramedSocket"]

_SIZES = (1, 3, 7, 130, 70_000)  # of the frames of a write, over and over


class FramedSocket(socket.socket):
    """After its handshake; the end of a Close handshake is the end of the stream."""

    def __init__(self, host: str, port: int, timeout_s: float) -> None:
        super().__init__(socket.AF_INET)
        self.settimeout(timeout_s)
        self.connect((host, port))
        self._protocol = Protocol(Side.CLIENT, state=OPEN, max_size=None)
        self._payload = b""
        self._is_ended = False
        super().sendall(request())
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += super().recv(1)
        assert head.startswith(b"HTTP/1.1 101"), head

    def sendall(self, data: bytes) -> None:  # type: ignore[override]
        frames, position, number = [], 0, 0
        while position < len(data):
            size = _SIZES[number % len(_SIZES)]
            frames.append(
                Frame(Opcode.BINARY, data[position : position + size]).serialize(mask=True)
            )
            position, number = position + size, number + 1
        super().sendall(b"".join(frames))

    def recv(self, count: int) -> bytes:  # type: ignore[override]
        while not self._payload and not self._is_ended:
            data = super().recv(65_536)
            self._protocol.receive_data(data) if data else self._end()
            for frame in self._protocol.events_received():
                if frame.opcode is Opcode.CLOSE:
                    self._end()
                    with contextlib.suppress(OSError):
                        super().sendall(Frame(Opcode.CLOSE, frame.data).serialize(mask=True))
                else:
                    assert frame.opcode is Opcode.BINARY
                    self._payload += bytes(frame.data)
        part, self._payload = self._payload[:count], self._payload[count:]
        return part

    def _end(self) -> None:
        self._is_ended = True
