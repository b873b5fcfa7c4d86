"""Which offsets of a topic have which priority: a list of ranges for each of eight priorities.

A topic is one log, and a group delivers it by priority. It asks for the next offsets of a priority
and how many there are, and the cost must not depend on how many wait::

    offsets    0  1  2  3  4  5  6  7  8         priority 0:  [0, 3)  [7, 9)
    priority   0  0  0  5  5  ·  5  0  0         priority 5:  [3, 5)  [6, 7)      5 was deleted

For each range its start and the **rank** of its first message are kept: how many messages of the
priority came before. Ranks turn both questions into a search: the number of messages at or after an
offset is the total minus the rank there, and the n-th message from there is in the range with that
rank. Ranks count from the beginning, so retention changes none of them.

Few messages have a time before or after which they may not be delivered; those are kept by offset
(``Schedule``).

All of this is derived from the journal and never stored. A topic without priorities is one range;
in the worst case, when every message changes the priority, each takes 16 bytes.
"""

from array import array
from bisect import bisect_left, bisect_right

from penstock.core.columns import cut_front
from penstock.model.message import PRIORITY_MAX

PRIORITIES = PRIORITY_MAX + 1  # the greatest is the most urgent


class Schedule:
    """Messages of a priority that have a time: columns in order of offsets."""

    __slots__ = ("_due", "_expires", "_offsets", "_passed")

    def __init__(self) -> None:
        self._offsets = array("Q")
        self._due = array("Q")
        self._expires = array("Q")
        self._passed = 0  # forgotten entries at the front that are not cut off yet

    def __len__(self) -> int:
        return len(self._offsets) - self._passed

    def add(self, offset: int, due_ms: int, expires_ms: int) -> None:
        """Set the times of a message; the last call counts."""
        place = bisect_left(self._offsets, offset, self._passed)
        if place == len(self._offsets) or self._offsets[place] != offset:
            self._offsets.insert(place, offset)
            self._due.insert(place, due_ms)
            self._expires.insert(place, expires_ms)
        else:
            self._due[place], self._expires[place] = due_ms, expires_ms

    def times(self, offset: int) -> tuple[int, int]:
        place = bisect_left(self._offsets, offset, self._passed)
        if place == len(self._offsets) or self._offsets[place] != offset:
            return 0, 0
        return self._due[place], self._expires[place]

    def first_untimely(self, offset: int, count: int, now_ms: int) -> int | None:
        """The first of the next ``count`` messages that is early or late; None if none is.

        It examines at most ``count`` entries, because the messages have no more.
        """
        first = bisect_left(self._offsets, offset, self._passed)
        some = slice(first, first + count)
        entries = zip(self._offsets[some], self._due[some], self._expires[some], strict=True)
        for found, due_ms, expires_ms in entries:
            if due_ms > now_ms or 0 < expires_ms <= now_ms:
                return found
        return None

    def expired(self, offset: int, now_ms: int) -> int:
        first = bisect_left(self._offsets, offset, self._passed)
        return sum(0 < expires_ms <= now_ms for expires_ms in self._expires[first:])

    def forget(self, before: int) -> None:
        passed = bisect_left(self._offsets, before, self._passed)
        self._passed = cut_front((self._offsets, self._due, self._expires), passed)


class PriorityOffsets:
    """The messages of one priority.

    ``_ranks`` has one entry more than ``_starts``: the rank of the next message. Range i is
    therefore ``_ranks[i + 1] - _ranks[i]`` long. Ranges are never adjacent.
    """

    __slots__ = ("_end", "_passed", "_ranks", "_starts", "schedule")

    def __init__(self) -> None:
        self._starts = array("Q")
        self._ranks = array("Q", (0,))
        self._end = 0  # of the last range
        self._passed = 0  # forgotten ranges at the front that are not cut off yet
        self.schedule = Schedule()

    def __len__(self) -> int:
        return self._ranks[-1] - self._ranks[self._passed]

    def extend(self, first_offset: int, count: int) -> None:
        if first_offset == self._end and self._passed < len(self._starts):
            self._ranks[-1] += count
        else:
            self._starts.append(first_offset)
            self._ranks.append(self._ranks[-1] + count)
        self._end = first_offset + count

    def rank(self, offset: int) -> int:
        """How many messages of this priority came before an offset."""
        place = bisect_right(self._starts, offset, self._passed) - 1
        if place < self._passed:
            return self._ranks[self._passed]
        return min(self._ranks[place] + offset - self._starts[place], self._ranks[place + 1])

    def count(self, offset: int) -> int:
        return self._ranks[-1] - self.rank(offset)

    def next(self, offset: int) -> int | None:
        """The first offset of this priority at or after one."""
        place = bisect_right(self._starts, offset, self._passed)
        if place > self._passed and offset < self._range_end(place - 1):
            return offset
        return self._starts[place] if place < len(self._starts) else None

    def ranges(self, offset: int, count: int) -> list[tuple[int, int]]:
        """The first ``count`` messages at or after an offset, as ranges."""
        starts, ranks = self._starts, self._ranks
        first = self.rank(offset)
        end = min(first + count, ranks[-1])
        if first == end:
            return []
        some = bisect_right(ranks, first, self._passed) - 1
        start = starts[some] + first - ranks[some]
        if end <= ranks[some + 1]:  # most often: one range has them all
            return [(start, start + end - first)]
        last = bisect_left(ranks, end, some + 1) - 1
        found = [
            (range_start, range_start + next_rank - rank)
            for range_start, rank, next_rank in zip(
                starts[some : last + 1],
                ranks[some : last + 1],
                ranks[some + 1 : last + 2],
                strict=True,
            )
        ]
        found[0] = (start, found[0][1])
        found[-1] = (found[-1][0], starts[last] + end - ranks[last])
        return found

    def __contains__(self, offset: int) -> bool:
        return self.next(offset) == offset

    def forget(self, before: int) -> None:
        self.schedule.forget(before)
        place = bisect_right(self._starts, before, self._passed) - 1
        if place < self._passed:
            return
        if before < self._range_end(place):
            self._ranks[place] += before - self._starts[place]
            self._starts[place] = before
        else:
            place += 1
        self._passed = cut_front((self._starts, self._ranks), place)

    def _range_end(self, place: int) -> int:
        return self._starts[place] + self._ranks[place + 1] - self._ranks[place]


class OffsetsByPriority:
    """The offsets of a topic from ``start`` to ``end``; earlier ones are unknown."""

    __slots__ = ("by_priority", "end", "start")

    def __init__(self, start: int) -> None:
        self.start = start
        self.end = start
        self.by_priority = [PriorityOffsets() for _ in range(PRIORITIES)]

    def extend(self, first_offset: int, count: int, priority: int) -> None:
        assert first_offset >= self.end, "offsets grow at their end only"
        if count:
            self.by_priority[priority].extend(first_offset, count)
            self.end = first_offset + count

    def schedule(self, offset: int, due_ms: int, expires_ms: int) -> None:
        """Set when a known message is due and when it expires; 0: never."""
        offsets = next((offsets for offsets in self.by_priority if offset in offsets), None)
        if offsets is not None:
            offsets.schedule.add(offset, due_ms, expires_ms)

    def expired(self, heads: list[int], now_ms: int) -> int:
        pairs = zip(self.by_priority, heads, strict=True)
        return sum(offsets.schedule.expired(head, now_ms) for offsets, head in pairs)

    def forget(self, before: int) -> None:
        if before <= self.start:
            return
        self.start = before
        self.end = max(self.end, before)
        for offsets in self.by_priority:
            offsets.forget(before)
