"""Lanes: which offsets have which priority, where the next are, and what is known of their times."""

import tracemalloc
from random import Random

import pytest

from penstock.core.priority_offsets import PRIORITIES, OffsetsByPriority


def made(*priorities: int, start: int = 0) -> OffsetsByPriority:
    """Messages one by one, from ``start`` on."""
    lanes = OffsetsByPriority(start)
    for offset, priority in enumerate(priorities, start):
        lanes.extend(offset, 1, priority)
    return lanes


def test_nothing_is_known_at_first():
    lanes = OffsetsByPriority(7)
    assert (lanes.start, lanes.end) == (7, 7)
    assert [lane.next(0) for lane in lanes.by_priority] == [None] * PRIORITIES
    assert [lane.count(0) for lane in lanes.by_priority] == [0] * PRIORITIES
    assert lanes.by_priority[0].ranges(0, 10) == []


def test_each_lane_has_the_messages_of_its_priority():
    lanes = made(0, 0, 0, 5, 5, 0, 5)
    assert lanes.end == 7
    assert lanes.by_priority[0].ranges(0, 10) == [(0, 3), (5, 6)]
    assert lanes.by_priority[5].ranges(0, 10) == [(3, 5), (6, 7)]
    assert [lanes.by_priority[priority].count(0) for priority in (0, 5, 7)] == [4, 3, 0]


@pytest.mark.parametrize(
    ("offset", "next_offset", "count"),
    [(0, 2, 5), (2, 2, 5), (3, 3, 4), (4, 4, 3), (5, 7, 2), (7, 7, 2), (8, 8, 1), (9, None, 0)],
)
def test_next_and_count_hold_at_every_place_of_a_range(offset, next_offset, count):
    lanes = made(0, 0, 3, 3, 3, 0, 0, 3, 3, 0)
    assert lanes.by_priority[3].next(offset) == next_offset
    assert lanes.by_priority[3].count(offset) == count


@pytest.mark.parametrize(
    ("offset", "count", "stretches"),
    [
        (0, 0, []),
        (0, 1, [(2, 3)]),
        (3, 1, [(3, 4)]),
        (0, 3, [(2, 5)]),
        (3, 3, [(3, 5), (7, 8)]),
        (3, 4, [(3, 5), (7, 9)]),
        (5, 9, [(7, 9)]),
        (9, 1, []),
        (50, 1, []),
    ],
)
def test_stretches_begin_and_end_in_the_middle_of_ranges(offset, count, stretches):
    lanes = made(0, 0, 3, 3, 3, 0, 0, 3, 3, 0)
    assert lanes.by_priority[3].ranges(offset, count) == stretches


def test_a_gap_belongs_to_no_lane_and_parts_a_range():
    lanes = OffsetsByPriority(0)
    lanes.extend(0, 3, 0)
    lanes.extend(5, 2, 0)
    assert lanes.by_priority[0].ranges(0, 9) == [(0, 3), (5, 7)]
    assert lanes.by_priority[0].count(0) == 5
    assert lanes.by_priority[0].next(3) == 5


def test_messages_side_by_side_are_one_range_however_they_came():
    lanes = OffsetsByPriority(0)
    for offset in range(0, 1000, 10):
        lanes.extend(offset, 10, 0)
    assert lanes.by_priority[0].ranges(0, 2000) == [(0, 1000)]


def test_no_messages_are_no_change():
    lanes = OffsetsByPriority(0)
    lanes.extend(5, 0, 3)
    assert lanes.end == 0
    assert not any(lanes.by_priority)


def test_lanes_do_not_grow_in_the_middle():
    with pytest.raises(AssertionError, match="at their end"):
        made(0, 0, 0).extend(2, 1, 0)


# ── times ─────────────────────────────────────────────────────────────────────────────────────


def test_times_are_known_by_offset_and_none_is_zero():
    lanes = made(0, 3, 0, 3)
    lanes.schedule(1, 500, 0)
    lanes.schedule(2, 0, 900)
    lowest, third = lanes.by_priority[0].schedule, lanes.by_priority[3].schedule
    assert [third.times(offset) for offset in range(5)] == [(0, 0), (500, 0), *[(0, 0)] * 3]
    assert [lowest.times(offset) for offset in range(5)] == [*[(0, 0)] * 2, (0, 900), *[(0, 0)] * 2]


