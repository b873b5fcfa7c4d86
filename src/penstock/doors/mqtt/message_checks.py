"""What an MQTT message may be, apart from its topic: QoS, RETAIN, payload and properties."""

from penstock.access.admission import Refusal
from penstock.config.schema import Mqtt
from penstock.core.commands import WillMessage
from penstock.limits import HEADERS_BYTES_MAX, HEADERS_MAX
from penstock.model.message import CONTENT_TYPE_SHIFT, Extras
from penstock.model.mqtt_headers import PAYLOAD_FORMAT, content_type_of
from penstock.model.topic import topic_fault
from penstock.obs.printable import printable
from penstock.obs.reasons import DisconnectReason
from penstock.wire.mqtt import is_text
from penstock.wire.mqtt.events import Publish, Will
from penstock.wire.mqtt.message_properties import MessageProperties

# a block of properties this short has no headers beyond the limits: each takes five bytes there
_SHORT_BLOCK_BYTES = 5 * HEADERS_MAX
_TEXT = (PAYLOAD_FORMAT, b"1")


def unsupported(message: Publish | Will, settings: Mqtt) -> Refusal | None:
    """Why a message is one that the broker is configured not to take."""
    if message.qos > settings.maximum_qos:
        text = f"QoS {message.qos} is used, {settings.maximum_qos} is the maximum"
        return Refusal(DisconnectReason.QOS_UNSUPPORTED, text)
    if message.retain and not settings.retain_available:
        text = "RETAIN is set, and this broker retains no messages"
        return Refusal(DisconnectReason.RETAIN_UNSUPPORTED, text)
    return None


def malformed_topic(topic: bytes) -> Refusal | None:
    """Why a topic is none, whatever the limits: MQTT 5 ends such a connection."""
    if not is_text(topic):
        reason = DisconnectReason.MALFORMED_PACKET
        return Refusal(reason, "the topic is not UTF-8, or contains U+0000")
    fault = topic_fault(topic, bytes_max=65_535, levels_max=65_536)
    if fault:
        return Refusal(DisconnectReason.TOPIC_INVALID, f"topic {printable(topic, 64)}: {fault}")
    return None


def unfit(properties: MessageProperties, payloads: list[bytes], settings: Mqtt) -> Refusal | None:
    """Why messages with these properties are refused."""
    headers = properties.headers
    if len(properties.block) > _SHORT_BLOCK_BYTES:
        size = sum([len(name) + len(value) for name, value in headers])
        if len(headers) > HEADERS_MAX or size > HEADERS_BYTES_MAX:
            text = (
                f"the message has {len(headers)} properties of {size} bytes together, {HEADERS_MAX}"
                f" of {HEADERS_BYTES_MAX} bytes are allowed"
            )
            return Refusal(DisconnectReason.TOO_MANY_PROPERTIES, text)
    if settings.check_payload_format and _TEXT in headers and not all(map(_is_utf_8, payloads)):
        text = "the payload is said to be text, and is not UTF-8"
        return Refusal(DisconnectReason.PAYLOAD_FORMAT, text)
    return None


def _is_utf_8(payload: bytes) -> bool:
    try:
        payload.decode()
    except UnicodeDecodeError:
        return False
    return True


def extras_of(properties: MessageProperties, now_ms: int) -> Extras:
    """The properties as the journal has them."""
    expiry_s = properties.expiry_s
    expires_ms = 0 if expiry_s is None else now_ms + expiry_s * 1000
    return Extras(headers=properties.headers, expires_ms=expires_ms)


def marks_of(properties: MessageProperties | None) -> int:
    """The flags of the journal: the content type, if the journal has a number for it."""
    return 0 if properties is None else content_type_of(properties.headers) << CONTENT_TYPE_SHIFT


def will_message(will: Will) -> WillMessage:
    properties = will.properties
    if properties is None:
        return WillMessage(will.topic, will.payload, will.qos, will.retain, delay_s=will.delay_s)
    return WillMessage(
        will.topic,
        will.payload,
        will.qos,
        will.retain,
        headers=properties.headers,
        expiry_s=-1 if properties.expiry_s is None else properties.expiry_s,
        delay_s=will.delay_s,
    )
