"""Answers leave in the order of the questions."""

from types import SimpleNamespace

import pytest

from penstock.doors.resp.replies import ReplyQueue


class Bench:
    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.answered = 0
        self.replies = ReplyQueue(self.sent.append, self._count)

    def _count(self) -> None:
        self.answered += 1

    def open(self):
        place = SimpleNamespace(answer=None)
        self.replies.open(place)
        return place


def test_an_answer_that_is_ready_early_waits_for_those_before_it():
    bench = Bench()
    first, second, third = bench.open(), bench.open(), bench.open()
    bench.replies.fill(third, b"3")
    bench.replies.fill(second, b"2")
    assert bench.sent == []
    assert bench.replies.is_waiting
    bench.replies.fill(first, b"1")
    assert bench.sent == [b"1", b"2", b"3"]
    assert not bench.replies.is_waiting
    assert bench.answered == 1


def test_it_is_told_when_nobody_waits_and_not_before():
    bench = Bench()
    first, second = bench.open(), bench.open()
    bench.replies.fill(first, b"1")
    assert bench.sent == [b"1"]
    assert bench.answered == 0
    bench.replies.fill(second, b"")
    assert bench.answered == 1


def test_a_call_is_answered_once():
    bench = Bench()
    place = bench.open()
    bench.replies.fill(place, b"1")
    with pytest.raises(AssertionError, match="twice"):
        bench.replies.fill(place, b"2")
