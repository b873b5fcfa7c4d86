"""Fetched with raw columns, written by hand: the library would copy each column three times.

The heads of all fields are made first, then heads and columns are joined at once: each byte is
copied once, from the journal to the frame.
"""

from array import array
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

from penstock.wire.queue.fields import BYTES, REQUEST_ID, blob, number, tag, varint
from penstock.wire.queue.machine import LENGTH

_Column: TypeAlias = bytes | memoryview


_Columns: TypeAlias = tuple[_Column, ...]
_BulkSlice: TypeAlias = tuple[
    int, int, int, int, _Columns, _Columns, _Columns, _Columns, _Columns, _Columns, _Columns
]  # four numbers, and the columns of ``_COLUMNS``


class Bulk(NamedTuple):
    """The fields of Fetched besides its slices; see ``queue.proto``."""

    incarnation: int
    first_offset: int
    end_offset: int
    next_offset: int


def _tags(first: int, last: int) -> list[bytes]:
    return [varint(field << 3 | BYTES) for field in range(first, last + 1)]


_FETCHED: Final = varint(17 << 3 | BYTES)
_FETCHED_MANY: Final = varint(26 << 3 | BYTES)
_SLICE: Final = varint(tag(5, BYTES))
_SCAN_SLICE: Final = varint(tag(3, BYTES))
_UNKNOWN: Final = number(tag(1), 1)
_LAST: Final = number(tag(2), 1)
_COLUMNS: Final = (
    _tags(5, 6),
    _tags(7, 11),
    _tags(14, 15),
    _tags(16, 19),
    _tags(20, 22),
    _tags(23, 27),
    _tags(28, 30),
)  # payloads, runs, signatures, headers, schedules, producers, groups


def fetched(bulk: Bulk, slices: Iterable[_BulkSlice], request_id: int) -> bytes:
    pieces: list[_Column] = [_numbers(bulk)]
    size = len(pieces[0])
    for part in slices:
        size += _add_slice(pieces, part)
    head = b"".join((number(REQUEST_ID, request_id), _FETCHED, varint(size)))
    return b"".join((LENGTH.pack(len(head) + size), head, *pieces))


def scanned(slices: Iterable[_BulkSlice], removed: Sequence[tuple[int, int, int]]) -> list[_Column]:
    """The messages of FetchedMany, and offsets of topics that were removed before their turn."""
    pieces: list[_Column] = []
    for part in slices:
        _add_slice(pieces, part, _SCAN_SLICE)
    if removed:
        topics, begins, ends = zip(*removed, strict=True)
        pieces.append(blob(tag(4, BYTES), array("I", topics).tobytes()))
        pieces.append(blob(tag(5, BYTES), array("Q", begins).tobytes()))
        pieces.append(blob(tag(6, BYTES), array("Q", ends).tobytes()))
    return pieces


def scan_state(topics: Sequence[Bulk], *, is_last: bool) -> bytes:
    """The fields of FetchedMany that tell of all topics."""
    columns = [array("Q", column).tobytes() for column in zip(*topics, strict=True)]
    pieces = [blob(tag(field, BYTES), column) for field, column in enumerate(columns, 7)]
    return b"".join(((_LAST if is_last else b""), *pieces))


def fetched_many(pieces: Sequence[_Column], request_id: int) -> bytes:
    size = sum(map(len, pieces))
    head = b"".join((number(REQUEST_ID, request_id), _FETCHED_MANY, varint(size)))
    return b"".join((LENGTH.pack(len(head) + size), head, *pieces))


def unknown_scan(request_id: int) -> bytes:
    return fetched_many([_UNKNOWN], request_id)


def _add_slice(pieces: list[_Column], part: _BulkSlice, slice_tag: bytes = _SLICE) -> int:
    place = len(pieces)
    size = len(numbers := _numbers(part[:4]))
    pieces += (b"", numbers)
    for tags, columns in zip(_COLUMNS, part[4:], strict=True):
        for column_tag, column in zip(tags, columns, strict=False):
            length = len(column)
            if length:
                head = column_tag + varint(length)
                pieces += (head, column)
                size += len(head) + length
    pieces[place] = slice_tag + varint(size)
    return len(pieces[place]) + size


def _numbers(values: Iterable[int]) -> bytes:
    return b"".join([number(tag(field), value) for field, value in enumerate(values, 1)])
