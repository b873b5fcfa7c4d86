"""The layout of a frame, defined once for both directions of the codec and both machines.

::

    0        1        2           10          12            16      16+T      16+T+P
    ┌────────┬────────┬───────────┬───────────┬─────────────┬───────┬─────────┬─────────┐
    │version │command │ sequence  │ topic_len │ payload_len │ topic │ payload │ trailer │
    │ u8 = 1 │ u8     │ u64       │ u16 = T   │ u32 = P     │ T     │ P       │         │
    └────────┴────────┴───────────┴───────────┴─────────────┴───────┴─────────┴─────────┘

Numbers are big-endian. Only signed commands have a trailer, and ``payload_len`` does not count it:
*the command decides where a frame ends*. A reader who does not know a command can only suppose that
it has none.

**Two commands are ours.** A signature of version 1 (0x10, 0x11) covers the topic and the payload,
one after the other, and nothing else. So a frame can be sent again by anybody who saw it, and bytes
can be moved between topic and payload. Version 2 signs the lengths, the key id, the time and a
nonce as well; what it needs beyond version 1 travels behind it in the trailer:

====  =================  ================  ======================================================
code  name               direction         trailer
====  =================  ================  ======================================================
0x10  SIGNED_PUBLISH     client to broker  64 bytes signature, u32 key id
0x11  SIGNED_MESSAGE     broker to client  the same, as the publisher made it
0x12  SIGNED_PUBLISH_2   client to broker  64 bytes signature, u32 key id, u64 time of signing in
                                           milliseconds since 1970, 8 bytes nonce
0x13  SIGNED_MESSAGE_2   broker to client  the same, as the publisher made it
====  =================  ================  ======================================================

A client that knows only version 1 would lose its place in the stream at the first 0x13. Hence a
broker sends it to those alone who ask for it: a SUBSCRIBE whose payload begins with ``ACCEPTS_2``.
Brokers of old ignore that payload, clients of old leave it empty.
"""

from collections.abc import Mapping
from enum import IntEnum
from struct import Struct
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec

from penstock.limits import MIB
from penstock.model.message import Signature

VERSION: Final = 1
HEADER: Final = Struct(">BBQHI")
"""Version, command, sequence, length of the topic, length of the payload."""

ACCEPTS_2: Final = b"\x02"
"""First byte of the payload of a SUBSCRIBE from a client that understands SIGNED_MESSAGE_2."""

FRAME_BYTES_MAX: Final = 16 * MIB
"""Largest frame, header and trailer included; as the protocol has it."""

TOPIC_BYTES_MAX: Final = 256
"""Longest topic field from a client; in SUBSCRIBE the client id and its NUL count too."""

TOPIC_LEN_MAX: Final = 65_535
"""Longest topic that a header can announce; other protocols allow more than 256 bytes."""

ERROR_BYTES_MAX: Final = 240
"""Longest text of an ERROR: publishers read their replies into 256 bytes, header included."""


class BinaryCommand(IntEnum):
    """What a frame is; see the module for the two that are ours."""

    SUBSCRIBE = 0x01
    UNSUBSCRIBE = 0x02
    PUBLISH = 0x03
    MESSAGE = 0x04
    ACK = 0x05
    PING = 0x06
    PONG = 0x07
    ERROR = 0x08
    SIGNED_PUBLISH = 0x10
    SIGNED_MESSAGE = 0x11
    SIGNED_PUBLISH_2 = 0x12
    SIGNED_MESSAGE_2 = 0x13


_TRAILER_1: Final = Struct(">64sI")
_TRAILER_2: Final = Struct(">64sIQ8s")

TRAILERS: Final[Mapping[int, tuple[int, Struct]]] = MappingProxyType(
    {
        BinaryCommand.SIGNED_PUBLISH: (1, _TRAILER_1),
        BinaryCommand.SIGNED_MESSAGE: (1, _TRAILER_1),
        BinaryCommand.SIGNED_PUBLISH_2: (2, _TRAILER_2),
        BinaryCommand.SIGNED_MESSAGE_2: (2, _TRAILER_2),
    }
)  # signed commands, to the version of the signature and the layout of the trailer

TRAILER_BYTES: Final[Mapping[int, int]] = MappingProxyType(
    {command: layout.size for command, (_, layout) in TRAILERS.items()}
)


class Frame(msgspec.Struct, frozen=True, gc=False):
    """One whole frame, taken apart."""

    command: int
    sequence: int
    topic: bytes
    payload: bytes
    trailer: bytes


class FrameLimits(NamedTuple):
    """What a machine lets its peer announce."""

    frame_bytes_max: int
    topic_bytes_max: int


def frame_at(data: bytes, position: int) -> Frame:
    """Take apart the frame at ``position``; the caller knows that all of it is there."""
    _, command, sequence, topic_len, payload_len = HEADER.unpack_from(data, position)
    topic = position + HEADER.size
    payload = topic + topic_len
    trailer = payload + payload_len
    end = trailer + TRAILER_BYTES.get(command, 0)
    return Frame(command, sequence, data[topic:payload], data[payload:trailer], data[trailer:end])


def signature_of(frame: Frame) -> Signature:
    """Return the signature in the trailer of a signed frame."""
    version, layout = TRAILERS[frame.command]
    signature, key_id, *rest = layout.unpack(frame.trailer)
    return Signature(version, key_id, signature, *rest)
