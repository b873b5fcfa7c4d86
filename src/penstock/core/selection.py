"""Which messages a poll of a group gets: by priority, but without starvation.

Most of a poll goes to the most urgent messages, and a quarter of it (with small polls: one in every
fourth) to the oldest, whatever their priority. For a poll of m messages::

    reserved = min(m, m div 4 + (1 if this is every fourth poll))
    first the m - reserved most urgent, older ones first among equals;
    then the oldest of the others, until there are m;
    delivered in the order of urgency.

Sorting all candidates would cost as much as the backlog is long. It is not needed: both orders take
the messages *of one priority* by offset, so a poll gets a prefix of each priority, and choosing
means deciding on eight lengths. The first rule empties the priorities from the top. The second
merges the fronts of what is left by offset.

Candidates of a priority are **returned** messages (delivered before) and then **fresh** ones, from
its head on. Everything returned lies below the head, which has passed all that was ever delivered,
so the two follow each other. (A group that was moved back has returned offsets above its head; the
head will reach them.)

Fresh messages that are not due yet are delayed when the head meets them, and expired ones are
passed for good. A head stops before such a message until something after it is wanted, so what was
delayed is below the head, and nothing else is. Returned messages have waited for their time
already; only their expiry is checked again.

A ``Picker`` serves several polls one after the other, on a view that does not change meanwhile.
"""

from bisect import bisect_right
from collections.abc import Collection, Iterable, Sequence
from heapq import heapify, heapreplace

from penstock.core.priority_offsets import PRIORITIES, OffsetsByPriority, PriorityOffsets

PASSED_MAX = 1_024  # messages delayed or found expired at once: they travel in one command

_NOTHING = 1 << 64  # an offset after all others: there is no next message

_PEEKED = 16  # messages of a priority that are peeked at while searching for the oldest


