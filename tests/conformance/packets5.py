"""Packets of MQTT 5.0, built and read independently of the broker's codec.

Builders make any packet, lawful or not: each field can be given raw. ``parse`` is strict: it is the
peer of every version 5 test, so a packet of the broker that breaks a rule of the format fails the
test that received it, whatever that test is about ([MQTT-7.1.1], first clause).

Properties go by short names (``PROPERTIES``); where one may occur several times, or a test repeats
it on purpose, its value is a list.
"""

from typing import NamedTuple

from tests.conformance.wire_client import packet, string

__all__ = [
    "DISCONNECT",
    "PINGREQ",
    "PINGRESP",
    "PROPERTIES",
    "Packet",
    "auth",
    "block",
    "connect",
    "disconnect",
    "packet",
    "parse",
    "prop",
    "puback",
    "pubcomp",
    "publish",
    "pubrec",
    "pubrel",
    "string",
    "subscribe",
    "unsubscribe",
    "varint",
]

Value = int | str | bytes | tuple[str | bytes, str | bytes]
Values = Value | list[Value]

CONNECT, CONNACK, PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP = 1, 2, 3, 4, 5, 6, 7
SUBSCRIBE, SUBACK, UNSUBSCRIBE, UNSUBACK, DISCONNECTED, AUTH, WILL = 8, 9, 10, 11, 14, 15, 16

_MESSAGE = {PUBLISH, WILL}
_ACKS = {PUBACK, PUBREC, PUBREL, PUBCOMP, SUBACK, UNSUBACK}
_EVERYWHERE = {CONNECT, CONNACK, SUBSCRIBE, UNSUBSCRIBE, DISCONNECTED, AUTH} | _MESSAGE | _ACKS


class Property(NamedTuple):
    """A row of the standard's table 2-4; ``packets`` are those that may carry it."""

    id: int
    kind: str
    packets: set[int]


PROPERTIES = {
    "payload_format": Property(0x01, "byte", _MESSAGE),
    "message_expiry": Property(0x02, "u32", _MESSAGE),
    "content_type": Property(0x03, "text", _MESSAGE),
    "response_topic": Property(0x08, "text", _MESSAGE),
    "correlation_data": Property(0x09, "binary", _MESSAGE),
    "subscription_id": Property(0x0B, "varint", {PUBLISH, SUBSCRIBE}),
    "session_expiry": Property(0x11, "u32", {CONNECT, CONNACK, DISCONNECTED}),
    "assigned_client_id": Property(0x12, "text", {CONNACK}),
    "server_keep_alive": Property(0x13, "u16", {CONNACK}),
    "auth_method": Property(0x15, "text", {CONNECT, CONNACK, AUTH}),
    "auth_data": Property(0x16, "binary", {CONNECT, CONNACK, AUTH}),
    "request_problem_information": Property(0x17, "byte", {CONNECT}),
    "will_delay": Property(0x18, "u32", {WILL}),
    "request_response_information": Property(0x19, "byte", {CONNECT}),
    "response_information": Property(0x1A, "text", {CONNACK}),
    "server_reference": Property(0x1C, "text", {CONNACK, DISCONNECTED}),
    "reason_string": Property(0x1F, "text", _ACKS | {CONNACK, DISCONNECTED, AUTH}),
    "receive_maximum": Property(0x21, "u16", {CONNECT, CONNACK}),
    "topic_alias_maximum": Property(0x22, "u16", {CONNECT, CONNACK}),
    "topic_alias": Property(0x23, "u16", {PUBLISH}),
    "maximum_qos": Property(0x24, "byte", {CONNACK}),
    "retain_available": Property(0x25, "byte", {CONNACK}),
    "user": Property(0x26, "pair", _EVERYWHERE),
    "maximum_packet_size": Property(0x27, "u32", {CONNECT, CONNACK}),
    "wildcard_available": Property(0x28, "byte", {CONNACK}),
    "subscription_ids_available": Property(0x29, "byte", {CONNACK}),
    "shared_available": Property(0x2A, "byte", {CONNACK}),
}
"""All properties of the standard, by the names that tests use."""

