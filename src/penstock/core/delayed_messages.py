"""Messages of a group that may not be delivered before some time.

A heap finds the next one. An entry of the heap is void if its message no longer waits for that
time; void entries are passed over, and removed all at once when there are too many.
"""

from heapq import heappop, heappush

from penstock.core.lease_deadlines import VOID_MAX


class DelayedMessages(dict[int, int]):
    """Offsets, and the time before which each may not be delivered."""

    __slots__ = ("_heap",)

    def __init__(self) -> None:
        super().__init__()
        self._heap: list[tuple[int, int]] = []

    def add(self, offset: int, until_ms: int) -> None:
        self[offset] = until_ms
        heappush(self._heap, (until_ms, offset))
        self._tidy()

    def next_ms(self) -> int | None:
        self._tidy()
        while self._heap and self.get(self._heap[0][1]) != self._heap[0][0]:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now_ms: int, count_max: int) -> list[int]:
        due: list[int] = []
        while self._heap and self._heap[0][0] <= now_ms and len(due) < count_max:
            until_ms, offset = heappop(self._heap)
            if self.get(offset) == until_ms:
                del self[offset]
                due.append(offset)
        return due

    def _tidy(self) -> None:
        if len(self._heap) > 2 * len(self) + VOID_MAX:
            self._heap = sorted((until_ms, offset) for offset, until_ms in self.items())
