"""Protocol buffers by hand: the few rules of the format that the fast paths need.

A message is a row of fields, each a *tag* (number of the field times eight, plus 0 for a number or
2 for bytes) and a value. A number is a *varint*: seven bits per byte, the lowest first, the top bit
set in all bytes but the last. Bytes have their length in front, as a varint. Fields that are zero
or empty are left out, and a writer goes by ascending numbers: so says the specification, and so the
encoders here write the very bytes that the library would.

Reading takes the shortest spelling only. The library takes longer ones too; whoever meets one here
leaves the message to the library.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

BYTES: Final = 2  # the wire type of strings, bytes and messages; that of numbers is 0

VARINT_BYTES_MAX: Final = 9
"""Longest number that is read by hand: 63 bits. The library reads the tenth byte its own way."""

_LAST: Final[Sequence[bytes]] = [bytes((value,)) for value in range(128)]
LOWEST: Final[Sequence[bytes]] = [bytes((value | 128,)) for value in range(128)]


def tag(field: int, wire_type: int = 0) -> int:
    """The tag of a field whose number is below 16, which is one byte."""
    return field << 3 | wire_type


REQUEST_ID: Final = tag(15)  # in either envelope

STALE: Final = tag(14)  # in a request

# ── Writing ───────────────────────────────────────────────────────────────────────────────────


def varint(value: int) -> bytes:
    """Write a number.

    Offsets, leases and times come in rows. All but their lowest seven bits are mostly the same as
    those of the one before, and hence remembered.
    """
    return _LAST[value] if value < 128 else LOWEST[value & 127] + _varint(value >> 7)


@lru_cache(maxsize=1024)
def _varint(value: int) -> bytes:
    return varint(value)


def number(tag: int, value: int) -> bytes:
    """A field with a number."""
    return _LAST[tag] + varint(value) if value else b""


def blob(tag: int, value: bytes) -> bytes:
    """A field with bytes, or with a message that is not empty."""
    return b"".join((_LAST[tag], varint(len(value)), value)) if value else b""


# ── Reading ───────────────────────────────────────────────────────────────────────────────────


def length_at(data: bytes, at: int) -> tuple[int, int]:
    """Read a length; return it and where it ends, or ``(-1, at)`` where it cannot be told.

    One or two bytes are enough for nearly all; four hold more than any frame may have. Two are
    asked for in any case: a length at the very end of a chunk has nothing behind it but its end.
    """
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
    """Read a number that fills ``piece``; -1 if it does not, or is not spelled the short way."""
    if len(piece) == 1:
        return piece[0] if piece[0] < 128 else -1
    if not 1 < len(piece) <= VARINT_BYTES_MAX or piece[0] < 128:
        return -1
    upper = _number_in(piece[1:])
    return upper << 7 | piece[0] & 127 if upper > 0 else -1


@lru_cache(maxsize=1024)
def _number_in(piece: bytes) -> int:
    """The same for all but the lowest seven bits, which are mostly those of the one before."""
    return number_in(piece)
