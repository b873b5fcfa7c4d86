"""Selection against its definition: sort all candidates twice."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from penstock.core.priority_offsets import PRIORITIES, OffsetsByPriority
from penstock.core.selection import Picker

NOW = 10

messages = st.lists(
    st.tuples(
        st.sampled_from((0, 0, 1, 4, 7, None)),  # None: deleted
        st.sampled_from((0, 0, 0, NOW, NOW + 1)),  # due
        st.sampled_from((0, 0, 0, NOW, NOW + 1)),  # expires
    ),
    max_size=60,
)
plain_messages = st.lists(
    st.tuples(st.integers(0, 7), st.just(0), st.just(0)), min_size=20, max_size=120
)
polls = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 7)), max_size=6)


class Case:
    """A topic, and a group that has handed out a prefix of each lane and got some of it back."""

    def __init__(self, data, chosen) -> None:
        self.lanes = OffsetsByPriority(0)
        self.priority, self.times = {}, {}
        for offset, (priority, due_ms, expires_ms) in enumerate(chosen):
            if priority is None:
                continue
            self.lanes.extend(offset, 1, priority)
            self.priority[offset] = priority
            self.times[offset] = (due_ms, expires_ms)
            if due_ms or expires_ms:
                self.lanes.schedule(offset, due_ms, expires_ms)
        self.heads = data.draw(
            st.lists(st.integers(0, 30), min_size=PRIORITIES, max_size=PRIORITIES)
        )
        self.first = data.draw(st.sampled_from((0, 0, 5, 20)))
        handed_out = [o for o, p in self.priority.items() if o < self.heads[p]]
        self.returned = [o for o in handed_out if data.draw(st.booleans())]

    def picker(self) -> Picker:
        negated = [
            sorted(-o for o in self.returned if self.priority[o] == priority)
            for priority in range(PRIORITIES)
        ]
        return Picker(self.lanes, self.heads, negated, self.first, NOW)

    def fresh(self, priority: int) -> list[int]:
        head = max(self.heads[priority], self.first)
        return [o for o, p in self.priority.items() if p == priority and o >= head]

    def is_over(self, offset: int) -> bool:
        return 0 < self.times[offset][1] <= NOW

    def is_timely(self, offset: int) -> bool:
        return self.times[offset][0] <= NOW and not self.is_over(offset)

    def candidates(self) -> set[int]:
        fresh = {
            o for priority in range(PRIORITIES) for o in self.fresh(priority) if self.is_timely(o)
        }
        back = {o for o in self.returned if o >= self.first and not self.is_over(o)}
        return fresh | back


def by_definition(candidates: set[int], priority, maximum: int, poll_count: int) -> list[int]:
    reserved = min(maximum, maximum // 4 + (1 if (poll_count + 1) % 4 == 0 else 0))
    urgency = lambda offset: (-priority[offset], offset)  # noqa: E731
    chosen = sorted(candidates, key=urgency)[: maximum - reserved]
    oldest = [offset for offset in sorted(candidates) if offset not in chosen]
    chosen += oldest[: maximum - len(chosen)]
    return sorted(chosen, key=urgency)


def spread(runs) -> list[tuple[int, int]]:
    return [(priority, offset) for priority, start, end in runs for offset in range(start, end)]


def check_heads(case: Case, deal: Picker, taken: set[int]) -> None:
    """Below a head everything fresh was taken or passed, and it is known which; above it nothing."""
    heads = deal.heads
    passed = {offset for offset, _, _ in deal.delayed} | set(deal.expired)
    for priority, head in enumerate(heads):
        fresh = case.fresh(priority)
        assert {o for o in fresh if o < head} == {o for o in fresh if o in taken or o in passed}
        assert head in fresh or head >= case.lanes.end
    unhanded = sum(
        case.lanes.by_priority[priority].count(head) for priority, head in enumerate(heads)
    )
    lowest = min(heads)
    assert unhanded == len([o for o in case.priority if o >= lowest]) - deal.ahead


@given(st.data(), messages, polls)
def test_polls_get_what_sorting_all_candidates_gives(data, chosen, asked):
    case = Case(data, chosen)
    deal, left, taken = case.picker(), case.candidates(), set()
    for maximum, poll_count in asked:
        runs = deal.pick(maximum, poll_count)
        expected = by_definition(left, case.priority, maximum, poll_count)
        assert spread(runs) == [(case.priority[offset], offset) for offset in expected]
        assert all(a[:1] + a[2:] != b[:2] for a, b in pairwise(runs))
        left -= set(expected)
        taken |= set(expected)
    check_heads(case, deal, taken)


@given(st.data(), plain_messages, polls)
def test_without_times_the_number_available_is_exact(data, chosen, asked):
    case = Case(data, chosen)
    deal, left = case.picker(), len(case.candidates())
    assert deal.available() == left
    for maximum, poll_count in asked:
        runs = deal.pick(maximum, poll_count)
        left -= sum(end - start for _, start, end in runs)
        assert deal.available() == left
    assert not deal.delayed
    assert not deal.expired


@given(st.data(), messages)
def test_what_is_passed_is_told_with_its_reason(data, chosen):
    case = Case(data, chosen)
    deal = case.picker()
    deal.pick(1000, 0)
    fresh = {offset for priority in range(PRIORITIES) for offset in case.fresh(priority)}
    back = {offset for offset in case.returned if offset >= case.first}
    over = {offset for offset in fresh | back if case.is_over(offset)}
    early = {offset for offset in fresh - over if not case.is_timely(offset)}
    assert sorted(deal.expired) == sorted(over)
    assert sorted(deal.delayed) == sorted((o, case.times[o][0], case.priority[o]) for o in early)
