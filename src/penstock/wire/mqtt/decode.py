"""One function per packet type: the bytes of a complete packet in, one event out.

Both versions of MQTT share them: a reader knows its version, and 3.1.1 has no properties. This is
the plain path: it reports precisely what is wrong with a packet, and need not be fast.
Every read goes through a ``PacketReader``, so a wrong length cannot reach beyond the packet.
Whatever the bytes, nothing but ``PacketError`` is raised. A body must be used up to its last byte.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from penstock.obs.reasons import DisconnectReason
from penstock.wire.mqtt.events import (
    Auth,
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
from penstock.wire.mqtt.message_properties import (
    MessageProperties,
    message_properties,
    of_properties,
    received_properties,
)
from penstock.wire.mqtt.packet import DUP_FLAG, FIXED_FLAGS, QOS_MASK, RETAIN_FLAG, PacketType
from penstock.wire.mqtt.packet_reader import PacketError, PacketReader, forbidden, is_text
from penstock.wire.mqtt.properties import NONE, Carrier, Properties, read_properties
from penstock.wire.mqtt.reason_codes import (
    CLIENT_DISCONNECT_CODES,
    CODES,
    SERVER_DISCONNECT_CODES,
    ReasonCode,
)

__all__ = [
    "DECODERS",
    "Decoder",
    "PacketError",
    "PacketReader",
    "check_flags",
    "is_text",
]

PROTOCOL_NAME: Final = b"MQTT"
PROTOCOL_NAME_3_1: Final = b"MQIsdp"
LEVEL_3_1_1: Final = 4
LEVEL_5: Final = 5

REFUSED_PROTOCOL_LEVEL: Final = 1
REFUSED_IDENTIFIER: Final = 2
RETURN_CODE_MAX: Final = 5  # CONNACK codes above it are reserved

SUBACK_CODES: Final = frozenset({0, 1, 2, 0x80})

USERNAME_FLAG: Final = 0b1000_0000
PASSWORD_FLAG: Final = 0b0100_0000
WILL_RETAIN_FLAG: Final = 0b0010_0000
WILL_QOS_MASK: Final = 0b0001_1000
WILL_FLAG: Final = 0b0000_0100
BRIDGE_LEVELS: Final = 0x80  # some bridges set the highest bit of the level that they speak
VERSIONS: Final = {3: "MQTT 3.1"}  # protocol levels of other versions

# bits of the options of a subscription, before MQTT 5 the QoS alone
OPTION_QOS: Final = 0b0000_0011
OPTION_NO_LOCAL: Final = 0b0000_0100
OPTION_RETAIN_HANDLING: Final = 0b0011_0000
OPTION_RESERVED: Final = 0b1100_0000
SHARE_PREFIX: Final = b"$share/"

CLEAN_SESSION_FLAG: Final = 0b0000_0010
RESERVED_FLAG: Final = 0b0000_0001


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
    if name != PROTOCOL_NAME or level not in {LEVEL_3_1_1, LEVEL_5}:
        return _refused_level(level, reader)
    connect_flags = reader.byte()
    _check_connect_flags(connect_flags, level)
    keep_alive = reader.uint16()
    properties = read_properties(reader, Carrier.CONNECT)
    _check_login_properties(properties)
    packet = Connect(
        client_id=reader.text("client id"),  # [MQTT-3.1.3-3], [MQTT-3.1.3-4]
        clean_session=bool(connect_flags & CLEAN_SESSION_FLAG),
        keep_alive=keep_alive,
        will=_will(connect_flags, reader),
        username=reader.text("user name") if connect_flags & USERNAME_FLAG else None,
        password=reader.binary() if connect_flags & PASSWORD_FLAG else None,
        version=level,
        properties=properties,
    )
    reader.finish()
    if not _is_acceptable_client_id(packet):
        return ConnectRefused(
            REFUSED_IDENTIFIER,
            DisconnectReason.IDENTIFIER_REJECTED,
            "empty client id without a clean session",
        )
    return packet


def level_of(body: bytes) -> int:
    """The protocol level at the beginning of a CONNECT's body; 0 if it is not that of MQTT."""
    is_mqtt = body.startswith(b"\x00\x04" + PROTOCOL_NAME) and len(body) > 6
    return body[6] if is_mqtt else 0


def _refused_level(level: int, reader: PacketReader) -> ConnectRefused:
    """[MQTT-3.1.2-2]. The rest is laid out by a version we do not speak: for the log only."""
    is_newer = LEVEL_5 < level < BRIDGE_LEVELS
    version = VERSIONS.get(level, f"protocol level {level}")
    return ConnectRefused(
        ReasonCode.UNSUPPORTED_PROTOCOL_VERSION if is_newer else REFUSED_PROTOCOL_LEVEL,
        DisconnectReason.UNACCEPTABLE_PROTOCOL,
        f"{version} is not supported, only MQTT 3.1.1 and 5.0",
        _client_id_of(reader),
        LEVEL_5 if is_newer else LEVEL_3_1_1,
    )


