"""One function per packet type: the bytes of a complete packet in, one event out.

This is the plain path: it reports precisely what is wrong with a packet, and need not be fast.
Every read goes through a ``PacketReader``, so a wrong length cannot reach beyond the packet.
Whatever the bytes, nothing but ``PacketError`` is raised. A body must be used up to its last byte.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from penstock.errors import RemoteProtocolError
from penstock.obs.reasons import DisconnectReason
from penstock.wire.mqtt.events import (
    ConnAck,
    Connect,
    ConnectRefused,
    Disconnect,
    Event,
    MqttAcks,
    MqttSubscribe,
    MqttUnsubscribe,
    PingReq,
    PingResp,
    Publish,
    SubAck,
    UnsubAck,
    Will,
)
from penstock.wire.mqtt.packet import DUP_FLAG, FIXED_FLAGS, QOS_MASK, RETAIN_FLAG, PacketType

PROTOCOL_NAME: Final = b"MQTT"
PROTOCOL_NAME_3_1: Final = b"MQIsdp"
PROTOCOL_LEVEL: Final = 4

REFUSED_PROTOCOL_LEVEL: Final = 1
REFUSED_IDENTIFIER: Final = 2
RETURN_CODE_MAX: Final = 5  # CONNACK codes above it are reserved

SUBACK_CODES: Final = frozenset({0, 1, 2, 0x80})

USERNAME_FLAG: Final = 0b1000_0000
PASSWORD_FLAG: Final = 0b0100_0000
WILL_RETAIN_FLAG: Final = 0b0010_0000
WILL_QOS_MASK: Final = 0b0001_1000
WILL_FLAG: Final = 0b0000_0100
LEVEL_5: Final = 5
VERSIONS: Final = {3: "MQTT 3.1", LEVEL_5: "MQTT 5.0"}  # protocol levels of other versions

CLEAN_SESSION_FLAG: Final = 0b0000_0010
RESERVED_FLAG: Final = 0b0000_0001


class PacketError(RemoteProtocolError):
    """A malformed or forbidden packet. The machine turns it into a ``Violation``."""

    def __init__(
        self, message: str, reason: DisconnectReason = DisconnectReason.MALFORMED_PACKET
    ) -> None:
        super().__init__(message)
        self.reason = reason


def is_text(field: bytes) -> bool:
    """Strict UTF-8 without U+0000 [MQTT-1.5.3-1]; a byte order mark is valid [MQTT-1.5.3-3]."""
    try:
        field.decode()
    except UnicodeDecodeError:
        return False
    return b"\0" not in field  # [MQTT-1.5.3-2]


class PacketReader:
    """Reads one packet from front to back and never past its end."""

    __slots__ = ("_position", "frame")

    def __init__(self, frame: bytes, position: int) -> None:
        self.frame = frame
        self._position = position

    @property
    def at_end(self) -> bool:
        return self._position == len(self.frame)

    def take(self, count: int) -> bytes:
        start, end = self._position, self._position + count
        if end > len(self.frame):
            raise PacketError("the packet ends inside a field")
        self._position = end
        return self.frame[start:end]

    def rest(self) -> bytes:
        return self.take(len(self.frame) - self._position)

    def byte(self) -> int:
        return self.take(1)[0]

    def uint16(self) -> int:
        return int.from_bytes(self.take(2), "big")

    def binary(self) -> bytes:
        """A field with a two-byte length in front."""
        return self.take(self.uint16())

    def text(self, name: str) -> bytes:
        """A string field, checked but not decoded; ``name`` is for the log."""
        field = self.binary()
        if not is_text(field):
            raise PacketError(f"{name} is not UTF-8, or contains U+0000")
        return field

    def packet_id(self) -> int:
        packet_id = self.uint16()
        if packet_id == 0:
            raise PacketError("packet identifier 0")  # [MQTT-2.3.1-1]
        return packet_id

    def finish(self) -> None:
        if not self.at_end:
            raise PacketError("bytes after the last field of the packet")


# takes the four flag bits and a reader at the first byte of the body
Decoder = Callable[[int, PacketReader], Event]


def check_flags(packet_type: int, flags: int) -> None:
    if packet_type != PacketType.PUBLISH:
        if flags != FIXED_FLAGS[packet_type]:
            # Also [MQTT-3.6.1-1], [MQTT-3.8.1-1], [MQTT-3.10.1-1] and [MQTT-3.14.1-1].
            raise PacketError("reserved flags in the fixed header")  # [MQTT-2.2.2-2]
    elif flags & QOS_MASK == QOS_MASK:
        raise PacketError("PUBLISH with QoS 3")  # [MQTT-3.3.1-4]
    elif flags & DUP_FLAG and not flags & QOS_MASK:
        raise PacketError("PUBLISH with DUP and QoS 0")  # [MQTT-3.3.1-2]


def connect(_flags: int, reader: PacketReader) -> Connect | ConnectRefused:
    """Decode CONNECT, or return the refusal; a malformed one has none [MQTT-3.1.4-1]."""
    name = reader.binary()
    if name not in {PROTOCOL_NAME, PROTOCOL_NAME_3_1}:
        # [MQTT-3.1.2-1]; we do not guess on, so there is no CONNACK to send.
        reason = DisconnectReason.UNACCEPTABLE_PROTOCOL
        raise PacketError("the protocol name is not MQTT", reason)
    level = reader.byte()
    if name != PROTOCOL_NAME or level != PROTOCOL_LEVEL:
        # [MQTT-3.1.2-2]. The rest is laid out by a version we do not speak: read for the log only.
        version = VERSIONS.get(level, f"protocol level {level}")
        return ConnectRefused(
            REFUSED_PROTOCOL_LEVEL,
            DisconnectReason.UNACCEPTABLE_PROTOCOL,
            f"{version} is not supported, only MQTT 3.1.1",
            _client_id_of(level, reader),
        )
    connect_flags = reader.byte()
    _check_connect_flags(connect_flags)
    packet = Connect(
        keep_alive=reader.uint16(),
        client_id=reader.text("client id"),  # [MQTT-3.1.3-3], [MQTT-3.1.3-4]
        clean_session=bool(connect_flags & CLEAN_SESSION_FLAG),
        will=_will(connect_flags, reader),
        username=reader.text("user name") if connect_flags & USERNAME_FLAG else None,
        password=reader.binary() if connect_flags & PASSWORD_FLAG else None,
    )
    reader.finish()
    if not _is_acceptable_client_id(packet):
        return ConnectRefused(
            REFUSED_IDENTIFIER,
            DisconnectReason.IDENTIFIER_REJECTED,
            "empty client id without a clean session",
        )
    return packet


def _client_id_of(level: int, reader: PacketReader) -> bytes:
    """The client id of a CONNECT of another version; empty if it cannot be found."""
    try:
        reader.take(3)  # flags and keep-alive
        if level == LEVEL_5:
            reader.take(_varint(reader))  # properties
        return reader.text("client id")
    except PacketError:
        return b""


def _varint(reader: PacketReader) -> int:
    value = shift = 0
    while shift < 4 * 7:
        byte = reader.byte()
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value
        shift += 7
    raise PacketError("a length of more than four bytes")


def _check_connect_flags(connect_flags: int) -> None:
    if connect_flags & RESERVED_FLAG:
        raise PacketError("CONNECT with its reserved flag set")  # [MQTT-3.1.2-3]
    if connect_flags & WILL_QOS_MASK == WILL_QOS_MASK:
        raise PacketError("CONNECT with will QoS 3")  # [MQTT-3.1.2-14]
    if not connect_flags & WILL_FLAG and connect_flags & (WILL_QOS_MASK | WILL_RETAIN_FLAG):
        # [MQTT-3.1.2-11], [MQTT-3.1.2-13], [MQTT-3.1.2-15]
        raise PacketError("CONNECT with will QoS or will retain, but no will")
    if connect_flags & PASSWORD_FLAG and not connect_flags & USERNAME_FLAG:
        raise PacketError("CONNECT with a password, but no user name")  # [MQTT-3.1.2-22]


def _will(connect_flags: int, reader: PacketReader) -> Will | None:
    if not connect_flags & WILL_FLAG:
        return None
    return Will(
        topic=reader.text("will topic"),  # [MQTT-3.1.3-10]
        payload=reader.binary(),
        qos=(connect_flags & WILL_QOS_MASK) >> 3,
        retain=bool(connect_flags & WILL_RETAIN_FLAG),
    )


def _is_acceptable_client_id(packet: Connect) -> bool:
    """An empty id needs a clean session. The broker limits the length, not the codec."""
    return bool(packet.client_id) or packet.clean_session  # [MQTT-3.1.3-7], [MQTT-3.1.3-8]


def publish(flags: int, reader: PacketReader) -> Publish:
    """``check_flags`` has passed. The topic is not checked (see ``events``)."""
    qos = (flags & QOS_MASK) >> 1
    return Publish(
        topic=reader.binary(),
        packet_id=reader.packet_id() if qos else 0,  # [MQTT-2.3.1-5]
        payload=reader.rest(),
        qos=qos,
        retain=bool(flags & RETAIN_FLAG),
        dup=bool(flags & DUP_FLAG),
    )


def _ack_decoder(packet_type: PacketType) -> Decoder:
    def acknowledgement(_flags: int, reader: PacketReader) -> MqttAcks:
        return MqttAcks(packet_type, [_only_packet_id(reader)])

    return acknowledgement


def _only_packet_id(reader: PacketReader) -> int:
    packet_id = reader.packet_id()
    reader.finish()
    return packet_id


def subscribe(_flags: int, reader: PacketReader) -> MqttSubscribe:
    packet_id = reader.packet_id()
    requests = [_request(reader)]  # at least one [MQTT-3.8.3-3]
    while not reader.at_end:
        requests.append(_request(reader))
    return MqttSubscribe(packet_id, requests)


def _request(reader: PacketReader) -> tuple[bytes, int]:
    topic_filter = reader.text("topic filter")  # [MQTT-3.8.3-1]
    qos = reader.byte()
    if qos > 2:
        raise PacketError("SUBSCRIBE with a requested QoS above 2")  # [MQTT-3-8.3-4]
    return topic_filter, qos


def suback(_flags: int, reader: PacketReader) -> SubAck:
    packet_id = reader.packet_id()
    return_codes = list(reader.take(1) + reader.rest())  # at least one
    if not SUBACK_CODES.issuperset(return_codes):
        raise PacketError("SUBACK with a reserved return code")  # [MQTT-3.9.3-2]
    return SubAck(packet_id, return_codes)


def unsubscribe(_flags: int, reader: PacketReader) -> MqttUnsubscribe:
    packet_id = reader.packet_id()
    filters = [reader.text("topic filter")]  # [MQTT-3.10.3-1]; at least one [MQTT-3.10.3-2]
    while not reader.at_end:
        filters.append(reader.text("topic filter"))
    return MqttUnsubscribe(packet_id, filters)


def unsuback(_flags: int, reader: PacketReader) -> UnsubAck:
    return UnsubAck(_only_packet_id(reader))


def connack(_flags: int, reader: PacketReader) -> ConnAck:
    acknowledge_flags, return_code = reader.take(2)
    reader.finish()
    if acknowledge_flags > 1:
        raise PacketError("CONNACK with reserved flags")
    if return_code > RETURN_CODE_MAX:
        raise PacketError("CONNACK with a reserved return code")
    if acknowledge_flags and return_code:
        raise PacketError("CONNACK with a refusal and a session")  # [MQTT-3.2.2-4]
    return ConnAck(bool(acknowledge_flags), return_code)


def _empty_decoder(event: PingReq | PingResp | Disconnect) -> Decoder:
    def decode(_flags: int, reader: PacketReader) -> Event:
        reader.finish()
        return event

    return decode


DECODERS: Final[Mapping[int, Decoder]] = MappingProxyType(
    {
        PacketType.CONNECT: connect,
        PacketType.CONNACK: connack,
        PacketType.PUBLISH: publish,
        PacketType.PUBACK: _ack_decoder(PacketType.PUBACK),
        PacketType.PUBREC: _ack_decoder(PacketType.PUBREC),
        PacketType.PUBREL: _ack_decoder(PacketType.PUBREL),
        PacketType.PUBCOMP: _ack_decoder(PacketType.PUBCOMP),
        PacketType.SUBSCRIBE: subscribe,
        PacketType.SUBACK: suback,
        PacketType.UNSUBSCRIBE: unsubscribe,
        PacketType.UNSUBACK: unsuback,
        PacketType.PINGREQ: _empty_decoder(PingReq()),
        PacketType.PINGRESP: _empty_decoder(PingResp()),
        PacketType.DISCONNECT: _empty_decoder(Disconnect()),
    }
)
