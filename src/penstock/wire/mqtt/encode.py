"""Packets to bytes. Anything that MQTT cannot express raises ``LocalProtocolError``.

Checked is what would corrupt the stream; text was checked where it came in. ``publish_head`` is the
part of a PUBLISH that all receivers with the same QoS and RETAIN share, so a fan-out joins ``head +
PACKET_IDS[packet_id] + payload`` and encodes nothing per receiver.
"""

from collections.abc import Iterable, Sequence
from struct import pack
from typing import Final

from penstock.errors import LocalProtocolError
from penstock.wire.mqtt.events import Will
from penstock.wire.mqtt.packet import FIXED_FLAGS, PUBLISH_SHAPES, REMAINING_LENGTH_MAX, PacketType

PINGREQ: Final = b"\xc0\x00"
PINGRESP: Final = b"\xd0\x00"
DISCONNECT: Final = b"\xe0\x00"

PACKET_ID_MAX: Final = 65_535

_PACKED: Final = pack(">65536H", *range(65_536))
# every two-byte number, ready to be joined; index 0 is unused
PACKET_IDS: Final = tuple([_PACKED[at : at + 2] for at in range(0, len(_PACKED), 2)])

_PUBLISH_FIRST_BYTES: Final = {
    shape: bytes((first_byte,)) for first_byte, shape in PUBLISH_SHAPES.items()
}
_ACK_HEADS: Final[dict[int, bytes]] = {
    packet_type: bytes((packet_type << 4 | FIXED_FLAGS[packet_type], 2))
    for packet_type in (PacketType.PUBACK, PacketType.PUBREC, PacketType.PUBREL, PacketType.PUBCOMP)
}
_CONNECT_HEAD: Final = b"\x00\x04MQTT\x04"  # the protocol's name and level


def connect(
    client_id: bytes,
    *,
    clean_session: bool = True,
    keep_alive: int = 60,
    will: Will | None = None,
    username: bytes | None = None,
    password: bytes | None = None,
) -> bytes:
    """``keep_alive`` is in seconds; 0 disables it."""
    if not client_id and not clean_session:
        raise LocalProtocolError("empty client id without a clean session")  # [MQTT-3.1.3-7]
    if password is not None and username is None:
        raise LocalProtocolError("a password without a user name")  # [MQTT-3.1.2-22]
    flags = clean_session << 1 | (username is not None) << 7 | (password is not None) << 6
    fields = [client_id]
    if will is not None:
        flags |= 1 << 2 | _valid_qos(will.qos) << 3 | will.retain << 5
        fields += [will.topic, will.payload]
    fields += [field for field in (username, password) if field is not None]
    body = [_CONNECT_HEAD, bytes((flags,)), _uint16(keep_alive, "keep-alive")]
    return _packet(PacketType.CONNECT, *body, *map(_binary, fields))


def connack(session_present: bool, return_code: int) -> bytes:
    """A refusal cannot have a session [MQTT-3.2.2-4]."""
    if not 0 <= return_code <= 5 or (session_present and return_code):
        raise LocalProtocolError(f"CONNACK with code {return_code}, session {session_present}")
    return _packet(PacketType.CONNACK, bytes((session_present, return_code)))


def publish(
    topic: bytes,
    payload: bytes,
    qos: int = 0,
    *,
    retain: bool = False,
    dup: bool = False,
    packet_id: int = 0,
) -> bytes:
    """``packet_id`` is 0 for QoS 0 and only then [MQTT-2.3.1-5]."""
    head = publish_head(topic, len(payload), qos, retain, dup)
    if qos:
        return head + _packet_id(packet_id) + payload
    if packet_id:
        raise LocalProtocolError("a packet identifier with QoS 0")
    return head + payload


def publish_head(
    topic: bytes, payload_length: int, qos: int = 0, retain: bool = False, dup: bool = False
) -> bytes:
    """The part of a PUBLISH before its packet id (QoS 1 and 2) and payload."""
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


def subscribe(packet_id: int, requests: Iterable[tuple[bytes, int]]) -> bytes:
    """At least one ``(filter, qos)`` [MQTT-3.8.3-3]."""
    fields = [_binary(name) + bytes((_valid_qos(qos),)) for name, qos in requests]
    return _packet(PacketType.SUBSCRIBE, _packet_id(packet_id), *_at_least_one(fields))


def suback(packet_id: int, return_codes: Iterable[int]) -> bytes:
    """One code per filter: the granted QoS, or 0x80 [MQTT-3.9.3-1]."""
    codes = [bytes((code if code == 0x80 else _valid_qos(code),)) for code in return_codes]
    return _packet(PacketType.SUBACK, _packet_id(packet_id), *_at_least_one(codes))


def unsubscribe(packet_id: int, filters: Iterable[bytes]) -> bytes:
    """At least one filter [MQTT-3.10.3-2]."""
    fields = [_binary(name) for name in filters]
    return _packet(PacketType.UNSUBSCRIBE, _packet_id(packet_id), *_at_least_one(fields))


def unsuback(packet_id: int) -> bytes:
    return _packet(PacketType.UNSUBACK, _packet_id(packet_id))


def _packet(packet_type: PacketType, *fields: bytes) -> bytes:
    body = b"".join(fields)
    first = packet_type << 4 | FIXED_FLAGS[packet_type]
    return bytes((first,)) + _remaining_length(len(body)) + body


def _remaining_length(length: int) -> bytes:
    if length < 1 << 7:
        return bytes((length,))
    if length < 1 << 14:
        return bytes((length & 0x7F | 0x80, length >> 7))
    if length < 1 << 21:
        return bytes((length & 0x7F | 0x80, length >> 7 & 0x7F | 0x80, length >> 14))
    if length <= REMAINING_LENGTH_MAX:
        low, middle = length & 0x7F | 0x80, length >> 7 & 0x7F | 0x80
        return bytes((low, middle, length >> 14 & 0x7F | 0x80, length >> 21))
    raise LocalProtocolError(f"a packet of {length} bytes")


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
