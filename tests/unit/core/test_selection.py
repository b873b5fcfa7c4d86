"""Selection: the vectors of the specification, then what is passed over, and how heads move."""

import pytest

from penstock.core import selection
from penstock.core.priority_offsets import PRIORITIES, OffsetsByPriority
from penstock.core.selection import Picker

NOW = 1_000


def made(priorities: list[int]) -> OffsetsByPriority:
    offsets = OffsetsByPriority(0)
    for offset, priority in enumerate(priorities):
        offsets.extend(offset, 1, priority)
    return offsets


def picker(
    offsets: OffsetsByPriority, heads=(0,) * PRIORITIES, returned=None, first: int = 0
) -> Picker:
    """A chosen; ``returned``: offsets by priority, as one would write them down."""
    negated = [
        [-offset for offset in reversed((returned or {}).get(p, []))] for p in range(PRIORITIES)
    ]
    return Picker(offsets, heads, negated, first, NOW)


def spread(runs: list[tuple[int, int, int]]) -> list[int]:
    return [offset for _, start, end in runs for offset in range(start, end)]


VECTORS = [
    ([0] + [7] * 5, 1, [[1], [2], [3], [0], [4], [5]]),
    ([0, 5, 3], 10, [[1, 2, 0]]),
    (
        [0] * 4 + [7] * 12,
        2,
        [[4, 5], [6, 7], [8, 9], [10, 0], [11, 12], [13, 14], [15, 1], [2, 3]],
    ),
    (
        [offset % 8 for offset in range(16)],
        8,
        [[7, 15, 6, 14, 5, 13, 1, 0], [4, 12, 3, 11, 2, 10, 9, 8]],
    ),
    (
        [offset % 8 for offset in range(40)],
        8,
        [
            [7, 15, 23, 31, 39, 6, 1, 0],
            [14, 22, 30, 38, 5, 13, 3, 2],
            [21, 29, 37, 4, 12, 20, 9, 8],
            [28, 36, 11, 19, 27, 10, 17, 16],
            [35, 18, 26, 34, 25, 33, 24, 32],
        ],
    ),
]


@pytest.mark.parametrize(("priorities", "maximum", "polls"), VECTORS)
def test_polls_of_one_deal_get_what_the_specification_says(priorities, maximum, polls):
    chosen = picker(made(priorities))
    for poll_count, expected in enumerate(polls):
        assert spread(chosen.pick(maximum, poll_count)) == expected
    assert chosen.pick(maximum, len(polls)) == []
    assert chosen.available() == 0


@pytest.mark.parametrize(("priorities", "maximum", "polls"), VECTORS)
def test_polls_of_deals_that_follow_one_another_get_the_same(priorities, maximum, polls):
    """Only the heads go from one chosen to the next."""
    offsets, heads = made(priorities), [0] * PRIORITIES
    for poll_count, expected in enumerate(polls):
        chosen = picker(offsets, heads)
        assert spread(chosen.pick(maximum, poll_count)) == expected
        heads = chosen.heads
    assert heads == [len(priorities)] * PRIORITIES


def test_runs_say_the_priority_and_neighbours_are_one_run():
    chosen = picker(made([0] * 4 + [7] * 4))
    assert chosen.pick(6, 0) == [(7, 4, 8), (0, 0, 2)]


def test_a_run_that_both_orders_reach_into_is_one_run():
    """Of eight, six are the most urgent; the oldest two go on where those end."""
    offsets = made([3] * 10 + [0] * 10)
    assert picker(offsets).pick(8, 0) == [(3, 0, 8)]


def test_all_of_one_lane_is_one_run_whatever_is_reserved():
    chosen = picker(made([0] * 300))
    assert chosen.pick(256, 3) == [(0, 0, 256)]
    assert chosen.pick(256, 4) == [(0, 256, 300)]


@pytest.mark.parametrize("priorities", [[], [0, 0], [0, 7]])
def test_a_poll_for_nothing_gets_nothing(priorities):
    chosen = picker(made(priorities))
    assert chosen.pick(0, 3) == []
    assert chosen.available() == len(priorities)


# ── what was returned ─────────────────────────────────────────────────────────────────────────


