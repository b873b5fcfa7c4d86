"""What MQTT 5 says about a message: the same struct for what we publish and for what we receive.

So a message is passed on with ``client.publish(topic, it.payload, properties=it.properties)``.
Publishers repeat their properties with most messages, so the bytes of a struct, and the struct of
some bytes, are remembered.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import msgspec

from penstock.client.errors import ArgumentError
from penstock.client.payload import check_payload
from penstock.errors import LocalProtocolError
from penstock.wire.mqtt import events, is_text
from penstock.wire.mqtt.message_properties import MessageProperties, of_properties
from penstock.wire.mqtt.properties import Carrier, Properties, block_of, properties_in

REMEMBERED: Final = 256
REMEMBERED_BYTES_MAX: Final = 1024
FIELD_BYTES_MAX: Final = 65_535
SECONDS_MAX: Final = 2**32 - 1


class PublishProperties(msgspec.Struct, frozen=True, kw_only=True):
    """The properties of a message in MQTT 5; None: not given.

    >>> PublishProperties(expiry_s=60, user_properties=[("unit", "bar")])
    PublishProperties(expiry_s=60, user_properties=(('unit', 'bar'),))
    """

    expiry_s: int | None = None  # seconds after which nobody gets it; received: those left
    content_type: str | None = None  # as in application/json
    response_topic: str | None = None  # where an answer is expected
    correlation_data: bytes | None = None  # by which the answer is recognised
    user_properties: Sequence[tuple[str, str]] = ()
    payload_format: int | None = None  # 1: the payload is UTF-8, 0: it may be anything

    def __post_init__(self) -> None:
        pairs = tuple((name, value) for name, value in self.user_properties)
        msgspec.structs.force_setattr(self, "user_properties", pairs)
        if self.expiry_s is not None and not 0 <= self.expiry_s <= SECONDS_MAX:
            raise ArgumentError(f"expiry_s is {self.expiry_s}", "give seconds, from 0 on")
        if self.payload_format not in {None, 0, 1}:
            raise ArgumentError(f"payload_format is {self.payload_format}", "it is 0 or 1")

    def __rich_repr__(self) -> list[tuple[str, object]]:
        return [(name, value) for name, value in self._given() if value not in {None, ()}]

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self.__rich_repr__())
        return f"PublishProperties({given})"

    def _given(self) -> list[tuple[str, object]]:
        return [(name, getattr(self, name)) for name in self.__struct_fields__]


NONE: Final = PublishProperties()


class Will(msgspec.Struct, frozen=True):
    """What the broker publishes if we vanish without a goodbye.

    In MQTT 5 it may have ``properties``, and wait for ``delay_s``: who continues its session by
    then does not cause it.
    """

    topic: str | bytes
    payload: bytes
    qos: int = 0
    retain: bool = False
    properties: PublishProperties | None = None
    delay_s: int = 0

    @property
    def needs_version_5(self) -> bool:
        return self.properties is not None or self.delay_s > 0

    def as_packet(self) -> events.Will:
        topic = self.topic.encode() if isinstance(self.topic, str) else self.topic
        check_payload(self.payload)
        if not 0 <= self.delay_s <= SECONDS_MAX:
            raise ArgumentError(f"delay_s is {self.delay_s}", "give seconds, from 0 on")
        properties = None if self.properties is None else wire_message(self.properties)
        return events.Will(topic, self.payload, self.qos, self.retain, properties, self.delay_s)


def wire_message(properties: PublishProperties) -> MessageProperties:
    return of_properties(_wire(properties))


@lru_cache(REMEMBERED)
def block_for(properties: PublishProperties) -> bytes:
    """The properties as they are sent, without their length."""
    return block_of(_wire(properties))


def _wire(properties: PublishProperties) -> Properties:
    pairs = [(text_field(name), text_field(value)) for name, value in properties.user_properties]
    return Properties(
        message_expiry=properties.expiry_s,
        content_type=optional_text(properties.content_type),
        response_topic=_topic(properties.response_topic),
        correlation_data=_binary(properties.correlation_data),
        user_properties=tuple(pairs),
        payload_format=properties.payload_format,
    )


def of_block(block: bytes) -> PublishProperties:
    """What a message came with. The machine has read the same bytes: they are right."""
    return _remembered(block) if len(block) <= REMEMBERED_BYTES_MAX else _of_block(block)


def _of_block(block: bytes) -> PublishProperties:
    found = properties_in(block, Carrier.PUBLISH)
    return PublishProperties(
        expiry_s=found.message_expiry,
        content_type=_text(found.content_type),
        response_topic=_text(found.response_topic),
        correlation_data=found.correlation_data,
        user_properties=[(name.decode(), value.decode()) for name, value in found.user_properties],
        payload_format=found.payload_format,
    )


_remembered = lru_cache(REMEMBERED)(_of_block)


def _text(field: bytes | None) -> str | None:
    return None if field is None else field.decode()


def optional_text(text: str | None) -> bytes | None:
    return None if text is None else text_field(text)


def text_field(text: str) -> bytes:
    """A text of MQTT, checked."""
    field = text.encode(errors="surrogateescape")
    if len(field) > FIELD_BYTES_MAX or not is_text(field):
        what = "a property is text of at most 65,535 bytes in UTF-8, without U+0000"
        raise LocalProtocolError(what)
    return field


def _topic(text: str | None) -> bytes | None:
    field = optional_text(text)
    if field is not None and (not field or b"+" in field or b"#" in field):
        raise LocalProtocolError(f"the response topic {text!r} is no topic: it has a wildcard")
    return field


def _binary(data: bytes | None) -> bytes | None:
    if data is not None and not isinstance(data, bytes):
        raise TypeError(f"correlation_data must be bytes, not {type(data).__name__}")
    if data is not None and len(data) > FIELD_BYTES_MAX:
        raise LocalProtocolError("correlation_data has more than 65,535 bytes")
    return data
