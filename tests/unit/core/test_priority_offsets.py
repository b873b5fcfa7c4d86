"""Which offsets have which priority, where the next are, and what is known of their times."""

import tracemalloc
from random import Random

import pytest

from penstock.core.priority_offsets import PRIORITIES, OffsetsByPriority


def made(*priorities: int, start: int = 0) -> OffsetsByPriority:
    """Messages one by one, from ``start`` on."""
    topic = OffsetsByPriority(start)
    for offset, priority in enumerate(priorities, start):
        topic.extend(offset, 1, priority)
    return topic


def test_nothing_is_known_at_first():
    topic = OffsetsByPriority(7)
    assert (topic.start, topic.end) == (7, 7)
    assert [priority_offsets.next(0) for priority_offsets in topic.by_priority] == [
        None
    ] * PRIORITIES
    assert [priority_offsets.count(0) for priority_offsets in topic.by_priority] == [0] * PRIORITIES
    assert topic.by_priority[0].ranges(0, 10) == []


def test_each_lane_has_the_messages_of_its_priority():
    topic = made(0, 0, 0, 5, 5, 0, 5)
    assert topic.end == 7
    assert topic.by_priority[0].ranges(0, 10) == [(0, 3), (5, 6)]
    assert topic.by_priority[5].ranges(0, 10) == [(3, 5), (6, 7)]
    assert [topic.by_priority[priority].count(0) for priority in (0, 5, 7)] == [4, 3, 0]


@pytest.mark.parametrize(
    ("offset", "next_offset", "count"),
    [(0, 2, 5), (2, 2, 5), (3, 3, 4), (4, 4, 3), (5, 7, 2), (7, 7, 2), (8, 8, 1), (9, None, 0)],
)
def test_next_and_count_hold_at_every_place_of_a_range(offset, next_offset, count):
    topic = made(0, 0, 3, 3, 3, 0, 0, 3, 3, 0)
    assert topic.by_priority[3].next(offset) == next_offset
    assert topic.by_priority[3].count(offset) == count


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
    topic = made(0, 0, 3, 3, 3, 0, 0, 3, 3, 0)
    assert topic.by_priority[3].ranges(offset, count) == stretches


def test_a_gap_belongs_to_no_lane_and_parts_a_range():
    topic = OffsetsByPriority(0)
    topic.extend(0, 3, 0)
    topic.extend(5, 2, 0)
    assert topic.by_priority[0].ranges(0, 9) == [(0, 3), (5, 7)]
    assert topic.by_priority[0].count(0) == 5
    assert topic.by_priority[0].next(3) == 5


def test_messages_side_by_side_are_one_range_however_they_came():
    topic = OffsetsByPriority(0)
    for offset in range(0, 1000, 10):
        topic.extend(offset, 10, 0)
    assert topic.by_priority[0].ranges(0, 2000) == [(0, 1000)]


def test_no_messages_are_no_change():
    topic = OffsetsByPriority(0)
    topic.extend(5, 0, 3)
    assert topic.end == 0
    assert not any(topic.by_priority)


def test_lanes_do_not_grow_in_the_middle():
    with pytest.raises(AssertionError, match="at their end"):
        made(0, 0, 0).extend(2, 1, 0)


# ── times ─────────────────────────────────────────────────────────────────────────────────────


def test_times_are_known_by_offset_and_none_is_zero():
    topic = made(0, 3, 0, 3)
    topic.schedule(1, 500, 0)
    topic.schedule(2, 0, 900)
    lowest, third = topic.by_priority[0].schedule, topic.by_priority[3].schedule
    assert [third.times(offset) for offset in range(5)] == [(0, 0), (500, 0), *[(0, 0)] * 3]
    assert [lowest.times(offset) for offset in range(5)] == [*[(0, 0)] * 2, (0, 900), *[(0, 0)] * 2]


def test_times_may_come_in_any_order_and_the_last_word_counts():
    topic = made(0, 0, 0)
    for offset, due_ms in [(2, 20), (0, 5), (1, 10), (0, 6)]:
        topic.schedule(offset, due_ms, 0)
    schedule = topic.by_priority[0].schedule
    assert [schedule.times(offset)[0] for offset in range(3)] == [6, 10, 20]


