"""Fetched with raw columns, written by hand: the library would copy each column three times.

The heads of all fields are made first, then heads and columns are joined at once: each byte is
copied once, from the journal to the frame.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple, TypeAlias

from penstock.wire.queue.fields import BYTES, REQUEST_ID, number, tag, varint
from penstock.wire.queue.machine import LENGTH

_Column: TypeAlias = bytes | memoryview


_Columns: TypeAlias = tuple[_Column, ...]
_BulkSlice: TypeAlias = tuple[
    int, int, int, int, _Columns, _Columns, _Columns, _Columns, _Columns, _Columns
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
_SLICE: Final = varint(tag(5, BYTES))
_COLUMNS: Final = (
    _tags(5, 6),
    _tags(7, 11),
    _tags(14, 15),
    _tags(16, 19),
    _tags(20, 22),
    _tags(23, 27),
)  # payloads, runs, signatures, headers, schedules, producers


def fetched(bulk: Bulk, slices: Iterable[_BulkSlice], request_id: int) -> bytes:
    pieces: list[_Column] = [_numbers(bulk)]
    size = len(pieces[0])
    for part in slices:
        size += _add_slice(pieces, part)
    head = b"".join((number(REQUEST_ID, request_id), _FETCHED, varint(size)))
    return b"".join((LENGTH.pack(len(head) + size), head, *pieces))


def _add_slice(pieces: list[_Column], part: _BulkSlice) -> int:
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
    pieces[place] = _SLICE + varint(size)
    return len(pieces[place]) + size


def _numbers(values: Iterable[int]) -> bytes:
    return b"".join([number(tag(field), value) for field, value in enumerate(values, 1)])
