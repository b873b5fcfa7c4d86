"""The optional fields of HELLO, WELCOME and SUBSCRIBE: type (u8), length (u16), value.

::

    HELLO      1 features u32   2 largest frame that the client takes u32   3 keep-alive u16, s
               4 epoch, 8 bytes
    WELCOME    1 features granted u32   2 largest frame that the broker takes u32
               3 longest silence u16, s   5 time u64, ms since 1970
    SUBSCRIBE  (behind 0x02) 1 start: kind u8 and its value   2 prefetch u16
               3 retained messages first: empty

A field of an unknown type is skipped, so both ends may be newer than the other. A known one of
another length is a fault, and so is a field that ends beyond the payload. Of two with the same type
the last counts. All fields together are short (``FIELDS_BYTES_MAX``): reading them is bounded.
"""

from collections.abc import Callable, Mapping
from enum import IntFlag
from struct import Struct
from typing import Final

import msgspec

from penstock.limits import KIB
from penstock.model.history_start import HistoryStart

EPOCH_BYTES: Final = 8
FIELDS_BYTES_MAX: Final = 1 * KIB

# A client that takes less could not be sent every ERROR.
SMALLEST_FRAME_BYTES: Final = 256

_HEAD: Final = Struct(">BH")
_U8, _U16, _U32, _U64 = Struct(">B"), Struct(">H"), Struct(">I"), Struct(">Q")


class FieldError(ValueError):
    """The fields are not what the protocol says; the text says what is wrong."""


class Feature(IntFlag):
    """What a client asks for in HELLO and a broker grants in WELCOME."""

    CODED_ERRORS = 1
    DEDUPLICATION = 2


class HelloFields(msgspec.Struct, frozen=True, gc=False):
    """What a client says of itself; 0 and empty: it does not say."""

    features: int = 0
    frame_bytes_max: int = 0
    keep_alive_s: int = 0
    epoch: bytes = b""


class WelcomeFields(msgspec.Struct, frozen=True, gc=False):
    """What a broker answers."""

    features: int = 0
    frame_bytes_max: int = 0
    silence_s: int = 0  # after which the broker closes
    time_ms: int = 0


class SubscribeFields(msgspec.Struct, frozen=True, gc=False):
    """What a SUBSCRIBE asks for besides its topic."""

    start: HistoryStart | None = None  # None: all there is
    is_from_now: bool = False
    prefetch: int = 0  # messages in flight at most; 0: as many as the broker likes
    retained_first: bool = False


# ── HELLO and WELCOME

_HELLO_SIZES: Final = {1: 4, 2: 4, 3: 2, 4: EPOCH_BYTES}
_WELCOME_SIZES: Final = {1: 4, 2: 4, 3: 2, 5: 8}


def hello_bytes(fields: HelloFields) -> bytes:
    found = [
        _field(1, _U32.pack(fields.features)),
        _field(2, _U32.pack(fields.frame_bytes_max)) if fields.frame_bytes_max else b"",
        _field(3, _U16.pack(fields.keep_alive_s)) if fields.keep_alive_s else b"",
        _field(4, fields.epoch) if fields.epoch else b"",
    ]
    return b"".join(found)


def read_hello(data: bytes) -> HelloFields:
    found = _fields(data, _HELLO_SIZES)
    frame_bytes_max = _number(found.get(2))
    if 2 in found and frame_bytes_max < SMALLEST_FRAME_BYTES:
        raise FieldError(f"a largest frame of less than {SMALLEST_FRAME_BYTES} bytes")
    return HelloFields(
        _number(found.get(1)), frame_bytes_max, _number(found.get(3)), found.get(4, b"")
    )


def welcome_bytes(fields: WelcomeFields) -> bytes:
    found = [
        _field(1, _U32.pack(fields.features)),
        _field(2, _U32.pack(fields.frame_bytes_max)),
        _field(3, _U16.pack(fields.silence_s)),
        _field(5, _U64.pack(fields.time_ms)),
    ]
    return b"".join(found)


def read_welcome(data: bytes) -> WelcomeFields:
    found = _fields(data, _WELCOME_SIZES)
    return WelcomeFields(*(_number(found.get(kind)) for kind in (1, 2, 3, 5)))


# ── SUBSCRIBE

_EARLIEST, _LATEST, _LAST, _SINCE = range(4)  # kinds of a start

_START_SIZES: Final = {_EARLIEST: 1, _LATEST: 1, _LAST: 5, _SINCE: 9}


def subscribe_bytes(fields: SubscribeFields) -> bytes:
    found = [
        _field(1, _start_bytes(fields)),
        _field(2, _U16.pack(fields.prefetch)) if fields.prefetch else b"",
        _field(3, b"") if fields.retained_first else b"",
    ]
    return b"".join(found)


def _start_bytes(fields: SubscribeFields) -> bytes:
    start = fields.start
    if fields.is_from_now:
        return _U8.pack(_LATEST)
    if start is not None and start.last:
        return _U8.pack(_LAST) + _U32.pack(start.last)
    if start is not None and start.since_ms:
        return _U8.pack(_SINCE) + _U64.pack(start.since_ms)
    return _U8.pack(_EARLIEST) if start is not None else b""


def read_subscribe(data: bytes) -> SubscribeFields:
    found = _fields(data, {2: 2, 3: 0})
    prefetch = _number(found.get(2))
    if 2 in found and not prefetch:
        raise FieldError("a prefetch of 0")
    start, is_from_now = _start(found[1]) if 1 in found else (None, False)
    return SubscribeFields(start, is_from_now, prefetch, 3 in found)


def _start(value: bytes) -> tuple[HistoryStart | None, bool]:
    kind = value[0] if value else -1
    if len(value) != _START_SIZES.get(kind):
        raise FieldError("a start of an unknown kind, or of another length")
    number = int.from_bytes(value[1:], "big")
    if kind == _LAST and not number:
        return None, True  # the last 0 messages: none
    starts: Mapping[int, Callable[[], HistoryStart | None]] = {
        _EARLIEST: HistoryStart,
        _LATEST: lambda: None,
        _LAST: lambda: HistoryStart(last=number),
        _SINCE: lambda: HistoryStart(since_ms=max(number, 1)),
    }
    return starts[kind](), kind == _LATEST


# ── any of them


def _field(kind: int, value: bytes) -> bytes:
    return _HEAD.pack(kind, len(value)) + value if value or kind == 3 else b""


def _number(value: bytes | None) -> int:
    return int.from_bytes(value, "big") if value is not None else 0


def _fields(data: bytes, sizes: Mapping[int, int]) -> dict[int, bytes]:
    """The fields by their type; those of a type in ``sizes`` have that length."""
    if len(data) > FIELDS_BYTES_MAX:
        raise FieldError(f"fields of more than {FIELDS_BYTES_MAX} bytes")
    found: dict[int, bytes] = {}
    position = 0
    while position < len(data):
        if len(data) - position < _HEAD.size:
            raise FieldError("a field that ends beyond the payload")
        kind, size = _HEAD.unpack_from(data, position)
        position += _HEAD.size
        if len(data) - position < size:
            raise FieldError("a field that ends beyond the payload")
        if size != sizes.get(kind, size):
            raise FieldError(f"field {kind} has {size} bytes, not {sizes[kind]}")
        found[kind] = data[position : position + size]
        position += size
    return found
