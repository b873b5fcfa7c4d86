"""What was sent and may be acknowledged: from sequences to acked in topics."""

import pytest

from penstock.dispatch import unacked
from penstock.dispatch.unacked import AckedRange, Unacked, ranges_of


def sent(*ranges):
    result = Unacked()
    for topic, sequence, offset, count in ranges:
        result.add(topic, sequence, offset, count)
    return result


def test_an_acknowledgement_is_found_and_then_no_more():
    result = sent((b"t", 10, 0, 5))
    assert result.settle(12, 13) == ([AckedRange(b"t", 2, 3)], [])
    assert result.settle(12, 13) == ([], [(12, 13)])
    assert result.settle(10, 15) == ([AckedRange(b"t", 0, 2), AckedRange(b"t", 3, 5)], [(12, 13)])
    assert len(result) == 0


def test_what_lies_around_is_not_known():
    result = sent((b"t", 10, 0, 2), (b"u", 14, 7, 2))
    acked, unknown = result.settle(8, 18)
    assert acked == [AckedRange(b"t", 0, 2), AckedRange(b"u", 7, 9)]
    assert unknown == [(8, 10), (12, 14), (16, 18)]


@pytest.mark.parametrize("sequence", [0, 9, 15, 2**64 - 1])
def test_what_was_not_sent_is_not_known(sequence):
    result = sent((b"t", 10, 0, 5))
    assert result.settle(sequence, sequence + 1) == ([], [(sequence, sequence + 1)])
    assert len(result) == 1


def test_history_sent_behind_newer_messages_is_found_too():
    result = sent((b"new", 100, 0, 3), (b"old", 10, 0, 3), (b"between", 50, 5, 1))
    assert result.settle(11, 12) == ([AckedRange(b"old", 1, 2)], [])
    assert result.settle(50, 51) == ([AckedRange(b"between", 5, 6)], [])
    assert result.settle(102, 103) == ([AckedRange(b"new", 2, 3)], [])


def test_what_is_sent_again_is_owed_once():
    """Otherwise the second copy of what was acknowledged would be kept forever."""
    result = sent((b"t", 10, 0, 5), (b"t", 20, 5, 5))
    result.settle(12, 13)
    for _ in range(3):
        result.add(b"t", 10, 0, 2)
        result.add(b"t", 13, 3, 2)
        result.add(b"t", 20, 5, 5)
    acked, unknown = result.settle(10, 25)
    assert acked == [AckedRange(b"t", 0, 2), AckedRange(b"t", 3, 5), AckedRange(b"t", 5, 10)]
    assert unknown == [(12, 13), (15, 20)]
    assert len(result) == 0


def test_beyond_the_bound_the_oldest_are_not_known_any_more(monkeypatch):
    monkeypatch.setattr(unacked, "RANGES_MAX", 64)
    result = Unacked()
    for number in range(1_000):
        result.add(b"t", number * 2, number, 1)
        assert len(result) <= 64
    assert result.settle(0, 1) == ([], [(0, 1)])
    assert result.settle(1_998, 1_999) == ([AckedRange(b"t", 999, 1_000)], [])


def test_acknowledging_every_other_message_does_not_break_the_bound(monkeypatch):
    monkeypatch.setattr(unacked, "RANGES_MAX", 64)
    result = sent((b"t", 1, 0, 1_000))
    for sequence in range(1, 1_000, 2):
        assert result.settle(sequence, sequence + 1) == (
            [AckedRange(b"t", sequence - 1, sequence)],
            [],
        )
        assert len(result) <= 64
    assert result.settle(2, 3) == ([], [(2, 3)])
    assert result.settle(1_000, 1_001) == ([AckedRange(b"t", 999, 1_000)], [])


@pytest.mark.parametrize(
    ("numbers", "ranges"),
    [
        ([5], [(5, 6)]),
        ([1, 2, 3], [(1, 4)]),
        ([3, 1, 2, 2], [(1, 4)]),
        ([1, 3, 4, 9], [(1, 2), (3, 5), (9, 10)]),
        ([9, 1], [(1, 2), (9, 10)]),
        ([0, 2**64 - 1], [(0, 1), (2**64 - 1, 2**64)]),
    ],
)
def test_numbers_become_ranges_ascending_each_once(numbers, ranges):
    assert ranges_of(numbers) == ranges
