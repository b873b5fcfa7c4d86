"""A client of the binary protocol that sends exactly what a test tells it to, and nothing else.

It has its own few lines of encoding, independent of the broker's codec, so that a misreading cannot
hide by being made on both sides. Nothing here sleeps: "the broker sends nothing" is shown by a PING
whose PONG comes first, for replies come in order (``expect_nothing``), or by a message that another
client publishes later and that arrives first (``expect_nothing_before``).
"""

import itertools
import socket
import struct
from typing import NamedTuple, Self

from tests.conformance.wire_client import TIMEOUT_S, shown, wait_until

__all__ = [
    "ACK",
    "ERROR",
    "MESSAGE",
    "PING",
    "PONG",
    "PUBLISH",
    "SIGNED_MESSAGE",
    "SIGNED_PUBLISH",
    "SUBSCRIBE",
    "UNSUBSCRIBE",
    "BinaryClient",
    "Frame",
    "ack",
    "error",
    "frame",
    "ping",
    "pong",
    "publish",
    "subscribe",
    "unsubscribe",
    "wait_until",
]

SUBSCRIBE, UNSUBSCRIBE, PUBLISH, MESSAGE, ACK, PING, PONG, ERROR = range(1, 9)
SIGNED_PUBLISH, SIGNED_MESSAGE = 0x10, 0x11
HELLO, WELCOME, PUBLISH_2, WITHHELD = range(0x20, 0x24)
CODES, NUMBERS = 1, 2  # features of HELLO
RETAIN, NO_REPLY = 1, 2  # flags of PUBLISH_2

_HEADER = struct.Struct(">BBQHI")
_TRAILER_BYTES = {SIGNED_PUBLISH: 68, SIGNED_MESSAGE: 68}

_markers = itertools.count()


class Frame(NamedTuple):
    """One frame as it came; ``trailer`` is empty unless the command is a signed one."""

    command: int
    sequence: int
    topic: bytes
    payload: bytes
    trailer: bytes = b""

    @property
    def text(self) -> str:
        """The payload of an ERROR."""
        assert (self.command, self.sequence, self.topic) == (ERROR, 0, b""), self
        return self.payload.decode()


def frame(
    command: int, sequence: int = 0, topic: bytes = b"", payload: bytes = b"", *, version: int = 1
) -> bytes:
    """Any frame without a trailer."""
    return _HEADER.pack(version, command, sequence, len(topic), len(payload)) + topic + payload


def publish(topic: bytes, payload: bytes = b"", sequence: int = 1) -> bytes:
    """PUBLISH."""
    return frame(PUBLISH, sequence, topic, payload)


def subscribe(topic: bytes, client_id: bytes | None = None, sequence: int = 1) -> bytes:
    """SUBSCRIBE; with a client id, even an empty one, a NUL stands between the two."""
    field = topic if client_id is None else client_id + b"\0" + topic
    return frame(SUBSCRIBE, sequence, field)


def unsubscribe(topic: bytes, sequence: int = 1) -> bytes:
    """UNSUBSCRIBE."""
    return frame(UNSUBSCRIBE, sequence, topic)


def ack(sequence: int) -> bytes:
    """ACK, of either side."""
    return frame(ACK, sequence)


def ping(sequence: int = 0) -> bytes:
    """PING."""
    return frame(PING, sequence)


def pong() -> bytes:
    """PONG."""
    return frame(PONG)


def error(text: str) -> bytes:
    """ERROR."""
    return frame(ERROR, 0, b"", text.encode())


def field(kind: int, value: bytes) -> bytes:
    """One field of HELLO or SUBSCRIBE."""
    return bytes([kind]) + len(value).to_bytes(2, "big") + value


def hello(client_id: bytes = b"", sequence: int = 1, **asked: int | bytes) -> bytes:
    """HELLO with ``features``, ``frame_bytes``, ``keep_alive`` and ``epoch``."""
    kinds = {"features": (1, 4), "frame_bytes": (2, 4), "keep_alive": (3, 2), "epoch": (4, 8)}
    fields = b""
    for name, value in asked.items():
        kind, size = kinds[name]
        fields += field(kind, value if isinstance(value, bytes) else value.to_bytes(size, "big"))
    return frame(HELLO, sequence, client_id, fields)


def publish_2(topic: bytes, payload: bytes = b"", sequence: int = 1, flags: int = 0) -> bytes:
    """PUBLISH_2."""
    return frame(PUBLISH_2, sequence, topic, bytes([flags]) + payload)


def coded(code: bytes, sequence: int, text: str) -> bytes:
    """ERROR with a code word."""
    return frame(ERROR, sequence, code, text.encode())


