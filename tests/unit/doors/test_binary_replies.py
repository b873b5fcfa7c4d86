"""The order of replies where the disk has a say: counts in, bytes out."""

import pytest

from penstock.doors.binary.replies import OrderedReplies
from penstock.wire.binary import BinaryClientMachine, encode
from penstock.wire.binary.events import Acked, BinaryPong

PONG = encode.pongs(1)


class Bench:
    """Replies, and what became of them in plain words."""

    def __init__(self) -> None:
        self.sent = b""
        self.calls: list[str] = []
        self.replies = OrderedReplies(
            self._send, lambda: self.calls.append("hurry"), lambda: self.calls.append("emptied")
        )

    def _send(self, data: bytes) -> None:
        self.sent += data

    def told(self) -> list[int | str]:
        """Everything so far: sequences of ACKs, "pong"."""
        told: list[int | str] = []
        for event in BinaryClientMachine().receive(self.sent):
            match event:
                case Acked(sequences):
                    told += sequences
                case BinaryPong():
                    told.append("pong")
        return told


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_with_nothing_before_it_a_reply_leaves_at_once(bench):
    bench.replies.answer(PONG)
    assert bench.told() == ["pong"]
    assert bench.calls == []


def test_a_reply_waits_for_the_publishes_before_it(bench):
    bench.replies.await_publishes(2)
    bench.replies.answer(PONG)
    bench.replies.published([7])
    assert bench.told() == [7]
    assert len(bench.replies) == 1
    bench.replies.published([8])
    assert bench.told() == [7, 8, "pong"]
    assert len(bench.replies) == 0


def test_publishes_stored_together_are_told_apart_by_the_replies_between_them(bench):
    for _ in range(3):
        bench.replies.await_publishes(1)
        bench.replies.answer(PONG)
    bench.replies.await_publishes(2)
    bench.replies.published([1, 2, 3, 4, 5])
    assert bench.told() == [1, "pong", 2, "pong", 3, "pong", 4, 5]


def test_a_reply_waits_for_the_acknowledgements_before_it_and_not_for_later_ones(bench):
    bench.replies.await_acknowledgement()
    bench.replies.await_acknowledgement()
    bench.replies.answer(PONG)
    bench.replies.await_acknowledgement()
    bench.replies.acknowledged()
    assert bench.told() == []
    bench.replies.acknowledged()
    assert bench.told() == ["pong"]


def test_a_reply_waits_for_both_kinds(bench):
    bench.replies.await_publishes(1)
    bench.replies.await_acknowledgement()
    bench.replies.answer(PONG)
    bench.replies.published([1])
    assert bench.told() == [1]
    bench.replies.acknowledged()
    assert bench.told() == [1, "pong"]


def test_a_publish_does_not_overtake_the_reply_in_front_of_it(bench):
    """The pipeline keeps the order; if it did not, an error is better than a wrong answer."""
    bench.replies.await_acknowledgement()
    bench.replies.answer(PONG)
    bench.replies.await_publishes(1)
    with pytest.raises(AssertionError, match="in front of it"):
        bench.replies.published([1])
    assert bench.told() == []


def test_the_disk_is_hurried_for_replies_and_for_nothing_else(bench):
    bench.replies.await_publishes(1)
    bench.replies.await_acknowledgement()
    assert bench.calls == []
    bench.replies.answer(PONG)
    assert bench.calls == ["hurry"]


def test_it_is_told_when_no_reply_waits_any_more_and_not_before(bench):
    bench.replies.await_publishes(1)
    bench.replies.answer(PONG)
    bench.replies.await_publishes(1)
    bench.replies.answer(PONG)
    bench.replies.published([1])
    assert "emptied" not in bench.calls
    bench.replies.published([2])
    assert bench.calls.count("emptied") == 1


def test_the_last_reply_is_followed_by_the_end(bench):
    bench.replies.answer_last(PONG, lambda: bench.calls.append(f"end after {bench.told()}"))
    assert bench.calls == ["end after ['pong']"]


def test_the_end_waits_for_all_replies_and_nobody_is_told_to_go_on(bench):
    bench.replies.await_publishes(1)
    bench.replies.answer_last(PONG, lambda: bench.calls.append(f"end after {bench.told()}"))
    assert bench.calls == ["hurry"]
    bench.replies.published([1])
    assert bench.calls == ["hurry", "end after [1, 'pong']"]


def test_replies_that_nobody_waits_for_are_not_sent(bench):
    bench.replies.await_publishes(1)
    bench.replies.answer(PONG)
    bench.replies.clear()
    bench.replies.published([1])
    assert bench.told() == [1]
    assert "emptied" not in bench.calls
