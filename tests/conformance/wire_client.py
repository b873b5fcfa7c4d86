"""A client that sends exactly what a test tells it to, and nothing else.

This is the oracle of the suite. It has its own few lines of encoding, written from the standard and
independent of the broker's codec, so that a misreading cannot hide by being made on both sides.
Expectations are byte-exact: ``expect`` compares one whole packet.

**How silence is proven.** Nothing here sleeps. "The broker sends nothing" is shown by making it
send something *else*, later in the same order, and seeing that arrive first:

* ``expect_nothing`` pings: everything that this client's earlier packets cause the broker to send
  comes before the PINGRESP.
* ``expect_nothing_from`` lets another client publish a marker: everything that this client caused
  before comes before the marker. The marker uses QoS 1 so that it takes the slowest path through
  the broker, and cannot overtake.
"""

import itertools
import os
import socket
import time
from collections.abc import Callable
from typing import Self

__all__ = [
    "DISCONNECT",
    "PINGREQ",
    "PINGRESP",
    "TARGET",
    "WireClient",
    "connack",
    "connect_packet",
    "packet",
    "puback",
    "pubcomp",
    "publish",
    "pubrec",
    "pubrel",
    "string",
    "suback",
    "subscribe",
    "unsuback",
    "unsubscribe",
    "wait_until",
]

TARGET = os.environ.get("PENSTOCK_TEST_TARGET", "")
"""``host:port`` of a broker that the suite did not start; empty for our own."""

TIMEOUT_S = 5.0 if TARGET else 30.0
"""Time-out for the broker; only a failing test waits this long."""

_marker_numbers = itertools.count()


def string(text: str | bytes) -> bytes:
    """Two bytes of length, then the bytes: UTF-8 strings, and the payload of a will."""
    raw = text.encode() if isinstance(text, str) else text
    return len(raw).to_bytes(2, "big") + raw


def packet(first_byte: int, *body: bytes) -> bytes:
    """A whole packet: the first byte, the remaining length as a varint, and the rest."""
    rest = b"".join(body)
    length, header = len(rest), bytearray([first_byte])
    while True:
        length, digit = divmod(length, 128)
        header.append(digit | (0x80 if length else 0))
        if not length:
            return bytes(header) + rest


def connect_packet(
    client_id: str | bytes,
    *,
    clean: bool = True,
    keep_alive: int = 60,
    will: tuple[str | bytes, bytes, int, bool] | None = None,
    username: str | bytes | None = None,
    password: bytes | None = None,
    name: bytes = b"MQTT",
    level: int = 4,
    flags: int | None = None,
) -> bytes:
    """CONNECT. ``will`` is topic, payload, QoS, retain; ``flags`` overrides what follows from it all."""
    natural, fields = clean << 1, [string(client_id)]
    if will is not None:
        topic, payload, qos, retain = will
        natural |= 0x04 | qos << 3 | retain << 5
        fields += [string(topic), string(payload)]
    if username is not None:
        natural |= 0x80
        fields.append(string(username))
    if password is not None:
        natural |= 0x40
        fields.append(string(password))
    head = string(name) + bytes([level, natural if flags is None else flags])
    return packet(0x10, head, keep_alive.to_bytes(2, "big"), *fields)


def connack(*, session_present: bool = False, code: int = 0) -> bytes:
    """CONNACK."""
    return packet(0x20, bytes([session_present, code]))


def publish(
    topic: str | bytes,
    payload: bytes = b"",
    *,
    qos: int = 0,
    packet_id: int | None = None,
    retain: bool = False,
    dup: bool = False,
) -> bytes:
    """PUBLISH; it has a packet id exactly if one is given."""
    identifier = b"" if packet_id is None else packet_id.to_bytes(2, "big")
    return packet(0x30 | dup << 3 | qos << 1 | retain, string(topic), identifier, payload)


def puback(packet_id: int) -> bytes:
    """PUBACK."""
    return packet(0x40, packet_id.to_bytes(2, "big"))


def pubrec(packet_id: int) -> bytes:
    """PUBREC."""
    return packet(0x50, packet_id.to_bytes(2, "big"))


