"""The properties of a message as a broker sends them, in the order of the standard.

The message's own come first, worked out of its headers, and expiry among them. What belongs to the
subscriber follows: identifiers of its subscriptions, and a topic alias. Headers of short ASCII
texts, which most are, are written by a loop; all others by way of ``Properties``. What was written
last is remembered, since a message goes to many.
"""

from functools import lru_cache
from itertools import chain
from typing import Final

from penstock.model.message import Extras
from penstock.model.mqtt_headers import RESERVED, Headers
from penstock.wire.mqtt.encode import PACKET_IDS
from penstock.wire.mqtt.message_properties import published_properties
from penstock.wire.mqtt.packet import varint
from penstock.wire.mqtt.properties import block_of

NO_PROPERTIES: Final = b"\x00"  # the length of an empty block
REMEMBERED: Final = 4_096  # extras whose block is remembered, if it is short

_PAYLOAD_FORMAT: Final = b"\x01"
_EXPIRY: Final = b"\x02"
_SUBSCRIPTION_ID: Final = b"\x0b"
_TOPIC_ALIAS: Final = b"\x23"
_SHORT: Final = 128  # bytes of all texts of a block that the loop writes

_blocks: Final[dict[tuple[int, int], tuple[Extras, bytes]]] = {}


def message_block(extras: Extras | None, content_type: int = 0) -> bytes:
    """The properties of a message, without its expiry and without the length in front."""
    if extras is None:
        return headers_block((), content_type) if content_type else b""
    key = id(extras), content_type
    known = _blocks.get(key)
    if known is not None and known[0] is extras:
        return known[1]
    block = headers_block(extras.headers, content_type)
    if len(block) < 2 * _SHORT:
        _remember(key, extras, block)
    return block


def remember_block(extras: Extras, block: bytes) -> None:
    """Note a short block that came with a message: it is sent as it came."""
    _remember((id(extras), 0), extras, block)


def _remember(key: tuple[int, int], extras: Extras, block: bytes) -> None:
    """The entry holds the extras, so no others can have their id while it is there."""
    if len(_blocks) >= REMEMBERED:
        _blocks.clear()
    _blocks[key] = extras, block


def headers_block(headers: Headers, content_type: int = 0) -> bytes:
    if not content_type and sum(map(len, chain.from_iterable(headers))) < _SHORT:
        block = b"".join(
            [
                b"&%b%b%b%b" % (PACKET_IDS[len(name)], name, PACKET_IDS[len(value)], value)
                for name, value in headers
            ]
        )
        # Each length has a byte 0; there are more if a text is empty, or has one.
        is_text = block.isascii() and block.count(0) == 2 * len(headers)
        if is_text and RESERVED not in block:
            return block
    return block_of(published_properties(headers, content_type))


def with_expiry(block: bytes, expiry_s: int) -> bytes:
    """The block with another expiry, or with one that it did not have."""
    place = 2 if block.startswith(_PAYLOAD_FORMAT) else 0
    end = place + 5 if block.startswith(_EXPIRY, place) else place
    return b"%b\x02%b%b" % (block[:place], expiry_s.to_bytes(4, "big"), block[end:])


@lru_cache(maxsize=1_024)
def ids_block(ids: tuple[int, ...]) -> bytes:
    return b"".join([_SUBSCRIPTION_ID + varint(number) for number in ids])


def alias_block(alias: int) -> bytes:
    return _TOPIC_ALIAS + PACKET_IDS[alias]


def tail_of(block: bytes) -> bytes:
    """What follows the packet id in a PUBLISH: the properties, with their length in front."""
    return varint(len(block)) + block if block else NO_PROPERTIES


def block_in(tail: bytes) -> bytes:
    """The properties without the length in front."""
    place = 0
    while tail[place] > 0x7F:
        place += 1
    return tail[place + 1 :]


def seconds_left(expires_ms: int, now_ms: int, original_s: int | None = None) -> int:
    """Whole seconds, rounded up; never more than the message had, though a clock went back."""
    left = max(0, -((now_ms - expires_ms) // 1000))
    return left if original_s is None else min(left, original_s)
