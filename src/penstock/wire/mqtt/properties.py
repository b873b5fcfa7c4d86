"""The properties of MQTT 5 packets: one table, one reader, one writer.

A property is an id and a value. The table says of each id what its value looks like, which values
are allowed, and which packets may have it. All but two may occur once; a packet that breaks a rule
ends the connection. ``Properties`` has a field for each, None or empty if it was not there.

The properties of a PUBLISH and of a will belong to the message, not to the connection
(``wire.mqtt.message_properties``).
"""

from collections.abc import Callable
from enum import IntFlag, auto
from typing import Final, NamedTuple

import msgspec

from penstock.errors import LocalProtocolError
from penstock.wire.mqtt.packet import REMAINING_LENGTH_MAX, varint
from penstock.wire.mqtt.packet_reader import PacketError, PacketReader, forbidden


class Carrier(IntFlag):
    """What can have properties; ``WILL`` is the part of a CONNECT that describes the will."""

    CONNECT = auto()
    WILL = auto()
    CONNACK = auto()
    PUBLISH = auto()
    ACK = auto()  # PUBACK, PUBREC, PUBREL and PUBCOMP
    SUBSCRIBE = auto()
    SUBACK = auto()
    UNSUBSCRIBE = auto()
    UNSUBACK = auto()
    DISCONNECT = auto()
    AUTH = auto()


