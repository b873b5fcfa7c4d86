"""A client of the queue protocol that says exactly what a test tells it to, and nothing else.

Frames are a length and a message of ``queue.proto``; what the numbers in there must be is shown by
the frames in hexadecimal of ``test_vectors``. Nothing here sleeps: "the broker sends nothing" is
shown by asking for something else and seeing its response come first, for responses come in order.
"""

import socket
import struct
from collections.abc import Iterable
from typing import Any, NamedTuple, Self

from penstock.wire.queue._generated.queue_pb2 import Delivered, Group, Request, Response, Topic
from tests.conformance.wire_client import TIMEOUT_S, shown, wait_until

__all__ = [
    "GROUP",
    "Column",
    "QueueClient",
    "columns",
    "frame",
    "offsets_of",
    "payloads_of",
    "request",
    "wait_until",
]

GROUP = "g"


def frame(body: bytes) -> bytes:
    """A body with its length in front."""
    return struct.pack(">I", len(body)) + body


def request(request_id: int = 0, **kind: Any) -> bytes:
    """A request: ``request(produce={"topic": "t"})``."""
    return frame(Request(request_id=request_id, **kind).SerializeToString())


def offsets_of(items: Iterable[Delivered]) -> list[int]:
    """The offsets of messages."""
    return [item.offset for item in items]


def payloads_of(items: Iterable[Delivered]) -> list[bytes]:
    """The payloads of messages."""
    return [item.payload for item in items]


