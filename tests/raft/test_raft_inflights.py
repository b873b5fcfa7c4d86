"""The window of a follower: bounded by messages and by bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.raft.inflights import Inflights


def window(count_max, *sizes, bytes_max=0):
    inflights = Inflights(count_max, bytes_max)
    for index, size in enumerate(sizes, 1):
        inflights.add(index, size)
    return inflights


def test_messages_are_counted_until_the_window_is_full():
    inflights = window(3, 10, 10)
    assert (inflights.count, inflights.full()) == (2, False)
    inflights.add(3, 10)
    assert (inflights.count, inflights.full()) == (3, True)


def test_bytes_fill_the_window_and_the_last_message_may_overstep():
    inflights = window(9, 60, bytes_max=100)
    assert not inflights.full()
    inflights.add(2, 500)
    assert (inflights.full(), inflights.bytes) == (True, 560)


def test_a_message_that_just_reaches_the_bytes_fills_the_window():
    assert window(9, 100, bytes_max=100).full()


def test_without_a_bound_in_bytes_only_messages_count():
    assert not window(2, 1 << 40).full()


def test_a_full_window_takes_nothing_more():
    with pytest.raises(AssertionError, match="full"):
        window(1, 1, 1)


def test_an_acknowledgement_frees_all_up_to_it_and_nothing_behind():
    inflights = window(4, 1, 2, 4, 8)
    inflights.free_le(0)
    assert inflights.count == 4
    inflights.free_le(2)
    assert (inflights.count, inflights.bytes) == (2, 12)
    inflights.free_le(9)
    assert (inflights.count, inflights.bytes) == (0, 0)


def test_reset_forgets_messages_and_bytes():
    inflights = window(2, 50, 50, bytes_max=100)
    inflights.reset()
    assert (inflights.count, inflights.bytes, inflights.full()) == (0, 0, False)


@given(st.lists(st.one_of(st.tuples(st.just("add"), st.integers(0, 40)),
                          st.tuples(st.just("free"), st.integers(0, 30)))))  # fmt: skip
def test_it_counts_as_a_list_would(operations):
    inflights, model, index = Inflights(5, 100), [], 0
    for operation, number in operations:
        if operation == "free":
            inflights.free_le(number)
            model = [(at, size) for at, size in model if at > number]
        elif not inflights.full():
            index += 1
            inflights.add(index, number)
            model.append((index, number))
        total = sum(size for _, size in model)
        assert (inflights.count, inflights.bytes) == (len(model), total)
        assert inflights.full() is (len(model) >= 5 or total >= 100)