def pubrel(packet_id: int) -> bytes:
    """PUBREL, with its odd reserved bits."""
    return packet(0x62, packet_id.to_bytes(2, "big"))


def pubcomp(packet_id: int) -> bytes:
    """PUBCOMP."""
    return packet(0x70, packet_id.to_bytes(2, "big"))


def subscribe(packet_id: int, *requests: tuple[str | bytes, int]) -> bytes:
    """SUBSCRIBE with pairs of filter and requested QoS."""
    pairs = (string(topic_filter) + bytes([qos]) for topic_filter, qos in requests)
    return packet(0x82, packet_id.to_bytes(2, "big"), *pairs)


def suback(packet_id: int, *codes: int) -> bytes:
    """SUBACK with one code per filter."""
    return packet(0x90, packet_id.to_bytes(2, "big"), bytes(codes))


def unsubscribe(packet_id: int, *filters: str | bytes) -> bytes:
    """UNSUBSCRIBE."""
    return packet(0xA2, packet_id.to_bytes(2, "big"), *map(string, filters))


def unsuback(packet_id: int) -> bytes:
    """UNSUBACK."""
    return packet(0xB0, packet_id.to_bytes(2, "big"))


PINGREQ = packet(0xC0)
PINGRESP = packet(0xD0)
DISCONNECT = packet(0xE0)


BY_WEBSOCKET = bool(os.environ.get("PENSTOCK_TEST_WEBSOCKET"))


def connected_socket(host: str, port: int) -> socket.socket:
    """A socket; with ``PENSTOCK_TEST_WEBSOCKET`` one that puts frames around what it sends."""
    if BY_WEBSOCKET:
        from tests.websocket.framed_socket import FramedSocket

        return FramedSocket(host, port, TIMEOUT_S)
    return socket.create_connection((host, port), timeout=TIMEOUT_S)