class Properties(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The properties of one packet, named as in the standard; None: not there."""

    payload_format: int | None = None
    message_expiry: int | None = None
    content_type: bytes | None = None
    response_topic: bytes | None = None
    correlation_data: bytes | None = None
    subscription_ids: tuple[int, ...] = ()
    session_expiry: int | None = None
    assigned_client_id: bytes | None = None
    server_keep_alive: int | None = None
    authentication_method: bytes | None = None
    authentication_data: bytes | None = None
    request_problem_information: int | None = None
    will_delay: int | None = None
    request_response_information: int | None = None
    response_information: bytes | None = None
    server_reference: bytes | None = None
    reason_string: bytes | None = None
    receive_maximum: int | None = None
    topic_alias_maximum: int | None = None
    topic_alias: int | None = None
    maximum_qos: int | None = None
    retain_available: int | None = None
    user_properties: tuple[tuple[bytes, bytes], ...] = ()
    maximum_packet_size: int | None = None
    wildcard_available: int | None = None
    subscription_ids_available: int | None = None
    shared_available: int | None = None

    def __repr__(self) -> str:
        """Without values: some are secrets, and all are a stranger's."""
        given = [name for name in self.__struct_fields__ if getattr(self, name) not in {None, ()}]
        return f"Properties({', '.join(given)})"


NONE: Final = Properties()


class _Type(NamedTuple):
    """How the value of a property is read and written."""

    read: Callable[[PacketReader], object]
    write: Callable[..., bytes]


def _field(value: bytes) -> bytes:
    if len(value) > 0xFFFF:
        raise LocalProtocolError("a property of more than 65,535 bytes")
    return len(value).to_bytes(2, "big") + value


def _pair(reader: PacketReader) -> tuple[bytes, bytes]:
    return reader.text("name of a user property"), reader.text("value of a user property")


_BYTE: Final = _Type(PacketReader.byte, lambda value: value.to_bytes(1, "big"))
_UINT16: Final = _Type(PacketReader.uint16, lambda value: value.to_bytes(2, "big"))
_UINT32: Final = _Type(PacketReader.uint32, lambda value: value.to_bytes(4, "big"))
_VARINT: Final = _Type(PacketReader.varint, varint)
_TEXT: Final = _Type(lambda reader: reader.text("a property"), _field)
_BINARY: Final = _Type(PacketReader.binary, _field)
_PAIR: Final = _Type(_pair, lambda pair: _field(pair[0]) + _field(pair[1]))


def _any(_value: object) -> bool:
    return True


def _flag(value: object) -> bool:
    return value in {0, 1}


def _above_0(value: object) -> bool:
    return value != 0


def _topic_name(value: object) -> bool:
    return isinstance(value, bytes) and bool(value) and b"+" not in value and b"#" not in value


class _Kind(NamedTuple):
    """One row of the table of properties."""

    name: str  # of the field of ``Properties``
    type: _Type
    carriers: Carrier
    is_allowed: Callable[[object], bool] = _any
    is_many: bool = False  # whether it may occur more than once


_C = Carrier
_MESSAGE: Final = _C.PUBLISH | _C.WILL
_ANSWERS: Final = _C.CONNACK | _C.ACK | _C.SUBACK | _C.UNSUBACK | _C.DISCONNECT | _C.AUTH
_LOGIN: Final = _C.CONNECT | _C.CONNACK | _C.AUTH

_KINDS: Final[dict[int, _Kind]] = {
    0x01: _Kind("payload_format", _BYTE, _MESSAGE, _flag),
    0x02: _Kind("message_expiry", _UINT32, _MESSAGE),
    0x03: _Kind("content_type", _TEXT, _MESSAGE),
    0x08: _Kind("response_topic", _TEXT, _MESSAGE, _topic_name),
    0x09: _Kind("correlation_data", _BINARY, _MESSAGE),
    0x0B: _Kind("subscription_ids", _VARINT, _C.PUBLISH | _C.SUBSCRIBE, _above_0, is_many=True),
    0x11: _Kind("session_expiry", _UINT32, _C.CONNECT | _C.CONNACK | _C.DISCONNECT),
    0x12: _Kind("assigned_client_id", _TEXT, _C.CONNACK),
    0x13: _Kind("server_keep_alive", _UINT16, _C.CONNACK),
    0x15: _Kind("authentication_method", _TEXT, _LOGIN),
    0x16: _Kind("authentication_data", _BINARY, _LOGIN),
    0x17: _Kind("request_problem_information", _BYTE, _C.CONNECT, _flag),
    0x18: _Kind("will_delay", _UINT32, _C.WILL),
    0x19: _Kind("request_response_information", _BYTE, _C.CONNECT, _flag),
    0x1A: _Kind("response_information", _TEXT, _C.CONNACK),
    0x1C: _Kind("server_reference", _TEXT, _C.CONNACK | _C.DISCONNECT),
    0x1F: _Kind("reason_string", _TEXT, _ANSWERS),
    0x21: _Kind("receive_maximum", _UINT16, _C.CONNECT | _C.CONNACK, _above_0),
    0x22: _Kind("topic_alias_maximum", _UINT16, _C.CONNECT | _C.CONNACK),
    0x23: _Kind("topic_alias", _UINT16, _C.PUBLISH),
    0x24: _Kind("maximum_qos", _BYTE, _C.CONNACK, _flag),
    0x25: _Kind("retain_available", _BYTE, _C.CONNACK, _flag),
    0x26: _Kind("user_properties", _PAIR, ~Carrier(0), is_many=True),
    0x27: _Kind("maximum_packet_size", _UINT32, _C.CONNECT | _C.CONNACK, _above_0),
    0x28: _Kind("wildcard_available", _BYTE, _C.CONNACK, _flag),
    0x29: _Kind("subscription_ids_available", _BYTE, _C.CONNACK, _flag),
    0x2A: _Kind("shared_available", _BYTE, _C.CONNACK, _flag),
}


def read_properties(reader: PacketReader, carrier: Carrier) -> Properties:
    """The properties at the reader's position; none for a version that has no properties."""
    if reader.version < 5:
        return NONE
    block = reader.take(reader.varint())
    return properties_in(block, carrier) if block else NONE


def properties_in(block: bytes, carrier: Carrier) -> Properties:
    """The properties of a block, which is what follows the length. Raises PacketError."""
    reader = PacketReader(block, 0, 5)
    found: dict[str, object] = {}
    lists: dict[str, list[object]] = {}
    while not reader.at_end:
        kind = _kind(reader.varint(), carrier)
        value = kind.type.read(reader)
        if not kind.is_allowed(value):
            raise forbidden(f"a value of {kind.name} that is not allowed")
        if kind.is_many:
            lists.setdefault(kind.name, []).append(value)
        elif kind.name in found:
            raise forbidden(f"{kind.name} twice in one packet")
        else:
            found[kind.name] = value
    if carrier is Carrier.SUBSCRIBE and len(lists.get("subscription_ids", ())) > 1:
        raise forbidden("two subscription identifiers in one SUBSCRIBE")
    found.update((name, tuple(values)) for name, values in lists.items())
    return Properties(**found)  # type: ignore[arg-type]  # the table has names and types


def _kind(number: int, carrier: Carrier) -> _Kind:
    kind = _KINDS.get(number)
    if kind is None:
        raise PacketError(f"unknown property {number}")
    if not kind.carriers & carrier:
        raise PacketError(f"{kind.name} is no property of this packet")
    return kind


def block_of(properties: Properties) -> bytes:
    """The properties as bytes, without the length in front."""
    parts: list[bytes] = []
    for number, kind in _SENT:
        value = getattr(properties, kind.name)
        if kind.is_many:
            parts += [number + kind.type.write(each) for each in value]
        elif value is not None:
            parts.append(number + kind.type.write(value))
    return b"".join(parts)


def encoded(properties: Properties | None) -> bytes:
    """The properties with their length in front."""
    block = b"" if properties is None else block_of(properties)
    if len(block) > REMAINING_LENGTH_MAX:
        raise LocalProtocolError("properties that are larger than a packet")
    return varint(len(block)) + block


# user properties, subscription identifiers and the topic alias come last, in this order
_LAST: Final = (0x26, 0x0B, 0x23)
_SENT: Final = [
    (bytes((number,)), _KINDS[number]) for number in (*sorted(_KINDS.keys() - set(_LAST)), *_LAST)
]
