"""How much of the log is kept for nodes that come back: by entries and by bytes.

Sizes are kept for ranges of entries, so the limit in bytes is exact to within one range. Entries
from before this start do not count: they go when that many bytes have come after them.
"""

from collections import deque
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

SPARED_TIMES: Final = 4  # as much is kept for nodes that are up: a snapshot would cost more

RANGES: Final = 64  # into how many ranges the usual amount is divided


class KeptLog:
    """Number and size of the newest entries. Belongs to the loop."""

    def __init__(self, entries_max: int, bytes_max: int) -> None:
        self._entries_max = entries_max
        self._bytes_max = bytes_max
        self._range_bytes = max(bytes_max // RANGES, 1)
        self._ranges: deque[tuple[int, int]] = deque()  # last index and bytes, oldest first
        self._bytes = 0

    @property
    def spared(self) -> tuple[int, int]:
        """Entries and bytes beyond which nothing is kept for any node."""
        return SPARED_TIMES * self._entries_max, SPARED_TIMES * self._bytes_max

    def add(self, index: int, size: int) -> None:
        ranges = self._ranges
        self._bytes += size
        if ranges and ranges[-1][1] + size <= self._range_bytes:
            ranges[-1] = index, ranges[-1][1] + size
        else:
            ranges.append((index, size))
        while self._bytes - ranges[0][1] > self.spared[1]:
            self._bytes -= ranges.popleft()[1]

    def needed(self, last: int, matches: Sequence[int]) -> int:
        """The entry after which all are kept; ``matches`` tells how far the live nodes are."""
        kept = max(last - self._entries_max, self._last_beyond(self._bytes_max))
        entries, size = self.spared
        return max(min([kept, *matches]), last - entries, self._last_beyond(size))

    def bytes_after(self, index: int) -> int:
        return sum([size for last, size in self._ranges if last > index])

    def _last_beyond(self, bytes_max: int) -> int:
        """The newest entry that, with all after it, exceeds ``bytes_max``; 0: none does."""
        newest_first = list(reversed(self._ranges))
        totals = accumulate(size for _, size in newest_first)
        beyond = zip(newest_first, totals, strict=True)
        return next((last for (last, _), total in beyond if total > bytes_max), 0)