def _client_id_of(reader: PacketReader) -> bytes:
    """The client id of a CONNECT of another version; empty if it cannot be found."""
    try:
        reader.take(3)  # flags and keep-alive
        return reader.text("client id")
    except PacketError:
        return b""


def _check_login_properties(properties: Properties) -> None:
    if properties.authentication_data is not None and properties.authentication_method is None:
        raise forbidden("authentication data without a method")


def _check_connect_flags(connect_flags: int, level: int) -> None:
    if connect_flags & RESERVED_FLAG:
        raise PacketError("CONNECT with its reserved flag set")  # [MQTT-3.1.2-3]
    if connect_flags & WILL_QOS_MASK == WILL_QOS_MASK:
        raise PacketError("CONNECT with will QoS 3")  # [MQTT-3.1.2-14]
    if not connect_flags & WILL_FLAG and connect_flags & (WILL_QOS_MASK | WILL_RETAIN_FLAG):
        # [MQTT-3.1.2-11], [MQTT-3.1.2-13], [MQTT-3.1.2-15]
        raise PacketError("CONNECT with will QoS or will retain, but no will")
    is_password_alone = connect_flags & PASSWORD_FLAG and not connect_flags & USERNAME_FLAG
    if is_password_alone and level < LEVEL_5:
        raise PacketError("CONNECT with a password, but no user name")  # [MQTT-3.1.2-22]


def _will(connect_flags: int, reader: PacketReader) -> Will | None:
    if not connect_flags & WILL_FLAG:
        return None
    properties = read_properties(reader, Carrier.WILL)
    return Will(
        topic=reader.text("will topic"),  # [MQTT-3.1.3-10]
        payload=reader.binary(),
        qos=(connect_flags & WILL_QOS_MASK) >> 3,
        retain=bool(connect_flags & WILL_RETAIN_FLAG),
        properties=None if properties is NONE else of_properties(properties),
        delay_s=properties.will_delay or 0,
    )


def _is_acceptable_client_id(packet: Connect) -> bool:
    """Before MQTT 5 an empty id needs a clean session. The broker limits the length."""
    is_named = bool(packet.client_id) or packet.version >= LEVEL_5
    return is_named or packet.clean_session  # [MQTT-3.1.3-7], [MQTT-3.1.3-8]


def publish(flags: int, reader: PacketReader) -> Publish:
    """From a client. ``check_flags`` has passed. The topic is not checked (see ``events``)."""
    return _publish(flags, reader, message_properties)


def received(flags: int, reader: PacketReader) -> Publish:
    """From a broker."""
    return _publish(flags, reader, received_properties)


def _publish(
    flags: int, reader: PacketReader, properties_of: Callable[[bytes], MessageProperties]
) -> Publish:
    qos = (flags & QOS_MASK) >> 1
    topic = reader.binary()
    packet_id = reader.packet_id() if qos else 0  # [MQTT-2.3.1-5]
    block = reader.take(reader.varint()) if reader.version >= LEVEL_5 else b""
    return Publish(
        topic=topic,
        payload=reader.rest(),
        qos=qos,
        retain=bool(flags & RETAIN_FLAG),
        dup=bool(flags & DUP_FLAG),
        packet_id=packet_id,
        properties=properties_of(block) if block else None,
    )


def _ack_decoder(packet_type: PacketType) -> Decoder:
    def acknowledgement(_flags: int, reader: PacketReader) -> MqttAcks:
        packet_id = reader.packet_id()
        code, properties = _code_and_properties(packet_type, reader, Carrier.ACK)
        return MqttAcks(packet_type, [packet_id], [code] if code else None, properties)

    return acknowledgement


def _code_and_properties(
    packet_type: PacketType, reader: PacketReader, carrier: Carrier
) -> tuple[int, Properties]:
    """The end of a packet whose code and properties may be left out, from MQTT 5 on."""
    if reader.at_end or reader.version < LEVEL_5:
        reader.finish()
        return 0, NONE
    code = reader.byte()
    properties = NONE if reader.at_end else read_properties(reader, carrier)
    reader.finish()
    if packet_type in CODES and code not in CODES[packet_type]:
        raise forbidden(f"{packet_type.name} with reason code {code:#04x}")
    return code, properties


def subscribe(_flags: int, reader: PacketReader) -> MqttSubscribe:
    packet_id = reader.packet_id()
    properties = read_properties(reader, Carrier.SUBSCRIBE)
    _check_not_empty(reader)
    requests = [_request(reader)]  # at least one [MQTT-3.8.3-3]
    while not reader.at_end:
        requests.append(_request(reader))
    return MqttSubscribe(packet_id, requests, properties)