def test_a_message_that_is_not_there_gets_no_time():
    topic = made(0)
    topic.schedule(4, 10, 10)
    topic.extend(4, 1, 0)
    assert not any(priority_offsets.schedule for priority_offsets in topic.by_priority)


@pytest.mark.parametrize(
    ("offset", "count", "found"), [(0, 2, None), (0, 3, 3), (4, 9, 5), (6, 9, None)]
)
def test_the_first_untimely_one_is_looked_for_among_so_many(offset, count, found):
    """At 100: 1 is over in a while, 2 is due since, 3 is early, 5 is over just now."""
    topic = made(0, 0, 0, 0, 0, 0, 0)
    for timed, due_ms, expires_ms in [(1, 0, 101), (2, 100, 0), (3, 101, 0), (5, 0, 100)]:
        topic.schedule(timed, due_ms, expires_ms)
    assert topic.by_priority[0].schedule.first_untimely(offset, count, now_ms=100) == found


# ── forgetting ────────────────────────────────────────────────────────────────────────────────


def test_what_is_forgotten_is_gone_and_the_rest_stays():
    topic = made(0, 0, 3, 3, 3, 0, 0, 3, 3, 0)
    topic.forget(4)
    assert (topic.start, topic.end) == (4, 10)
    assert topic.by_priority[3].ranges(0, 9) == [(4, 5), (7, 9)]
    assert topic.by_priority[0].ranges(0, 9) == [(5, 7), (9, 10)]
    assert (topic.by_priority[3].next(0), topic.by_priority[3].count(0)) == (4, 3)


def test_forgetting_less_than_before_changes_nothing():
    topic = made(0, 0, 0, 0)
    topic.forget(3)
    topic.forget(1)
    assert topic.start == 3
    assert topic.by_priority[0].count(0) == 1


def test_forgetting_beyond_the_end_moves_the_end():
    topic = made(0, 0)
    topic.forget(9)
    assert (topic.start, topic.end) == (9, 9)
    topic.extend(9, 1, 0)
    assert topic.by_priority[0].ranges(0, 9) == [(9, 10)]


def test_a_lane_that_was_forgotten_whole_begins_anew():
    topic = made(0, 0)
    topic.forget(2)
    topic.extend(2, 2, 0)
    assert topic.by_priority[0].ranges(0, 9) == [(2, 4)]
    assert topic.by_priority[0].count(0) == 2


def test_what_is_forgotten_leaves_nothing_in_its_lane_nor_in_the_schedule():
    """Dispatch skips priorities, and schedules, that are empty."""
    topic = made(7, 0, 0, 0)
    topic.schedule(1, 10, 0)
    lowest, *others = topic.by_priority
    topic.forget(1)
    assert not any(others)
    assert lowest.schedule
    topic.forget(2)
    assert not lowest.schedule
    assert lowest.schedule.times(1) == (0, 0)


def test_a_million_random_priorities_fit_in_thirty_megabytes():
    """A tenth of that, in a tenth of the memory; it is in columns, so it grows in proportion."""
    priorities = Random(1).choices(range(PRIORITIES), k=100_000)
    tracemalloc.start()
    try:
        topic = made(*priorities)
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert topic.end == 100_000
    assert used < 3_000_000


def test_memory_follows_what_is_left_after_forgetting():
    """A topic that is consumed as it grows does not keep what went by."""
    topic = OffsetsByPriority(0)
    for offset in range(20_000):
        topic.extend(offset, 1, offset % 2)
        topic.schedule(offset, 1, 0)
        topic.forget(offset - 50)
    columns = [
        column
        for priority_offsets in topic.by_priority[:2]
        for column in (
            priority_offsets._starts,
            priority_offsets._ranks,
            priority_offsets.schedule._offsets,
            priority_offsets.schedule._due,
        )
    ]
    assert max(map(len, columns)) < 120
