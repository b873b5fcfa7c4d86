"""The fixed header: packet types, the flags each must have, and the length that follows."""

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final

REMAINING_LENGTH_MAX = 268_435_455  # four bytes of seven bits

DUP_FLAG = 0b1000
QOS_MASK = 0b0110
RETAIN_FLAG = 0b0001


class PacketType(IntEnum):
    """The upper four bits of the first byte; 0 is reserved, and 15 is too before MQTT 5."""

    CONNECT = 1
    CONNACK = 2
    PUBLISH = 3
    PUBACK = 4
    PUBREC = 5
    PUBREL = 6
    PUBCOMP = 7
    SUBSCRIBE = 8
    SUBACK = 9
    UNSUBSCRIBE = 10
    UNSUBACK = 11
    PINGREQ = 12
    PINGRESP = 13
    DISCONNECT = 14
    AUTH = 15


def varint(number: int) -> bytes:
    """A variable byte integer, as which MQTT writes lengths; it must not exceed the maximum."""
    if number < 1 << 7:
        return bytes((number,))
    if number < 1 << 14:
        return bytes((number & 0x7F | 0x80, number >> 7))
    if number < 1 << 21:
        return bytes((number & 0x7F | 0x80, number >> 7 & 0x7F | 0x80, number >> 14))
    low, middle = number & 0x7F | 0x80, number >> 7 & 0x7F | 0x80
    return bytes((low, middle, number >> 14 & 0x7F | 0x80, number >> 21))


FIXED_FLAGS: Final[Mapping[int, int]] = {
    packet_type: 0b0010
    if packet_type in {PacketType.PUBREL, PacketType.SUBSCRIBE, PacketType.UNSUBSCRIBE}
    else 0b0000
    for packet_type in PacketType
    if packet_type is not PacketType.PUBLISH
}  # lower four bits of the first byte [MQTT-2.2.2-1]; PUBLISH has its own

PUBLISH_SHAPES: Final[Mapping[int, tuple[int, bool, bool]]] = MappingProxyType(
    {
        PacketType.PUBLISH << 4 | flags: (qos, bool(flags & RETAIN_FLAG), bool(flags & DUP_FLAG))
        for flags in range(16)
        if (qos := (flags & QOS_MASK) >> 1) < 3 and (qos or not flags & DUP_FLAG)
    }
)  # first byte of every valid PUBLISH → QoS, RETAIN, DUP [MQTT-3.3.1-2], [MQTT-3.3.1-4]