class QueueClient:
    """One TCP connection to the broker, blocking."""

    def __init__(self, host: str, port: int) -> None:
        self.socket = socket.create_connection((host, port), TIMEOUT_S)
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

    def close_own_side(self) -> None:
        """Nothing more will be asked."""
        self.socket.shutdown(socket.SHUT_WR)

    # ── Sending and expecting ─────────────────────────────────────────────────────────────────
    def send(self, *frames: bytes) -> None:
        """Put bytes on the wire, in one segment where they fit."""
        self.socket.sendall(b"".join(frames))

    def send_hex(self, *frames: str) -> None:
        """Put frames on the wire that are written in hexadecimal."""
        self.send(*map(bytes.fromhex, frames))

    def receive_bytes(self) -> bytes:
        """One frame as it lay on the wire; nothing if the broker closed at its boundary."""
        header = self._take(4)
        if not header:
            return b""
        [length] = struct.unpack(">I", header)
        body = self._take(length)
        assert len(body) == length, "closed inside a frame"
        return header + body

    def receive(self) -> Response:
        """One response."""
        received = self.receive_bytes()
        assert received, "expected a response, the connection ended"
        return Response.FromString(received[4:])

    def receive_many(self, count: int) -> list[Response]:
        """The next so many responses."""
        return [self.receive() for _ in range(count)]

    def expect_hex(self, *frames: str) -> None:
        """The next frames are these, byte for byte, in this order."""
        for expected in map(bytes.fromhex, frames):
            received = self.receive_bytes()
            assert received == expected, f"expected {shown(expected)}, received {shown(received)}"

    def expect_close(self) -> None:
        """The broker closes, and sends nothing before it does."""
        received = self.receive_bytes()
        assert not received, f"expected the end of the connection, received {shown(received)}"

    def expect_nothing(self) -> None:
        """What this client sent so far causes no further packets."""
        assert self.ask(stats={}).HasField("stats")

    # ── Whole exchanges ───────────────────────────────────────────────────────────────────────
    def ask(self, request_id: int = 0, **kind: Any) -> Response:
        """Ask, and take the next response."""
        self.send(request(request_id, **kind))
        return self.receive()

    def ok(self, **kind: Any) -> None:
        """Ask for something that is answered with Ok."""
        response = self.ask(**kind)
        assert response.HasField("ok"), response

    def refusal(self, **kind: Any) -> str:
        """Ask for something that is refused; return the code."""
        response = self.ask(**kind)
        assert response.HasField("error"), response
        assert response.error.message
        return response.error.code

    def produce(self, topic: str, *payloads: bytes, **fields: Any) -> list[int]:
        """Produce messages, pipelined; return their offsets."""
        self.send(
            *(
                request(produce={"topic": topic, "payload": payload, **fields})
                for payload in payloads
            )
        )
        responses = self.receive_many(len(payloads))
        assert all(response.HasField("produced") for response in responses), responses
        return [response.produced.offset for response in responses]

    def poll(self, topic: str, group: str = GROUP, maximum: int = 0, **fields: Any) -> list[Any]:
        """Poll; return the messages."""
        response = self.ask(poll={"topic": topic, "group": group, "max": maximum, **fields})
        assert response.HasField("polled"), response
        return list(response.polled.items)

    def ack(self, topic: str, items: Iterable[Delivered], group: str = GROUP) -> None:
        """Acknowledge messages, one by one."""
        leases = [item.lease_id for item in items]
        fields = {"topic": topic, "group": group}
        self.send(*(request(ack={**fields, "lease_id": lease}) for lease in leases))
        assert all(response.HasField("ok") for response in self.receive_many(len(leases)))

    def subscribe(self, topic: str, group: str = GROUP, prefetch: int = 16, **fields: Any) -> None:
        """Become a push channel."""
        self.send(
            request(subscribe={"topic": topic, "group": group, "prefetch": prefetch, **fields})
        )

    def pushed(self, count: int = 1) -> list[Delivered]:
        """The next so many pushes, each of one message."""
        responses = self.receive_many(count)
        assert all(len(response.polled.items) == 1 for response in responses), responses
        return [response.polled.items[0] for response in responses]

    def settle(self, *items: Delivered) -> None:
        """Acknowledge on a push channel, where nothing is answered and names mean nothing."""
        self.send(*(request(ack={"lease_id": item.lease_id}) for item in items))

    def stats(self) -> Any:
        """What the broker says of itself."""
        return self.ask(stats={}).stats

    def describe(self, topic: str) -> Topic:
        """One topic."""
        [found] = self.ask(list_topics={"name": topic}).topics.topics
        return found

    def group(self, topic: str, group: str = GROUP) -> Group:
        """One group."""
        found = self.ask(list_groups={"topic": topic}).groups.groups
        return next(each for each in found if each.name == group)

    def _take(self, count: int) -> bytes:
        """Read ``count`` bytes; fewer if the connection has ended."""
        try:
            return self._reader.read(count)
        except ConnectionResetError:
            return b""
        except TimeoutError:
            raise AssertionError("the broker sent nothing, or only part of a frame") from None


class Column(NamedTuple):
    """One message as the columns of Fetch have it."""

    offset: int
    payload: bytes
    priority: int
    content_type: int
    time_ms: int


def columns(response: Response) -> list[Column]:
    """The messages of a Fetched, read as the reference page of the protocol says."""
    return [
        Column(piece.first_offset + number, payload, *_marks(piece, number))
        for piece in response.fetched.slices
        for number, payload in enumerate(_payloads(piece))
    ]


def _payloads(piece: Any) -> list[bytes]:
    bounds = struct.unpack(f"<{piece.count + 1}I", piece.bounds)
    start = bounds[0]
    return [
        piece.payloads[bounds[number] - start : bounds[number + 1] - start]
        for number in range(piece.count)
    ]


def _marks(piece: Any, number: int) -> tuple[int, int, int]:
    """Priority, content type and time of a message: those of its run."""
    starts = struct.unpack(f"<{len(piece.run_starts) // 4}I", piece.run_starts)
    run = max(place for place, start in enumerate(starts) if start <= number)
    times = struct.unpack(f"<{len(starts)}I", piece.run_times)
    content_type = piece.run_types[run] & 3 if piece.run_types else 0
    return piece.run_flags[run] >> 4 & 7, content_type, piece.time_ms + times[run]
