"""How much of a topic exceeds its limits, message by message, oldest first.

A limit says what must be *kept*: messages go while as many, or as many bytes, stay without them.
By **age** a topic then loses the oldest of the rest, up to the first that is young. A date in the
future (by more than ``CLOCK_ERROR_MS_MAX``) is a wrong clock: such a message goes with an old one
behind it.

Then comes what holds limits back: the offset from which on a *protected* topic is not consumed (the
topic is then *held*), and the sequence from which on anything may be needed (*blocked*). Messages
below the low-water mark need not be consumed. Deleted messages that come next go along.

Groups that go as a whole are not opened. Those that are damaged go as a whole or not at all.
"""

from collections.abc import Iterator

from penstock.store.deletions import OFFSET_MAX
from penstock.store.retention.slice import RetentionSlice, TopicLeft
from penstock.store.slices import offset_at, reach, timed_runs
from penstock.store.store import CLOCK_ERROR_MS_MAX, RetentionLimits
from penstock.store.topic_groups import StoredGroup

# A group in a block that is partly old is opened again after this part of the age.
AGE_STEPS = 50


def remove_excess(work: RetentionSlice, topic: TopicLeft, age: int | None) -> bool:
    """Remove what exceeds a topic's limits; return whether that is complete.

    ``age`` limits it besides count and bytes; notes when the next message expires.
    """
    excess = _Excess(work, topic, age)
    if not excess.is_likely:
        return True
    count_max = max(work.steps, 1)
    groups = work.groups(topic, count_max)
    if not groups:
        return True
    end = excess.end(groups)
    work.spend(sum(1 for _ in _below(groups, end)))
    work.cut(topic, end, groups)
    is_complete = end < groups[-1].next_offset or len(groups) < count_max
    work.removed.more |= not is_complete
    return is_complete


class _Excess:
    """The limits of one topic."""

    def __init__(self, work: RetentionSlice, topic: TopicLeft, age: int | None) -> None:
        self._work = work
        self._topic = topic
        self._name = topic.state.name
        self._first = topic.state.first_offset
        self._age = age
        self._limits: RetentionLimits = work.request.rules.limits(self._name)
        self._low = work.request.low_water_marks.get(self._name, 0)

    @property
    def is_likely(self) -> bool:
        """Whether the groups must be looked at."""
        topic, limits = self._topic, self._limits
        return (
            self._age is not None
            or self._low > self._first
            or (limits.messages_max is not None and topic.messages > limits.messages_max)
            or (limits.bytes_max is not None and topic.bytes >= limits.bytes_max)
            or topic.deleted.contains(self._first)
        )

    def end(self, groups: list[StoredGroup]) -> int:
        """The offset of the first message that stays."""
        work, name, first = self._work, self._name, self._first
        beyond = max(self._by_count(), self._by_bytes(groups))
        end = max(beyond, self._by_age(groups, max(beyond, self._low)))
        floor = work.request.floor(name)
        if floor is not None and end > max(floor, first):
            work.held[name] = floor
            end = max(floor, first)
        end = max(end, min(self._low, self._topic.state.next_offset))
        needed = self._needed_from(groups, end)
        if needed < end:
            work.blocked[name] = None
            end = max(needed, first)
        return self._topic.deleted.skip(end)

    def _by_count(self) -> int:
        messages_max, end = self._limits.messages_max, self._first
        if messages_max is None:
            return end
        left = self._topic.messages - messages_max
        for first, stop in self._topic.deleted.living(self._first):
            if left <= 0:
                break
            end = min(stop, first + left)
            left -= end - first
        return end

    def _by_bytes(self, groups: list[StoredGroup]) -> int:
        bytes_max, end = self._limits.bytes_max, self._first
        if bytes_max is None or self._topic.bytes < bytes_max:
            return end
        left = self._topic.bytes - bytes_max
        for found in groups:
            start = max(self._first, found.first_offset)
            for first, stop in self._topic.deleted.living(start, found.next_offset):
                size = found.bytes_within(first, stop)
                if size > left:
                    part = found.part(first, stop)
                    return reach(part, left) if part is not None else end
                end, left = stop, left - size
        return end

    def _by_age(self, groups: list[StoredGroup], start: int) -> int:
        """The end of what is old; notes when the topic must be looked at again.

        What goes anyway is before ``start``: it may be younger than what comes next, where the
        clock was set back, and must not keep that until the next time.
        """
        end = self._first
        if self._age is None:
            return end
        now_ms = self._work.request.now_ms
        for found in groups:
            if found.next_offset <= start:
                continue
            if found.time_ms <= now_ms - self._age:
                end = found.next_offset
                continue
            part = found.part(max(self._first, start), found.next_offset)
            for stop, time_ms in timed_runs(part) if part is not None else [(end, found.time_ms)]:
                if time_ms > now_ms + CLOCK_ERROR_MS_MAX:
                    continue
                if time_ms > now_ms - self._age:
                    self._note_wake(time_ms, found)
                    return end
                end = stop
        return end

    def _note_wake(self, time_ms: int, found: StoredGroup) -> None:
        age, work = self._age or 0, self._work
        if work.request.rules.own_age(self._name) is None:
            return
        wake_ms = time_ms + age
        if found.block is not None:
            wake_ms = max(wake_ms, min(found.time_ms + age, work.request.now_ms + age // AGE_STEPS))
        work.wakes[self._name] = wake_ms

    def _needed_from(self, groups: list[StoredGroup], end: int) -> int:
        floor = self._work.request.floor_sequence
        for found in _below(groups, end):
            if found.last_sequence < floor:
                continue
            if found.base_sequence >= floor:
                return found.first_offset
            part = found.part(found.first_offset, found.next_offset)
            needed = offset_at(part, floor) if part is not None else found.first_offset
            if needed < found.next_offset:
                return needed
        return OFFSET_MAX


def _below(groups: list[StoredGroup], end: int) -> Iterator[StoredGroup]:
    return (found for found in groups if found.first_offset < end)