class BinaryClient:
    """One TCP connection to the broker, blocking."""

    def __init__(self, host: str, port: int, *, receive_buffer_bytes: int = 0) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if receive_buffer_bytes:  # small buffers, so that the reader can be slow
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        self.socket.settimeout(TIMEOUT_S)
        try:
            self.socket.connect((host, port))
        except BaseException:
            self.socket.close()
            raise
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._reader = self.socket.makefile("rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the socket; the protocol has no disconnect command."""
        self._reader.close()
        self.socket.close()

    def reset(self) -> None:
        """Reset the connection; unread bytes are discarded."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    # ── Sending and expecting ─────────────────────────────────────────────────────────────────
    def send(self, *frames: bytes) -> None:
        """Put bytes on the wire, in one segment where they fit."""
        self.socket.sendall(b"".join(frames))

    def receive(self) -> Frame | None:
        """Exactly one frame; None if the broker closed at a frame boundary."""
        header = self._take(_HEADER.size)
        if not header:
            return None
        version, command, sequence, topic_bytes, payload_bytes = _HEADER.unpack(header)
        assert version == 1, f"not a frame: {shown(header)}"
        topic, payload = self._take(topic_bytes), self._take(payload_bytes)
        trailer = self._take(_TRAILER_BYTES.get(command, 0))
        return Frame(command, sequence, topic, payload, trailer)

    def receive_bytes(self) -> bytes:
        """One frame as it lay on the wire."""
        received = self.receive()
        if received is None:
            return b""
        command, sequence, topic, payload, trailer = received
        return frame(command, sequence, topic, payload) + trailer

    def expect(self, *frames: bytes) -> None:
        """The next frames are these, byte for byte, in this order."""
        for expected in frames:
            received = self.receive_bytes()
            assert received == expected, f"expected {shown(expected)}, received {shown(received)}"

    def expect_close(self) -> None:
        """The broker closes, and sends nothing before it does."""
        received = self.receive_bytes()
        assert not received, f"expected the end of the connection, received {shown(received)}"

    def expect_error(self, *words: str) -> None:
        """An ERROR whose text has these words and fits what publishers read."""
        received = self.receive()
        assert received is not None, "expected ERROR, the connection ended"
        assert len(received.payload) <= 240
        assert all(word in received.text for word in words), received.text

    def expect_nothing(self) -> None:
        """What this client sent so far causes no further packets."""
        self.send(ping())
        self.expect(pong())

    def expect_nothing_before(self, publisher: "BinaryClient") -> None:
        """What ``publisher`` sent so far causes no further packets to this client."""
        topic = b"marker/%d" % next(_markers)
        self.send(subscribe(topic, sequence=77))
        self.expect(ack(77))
        publisher.publish(topic, b"marker")
        received = self.receive()
        assert received is not None
        assert received.topic == topic, f"received {received}"
        self.send(unsubscribe(topic, 78))
        self.expect(ack(78))

    # ── Whole exchanges ───────────────────────────────────────────────────────────────────────
    def publish(self, topic: bytes, *payloads: bytes) -> None:
        """Publish, and expect an acknowledgement for each."""
        self.send(*(publish(topic, payload, n) for n, payload in enumerate(payloads)))
        self.expect(*(ack(n) for n in range(len(payloads))))

    def greet(self, client_id: bytes = b"", **asked: int | bytes) -> dict[int, int]:
        """Say HELLO; return the fields of the WELCOME."""
        self.send(hello(client_id, 99, **asked))
        welcome = self.receive()
        assert welcome is not None, "expected WELCOME, the connection ended"
        assert (welcome.command, welcome.sequence, welcome.topic) == (WELCOME, 99, b""), welcome
        fields, found = welcome.payload, {}
        while fields:
            size = int.from_bytes(fields[1:3], "big")
            found[fields[0]] = int.from_bytes(fields[3 : 3 + size], "big")
            fields = fields[3 + size :]
        return found

    def subscribe(
        self, topic: bytes, client_id: bytes | None = None, sequence: int = 1
    ) -> list[Frame]:
        """Subscribe; return what arrived before the answer."""
        self.send(subscribe(topic, client_id, sequence))
        return self.receive_until(ack(sequence))

    def receive_until(self, last: bytes) -> list[Frame]:
        """All frames up to ``last``, without it."""
        frames = []
        while True:
            received = self.receive()
            assert received is not None, f"the connection ended after {frames[-3:]}"
            if frame(*received[:4]) == last:
                return frames
            frames.append(received)

    def receive_messages(self, count: int) -> list[Frame]:
        """Return the next ``count`` frames, all of them MESSAGE."""
        messages = []
        for _ in range(count):
            received = self.receive()
            assert received is not None, f"the connection ended after {len(messages)}"
            assert received.command == MESSAGE, received
            messages.append(received)
        return messages

    def receive_payloads(self, count: int) -> list[bytes]:
        """Return the payloads of the next ``count`` messages."""
        return [message.payload for message in self.receive_messages(count)]

    def acknowledge(self, *messages: Frame) -> None:
        """Acknowledge messages, and wait until this is on disk."""
        self.send(*(ack(message.sequence) for message in messages))
        self.expect_nothing()

    def _take(self, count: int) -> bytes:
        """Read ``count`` bytes; none if the connection has ended."""
        try:
            taken = self._reader.read(count)
        except ConnectionResetError:
            return b""
        except TimeoutError:
            raise AssertionError("the broker sent nothing, or only part of a frame") from None
        assert len(taken) in {0, count}, f"closed inside a frame: {shown(taken)}"
        return taken
