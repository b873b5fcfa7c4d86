"""The properties of a message: those of a PUBLISH, or of a will.

They belong to the message and travel with it, to the journal and to every subscriber: as headers
(``model.mqtt_headers``) and a time of expiry. Many publishers repeat their block of properties, so
what follows from a block is worked out once and remembered, up to a bound. Others have a value in
it that changes with every message: a block of short user properties, in ASCII, is read by a loop
that looks at each of its lengths once (``_user_properties``). ``proven`` is both, for fast paths.

A topic alias and subscription identifiers are between one client and the broker. They are taken out
here, and never reach another client.
"""

from typing import Final

import msgspec

from penstock.model.message import Extras
from penstock.model.mqtt_headers import (
    CONTENT_TYPE,
    CORRELATION_DATA,
    PAYLOAD_FORMAT,
    RESERVED,
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
_MET_MASK: Final = BLOCKS_REMEMBERED - 1  # their number is a power of two
_USER_PROPERTY: Final = 0x26  # its id
_SIMPLE_BYTES: Final = 128  # a block whose length takes one byte


class MessageProperties(msgspec.Struct, frozen=True, gc=False):
    """What a block of properties says about its message."""

    headers: Headers
    expiry_s: int | None  # seconds from its publication; None: never
    alias: int  # topic alias; 0: none
    block: bytes  # what is forwarded, in the order of the standard
    subscription_ids: tuple[int, ...] = ()  # in a PUBLISH to a client
    extras: Extras | None = None  # the headers as the journal has them
    is_simple: bool = False  # whether it is short, and has nothing but user properties


def message_properties(block: bytes) -> MessageProperties:
    """What a client's block says; raises PacketError. ``block`` is not empty."""
    found = _known.get(block)
    if found is None:
        found = _message_properties(block)
        _remember(block, found)
    return found


def proven(block: bytes) -> MessageProperties | None:
    """What a client's block says; None: ``message_properties`` has to look at it."""
    found = _known.get(block)
    if found is None:
        found = _user_properties(block)
        number = hash(block)
        place = number & _MET_MASK
        if _met[place] != number:  # most will not be met again
            _met[place] = number
        elif found is not None:
            _remember(block, found)
    return found


def _user_properties(block: bytes) -> MessageProperties | None:
    """What a block of nothing but short user properties in ASCII says; None: it is no such block.

    A length below 128 is a byte 0 and an ASCII character. If there are no other bytes 0, no name or
    value has one. Names that begin with the prefix of reserved headers are left to the plain path.
    """
    if not block.isascii():
        return None
    headers: Headers = ()
    at, end = 0, len(block)
    try:
        while at < end:
            name = at + 3
            value = name + block[at + 2] + 2
            if block[at] != _USER_PROPERTY or block[at + 1] or block[value - 2]:
                return None
            at = value + block[value - 1]
            headers += ((block[name : value - 2], block[value:at]),)
    except IndexError:
        return None
    if at != end or block.count(0) != 2 * len(headers) or RESERVED in block:
        return None
    return MessageProperties(headers, None, 0, block, (), Extras(headers), end < _SIMPLE_BYTES)


def of_properties(properties: Properties) -> MessageProperties:
    """The part of ``properties`` that belongs to the message."""
    forwarded = msgspec.structs.replace(
        properties, topic_alias=None, subscription_ids=(), will_delay=None
    )
    headers, block = headers_of(properties), block_of(forwarded)
    is_user_alone = properties == Properties(user_properties=properties.user_properties)
    return MessageProperties(
        headers=headers,
        expiry_s=properties.message_expiry,
        alias=properties.topic_alias or 0,
        block=block,
        subscription_ids=properties.subscription_ids,
        extras=Extras(headers),
        is_simple=is_user_alone and len(block) < _SIMPLE_BYTES,
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


_known: Final[dict[bytes, MessageProperties]] = {}
_met: Final = [0] * BLOCKS_REMEMBERED  # hashes of blocks that were met once, by their last bits


def _remember(block: bytes, properties: MessageProperties) -> None:
    if len(block) <= REMEMBERED_BYTES_MAX:
        if len(_known) >= BLOCKS_REMEMBERED:
            _known.clear()
        _known[block] = properties


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