def test_returned_messages_go_before_younger_ones_of_their_priority():
    offsets = made([0, 0, 0, 7, 7])
    chosen = picker(offsets, heads=[3, 0, 0, 0, 0, 0, 0, 5], returned={0: [0, 2], 7: [4]})
    assert chosen.available() == 3
    assert spread(chosen.pick(2, 0)) == [4, 0]
    assert spread(chosen.pick(2, 1)) == [2]


def test_a_returned_message_next_to_the_head_joins_what_is_fresh():
    chosen = picker(made([0] * 5), heads=[3] * PRIORITIES, returned={0: [1, 2]})
    assert chosen.pick(9, 0) == [(0, 1, 5)]


def test_returned_messages_count_as_old_when_the_oldest_are_served():
    chosen = picker(made([7, 0, 7, 7, 7]), heads=[2] * PRIORITIES, returned={0: [1]})
    assert spread(chosen.pick(1, 3)) == [1]


def test_returned_messages_that_are_gone_are_passed_over():
    chosen = picker(made([0] * 9), heads=[6] * PRIORITIES, returned={0: [1, 3, 5]}, first=4)
    assert chosen.available() == 4
    assert spread(chosen.pick(2, 0)) == [5, 6]


def test_after_a_move_back_nothing_is_handed_out_twice():
    """The head was set to 2; what was returned above it is met when the head gets there."""
    chosen = picker(made([0] * 6), heads=[2] * PRIORITIES, returned={0: [1, 3, 4]})
    assert chosen.available() == 5
    assert spread(chosen.pick(9, 0)) == [1, 2, 3, 4, 5]


def test_what_was_given_is_not_changed():
    heads, returned = [2] * PRIORITIES, [[-1, 0]] + [[] for _ in range(7)]
    chosen = Picker(made([0] * 4), heads, returned, 0, NOW)
    chosen.pick(9, 0)
    assert (heads, returned[0]) == ([2] * PRIORITIES, [-1, 0])


# ── heads ─────────────────────────────────────────────────────────────────────────────────────


def test_heads_stand_on_the_next_message_of_their_lane_or_at_the_end():
    chosen = picker(made([0, 0, 3, 0, 3, 7]))
    assert chosen.heads == [0, 6, 6, 2, 6, 6, 6, 5]
    chosen.pick(2, 0)
    assert chosen.heads == [0, 6, 6, 4, 6, 6, 6, 6]


def test_heads_do_not_go_back():
    """A group may have been told to begin behind the end, and retention behind the head."""
    offsets = made([0] * 4)
    assert picker(offsets, heads=[9] * PRIORITIES).heads == [9] * PRIORITIES
    assert picker(offsets, heads=[0] * PRIORITIES, first=7).heads == [7] * PRIORITIES
    assert picker(offsets, heads=[0] * PRIORITIES, first=2).heads == [2, *[4] * 7]


def test_a_message_looked_at_but_not_taken_is_still_to_come():
    """Searching the oldest looks ahead in every priority."""
    offsets = made([0, 1, 0, 1, 0, 1])
    chosen = picker(offsets)
    assert spread(chosen.pick(1, 3)) == [0]
    assert chosen.heads[:2] == [2, 1]
    assert spread(picker(offsets, chosen.heads).pick(9, 0)) == [1, 3, 5, 2, 4]


def test_a_returned_message_looked_at_but_not_taken_is_no_head():
    chosen = picker(made([0, 0, 7, 0]), heads=[2] * PRIORITIES, returned={0: [0, 1]})
    assert spread(chosen.pick(1, 3)) == [0]
    assert (chosen.heads[0], chosen.heads[7], chosen.available()) == (3, 2, 3)


def test_ahead_counts_what_was_handed_out_above_the_lowest_head():
    chosen = picker(made([0, 7, 0, 7, 7, 0]))
    assert chosen.ahead == 0
    chosen.pick(3, 0)
    assert (min(chosen.heads), chosen.ahead) == (0, 3)
    chosen.pick(1, 1)
    assert (min(chosen.heads), chosen.ahead) == (2, 2)
    chosen.pick(9, 2)
    assert (min(chosen.heads), chosen.ahead) == (6, 0)