def test_times_may_come_in_any_order_and_the_last_word_counts():
    lanes = made(0, 0, 0)
    for offset, due_ms in [(2, 20), (0, 5), (1, 10), (0, 6)]:
        lanes.schedule(offset, due_ms, 0)
    schedule = lanes.by_priority[0].schedule
    assert [schedule.times(offset)[0] for offset in range(3)] == [6, 10, 20]


def test_a_message_that_is_not_there_gets_no_time():
    lanes = made(0)
    lanes.schedule(4, 10, 10)
    lanes.extend(4, 1, 0)
    assert not any(lane.schedule for lane in lanes.by_priority)


@pytest.mark.parametrize(
    ("offset", "count", "found"), [(0, 2, None), (0, 3, 3), (4, 9, 5), (6, 9, None)]
)
def test_the_first_untimely_one_is_looked_for_among_so_many(offset, count, found):
    """At 100: 1 is over in a while, 2 is due since, 3 is early, 5 is over just now."""
    lanes = made(0, 0, 0, 0, 0, 0, 0)
    for timed, due_ms, expires_ms in [(1, 0, 101), (2, 100, 0), (3, 101, 0), (5, 0, 100)]:
        lanes.schedule(timed, due_ms, expires_ms)
    assert lanes.by_priority[0].schedule.first_untimely(offset, count, now_ms=100) == found


# ── forgetting ────────────────────────────────────────────────────────────────────────────────


def test_what_is_forgotten_is_gone_and_the_rest_stays():
    lanes = made(0, 0, 3, 3, 3, 0, 0, 3, 3, 0)
    lanes.forget(4)
    assert (lanes.start, lanes.end) == (4, 10)
    assert lanes.by_priority[3].ranges(0, 9) == [(4, 5), (7, 9)]
    assert lanes.by_priority[0].ranges(0, 9) == [(5, 7), (9, 10)]
    assert (lanes.by_priority[3].next(0), lanes.by_priority[3].count(0)) == (4, 3)


def test_forgetting_less_than_before_changes_nothing():
    lanes = made(0, 0, 0, 0)
    lanes.forget(3)
    lanes.forget(1)
    assert lanes.start == 3
    assert lanes.by_priority[0].count(0) == 1


def test_forgetting_beyond_the_end_moves_the_end():
    lanes = made(0, 0)
    lanes.forget(9)
    assert (lanes.start, lanes.end) == (9, 9)
    lanes.extend(9, 1, 0)
    assert lanes.by_priority[0].ranges(0, 9) == [(9, 10)]


def test_a_lane_that_was_forgotten_whole_begins_anew():
    lanes = made(0, 0)
    lanes.forget(2)
    lanes.extend(2, 2, 0)
    assert lanes.by_priority[0].ranges(0, 9) == [(2, 4)]
    assert lanes.by_priority[0].count(0) == 2


def test_what_is_forgotten_leaves_nothing_in_its_lane_nor_in_the_schedule():
    """Dispatch skips priorities, and schedules, that are empty."""
    lanes = made(7, 0, 0, 0)
    lanes.schedule(1, 10, 0)
    lowest, *others = lanes.by_priority
    lanes.forget(1)
    assert not any(others)
    assert lowest.schedule
    lanes.forget(2)
    assert not lowest.schedule
    assert lowest.schedule.times(1) == (0, 0)


def test_a_million_random_priorities_fit_in_thirty_megabytes():
    """A tenth of that, in a tenth of the memory; it is in columns, so it grows in proportion."""
    priorities = Random(1).choices(range(PRIORITIES), k=100_000)
    tracemalloc.start()
    try:
        lanes = made(*priorities)
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert lanes.end == 100_000
    assert used < 3_000_000


def test_memory_follows_what_is_left_after_forgetting():
    """A topic that is consumed as it grows does not keep what went by."""
    lanes = OffsetsByPriority(0)
    for offset in range(20_000):
        lanes.extend(offset, 1, offset % 2)
        lanes.schedule(offset, 1, 0)
        lanes.forget(offset - 50)
    columns = [
        column
        for lane in lanes.by_priority[:2]
        for column in (lane._starts, lane._ranks, lane.schedule._offsets, lane.schedule._due)
    ]
    assert max(map(len, columns)) < 120
