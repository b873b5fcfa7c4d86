"""Priority offsets against a plain dictionary."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from penstock.core.priority_offsets import OffsetsByPriority

extending = st.tuples(
    st.just("extend"), st.integers(0, 3), st.integers(0, 6), st.sampled_from((0, 0, 3, 7))
)
scheduling = st.tuples(st.just("schedule"), st.integers(0, 9), st.integers(0, 5), st.integers(0, 5))
forgetting = st.tuples(st.just("forget"), st.integers(0, 6))
histories = st.lists(
    st.one_of(extending, extending, scheduling, scheduling, forgetting), min_size=3, max_size=25
)


class Model:
    """Each message separately."""

    def __init__(self, start: int) -> None:
        self.start = self.end = start
        self.priorities: dict[int, int] = {}
        self.times: dict[int, tuple[int, int]] = {}

    def of_lane(self, priority: int, offset: int) -> list[int]:
        return [o for o, p in sorted(self.priorities.items()) if p == priority and o >= offset]

    def forget(self, before: int) -> None:
        self.start, self.end = max(self.start, before), max(self.end, before)
        self.priorities = {o: p for o, p in self.priorities.items() if o >= self.start}
        self.times = {o: t for o, t in self.times.items() if o >= self.start}


def run(start: int, chosen: list[tuple]) -> tuple[OffsetsByPriority, Model]:
    topic, model = OffsetsByPriority(start), Model(start)
    for verb, *numbers in chosen:
        match verb, numbers:
            case "extend", (gap, count, priority):
                first = model.end + gap
                topic.extend(first, count, priority)
                model.priorities.update(dict.fromkeys(range(first, first + count), priority))
                model.end = first + count if count else model.end
            case "schedule", (distance, due_ms, expires_ms):
                offset = max(model.end - distance, 0)
                topic.schedule(offset, due_ms, expires_ms)
                if offset in model.priorities:
                    model.times[offset] = (due_ms, expires_ms)
            case "forget", (distance,):
                before = model.start + distance
                topic.forget(before)
                model.forget(before)
    return topic, model


def spread(stretches: list[tuple[int, int]]) -> list[int]:
    return [offset for start, end in stretches for offset in range(start, end)]


@given(st.integers(0, 5), histories, st.integers(0, 70), st.integers(0, 12))
def test_lanes_answer_like_a_dictionary(start, chosen, offset, count):
    topic, model = run(start, chosen)
    assert (topic.start, topic.end) == (model.start, model.end)
    for priority, priority_offsets in enumerate(topic.by_priority):
        following = model.of_lane(priority, offset)
        assert priority_offsets.next(offset) == (following[0] if following else None)
        assert priority_offsets.count(offset) == len(following)
        stretches = priority_offsets.ranges(offset, count)
        assert spread(stretches) == following[:count]
        assert all(end < start for (_, end), (start, _) in pairwise(stretches))


@given(st.integers(0, 5), histories, st.integers(0, 70), st.integers(0, 12))
def test_times_are_those_of_a_dictionary(start, chosen, offset, count):
    topic, model = run(start, chosen)
    for priority, priority_offsets in enumerate(topic.by_priority):
        times = {o: t for o, t in model.times.items() if model.priorities[o] == priority}
        assert priority_offsets.schedule.times(offset) == times.get(offset, (0, 0))
        assert len(priority_offsets.schedule) == len(times)
        timed = [o for o in model.of_lane(priority, offset) if o in model.times][:count]
        untimely = [o for o in timed if model.times[o][0] > 2 or 0 < model.times[o][1] <= 2]
        assert priority_offsets.schedule.first_untimely(offset, count, 2) == (
            untimely[0] if untimely else None
        )