class WireClient:
    """One blocking TCP connection to the broker. Sends nothing by itself, not even CONNECT."""

    def __init__(self, host: str, port: int) -> None:
        self.socket = connected_socket(host, port)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.socket.close()

    # ── Sending ───────────────────────────────────────────────────────────────────────────────
    def send(self, *packets: bytes) -> None:
        """Put bytes on the wire, in one segment where they fit."""
        self.socket.sendall(b"".join(packets))

    def abort(self) -> None:
        """Vanish: close the socket without DISCONNECT."""
        self.socket.close()

    def disconnect(self) -> None:
        """Send DISCONNECT, and see the broker close."""
        self.send(DISCONNECT)
        self.expect_close()

    # ── Expecting ─────────────────────────────────────────────────────────────────────────────
    def receive(self) -> bytes:
        """Exactly one packet, whole; ``b""`` if the broker closed at a packet boundary."""
        first = self._take(1)
        if not first:
            return b""
        header, length, shift = bytearray(first), 0, 0
        while True:
            digit = self._take(1)
            header += digit
            length |= (digit[0] & 0x7F) << shift
            shift += 7
            if digit[0] < 0x80:
                break
        body = self._take(length)
        assert len(body) == length, f"closed inside a packet: {bytes(header).hex()} {body.hex()}"
        return bytes(header) + body

    def expect(self, *packets: bytes) -> None:
        """The next packets are these, byte for byte, in this order."""
        for expected in packets:
            received = self.receive()
            assert received == expected, f"expected {shown(expected)}, received {shown(received)}"

    def receive_until(self, last: bytes) -> list[bytes]:
        """All packets up to ``last``, without it: for what other clients may add to."""
        received = []
        while (current := self.receive()) != last:
            assert current, "the connection ended first"
            received.append(current)
        return received

    def expect_in_any_order(self, *packets: bytes) -> None:
        """The next packets are these, in any order."""
        received = sorted(self.receive() for _ in packets)
        assert received == sorted(packets)

    def expect_close(self) -> None:
        """The broker closes, and sends nothing before it does."""
        try:
            received = self.socket.recv(65_536)
        except ConnectionResetError:
            return
        except TimeoutError:
            raise AssertionError("the broker left the connection open") from None
        assert not received, f"expected the end of the connection, received {shown(received)}"

    def ping(self) -> None:
        """A round trip: the broker has handled all this client sent before."""
        self.send(PINGREQ)
        self.expect(PINGRESP)

    def expect_nothing(self) -> None:
        """What this client sent so far causes no further packets."""
        self.ping()

    def expect_nothing_from(self, publisher: "WireClient") -> None:
        """What ``publisher`` sent so far causes no further packets to this client."""
        topic = f"marker/{next(_marker_numbers)}/{id(self)}"
        self.send(subscribe(0xFFFF, (topic, 0)))
        self.expect(suback(0xFFFF, 0))
        publisher.publish_acknowledged(topic, b"marker", packet_id=0xFFFF)
        self.expect(publish(topic, b"marker"))
        self.send(unsubscribe(0xFFFF, topic))
        self.expect(unsuback(0xFFFF))

    # ── Whole exchanges ───────────────────────────────────────────────────────────────────────
    def subscribe(self, *requests: tuple[str | bytes, int], packet_id: int = 1) -> None:
        """Subscribe, and be granted the requested QoS."""
        self.send(subscribe(packet_id, *requests))
        self.expect(suback(packet_id, *(qos for _, qos in requests)))

    def publish_acknowledged(
        self,
        topic: str | bytes,
        payload: bytes,
        *,
        qos: int = 1,
        packet_id: int = 1,
        retain: bool = False,
    ) -> None:
        """Publish, and complete the exchange of its QoS (QoS 0: a ping)."""
        identifier = packet_id if qos else None
        self.send(publish(topic, payload, qos=qos, packet_id=identifier, retain=retain))
        if qos == 0:
            self.ping()
        elif qos == 1:
            self.expect(puback(packet_id))
        else:
            self.expect(pubrec(packet_id))
            self.send(pubrel(packet_id))
            self.expect(pubcomp(packet_id))

    def receive_publish(self) -> tuple[int, int, bytes, bytes]:
        """A PUBLISH: its first byte, packet id (0 for QoS 0), topic and payload."""
        received = self.receive()
        assert received[:1] >= b"\x30", f"expected PUBLISH, received {shown(received)}"
        assert received[0] < 0x40, f"expected PUBLISH, received {shown(received)}"
        body = received[next(i for i, b in enumerate(received[1:5], 2) if b < 0x80) :]
        end = 2 + int.from_bytes(body[:2], "big")
        topic, rest = body[2:end], body[end:]
        if not received[0] & 0x06:
            return received[0], 0, topic, rest
        return received[0], int.from_bytes(rest[:2], "big"), topic, rest[2:]

    def expect_publish(
        self,
        topic: str | bytes,
        payload: bytes,
        *,
        qos: int,
        retain: bool = False,
        dup: bool = False,
    ) -> int:
        """A PUBLISH like this under a packet id of the broker's choice, which is returned."""
        first_byte, packet_id, actual_topic, actual_payload = self.receive_publish()
        raw_topic = topic.encode() if isinstance(topic, str) else topic
        expected = (0x30 | dup << 3 | qos << 1 | retain, raw_topic, payload)
        received = (first_byte, actual_topic, actual_payload)
        assert received == expected, f"expected {expected!r}, received {received!r}"
        assert bool(packet_id) == bool(qos)  # [MQTT-2.3.1-1], [MQTT-2.3.1-5]
        return packet_id

    # ── Inner workings ────────────────────────────────────────────────────────────────────────
    def _take(self, count: int) -> bytes:
        """Read ``count`` bytes, or fewer if the connection ends."""
        taken = bytearray()
        try:
            while len(taken) < count and (chunk := self.socket.recv(count - len(taken))):
                taken += chunk
        except ConnectionResetError:
            pass  # an end like any other
        except TimeoutError:
            raise AssertionError("the broker sent nothing, or only part of a packet") from None
        return bytes(taken)


def shown(raw: bytes) -> str:
    """Bytes for a failure message; an empty packet is the end of the connection."""
    return f"{raw[:64].hex(' ')} ({raw[:64]!r})" if raw else "the end of the connection"


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for an effect that the broker does not announce."""
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.005)
