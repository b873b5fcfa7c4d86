"""Ids of stream entries: ``<time in ms>-<offset>``.

The offset alone says which entry of a topic is meant; the time is that of the message, for people
to read and for clients that ask by time. So an id with both parts is an offset, whatever its time,
and one with the time alone stands for a place between messages that must be looked up. Those who
want to know it ask ``Place.offset`` off the loop, since looking up means reading.

Redis orders ids by both parts and begins with 0-0, which is no entry's. Our first entry has the
offset 0, and is to be found behind 0-0 all the same: whoever reads from 0-0 on reads everything.
"""

from collections.abc import Iterable
from typing import NamedTuple

from penstock.net.resp.stream_faults import StreamFault
from penstock.store.search import offset_at_time
from penstock.store.store import Store

__all__ = ["BEGINNING", "END", "Place", "after", "entry_id", "entry_offsets", "range_end", "start"]

NUMBER_MAX = 2**64 - 1
"""The greatest number that either part of an id may have."""

INVALID = "ERR Invalid stream ID specified as stream command argument"


class Place(NamedTuple):
    """Where a range begins or ends: an offset, or the first one of a time."""

    number: int
    is_time: bool = False

    def offset(self, store: Store, topic: bytes) -> int:
        """The offset that is meant. Reads, if it is a time: not to be called on the loop."""
        return offset_at_time(store, topic, self.number) if self.is_time else self.number


BEGINNING = Place(0)
END = Place(NUMBER_MAX)


def entry_id(time_ms: int, offset: int) -> bytes:
    """The id of an entry."""
    return b"%d-%d" % (time_ms, offset)


def entry_offsets(texts: Iterable[bytes]) -> list[int]:
    """The offsets of single entries. A time alone names none: our ids always have both parts."""
    offsets = [_numbers(text)[1] for text in texts]
    return [offset for offset in offsets if offset is not None]


def start(text: bytes) -> Place:
    """Where a range begins: ``-``, an id, ``(`` and the id before it."""
    if text in (b"-", b"+"):
        return BEGINNING if text == b"-" else END
    if text.startswith(b"("):
        return after(text[1:])
    time_ms, offset = _numbers(text)
    if offset is None:
        return _at(time_ms)
    return Place(offset)


def range_end(text: bytes) -> Place:
    """Where a range ends: the place behind its last entry."""
    if text in (b"-", b"+"):
        return BEGINNING if text == b"-" else END
    is_exclusive = text.startswith(b"(")
    time_ms, offset = _numbers(text[is_exclusive:])
    if offset is None:
        return Place(time_ms + 1, is_time=True)
    return Place(offset) if is_exclusive else _behind(offset)


def after(text: bytes) -> Place:
    """The place behind an entry that was read already; everything is behind 0 and 0-0."""
    time_ms, offset = _numbers(text)
    if offset is None or not (time_ms or offset):
        return _at(time_ms)
    return _behind(offset)


def _at(time_ms: int) -> Place:
    """The place of a time; that of 0 is before everything, also what is there no more."""
    return Place(time_ms, is_time=True) if time_ms else BEGINNING


def _behind(offset: int) -> Place:
    return Place(min(offset + 1, NUMBER_MAX))


def _numbers(text: bytes) -> tuple[int, int | None]:
    """Time and offset of an id; no offset if it has the time alone. Raises StreamFault."""
    time_text, dash, offset_text = text.partition(b"-")
    time_ms = _number(time_text)
    return time_ms, _number(offset_text) if dash else None


def _number(digits: bytes) -> int:
    if not digits.isdigit() or len(digits) > 20 or (number := int(digits)) > NUMBER_MAX:
        raise StreamFault(INVALID)
    return number
