"""Deadlines by the bucket, against the naive list of who is due when."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.net.timers import Deadlines

BUCKET_S = 0.05


class Timed:
    """Notes when it was asked; answers with the deadlines it was given, one after another."""

    def __init__(self, *again: float | None) -> None:
        self.asked: list[float] = []
        self._again = list(again)

    def overdue(self, now: float) -> float | None:
        self.asked.append(now)
        return self._again.pop(0) if self._again else None


def test_nobody_is_asked_before_the_moment_and_everybody_soon_after():
    deadlines, early, late = Deadlines(), Timed(), Timed()
    deadlines.add(late, 20.0)
    deadlines.add(early, 10.0)
    deadlines.turn(9.99)
    assert not early.asked
    deadlines.turn(10.0 + BUCKET_S)
    assert len(early.asked) == 1
    assert not late.asked
    deadlines.turn(100.0)
    deadlines.turn(200.0)
    assert (len(early.asked), len(late.asked)) == (1, 1)


def test_one_whose_deadline_moved_is_filed_again():
    deadlines, timed = Deadlines(), Timed(30.0, None)
    deadlines.add(timed, 10.0)
    deadlines.turn(11.0)
    deadlines.turn(29.0)
    assert timed.asked == [11.0]
    deadlines.turn(31.0)
    assert timed.asked == [11.0, 31.0]


def test_one_that_asks_for_the_past_is_asked_at_the_next_turn_and_not_for_ever_in_this_one():
    deadlines, timed = Deadlines(), Timed(0.0, 0.0, 0.0)
    deadlines.add(timed, 1.0)
    deadlines.turn(5.0)
    assert timed.asked == [5.0]
    deadlines.turn(5.0)
    assert timed.asked == [5.0, 5.0]


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("add"), st.integers(0, 40)),
            st.tuples(st.just("turn"), st.integers(0, 8)),
        )
    )
)
def test_everyone_is_asked_once_never_early_and_at_most_a_bucket_late(steps):
    """Moments are in eighths of a second, so that they fall in and between buckets."""
    deadlines, now = Deadlines(), 0.0
    waiting: list[tuple[float, Timed]] = []
    for action, eighths in steps:
        if action == "add":
            timed = Timed()
            waiting.append((eighths / 8, timed))
            deadlines.add(timed, eighths / 8)
            continue
        now += eighths / 8
        deadlines.turn(now)
        for when, timed in waiting:
            if timed.asked:
                assert when <= timed.asked[0]
            else:
                assert when > now - BUCKET_S
            assert len(timed.asked) <= 1