def _check_not_empty(reader: PacketReader) -> None:
    if reader.at_end and reader.version >= LEVEL_5:
        raise forbidden("a packet without topic filters")


def _request(reader: PacketReader) -> tuple[bytes, int]:
    topic_filter = reader.text("topic filter")  # [MQTT-3.8.3-1]
    options = reader.byte()
    if reader.version >= LEVEL_5:
        _check_options(topic_filter, options)
    elif options > 2:
        raise PacketError("SUBSCRIBE with a requested QoS above 2")  # [MQTT-3-8.3-4]
    return topic_filter, options


def _check_options(topic_filter: bytes, options: int) -> None:
    if options & OPTION_RESERVED:
        raise PacketError("SUBSCRIBE with reserved option bits")
    if options & OPTION_QOS == OPTION_QOS:
        raise forbidden("SUBSCRIBE with QoS 3")
    if options & OPTION_RETAIN_HANDLING == OPTION_RETAIN_HANDLING:
        raise forbidden("SUBSCRIBE with retain handling 3")
    if options & OPTION_NO_LOCAL and topic_filter.startswith(SHARE_PREFIX):
        raise forbidden("no local on a shared subscription")


def suback(_flags: int, reader: PacketReader) -> SubAck:
    packet_id = reader.packet_id()
    properties = read_properties(reader, Carrier.SUBACK)
    codes = list(reader.take(1) + reader.rest())  # at least one
    allowed = SUBACK_CODES if reader.version < LEVEL_5 else CODES[PacketType.SUBACK]
    if not allowed.issuperset(codes):
        raise PacketError("SUBACK with a reserved return code")  # [MQTT-3.9.3-2]
    return SubAck(packet_id, codes, properties)


def unsubscribe(_flags: int, reader: PacketReader) -> MqttUnsubscribe:
    packet_id = reader.packet_id()
    properties = read_properties(reader, Carrier.UNSUBSCRIBE)
    _check_not_empty(reader)
    filters = [reader.text("topic filter")]  # [MQTT-3.10.3-1]; at least one [MQTT-3.10.3-2]
    while not reader.at_end:
        filters.append(reader.text("topic filter"))
    return MqttUnsubscribe(packet_id, filters, properties)


def unsuback(_flags: int, reader: PacketReader) -> UnsubAck:
    packet_id = reader.packet_id()
    if reader.version < LEVEL_5:
        reader.finish()
        return UnsubAck(packet_id)
    properties = read_properties(reader, Carrier.UNSUBACK)
    codes = list(reader.take(1) + reader.rest())  # at least one
    if not CODES[PacketType.UNSUBACK].issuperset(codes):
        raise PacketError("UNSUBACK with a reserved reason code")
    return UnsubAck(packet_id, codes, properties)


def connack(_flags: int, reader: PacketReader) -> ConnAck:
    acknowledge_flags, code = reader.take(2)
    properties = read_properties(reader, Carrier.CONNACK)
    reader.finish()
    if acknowledge_flags > 1:
        raise PacketError("CONNACK with reserved flags")
    is_known = (
        code <= RETURN_CODE_MAX if reader.version < LEVEL_5 else code in CODES[PacketType.CONNACK]
    )
    if not is_known:
        raise PacketError("CONNACK with a reserved return code")
    if acknowledge_flags and code:
        raise PacketError("CONNACK with a refusal and a session")  # [MQTT-3.2.2-4]
    _check_login_properties(properties)
    return ConnAck(bool(acknowledge_flags), code, properties)


def client_disconnect(_flags: int, reader: PacketReader) -> Disconnect:
    """A DISCONNECT from a client."""
    return _disconnect(reader, CLIENT_DISCONNECT_CODES)


def server_disconnect(_flags: int, reader: PacketReader) -> Disconnect:
    """A DISCONNECT from a broker, which only MQTT 5 has."""
    packet = _disconnect(reader, SERVER_DISCONNECT_CODES)
    if packet.properties.session_expiry is not None:
        raise forbidden("a broker's DISCONNECT with a session expiry")
    return packet


def _disconnect(reader: PacketReader, allowed: frozenset[int]) -> Disconnect:
    carrier = Carrier.DISCONNECT
    code, properties = _code_and_properties(PacketType.DISCONNECT, reader, carrier)
    if code not in allowed:
        raise forbidden(f"DISCONNECT with reason code {code:#04x}")
    return Disconnect(code, properties)


def auth(_flags: int, reader: PacketReader) -> Auth:
    code, properties = _code_and_properties(PacketType.AUTH, reader, Carrier.AUTH)
    if properties.authentication_method is None:
        raise forbidden("AUTH without an authentication method")
    return Auth(code, properties)


def _empty_decoder(event: PingReq | PingResp) -> Decoder:
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
        PacketType.DISCONNECT: client_disconnect,
        PacketType.AUTH: auth,
    }
)