class Picker:
    """Chooses messages for some polls.

    ``heads``: by priority, the offset from which on nothing was delivered. ``returned``: by
    priority, offsets to be delivered again, negated and ascending, so that the oldest is last; only
    read. Offsets below ``first`` are gone and are skipped.
    """

    __slots__ = ("_end", "_heads", "_offsets", "_streams", "delayed", "expired", "now_ms")

    def __init__(
        self,
        offsets: OffsetsByPriority,
        heads: Sequence[int],
        returned: Sequence[list[int]],
        first: int,
        now_ms: int,
    ) -> None:
        self._offsets = offsets
        self._end = offsets.end  # the offsets may grow before ``heads`` is called
        self._heads = [max(head, first) for head in heads]
        self.now_ms = now_ms
        # passed because they are not due: offset, time due, priority
        self.delayed: list[tuple[int, int, int]] = []
        self.expired: list[int] = []  # passed because they have expired
        self._streams = [
            _Stream(
                self,
                priority,
                offsets=offsets.by_priority[priority],
                head=self._heads[priority],
                returned=returned[priority],
                first=first,
            )
            for priority in reversed(range(PRIORITIES))
            if returned[priority] or offsets.by_priority[priority]
        ]

    def available(self) -> int:
        """How many messages wait, including those that are not due or expired."""
        return sum(stream.count() for stream in self._streams)

    @property
    def is_full(self) -> bool:
        """Whether so much was passed that another picker may find more."""
        return len(self.delayed) + len(self.expired) >= PASSED_MAX

    def pick(self, maximum: int, poll_count: int) -> list[tuple[int, int, int]]:
        """What a poll gets, as runs (priority, start, end) in the order of delivery.

        ``poll_count`` is how many polls this group has seen before.
        """
        if len(self._streams) == 1:  # both orders are the same
            self._streams[0].take(maximum)
        else:
            self._take_of_many(maximum, poll_count)
        return [
            (stream.priority, start, end)
            for stream in self._streams
            for start, end in stream.hand_over()
        ]

    def put_back(self, offsets: Collection[int]) -> None:
        """Put back picked offsets, the last ones of their priorities."""
        for stream in self._streams:
            lowest = stream.put_back(offsets)
            if lowest is not None:
                self.delayed = [e for e in self.delayed if e[2] != stream.priority or e[0] < lowest]
                self.expired = [o for o in self.expired if not stream.is_ahead(o, lowest)]

    def _take_of_many(self, maximum: int, poll_count: int) -> None:
        is_fourth = poll_count % 4 == 3
        reserved = min(maximum, maximum // 4 + is_fourth)
        urgent = maximum - reserved
        for stream in self._streams:
            urgent -= stream.take(urgent)
        self._take_oldest(reserved)

    def _take_oldest(self, count: int) -> None:
        """Take the oldest messages of all priorities: a merge of their fronts, range by range.

        No other priority has anything between the messages of a range.
        """
        fronts = [(stream.front(), place) for place, stream in enumerate(self._streams)]
        heapify(fronts)
        while count and fronts and fronts[0][0] < _NOTHING:
            place = fronts[0][1]
            stream = self._streams[place]
            count -= stream.take_some(count)
            heapreplace(fronts, (stream.front(), place))

    @property
    def heads(self) -> list[int]:
        """The heads after the picks: the next offset of each priority, or the end."""
        heads = [max(head, self._end) for head in self._heads]
        for stream in self._streams:
            found = stream.head()
            if found is not None:
                heads[stream.priority] = found
        return heads

    @property
    def ahead(self) -> int:
        """How many messages at or above the lowest head were delivered, delayed or expired."""
        heads = self.heads
        lowest = min(heads)
        pairs = zip(self._offsets.by_priority, heads, strict=True)
        above = [(offsets, head) for offsets, head in pairs if head > lowest and offsets]
        return sum([offsets.rank(head) - offsets.rank(lowest) for offsets, head in above])


class _Stream:
    """Candidates of one priority, as ranges: first the returned, then the fresh ones.

    Ranges that were examined and not taken are ``_peeked``, the next one last. They are either all
    returned or all fresh, and nothing was passed between fresh ones: the head is where they begin.
    """

    __slots__ = (
        "_first_fresh",
        "_head",
        "_offsets",
        "_peeked",
        "_picker",
        "_returned",
        "_returned_end",
        "_returned_start",
        "_taken",
        "priority",
    )

    def __init__(
        self,
        picker: Picker,
        priority: int,
        *,
        offsets: PriorityOffsets,
        head: int,
        returned: list[int],
        first: int,
    ) -> None:
        self.priority = priority
        self._picker = picker
        self._offsets = offsets
        self._first_fresh = self._head = head
        self._returned = returned
        # Of these, first … head - 1: negated and ascending, they end with the lowest.
        self._returned_start = bisect_right(returned, -head)
        self._returned_end = bisect_right(returned, -first)
        self._peeked: list[tuple[int, int]] = []
        self._taken: list[tuple[int, int]] = []

    def count(self) -> int:
        peeked = _length(self._peeked)
        return peeked + self._returned_end - self._returned_start + self._offsets.count(self._head)

    def head(self) -> int | None:
        """The next fresh message; None if there is none."""
        if self._peeked and self._peeked[-1][0] >= self._first_fresh:
            return self._peeked[-1][0]
        return self._offsets.next(self._head)

    def front(self) -> int:
        """The offset of the next message that can be delivered."""
        if not self._peeked:
            self._peeked = self._load(_PEEKED)
            self._peeked.reverse()
        return self._peeked[-1][0] if self._peeked else _NOTHING

    def take(self, count: int) -> int:
        left = count
        while left and self._peeked:
            left -= self.take_some(left)
        while left and (ranges := self._load(left)):
            left -= _length(ranges)
            self._keep(ranges)
        return count - left

    def take_some(self, count: int) -> int:
        """Take messages of the range at the front; return how many."""
        start, end = self._peeked.pop()
        stop = min(end, start + count)
        if stop < end:
            self._peeked.append((stop, end))
        self._keep([(start, stop)])
        return stop - start

    def put_back(self, offsets: Collection[int]) -> int | None:
        """Move the head back to the lowest of these that was fresh; None if none was."""
        fresh = [offset for offset in offsets if self.is_ahead(offset, self._first_fresh)]
        if not fresh:
            return None
        self._peeked = []
        self._head = min(fresh)
        return self._head

    def is_ahead(self, offset: int, head: int) -> bool:
        """Whether an offset has this priority and is not below ``head``."""
        return offset >= head and offset in self._offsets

    def hand_over(self) -> list[tuple[int, int]]:
        taken, self._taken = self._taken, []
        return taken

    def _keep(self, ranges: list[tuple[int, int]]) -> None:
        if self._taken and self._taken[-1][1] == ranges[0][0]:
            ranges[0] = (self._taken.pop()[0], ranges[0][1])
        self._taken += ranges

    def _load(self, count: int) -> list[tuple[int, int]]:
        """The next messages that can be delivered: at least one, if any, and at most ``count``."""
        while self._returned_start < self._returned_end:
            if self._offsets.schedule and self._picker.is_full:
                return []
            ranges = self._load_returned(count)
            if ranges:
                return ranges
        self._pass_untimely()
        return self._load_fresh(count)

    def _load_returned(self, count: int) -> list[tuple[int, int]]:
        start = max(self._returned_start, self._returned_end - count)
        offsets = [-negated for negated in reversed(self._returned[start : self._returned_end])]
        self._returned_end = start
        if self._offsets.schedule:
            offsets = [offset for offset in offsets if not self._expire(offset)]
        return _joined(offsets)

    def _expire(self, offset: int) -> bool:
        is_over = 0 < self._offsets.schedule.times(offset)[1] <= self._picker.now_ms
        if is_over:
            self._picker.expired.append(offset)
        return is_over

    def _pass_untimely(self) -> None:
        """Advance the head to a message that can be delivered, as far as the limit allows."""
        schedule, picker = self._offsets.schedule, self._picker
        while schedule and not picker.is_full:
            offset = self._offsets.next(self._head)
            if offset is None or schedule.first_untimely(offset, 1, picker.now_ms) != offset:
                return
            if not self._expire(offset):
                picker.delayed.append((offset, schedule.times(offset)[0], self.priority))
            self._head = offset + 1

    def _load_fresh(self, count: int) -> list[tuple[int, int]]:
        """Messages from the head on, up to the next that cannot be delivered."""
        offsets = self._offsets
        if offsets.schedule:
            obstacle = offsets.schedule.first_untimely(self._head, count, self._picker.now_ms)
            if obstacle is not None:
                count = min(count, offsets.rank(obstacle) - offsets.rank(self._head))
        ranges = offsets.ranges(self._head, count)
        if ranges:
            self._head = ranges[-1][1]
        return ranges


def _length(ranges: list[tuple[int, int]]) -> int:
    return sum([end - start for start, end in ranges])


def _joined(offsets: Iterable[int]) -> list[tuple[int, int]]:
    ranges: list[tuple[int, int]] = []
    start = end = -1
    for offset in offsets:
        if offset != end:
            if end >= 0:
                ranges.append((start, end))
            start = offset
        end = offset + 1
    if end >= 0:
        ranges.append((start, end))
    return ranges
