"""Messages of a group that are to be delivered again, per priority.

The offsets of a priority are negated and ascend, so the lowest offset is last: taking it is the
most frequent operation, and is cheap at the end of a list.
"""

from bisect import bisect_right, insort
from collections.abc import Iterable
from operator import itemgetter

from penstock.core.priority_offsets import PRIORITIES


class ReturnedMessages:
    """Offsets to be delivered again; ``len()`` is how many there are."""

    __slots__ = ("by_priority",)

    def __init__(self) -> None:
        self.by_priority: list[list[int]] = [[] for _ in range(PRIORITIES)]

    def __len__(self) -> int:
        return sum(map(len, self.by_priority))

    def offsets(self) -> list[int]:
        return sorted(-negated for queue in self.by_priority for negated in queue)

    def count_below(self, first: int) -> int:
        return sum(len(queue) - bisect_right(queue, -first) for queue in self.by_priority)

    def add(self, by_priority: Iterable[list[int]]) -> None:
        """Add negated offsets, one list for each priority."""
        for queue, more in zip(self.by_priority, by_priority, strict=True):
            if len(more) == 1:
                insort(queue, more[0])
            elif more:
                queue.extend(more)
                queue.sort()

    def pop_below(self, first: int) -> list[int]:
        popped = []
        for queue in self.by_priority:
            while queue and -queue[-1] < first:
                popped.append(-queue.pop())
        return popped

    def pop_oldest(self, count: int) -> list[int]:
        """Take the lowest offsets, regardless of priority."""
        offsets: list[int] = []
        while len(offsets) < count:
            queues = [queue for queue in self.by_priority if queue]
            if not queues:
                break
            offsets.append(-max(queues, key=itemgetter(-1)).pop())
        return offsets

    def remove(self, priority: int, offsets: set[int]) -> None:
        """Remove offsets that are here, nearly always the oldest."""
        queue = self.by_priority[priority]
        count = len(offsets)
        if {-negated for negated in queue[-count:]} == offsets:
            del queue[-count:]
        else:
            self.by_priority[priority] = [n for n in queue if -n not in offsets]
