"""The layout of a frame.

::

    0        1        2           10          12            16      16+T      16+T+P
    ┌────────┬────────┬───────────┬───────────┬─────────────┬───────┬─────────┬─────────┐
    │version │command │ sequence  │ topic_len │ payload_len │ topic │ payload │ trailer │
    │ u8 = 1 │ u8     │ u64       │ u16 = T   │ u32 = P     │ T     │ P       │         │
    └────────┴────────┴───────────┴───────────┴─────────────┴───────┴─────────┴─────────┘

Numbers are big-endian. Only signed commands have a trailer, which ``payload_len`` does not include:
*the command decides where a frame ends*. A reader can only assume that an unknown command has none.

**These commands are our own.** A signature of version 1 covers topic and payload and nothing else;
version 2 also signs the lengths, the key id, the time and a nonce. AUTH and CHALLENGE log in. HELLO
and WELCOME agree on what version 1 lacks (``fields``):

====  =================  ================  ======================================================
code  name               direction         trailer
====  =================  ================  ======================================================
0x10  SIGNED_PUBLISH     client to broker  64 bytes signature, u32 key id
0x11  SIGNED_MESSAGE     broker to client  the same, from the publisher
0x12  SIGNED_PUBLISH_2   client to broker  64 bytes signature, u32 key id, u64 time of signing in
                                           milliseconds since 1970, 8 bytes nonce
0x13  SIGNED_MESSAGE_2   broker to client  the same, from the publisher
0x14  AUTH               client to broker  none; topic is the user, payload the secret
0x15  CHALLENGE          broker to client  none; payload is a nonce to be signed
0x20  HELLO              client to broker  none; topic is the client id, payload are fields
0x21  WELCOME            broker to client  none; payload are fields
0x22  PUBLISH_2          client to broker  none; payload is a byte of flags, then the message
0x23  WITHHELD           broker to client  none; a message too large for the client: topic as far
                                           as it fits, payload its size (u32)
====  =================  ================  ======================================================

A broker sends 0x13 only to clients that ask for it, with a SUBSCRIBE whose payload begins with
``ACCEPTS_2``, which fields may follow. Older brokers ignore that payload, older clients leave it
empty. They answer HELLO with ERROR ``Unknown command``: a client goes on as one of version 1.
"""

from collections.abc import Mapping
from enum import IntEnum, IntFlag
from struct import Struct
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec

from penstock.limits import MIB
from penstock.model.message import Signature

VERSION: Final = 1
HEADER: Final = Struct(">BBQHI")  # version, command, sequence, topic length, payload length

# first byte of a SUBSCRIBE payload, from clients that understand SIGNED_MESSAGE_2
ACCEPTS_2: Final = b"\x02"

FRAME_BYTES_MAX: Final = 16 * MIB  # largest frame of the protocol, with header and trailer

# longest topic field from a client; includes the client id and NUL in SUBSCRIBE
TOPIC_BYTES_MAX: Final = 256

# the same from a client that said HELLO: as long as topics of other protocols
TOPIC_BYTES_MAX_2: Final = 1_024

# longest topic that fits the header; other protocols allow more than 256 bytes
TOPIC_LEN_MAX: Final = 65_535

ERROR_BYTES_MAX: Final = 240  # publishers read replies into 256 bytes, with the header


class BinaryCommand(IntEnum):
    """The command of a frame."""

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
    AUTH = 0x14
    CHALLENGE = 0x15
    HELLO = 0x20
    WELCOME = 0x21
    PUBLISH_2 = 0x22
    WITHHELD = 0x23


class PublishFlag(IntFlag):
    """The first byte of the payload of PUBLISH_2."""

    RETAIN = 1
    NO_REPLY = 2  # not even an ERROR


PUBLISH_FLAGS: Final = int(PublishFlag.RETAIN | PublishFlag.NO_REPLY)


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
    """One complete frame."""

    command: int
    sequence: int
    topic: bytes
    payload: bytes
    trailer: bytes


class FrameLimits(NamedTuple):
    """The sizes that a machine accepts."""

    frame_bytes_max: int
    topic_bytes_max: int


def frame_at(data: bytes, position: int) -> Frame:
    """The frame at ``position``, which must be complete."""
    _, command, sequence, topic_len, payload_len = HEADER.unpack_from(data, position)
    topic = position + HEADER.size
    payload = topic + topic_len
    trailer = payload + payload_len
    end = trailer + TRAILER_BYTES.get(command, 0)
    return Frame(command, sequence, data[topic:payload], data[payload:trailer], data[trailer:end])


def signature_of(frame: Frame) -> Signature:
    version, layout = TRAILERS[frame.command]
    signature, key_id, *rest = layout.unpack(frame.trailer)
    return Signature(version, key_id, signature, *rest)
