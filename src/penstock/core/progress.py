"""What a durable subscriber has acknowledged of one topic: a low-water mark with ranges above it.

All numbers are offsets. Acknowledgements in order only raise the mark; others make ranges, which
the missing ones join again::

    acknowledged  0 1 2 3 4 . . 7 8 . 10        mark 5, ranges [7, 9) and [10, 11)

The number of ranges is bounded. When a client leaves more holes, the mark is raised over the oldest
hole: its messages count as done, and the caller learns how many. Forgetting ranges instead would
deliver acknowledged messages again.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

RANGES_MAX = 10_000  # ranges above the mark, per client and topic: about 160 KiB at worst


class Progress:
    """Acknowledged offsets. ``mark``: everything below it; ``starts``, ``ends``: above it."""

    __slots__ = ("ends", "mark", "starts")

    def __init__(self, mark: int = 0, ranges: list[tuple[int, int]] | None = None) -> None:
        self.mark = mark
        self.starts = [start for start, _ in ranges or ()]
        self.ends = [end for _, end in ranges or ()]

    def add(self, start: int, end: int) -> int:
        """Acknowledge ``start … end - 1``; return how many unacknowledged ones were given up."""
        start = max(start, self.mark)
        if start >= end:
            return 0
        starts, ends = self.starts, self.ends
        first = bisect_left(ends, start)  # the first range that touches or lies behind
        last = bisect_right(starts, end)  # one after the last range that touches
        if first < last:
            start, end = min(start, starts[first]), max(end, ends[last - 1])
        starts[first:last] = [start]
        ends[first:last] = [end]
        if starts[0] <= self.mark:
            self._raise_mark()
        return self._give_up() if len(starts) > RANGES_MAX else 0

    def _raise_mark(self) -> None:
        """Let the mark swallow the first range."""
        self.mark = self.ends.pop(0)
        self.starts.pop(0)

    def _give_up(self) -> int:
        hole = self.starts[0] - self.mark
        self._raise_mark()
        return hole

    def __contains__(self, offset: int) -> bool:
        if offset < self.mark:
            return True
        place = bisect_right(self.starts, offset) - 1
        return place >= 0 and offset < self.ends[place]

    def missing(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """The ranges of ``start … end - 1`` that are not acknowledged, ascending."""
        start = max(start, self.mark)
        place = bisect_right(self.ends, start)
        while start < end:
            if place == len(self.starts) or self.starts[place] >= end:
                yield start, end
                return
            if self.starts[place] > start:
                yield start, self.starts[place]
            start = self.ends[place]
            place += 1

    def ranges(self) -> list[tuple[int, int]]:
        return list(zip(self.starts, self.ends, strict=True))