_NAMES = {entry.id: name for name, entry in PROPERTIES.items()}
_WIDTHS = {"byte": 1, "u16": 2, "u32": 4}

CODES = {
    CONNACK: {0, *range(0x80, 0x8B), 0x8C, 0x90, 0x95, 0x97, *range(0x99, 0xA0)},
    PUBACK: {0, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99},
    PUBREC: {0, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99},
    PUBREL: {0, 0x92},
    PUBCOMP: {0, 0x92},
    SUBACK: {0, 1, 2, 0x80, 0x83, 0x87, 0x8F, 0x91, 0x97, 0x9E, 0xA1, 0xA2},
    UNSUBACK: {0, 0x11, 0x80, 0x83, 0x87, 0x8F, 0x91},
    DISCONNECTED: {
        0, 0x80, 0x81, 0x82, 0x83, 0x87, 0x89, 0x8B, *range(0x8D, 0x91), *range(0x93, 0xA3),
    },
    AUTH: {0, 0x18},
}  # fmt: skip
"""The reason codes that a server may send in each packet."""


# ── Building ──────────────────────────────────────────────────────────────────────────────────
def varint(number: int, width: int = 0) -> bytes:
    """A variable byte integer; ``width`` makes it longer than it needs to be."""
    digits = bytearray()
    while True:
        number, digit = divmod(number, 128)
        is_more = number or len(digits) + 1 < width
        digits.append(digit | (0x80 if is_more else 0))
        if not is_more:
            return bytes(digits)


def prop(name: str, value: Value) -> bytes:
    """One property: its id and its value."""
    number, kind, _ = PROPERTIES[name]
    return varint(number) + _encoded(kind, value)


def _encoded(kind: str, value: Value) -> bytes:
    if isinstance(value, int):
        return varint(value) if kind == "varint" else value.to_bytes(_WIDTHS[kind], "big")
    if isinstance(value, tuple):
        return string(value[0]) + string(value[1])
    return string(value)


def block(*raw: bytes, **properties: Values) -> bytes:
    """A property block with its length: ``raw`` bytes first, then the named ones in their order."""
    parts = list(raw)
    for name, value in properties.items():
        values = value if isinstance(value, list) else [value]
        parts += [prop(name, each) for each in values]
    body = b"".join(parts)
    return varint(len(body)) + body


class Will(NamedTuple):
    """A will; ``properties`` is a whole block."""

    topic: str | bytes
    payload: bytes = b""
    qos: int = 0
    retain: bool = False
    properties: bytes = b"\0"


def connect(
    client_id: str | bytes = "",
    *,
    clean: bool = True,
    keep_alive: int = 60,
    will: Will | None = None,
    username: str | bytes | None = None,
    password: bytes | None = None,
    name: bytes = b"MQTT",
    level: int = 5,
    flags: int | None = None,
    raw_properties: bytes | None = None,
    **properties: Values,
) -> bytes:
    """CONNECT; ``flags`` and ``raw_properties`` override what follows from the rest."""
    natural, fields = clean << 1, [string(client_id)]
    if will is not None:
        natural |= 0x04 | will.qos << 3 | will.retain << 5
        fields += [will.properties, string(will.topic), string(will.payload)]
    if username is not None:
        natural |= 0x80
        fields.append(string(username))
    if password is not None:
        natural |= 0x40
        fields.append(string(password))
    head = string(name) + bytes([level, natural if flags is None else flags])
    own = block(**properties) if raw_properties is None else raw_properties
    return packet(0x10, head, keep_alive.to_bytes(2, "big"), own, *fields)


def publish(
    topic: str | bytes,
    payload: bytes = b"",
    *,
    qos: int = 0,
    packet_id: int | None = None,
    retain: bool = False,
    dup: bool = False,
    raw_properties: bytes | None = None,
    **properties: Values,
) -> bytes:
    """PUBLISH; it has a packet id exactly if one is given."""
    own = block(**properties) if raw_properties is None else raw_properties
    identifier = b"" if packet_id is None else packet_id.to_bytes(2, "big")
    return packet(0x30 | dup << 3 | qos << 1 | retain, string(topic), identifier, own, payload)


