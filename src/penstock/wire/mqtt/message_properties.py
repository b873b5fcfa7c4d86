"""The properties of a message: those of a PUBLISH, or of a will.

They belong to the message and travel with it, to the journal and to every subscriber: as headers
(``model.mqtt_headers``) and a time of expiry. A publisher repeats its block of properties with most
of its messages, so what follows from a block is worked out once and remembered, up to a bound.

A topic alias and subscription identifiers are between one client and the broker. They are taken out
here, and never reach another client.
"""

from functools import lru_cache

import msgspec

from penstock.model.mqtt_headers import (
    CONTENT_TYPE,
    CORRELATION_DATA,
    PAYLOAD_FORMAT,
    RESPONSE_TOPIC,
    Headers,
    properties_of,
    user_headers,
)
from penstock.obs.reasons import DisconnectReason
from penstock.wire.mqtt.packet_reader import PacketError, forbidden
from penstock.wire.mqtt.properties import Carrier, Properties, block_of, properties_in

BLOCKS_REMEMBERED = 4_096
REMEMBERED_BYTES_MAX = 512  # larger blocks are not remembered: all of them together take 4 MiB


class MessageProperties(msgspec.Struct, frozen=True, gc=False):
    """What a block of properties says about its message."""

    headers: Headers
    expiry_s: int | None  # seconds from its publication; None: never
    alias: int  # topic alias; 0: none
    block: bytes  # what is forwarded, in the order of the standard
    subscription_ids: tuple[int, ...] = ()  # in a PUBLISH to a client


def message_properties(block: bytes) -> MessageProperties:
    """What a client's block says; raises PacketError. ``block`` is not empty."""
    if len(block) > REMEMBERED_BYTES_MAX:
        return _message_properties(block)
    return _remembered(block)


def of_properties(properties: Properties) -> MessageProperties:
    """The part of ``properties`` that belongs to the message."""
    forwarded = msgspec.structs.replace(
        properties, topic_alias=None, subscription_ids=(), will_delay=None
    )
    return MessageProperties(
        headers=headers_of(properties),
        expiry_s=properties.message_expiry,
        alias=properties.topic_alias or 0,
        block=block_of(forwarded),
        subscription_ids=properties.subscription_ids,
    )


def received_properties(block: bytes) -> MessageProperties:
    """What a broker's block says to a client; raises PacketError."""
    return of_properties(properties_in(block, Carrier.PUBLISH))


def _message_properties(block: bytes) -> MessageProperties:
    properties = properties_in(block, Carrier.PUBLISH)
    if properties.subscription_ids:
        raise forbidden("a subscription identifier in a client's PUBLISH")
    if properties.topic_alias == 0:
        raise PacketError("topic alias 0", DisconnectReason.TOPIC_ALIAS_INVALID)
    return of_properties(properties)


_remembered = lru_cache(maxsize=BLOCKS_REMEMBERED)(_message_properties)


def headers_of(properties: Properties) -> Headers:
    single = (
        (CONTENT_TYPE, properties.content_type),
        (RESPONSE_TOPIC, properties.response_topic),
        (CORRELATION_DATA, properties.correlation_data),
    )
    headers = user_headers(properties.user_properties)
    headers += tuple([(name, value) for name, value in single if value is not None])
    if properties.payload_format is not None:
        headers += ((PAYLOAD_FORMAT, b"%d" % properties.payload_format),)
    return headers


def published_properties(
    headers: Headers, content_type: int = 0, expiry_s: int | None = None
) -> Properties:
    """The properties with which a message of the journal is sent to a client."""
    found = properties_of(headers, content_type)
    return Properties(
        payload_format=found.payload_format,
        message_expiry=expiry_s,
        content_type=found.content_type,
        response_topic=found.response_topic,
        correlation_data=found.correlation_data,
        user_properties=found.user_properties,
    )
