"""Packets to bytes. Anything that MQTT cannot express raises ``LocalProtocolError``.

Checked is what would corrupt the stream; text was checked where it came in. ``publish_head`` is the
part of a PUBLISH that all receivers with the same QoS and RETAIN share, so a fan-out joins ``head +
PACKET_IDS[packet_id] + payload`` and encodes nothing per receiver.

Both versions of MQTT are written here. Properties make the difference: None stands for 3.1.1, which
has no place for them.
"""

from collections.abc import Container, Iterable, Sequence
from itertools import chain
from struct import Struct, pack
from typing import Final

from penstock.errors import LocalProtocolError
from penstock.wire.mqtt.events import Will
from penstock.wire.mqtt.packet import (
    FIXED_FLAGS,
    PUBLISH_SHAPES,
    REMAINING_LENGTH_MAX,
    PacketType,
    varint,
)
from penstock.wire.mqtt.properties import Properties, block_of, encoded
from penstock.wire.mqtt.reason_codes import CODES

PINGREQ: Final = b"\xc0\x00"
PINGRESP: Final = b"\xd0\x00"
DISCONNECT: Final = b"\xe0\x00"

PACKET_ID_MAX: Final = 65_535
_SUBACK_CODES: Final = frozenset({0, 1, 2, 0x80})

_PACKED: Final = pack(">65536H", *range(65_536))
# every two-byte number, ready to be joined; index 0 is unused
PACKET_IDS: Final[tuple[bytes, ...]] = tuple(
    chain.from_iterable(Struct("2s" * 256).iter_unpack(_PACKED))
)

_PUBLISH_FIRST_BYTES: Final = {
    shape: bytes((first_byte,)) for first_byte, shape in PUBLISH_SHAPES.items()
}
_ACK_HEADS: Final[dict[int, bytes]] = {
    packet_type: bytes((packet_type << 4 | FIXED_FLAGS[packet_type], 2))
    for packet_type in (PacketType.PUBACK, PacketType.PUBREC, PacketType.PUBREL, PacketType.PUBCOMP)
}
_PROTOCOL_NAME: Final = b"\x00\x04MQTT"


def connect(
    client_id: bytes,
    *,
    clean_session: bool = True,
    keep_alive: int = 60,
    will: Will | None = None,
    username: bytes | None = None,
    password: bytes | None = None,
    properties: Properties | None = None,
) -> bytes:
    """``keep_alive`` is in seconds; 0 disables it. With ``properties`` it asks for MQTT 5."""
    if properties is None:
        _check_connect(client_id, username, password, clean_session=clean_session)
    flags = clean_session << 1 | (username is not None) << 7 | (password is not None) << 6
    fields = [_binary(client_id)]
    if will is not None:
        flags |= 1 << 2 | _valid_qos(will.qos) << 3 | will.retain << 5
        fields += [_will_properties(will, properties), _binary(will.topic), _binary(will.payload)]
    fields += [_binary(field) for field in (username, password) if field is not None]
    level = b"\x04" if properties is None else b"\x05"
    head = [_PROTOCOL_NAME, level, bytes((flags,)), _uint16(keep_alive, "keep-alive")]
    return _packet(PacketType.CONNECT, *head, _properties(properties), *fields)


def _check_connect(
    client_id: bytes, username: bytes | None, password: bytes | None, *, clean_session: bool
) -> None:
    """What MQTT 3.1.1 does not allow, and MQTT 5 does."""
    if not client_id and not clean_session:
        raise LocalProtocolError("empty client id without a clean session")  # [MQTT-3.1.3-7]
    if password is not None and username is None:
        raise LocalProtocolError("a password without a user name")  # [MQTT-3.1.2-22]


def _will_properties(will: Will, properties: Properties | None) -> bytes:
    if properties is None:
        return b""
    block = b"" if will.properties is None else will.properties.block
    if will.delay_s:
        block += block_of(Properties(will_delay=will.delay_s))
    return varint(len(block)) + block