def _acknowledge(
    first_byte: int, packet_id: int, code: int | None, own: dict[str, Values]
) -> bytes:
    """The short forms: without a code (success), and without properties."""
    parts = [packet_id.to_bytes(2, "big")]
    if code is not None or own:
        parts.append(bytes([code or 0]))
    if own:
        parts.append(block(**own))
    return packet(first_byte, *parts)


def puback(packet_id: int, code: int | None = None, **properties: Values) -> bytes:
    return _acknowledge(0x40, packet_id, code, properties)


def pubrec(packet_id: int, code: int | None = None, **properties: Values) -> bytes:
    return _acknowledge(0x50, packet_id, code, properties)


def pubrel(packet_id: int, code: int | None = None, **properties: Values) -> bytes:
    return _acknowledge(0x62, packet_id, code, properties)


def pubcomp(packet_id: int, code: int | None = None, **properties: Values) -> bytes:
    return _acknowledge(0x70, packet_id, code, properties)


def subscribe(
    packet_id: int,
    *requests: tuple[str | bytes, int],
    raw_properties: bytes | None = None,
    **properties: Values,
) -> bytes:
    """SUBSCRIBE with pairs of filter and options byte (bits: ``options``)."""
    pairs = (string(topic_filter) + bytes([options]) for topic_filter, options in requests)
    own = block(**properties) if raw_properties is None else raw_properties
    return packet(0x82, packet_id.to_bytes(2, "big"), own, *pairs)


def options(
    qos: int = 0, *, no_local: bool = False, as_published: bool = False, handling: int = 0
) -> int:
    """The options byte of one filter."""
    return qos | no_local << 2 | as_published << 3 | handling << 4


def unsubscribe(
    packet_id: int,
    *filters: str | bytes,
    raw_properties: bytes | None = None,
    **properties: Values,
) -> bytes:
    own = block(**properties) if raw_properties is None else raw_properties
    return packet(0xA2, packet_id.to_bytes(2, "big"), own, *map(string, filters))


def disconnect(code: int | None = None, **properties: Values) -> bytes:
    return _coded(0xE0, code, properties)


def auth(code: int | None = None, **properties: Values) -> bytes:
    return _coded(0xF0, code, properties)


def _coded(first_byte: int, code: int | None, own: dict[str, Values]) -> bytes:
    if code is None and not own:
        return packet(first_byte)
    return packet(first_byte, bytes([code or 0]), block(**own) if own else b"")


PINGREQ, PINGRESP, DISCONNECT = packet(0xC0), packet(0xD0), packet(0xE0)


# ── Reading ───────────────────────────────────────────────────────────────────────────────────
class Packet(NamedTuple):
    """What a server sent. Properties map names to lists of values, in the order of the wire."""

    kind: int
    flags: int = 0
    packet_id: int = 0
    codes: tuple[int, ...] = ()
    properties: dict[str, list[Value]] = {}
    topic: str = ""
    payload: bytes = b""
    session_present: bool = False

    @property
    def code(self) -> int:
        """The reason code of a packet that has one."""
        (code,) = self.codes
        return code

    @property
    def qos(self) -> int:
        return self.flags >> 1 & 3

    @property
    def retain(self) -> bool:
        return bool(self.flags & 1)

    @property
    def dup(self) -> bool:
        return bool(self.flags & 8)

    def value(self, name: str) -> Value | None:
        """The value of a property that may occur once; None if it is not there."""
        values = self.properties.get(name, [])
        assert len(values) <= 1, f"{name} occurs {len(values)} times"
        return values[0] if values else None


