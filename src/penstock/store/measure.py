"""How far a number of payload bytes reaches; groups that fit as a whole are not opened."""

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Final, NamedTuple, Protocol

from penstock.model.columns import PAYLOADS
from penstock.store.raw import fitting
from penstock.store.slices import GroupRange

# groups per answer, a tenth of a second; the answer is shorter if there are more
SPANS_MAX: Final = 65_536


class GroupExtent(Protocol):
    """What is known of a group without opening it."""

    @property
    def first_offset(self) -> int: ...
    @property
    def next_offset(self) -> int: ...
    @property
    def bytes(self) -> int: ...


class GroupOverlap(NamedTuple):
    """The part of a group in an offset range; ``open`` finds the group, None if it is gone."""

    found: GroupExtent
    first: int
    end: int
    open: Callable[[], GroupRange | None]

    @property
    def is_whole(self) -> bool:
        return self.first <= self.found.first_offset and self.found.next_offset <= self.end


def reach(spans: Iterable[GroupOverlap], start: int, bytes_max: int) -> int:
    """The offset after the last message that fits; at least one message, if there is one."""
    reached, left = start, bytes_max
    for span in islice(spans, SPANS_MAX):
        if span.found.bytes <= left and span.is_whole:
            reached, left = span.found.next_offset, left - span.found.bytes
            continue
        part = span.open()
        if part is None:
            continue
        end, size = fitting(part, part.end - part.first, left, PAYLOADS)
        if size > left and reached > start:
            return reached
        reached, left = end, left - size
        if end < part.end or left < 0:
            return reached
    return reached