def connack(session_present: bool, return_code: int, properties: Properties | None = None) -> bytes:
    """A refusal cannot have a session [MQTT-3.2.2-4]."""
    is_known = (
        0 <= return_code <= 5 if properties is None else return_code in CODES[PacketType.CONNACK]
    )
    if not is_known or (session_present and return_code):
        raise LocalProtocolError(f"CONNACK with code {return_code}, session {session_present}")
    codes = bytes((session_present, return_code))
    return _packet(PacketType.CONNACK, codes, _properties(properties))


def publish(
    topic: bytes,
    payload: bytes,
    qos: int = 0,
    *,
    retain: bool = False,
    dup: bool = False,
    packet_id: int = 0,
    block: bytes | None = None,
) -> bytes:
    """``packet_id`` is 0 for QoS 0 and only then [MQTT-2.3.1-5].

    ``block`` are the properties of MQTT 5, without their length; None: MQTT 3.1.1.
    """
    tail = b"" if block is None else varint(len(block)) + block
    head = publish_head(topic, len(tail) + len(payload), qos, retain, dup)
    if qos:
        return head + _packet_id(packet_id) + tail + payload
    if packet_id:
        raise LocalProtocolError("a packet identifier with QoS 0")
    return head + tail + payload


def publishes(
    topic: bytes, payloads: Sequence[bytes], block: bytes | None = None, *, retain: bool = False
) -> bytes:
    """Packets of QoS 0 to one topic with the same properties, one after the other."""
    tail = b"" if block is None else varint(len(block)) + block
    sizes = set(map(len, payloads))
    if len(sizes) == 1:  # as with acknowledgements, the join does all of the work
        head = publish_head(topic, len(tail) + sizes.pop(), 0, retain) + tail
        return head + head.join(payloads)
    heads = {size: publish_head(topic, len(tail) + size, 0, retain) + tail for size in sizes}
    return b"".join([heads[len(payload)] + payload for payload in payloads])


def publish_head(
    topic: bytes, payload_length: int, qos: int = 0, retain: bool = False, dup: bool = False
) -> bytes:
    """The part of a PUBLISH before its packet id (QoS 1 and 2), properties and payload.

    In MQTT 5 ``payload_length`` includes the properties, with their length in front.
    """
    first_byte = _PUBLISH_FIRST_BYTES.get((qos, retain, dup))
    if first_byte is None:  # [MQTT-3.3.1-2], [MQTT-3.3.1-4]
        raise LocalProtocolError(f"PUBLISH with QoS {qos} and DUP {dup}")
    length = 2 + len(topic) + (2 if qos else 0) + payload_length
    return first_byte + _remaining_length(length) + _binary(topic)


def acks(kind: int, packet_ids: Sequence[int]) -> bytes:
    head = _ACK_HEADS.get(kind)
    if head is None:
        raise LocalProtocolError(f"packet type {kind} is not an acknowledgement")
    if len(packet_ids) == 1 and 0 < packet_ids[0] <= PACKET_ID_MAX:
        return head + PACKET_IDS[packet_ids[0]]
    if not packet_ids:
        return b""
    if min(packet_ids) < 1 or max(packet_ids) > PACKET_ID_MAX:
        raise LocalProtocolError("packet identifier out of range")  # [MQTT-2.3.1-1]
    # The head between the ids, and once before: the join does all of the work.
    return head + head.join([PACKET_IDS[packet_id] for packet_id in packet_ids])


def ack(kind: int, packet_id: int, code: int, properties: Properties | None = None) -> bytes:
    """One acknowledgement of MQTT 5 with a reason code, and properties if there are any."""
    packet_type = PacketType(kind)
    if code not in CODES[packet_type]:
        raise LocalProtocolError(f"{packet_type.name} with code {code:#04x}")
    rest = b"" if properties is None else encoded(properties)
    return _packet(packet_type, _packet_id(packet_id), bytes((code,)), rest)


