"""How much of the log is kept for nodes that come back: by entries and by bytes.

Entries differ in size by four orders of magnitude, so their number alone bounds nothing. Sizes are
remembered by stretches of entries, some dozens of them, however many entries there are; a limit of
bytes is kept to within one stretch. Entries from before this start are not counted: they go when as
many bytes have come after them.
"""

from collections import deque
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

SPARED_TIMES: Final = 4
"""So many times the usual amount is kept for nodes that are up and behind: a copy of the whole
store would cost both sides more."""

STRETCHES: Final = 64
"""Into how many stretches the usual amount is divided."""


class KeptLog:
    """The newest entries: how many, and how large. Belongs to the loop."""

    def __init__(self, entries_max: int, bytes_max: int) -> None:
        self._entries_max = entries_max
        self._bytes_max = bytes_max
        self._grain = max(bytes_max // STRETCHES, 1)
        self._stretches: deque[tuple[int, int]] = deque()
        """Last index and bytes of each, oldest first."""
        self._bytes = 0

    @property
    def spared(self) -> tuple[int, int]:
        """Entries and bytes beyond which nothing is kept for anybody."""
        return SPARED_TIMES * self._entries_max, SPARED_TIMES * self._bytes_max

    def add(self, index: int, size: int) -> None:
        """An entry is applied."""
        stretches = self._stretches
        self._bytes += size
        if stretches and stretches[-1][1] + size <= self._grain:
            stretches[-1] = index, stretches[-1][1] + size
        else:
            stretches.append((index, size))
        while self._bytes - stretches[0][1] > self.spared[1]:
            self._bytes -= stretches.popleft()[1]

    def needed(self, last: int, had: Sequence[int]) -> int:
        """The entry after which all are kept; ``had`` is how far nodes are that are up."""
        kept = max(last - self._entries_max, self._last_beyond(self._bytes_max))
        entries, size = self.spared
        return max(min([kept, *had]), last - entries, self._last_beyond(size))

    def bytes_after(self, index: int) -> int:
        """About how many bytes the entries after one have."""
        return sum([size for last, size in self._stretches if last > index])

    def _last_beyond(self, bytes_max: int) -> int:
        """The newest entry that, with all after it, exceeds so many bytes; 0: there is none."""
        newest_first = list(reversed(self._stretches))
        totals = accumulate(size for _, size in newest_first)
        beyond = zip(newest_first, totals, strict=True)
        return next((last for (last, _), total in beyond if total > bytes_max), 0)
