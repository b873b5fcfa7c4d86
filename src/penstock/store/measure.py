"""How far so many bytes of payload reach, found without reading payloads.

A reference says how many bytes its group has. So whole groups are passed by as they are, and only
one that is not wanted as a whole, or does not fit, is opened.
"""

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Final, NamedTuple

from penstock.model.columns import PAYLOADS
from penstock.store.index import Reference
from penstock.store.raw import fitting
from penstock.store.slices import GroupRange

SPANS_MAX: Final = 65_536
"""Groups that are passed by for one answer: a tenth of a second. The answer is short then."""


class GroupOverlap(NamedTuple):
    """What a stretch of offsets has of a group; ``open`` finds the group, None: it is gone."""

    found: Reference
    first: int
    end: int
    open: Callable[[], GroupRange | None]

    @property
    def is_whole(self) -> bool:
        """Whether it is all that the group has."""
        return self.first <= self.found.first_offset and self.found.next_offset <= self.end


def reach(spans: Iterable[GroupOverlap], start: int, bytes_max: int) -> int:
    """The offset behind the last that fits; one message at least, if there is one."""
    reached, left = start, bytes_max
    for span in islice(spans, SPANS_MAX):
        if span.found.bytes <= left and span.is_whole:
            reached, left = span.found.next_offset, left - span.found.bytes
            continue
        piece = span.open()
        if piece is None:
            continue
        end, size = fitting(piece, piece.end - piece.first, left, PAYLOADS)
        if size > left and reached > start:
            return reached
        reached, left = end, left - size
        if end < piece.end or left < 0:
            return reached
    return reached