class _Reader:
    """Takes fields off the front; runs out with an AssertionError."""

    def __init__(self, raw: bytes) -> None:
        self.raw, self.position = raw, 0

    def take(self, count: int) -> bytes:
        taken = self.raw[self.position : self.position + count]
        assert len(taken) == count, "a field reaches beyond the end of the packet"
        self.position += count
        return taken

    def number(self, width: int) -> int:
        return int.from_bytes(self.take(width), "big")

    def varint(self) -> int:
        value = shift = 0
        while True:
            digit = self.number(1)
            value |= (digit & 0x7F) << shift
            shift += 7
            if digit < 0x80:
                assert digit or shift == 7, "a varint longer than it needs to be [MQTT-1.5.5-1]"
                return value
            assert shift < 28, "a varint of five bytes"

    def binary(self) -> bytes:
        return self.take(self.number(2))

    def text(self) -> str:
        text = self.binary().decode()  # [MQTT-1.5.4-1]
        assert "\0" not in text, "[MQTT-1.5.4-2]"
        return text

    def value(self, kind: str) -> Value:
        if kind in _WIDTHS:
            return self.number(_WIDTHS[kind])
        if kind == "varint":
            return self.varint()
        if kind == "pair":
            return (self.text(), self.text())
        return self.text() if kind == "text" else self.binary()

    def properties(self, packet_kind: int) -> dict[str, list[Value]]:
        inner, found = _Reader(self.take(self.varint())), dict[str, list[Value]]()
        while inner.position < len(inner.raw):
            name = _NAMES[inner.varint()]
            entry = PROPERTIES[name]
            assert packet_kind in entry.packets, f"{name} in packet type {packet_kind}"
            found.setdefault(name, []).append(inner.value(entry.kind))
        once = {name for name in found if name not in {"user", "subscription_id"}}
        assert all(len(found[name]) == 1 for name in once), f"a property twice: {found}"
        return found

    def rest(self) -> bytes:
        return self.take(len(self.raw) - self.position)


def parse(raw: bytes) -> Packet:
    """Read one whole packet that a server sent, and insist that its format is right."""
    assert raw, "the connection ended"
    kind, flags, reader = raw[0] >> 4, raw[0] & 0x0F, _Reader(raw[1:])
    assert reader.varint() == len(raw) - 1 - reader.position
    assert kind == PUBLISH or flags == (2 if kind == PUBREL else 0), "[MQTT-2.1.3-1]"
    if kind == PUBLISH:
        return _parse_publish(flags, reader)
    parsed = _parse_other(kind, reader)
    assert reader.position == len(reader.raw), f"bytes left over: {raw.hex(' ')}"
    assert set(parsed.codes) <= CODES.get(kind, set()), f"codes {parsed.codes} in type {kind}"
    return parsed


def _parse_publish(flags: int, reader: _Reader) -> Packet:
    qos = flags >> 1 & 3
    assert qos < 3, "[MQTT-3.3.1-4]"
    assert qos or not flags & 8, "DUP with QoS 0 [MQTT-3.3.1-2]"
    topic = reader.text()
    packet_id = reader.number(2) if qos else 0
    assert bool(packet_id) == bool(qos), "packet id 0 [MQTT-2.2.1-4]"
    properties = reader.properties(PUBLISH)
    assert topic or "topic_alias" in properties, "neither topic nor alias"
    assert not set("#+") & set(topic), "[MQTT-3.3.2-2]"
    return Packet(PUBLISH, flags, packet_id, (), properties, topic, reader.rest())


def _parse_other(kind: int, reader: _Reader) -> Packet:
    if kind == CONNACK:
        present = reader.number(1)
        assert present < 2, "[MQTT-3.2.2-1]"
        code = reader.number(1)
        return Packet(kind, 0, 0, (code,), reader.properties(kind), session_present=present == 1)
    if kind in {SUBACK, UNSUBACK}:
        packet_id = reader.number(2)
        properties = reader.properties(kind)
        return Packet(kind, 0, packet_id, tuple(reader.rest()), properties)
    if kind == 13:
        return Packet(kind)
    assert kind in CODES, f"a packet of type {kind} from a server"
    packet_id = reader.number(2) if kind in _ACKS else 0
    assert kind not in _ACKS or packet_id, "packet id 0"
    code = reader.number(1) if reader.position < len(reader.raw) else 0
    properties = reader.properties(kind) if reader.position < len(reader.raw) else {}
    return Packet(kind, 0, packet_id, (code,), properties)