def disconnect(code: int, properties: Properties | None = None) -> bytes:
    """A DISCONNECT of MQTT 5, from either end."""
    rest = b"" if properties is None else encoded(properties)
    return _packet(PacketType.DISCONNECT, bytes((code,)), rest)


def auth(code: int, properties: Properties) -> bytes:
    return _packet(PacketType.AUTH, bytes((code,)), encoded(properties))


def subscribe(
    packet_id: int, requests: Iterable[tuple[bytes, int]], properties: Properties | None = None
) -> bytes:
    """At least one ``(filter, options)`` [MQTT-3.8.3-3]; before MQTT 5, options are the QoS."""
    if properties is None:
        fields = [_binary(name) + bytes((_valid_qos(qos),)) for name, qos in requests]
    else:
        fields = [_binary(name) + bytes((options,)) for name, options in requests]
    head = _packet_id(packet_id), _properties(properties)
    return _packet(PacketType.SUBSCRIBE, *head, *_at_least_one(fields))


def suback(
    packet_id: int, return_codes: Iterable[int], properties: Properties | None = None
) -> bytes:
    """One code per filter: the granted QoS, or a failure: 0x80 [MQTT-3.9.3-1], others in MQTT 5."""
    allowed = _SUBACK_CODES if properties is None else CODES[PacketType.SUBACK]
    codes = [bytes((_one_of(allowed, code),)) for code in return_codes]
    head = _packet_id(packet_id), _properties(properties)
    return _packet(PacketType.SUBACK, *head, *_at_least_one(codes))


def unsubscribe(
    packet_id: int, filters: Iterable[bytes], properties: Properties | None = None
) -> bytes:
    """At least one filter [MQTT-3.10.3-2]."""
    fields = [_binary(name) for name in filters]
    head = _packet_id(packet_id), _properties(properties)
    return _packet(PacketType.UNSUBSCRIBE, *head, *_at_least_one(fields))


def unsuback(
    packet_id: int, codes: Iterable[int] = (), properties: Properties | None = None
) -> bytes:
    """In MQTT 5 with a code per filter."""
    if properties is None:
        return _packet(PacketType.UNSUBACK, _packet_id(packet_id))
    allowed = CODES[PacketType.UNSUBACK]
    fields = [bytes((_one_of(allowed, code),)) for code in codes]
    head = _packet_id(packet_id), _properties(properties)
    return _packet(PacketType.UNSUBACK, *head, *_at_least_one(fields))


def _properties(properties: Properties | None) -> bytes:
    """The place that MQTT 5 has for properties, and 3.1.1 has not."""
    return b"" if properties is None else encoded(properties)


def _one_of(allowed: Container[int], code: int) -> int:
    if code not in allowed:
        raise LocalProtocolError(f"reason code {code:#04x}")
    return code


def _packet(packet_type: PacketType, *fields: bytes) -> bytes:
    body = b"".join(fields)
    first = packet_type << 4 | FIXED_FLAGS[packet_type]
    return bytes((first,)) + _remaining_length(len(body)) + body


def _remaining_length(length: int) -> bytes:
    if length > REMAINING_LENGTH_MAX:
        raise LocalProtocolError(f"a packet of {length} bytes")
    return varint(length)


def _binary(field: bytes) -> bytes:
    return _uint16(len(field), "length of a field") + field


def _uint16(number: int, name: str) -> bytes:
    if not 0 <= number <= PACKET_ID_MAX:
        raise LocalProtocolError(f"{name} {number} does not fit two bytes")
    return PACKET_IDS[number]


def _packet_id(packet_id: int) -> bytes:
    if packet_id == 0:
        raise LocalProtocolError("packet identifier 0")  # [MQTT-2.3.1-1]
    return _uint16(packet_id, "packet identifier")


def _valid_qos(qos: int) -> int:
    if not 0 <= qos <= 2:
        raise LocalProtocolError(f"QoS {qos}")  # [MQTT-3.3.1-4]
    return qos


def _at_least_one(fields: list[bytes]) -> list[bytes]:
    if not fields:
        raise LocalProtocolError("packet without entries")
    return fields
