"""Unacked messages against a dict from sequence to position; ranges against plain numbers."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from penstock.dispatch.unacked import Unacked, ranges_of

stretches = st.tuples(st.integers(0, 40), st.integers(1, 8))
"""First sequence and count. The position of a message follows from its sequence."""
acknowledgements = st.tuples(st.integers(0, 50), st.integers(1, 20))
steps = st.lists(
    st.one_of(st.tuples(st.just("send"), stretches), st.tuples(st.just("settle"), acknowledgements))
)


@given(steps)
def test_it_knows_exactly_what_was_sent_and_not_acknowledged_since(script):
    unacked, model = Unacked(), {}
    for verb, (first, count) in script:
        sequences = range(first, first + count)
        if verb == "send":
            unacked.add(b"t", first, first + 100, count)
            model.update((sequence, sequence + 100) for sequence in sequences)
            continue
        places, unknown = unacked.settle(first, first + count)
        found = [offset for place in places for offset in range(place.start, place.end)]
        assert found == [model.pop(sequence) for sequence in sequences if sequence in model]
        strangers = [number for start, end in unknown for number in range(start, end)]
        assert sorted(strangers + [offset - 100 for offset in found]) == list(sequences)
    assert (len(unacked) == 0) == (not model)


@given(st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 30), min_size=1))
def test_ranges_are_the_numbers_and_no_two_touch(numbers):
    ranges = ranges_of(numbers)
    assert all(start < end for start, end in ranges)
    assert all(end < start for (_, end), (start, _) in pairwise(ranges))
    distinct = set(numbers)
    assert sum(end - start for start, end in ranges) == len(distinct)
    assert all(any(start <= number < end for start, end in ranges) for number in distinct)
