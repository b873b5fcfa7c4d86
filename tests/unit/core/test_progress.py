"""What a durable subscriber has acknowledged: the mark, the ranges above it, and their bound."""

import pytest

from penstock.core import progress
from penstock.core.progress import RANGES_MAX, Progress


def made(*ranges: tuple[int, int]) -> Progress:
    result = Progress()
    for start, end in ranges:
        assert result.add(start, end) == 0
    return result


@pytest.mark.parametrize(
    ("added", "mark", "ranges"),
    [
        ([], 0, []),
        ([(0, 1)], 1, []),
        ([(0, 3), (3, 5)], 5, []),
        ([(1, 2)], 0, [(1, 2)]),
        ([(1, 2), (0, 1)], 2, []),
        ([(1, 2), (3, 4)], 0, [(1, 2), (3, 4)]),
        ([(3, 4), (1, 2)], 0, [(1, 2), (3, 4)]),
        ([(1, 2), (3, 4), (2, 3)], 0, [(1, 4)]),
        ([(1, 2), (3, 4), (0, 1)], 2, [(3, 4)]),
        ([(1, 2), (3, 4), (6, 7), (0, 6)], 7, []),
        ([(2, 9), (3, 4)], 0, [(2, 9)]),
        ([(3, 4), (2, 9)], 0, [(2, 9)]),
        ([(0, 5), (1, 3)], 5, []),
        ([(0, 5), (2, 8)], 8, []),
        ([(5, 5)], 0, []),
    ],
)
def test_ranges_join_and_the_mark_swallows_what_touches_it(added, mark, ranges):
    result = made(*added)
    assert (result.mark, result.ranges()) == (mark, ranges)


def test_membership_is_below_the_mark_or_within_a_range():
    result = made((0, 2), (4, 6))
    assert [offset for offset in range(8) if offset in result] == [0, 1, 4, 5]


@pytest.mark.parametrize(
    ("start", "end", "missing"),
    [
        (0, 10, [(2, 4), (6, 8), (9, 10)]),
        (3, 7, [(3, 4), (6, 7)]),
        (4, 6, []),
        (5, 9, [(6, 8)]),
        (0, 2, []),
        (9, 9, []),
        (20, 22, [(20, 22)]),
    ],
)
def test_what_is_missing_lies_between_the_ranges(start, end, missing):
    result = made((0, 2), (4, 6), (8, 9))
    assert list(result.missing(start, end)) == missing


def test_a_progress_is_made_again_from_its_mark_and_ranges():
    result = made((0, 2), (4, 6), (8, 9))
    again = Progress(result.mark, result.ranges())
    assert (again.mark, again.ranges()) == (2, [(4, 6), (8, 9)])


def test_at_the_bound_nothing_is_given_up_and_one_beyond_the_oldest_hole_is():
    result = Progress()
    for number in range(RANGES_MAX):
        assert result.add(number * 10 + 7, number * 10 + 8) == 0
    assert (result.mark, len(result.starts)) == (0, RANGES_MAX)
    assert result.add(RANGES_MAX * 10 + 7, RANGES_MAX * 10 + 8) == 7
    assert (result.mark, len(result.starts)) == (8, RANGES_MAX)
    assert 3 in result


def test_what_was_acknowledged_is_never_forgotten_for_the_bound(monkeypatch):
    monkeypatch.setattr(progress, "RANGES_MAX", 3)
    result = Progress()
    given_up = [result.add(start, start + 1) for start in (20, 10, 30, 5, 40)]
    assert given_up == [0, 0, 0, 5, 4]
    assert all(offset in result for offset in (5, 10, 20, 30, 40))
    assert list(result.missing(0, 50)) == [(11, 20), (21, 30), (31, 40), (41, 50)]