def test_ahead_does_not_count_what_was_deleted():
    offsets = OffsetsByPriority(0)
    for first, count, priority in [(0, 1, 0), (1, 2, 7), (5, 2, 7), (9, 1, 0)]:
        offsets.extend(first, count, priority)
    chosen = picker(offsets)
    assert spread(chosen.pick(3, 0)) == [1, 2, 5]
    assert (chosen.heads[0], chosen.heads[7], chosen.ahead) == (0, 6, 3)


# ── times ─────────────────────────────────────────────────────────────────────────────────────


def test_what_is_not_due_is_put_aside_and_not_counted():
    offsets = made([2] * 5)
    offsets.schedule(1, NOW + 1, 0)
    offsets.schedule(2, NOW, 0)
    chosen = picker(offsets)
    assert spread(chosen.pick(3, 0)) == [0, 2, 3]
    assert chosen.delayed == [(1, NOW + 1, 2)]
    assert chosen.expired == []


def test_what_is_over_is_passed_for_good():
    offsets = made([0] * 4)
    offsets.schedule(0, 0, NOW)
    offsets.schedule(1, 0, NOW + 1)
    offsets.schedule(2, NOW + 5, NOW)
    chosen = picker(offsets)
    assert spread(chosen.pick(3, 0)) == [1, 3]
    assert (chosen.delayed, chosen.expired) == ([], [0, 2])


def test_the_head_stops_before_an_untimely_message_until_more_is_wanted():
    """Else it would be waiting in the group and before the head as well."""
    offsets = made([0] * 5)
    offsets.schedule(2, NOW + 1, 0)
    chosen = picker(offsets)
    assert spread(chosen.pick(2, 0)) == [0, 1]
    assert (chosen.delayed, chosen.heads[0]) == ([], 2)
    assert spread(chosen.pick(1, 1)) == [3]
    assert (chosen.delayed, chosen.heads[0]) == ([(2, NOW + 1, 0)], 4)


def test_a_lane_with_nothing_timely_is_passed_to_its_end():
    offsets = made([0] * 3)
    for offset in range(3):
        offsets.schedule(offset, NOW + 1, 0)
    chosen = picker(offsets)
    assert chosen.pick(5, 0) == []
    assert [offset for offset, _, _ in chosen.delayed] == [0, 1, 2]
    assert (chosen.heads[0], chosen.ahead) == (3, 0)


def test_a_returned_message_has_waited_but_may_be_over():
    offsets = made([0] * 4)
    offsets.schedule(0, NOW + 50, 0)
    offsets.schedule(1, 0, NOW)
    chosen = picker(offsets, heads=[3] * PRIORITIES, returned={0: [0, 1, 2]})
    assert spread(chosen.pick(2, 0)) == [0, 2]
    assert (chosen.delayed, chosen.expired) == ([], [1])


def test_one_deal_passes_so_many_and_the_next_goes_on(monkeypatch):
    monkeypatch.setattr(selection, "PASSED_MAX", 2)
    offsets = made([0] * 5)
    for offset in range(4):
        offsets.schedule(offset, NOW + 1, 0)
    first = picker(offsets)
    assert first.pick(1, 0) == []
    assert first.is_full
    assert (len(first.delayed), first.heads[0]) == (2, 2)
    second = picker(offsets, first.heads)
    assert second.pick(1, 0) == [(0, 4, 5)]


def test_when_enough_was_passed_what_is_timely_is_still_handed_out(monkeypatch):
    monkeypatch.setattr(selection, "PASSED_MAX", 1)
    offsets = made([7, 7, 0, 0])
    offsets.schedule(0, NOW + 1, 0)
    offsets.schedule(1, NOW + 1, 0)
    chosen = picker(offsets)
    assert spread(chosen.pick(9, 0)) == [2, 3]
    assert (chosen.delayed, chosen.heads[7]) == ([(0, NOW + 1, 7)], 1)


def test_returned_messages_wait_too_when_enough_was_passed(monkeypatch):
    """They may be over, and that could not be told any more."""
    monkeypatch.setattr(selection, "PASSED_MAX", 1)
    offsets = made([0] * 3)
    offsets.schedule(0, 0, NOW)
    offsets.schedule(1, 0, NOW)
    chosen = picker(offsets, heads=[2] * PRIORITIES, returned={0: [0, 1]})
    assert chosen.pick(1, 0) == []
    assert (chosen.expired, chosen.heads[0]) == ([0], 2)
