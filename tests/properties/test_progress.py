"""Progress against a plain set of offsets."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.core import progress
from penstock.core.progress import Progress

offsets = st.integers(0, 60)
ranges = st.tuples(offsets, st.integers(0, 12)).map(lambda pair: (pair[0], sum(pair)))


def acknowledged(result: Progress) -> set[int]:
    return {offset for offset in range(100) if offset in result}


def check_form(result: Progress) -> None:
    """Ranges ascend, are not empty, touch neither each other nor the mark."""
    previous = result.mark
    for start, end in result.ranges():
        assert previous < start < end
        previous = end


@given(st.lists(ranges))
def test_it_holds_what_was_added_and_nothing_else(added):
    result, model = Progress(), set()
    for start, end in added:
        assert result.add(start, end) == 0
        model.update(range(start, end))
        check_form(result)
        assert acknowledged(result) == model


@given(st.lists(ranges), offsets, offsets)
def test_what_is_missing_is_all_that_was_not_added(added, start, end):
    result, model = Progress(), set()
    for first, last in added:
        result.add(first, last)
        model.update(range(first, last))
    stretches = list(result.missing(start, end))
    assert stretches == sorted(stretches)
    missing = [offset for first, last in stretches for offset in range(first, last)]
    assert missing == [offset for offset in range(start, end) if offset not in model]


@given(st.lists(ranges), st.integers(1, 4))
def test_beyond_the_bound_the_oldest_hole_is_given_up_and_counted(added, bound):
    """What was acknowledged stays so; what is given up lies below everything that is missing."""
    before, progress.RANGES_MAX = progress.RANGES_MAX, bound
    try:
        result, model = Progress(), set()
        for start, end in added:
            model.update(range(start, end))
            given_up = result.add(start, end)
            check_form(result)
            assert len(result.starts) <= bound
            lost = acknowledged(result) - model
            assert given_up == len(lost)
            assert model <= acknowledged(result)
            assert all(offset < result.mark for offset in lost)
            model |= lost
    finally:
        progress.RANGES_MAX = before


@given(st.lists(ranges))
def test_mark_and_ranges_are_all_there_is_to_it(added):
    result = Progress()
    for start, end in added:
        result.add(start, end)
    again = Progress(result.mark, result.ranges())
    assert acknowledged(again) == acknowledged(result)
