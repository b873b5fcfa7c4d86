"""Protocol buffers by hand: the rules of the format that the fast paths need.

A message is a sequence of fields, each a *tag* (number of the field times eight, plus 0 for a
number or 2 for bytes) and a value. A number is a *varint*: seven bits per byte, the lowest first,
the top bit set in all bytes but the last. Bytes have their length in front. Zero or empty fields
are left out. Reading only accepts the shortest encoding; other messages are left to the library.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

BYTES: Final = 2  # wire type of strings, bytes and messages; that of numbers is 0

VARINT_BYTES_MAX: Final = 9  # longest number read by hand: 63 bits

_LAST: Final[Sequence[bytes]] = [bytes((value,)) for value in range(128)]
LOWEST: Final[Sequence[bytes]] = [bytes((value | 128,)) for value in range(128)]


def tag(field: int, wire_type: int = 0) -> int:
    """The tag of a field whose number is below 16: one byte."""
    return field << 3 | wire_type


REQUEST_ID: Final = tag(15)  # in requests and responses

STALE: Final = tag(14)  # in requests


def varint(value: int) -> bytes:
    """Consecutive numbers share all but their lowest seven bits, whose encoding is cached."""
    return _LAST[value] if value < 128 else LOWEST[value & 127] + _varint(value >> 7)


@lru_cache(maxsize=1024)
def _varint(value: int) -> bytes:
    return varint(value)


def number(tag: int, value: int) -> bytes:
    return _LAST[tag] + varint(value) if value else b""


def blob(tag: int, value: bytes) -> bytes:
    """A field with bytes, or with a message that is not empty."""
    return b"".join((_LAST[tag], varint(len(value)), value)) if value else b""


def length_at(data: bytes, at: int) -> tuple[int, int]:
    """A length and where it ends; ``(-1, at)`` if incomplete. Two bytes are always required."""
    if at + 2 > len(data):
        return -1, at
    low, high = data[at], data[at + 1]
    if low < 128:
        return low, at + 1
    if 0 < high < 128:
        return high << 7 | low & 127, at + 2
    for size in (3, 4):
        length = number_in(data[at : at + size])
        if length >= 0:
            return length, at + size
    return -1, at


def number_in(piece: bytes) -> int:
    """Read a number that fills ``piece``; -1 if it does not, or is not in its shortest form."""
    if len(piece) == 1:
        return piece[0] if piece[0] < 128 else -1
    if not 1 < len(piece) <= VARINT_BYTES_MAX or piece[0] < 128:
        return -1
    upper = _number_in(piece[1:])
    return upper << 7 | piece[0] & 127 if upper > 0 else -1


@lru_cache(maxsize=1024)
def _number_in(piece: bytes) -> int:
    return number_in(piece)
