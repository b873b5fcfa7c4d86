"""Ids of stream entries: ``<time in ms>-<offset>``.

As long as the times of a topic ascend, the order of ids is that of offsets. If a clock was set
back, the id of an existing entry is found by its offset (``store.search.offset_of_entry`` has the
rules). That takes reads: ``Position.resolve`` is called off the loop. Redis begins with 0-0, which
no entry has. Our first entry has the offset 0, and is behind 0-0 all the same.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from penstock import kernel
from penstock.doors.resp.faults import CommandError
from penstock.store.search import offset_of_entry
from penstock.store.store import Store

NUMBER_MAX = 2**64 - 1  # of either part of an id
_ID_LENGTH_AT = len(b"*2\r\n$")  # where an encoded entry has the length of its id
INVALID = "ERR Invalid stream ID specified as stream command argument"


class EntryId(NamedTuple):
    """An id as a client wrote it."""

    time_ms: int
    offset: int


class Position(NamedTuple):
    """Where a range begins or ends: an offset or, with a time, the position of an id."""

    number: int
    time_ms: int | None = None
    is_behind: bool = False  # the position behind the entry

    @property
    def is_fixed(self) -> bool:
        return self.time_ms is None

    def resolve(self, store: Store, topic: bytes) -> int:
        """The offset of this position. Reads unless it is fixed: not for the loop."""
        if self.time_ms is None:
            return self.number
        return offset_of_entry(store, topic, self.time_ms, self.number, is_behind=self.is_behind)


BEGINNING = Position(0)
END = Position(NUMBER_MAX)


def entry_id(time_ms: int, offset: int) -> bytes:
    return b"%d-%d" % (time_ms, offset)


def id_replies(time_ms: int, first_offset: int, count: int) -> bytes:
    """The ids of entries with consecutive offsets, each as a bulk string."""
    end = first_offset + count
    head = len(b"%d-" % time_ms)
    replies = []
    while first_offset < end:
        digits = len(b"%d" % first_offset)
        stop = min(end, 10**digits)
        form = b"$%d\r\n%d-%%d\r\n" % (head + digits, time_ms)
        replies += [form % offset for offset in range(first_offset, stop)]
        first_offset = stop
    return b"".join(replies)


def id_of(entry: bytes) -> bytes:
    start = entry.index(b"\r\n", _ID_LENGTH_AT) + 2
    return entry[start : start + int(entry[_ID_LENGTH_AT : start - 2])]


def entry_ids(texts: Iterable[bytes]) -> list[EntryId]:
    """The ids of single entries; as in Redis, a time alone is that of its first."""
    return [EntryId(time_ms, offset or 0) for time_ms, offset in map(_numbers, texts)]


def start(text: bytes) -> Position:
    if text in (b"-", b"+"):
        return BEGINNING if text == b"-" else END
    if text.startswith(b"("):
        return after(text[1:])
    time_ms, offset = _numbers(text)
    return Position(offset, time_ms) if offset else _at(time_ms)


def range_end(text: bytes) -> Position:
    if text in (b"-", b"+"):
        return BEGINNING if text == b"-" else END
    is_exclusive = text.startswith(b"(")
    time_ms, offset = _numbers(text[is_exclusive:])
    if offset is None:
        return Position(0, time_ms + 1)
    return Position(offset, time_ms, is_behind=not is_exclusive)


def after(text: bytes) -> Position:
    """The position behind an entry that was read; everything is behind 0 and 0-0."""
    time_ms, offset = _numbers(text)
    if offset is None or not (time_ms or offset):
        return _at(time_ms)
    return Position(offset, time_ms, is_behind=True)


def _at(time_ms: int) -> Position:
    """The position of a time; that of 0 is before everything, deleted entries included."""
    return Position(0, time_ms) if time_ms else BEGINNING


def _numbers(text: bytes) -> tuple[int, int | None]:
    time_text, dash, offset_text = text.partition(b"-")
    time_ms = _number(time_text)
    return time_ms, _number(offset_text) if dash else None


def _number(digits: bytes) -> int:
    if not digits.isdigit() or len(digits) > 20 or (number := int(digits)) > NUMBER_MAX:
        raise CommandError(INVALID)
    return number


if not TYPE_CHECKING and kernel.is_compiled:
    from penstock.kernel.fields import id_replies  # noqa: F401 - instead of the one above
