"""Durable subscribers: acknowledgements by topic, rows of the checkpoint, replay, forgetting."""

import pytest

from penstock.core.commands import Forgotten, Progressed
from penstock.core.subscribers import Subscribers


class Bench:
    """Subscribers, and one line per entry of the journal."""

    def __init__(self) -> None:
        self.subscribers = Subscribers()
        self.index = 0

    def progress(self, name, topic, *ranges, now_ms=1_000, recovering=False):
        self.index += 1
        command = Progressed(name, topic, list(ranges), now_ms)
        return self.subscribers.progressed(command, self.index, recovering=recovering)

    def forget(self, name, seen_ms):
        self.index += 1
        self.subscribers.forgotten(Forgotten(name, seen_ms), self.index, recovering=False)

    def left(self, name, topic, end=10):
        known = self.subscribers.progress(name, topic)
        return list(range(end)) if known is None else [n for n in range(end) if n not in known]


@pytest.fixture
def bench():
    return Bench()


def test_clients_and_topics_are_kept_apart(bench):
    bench.progress(b"ann", b"a", (0, 3))
    bench.progress(b"ann", b"b", (5, 7))
    bench.progress(b"bob", b"a", (9, 10))
    assert bench.left(b"ann", b"a") == [3, 4, 5, 6, 7, 8, 9]
    assert bench.left(b"ann", b"b") == [0, 1, 2, 3, 4, 7, 8, 9]
    assert bench.left(b"bob", b"a") == list(range(9))
    assert bench.subscribers.progress(b"bob", b"b") is None
    assert bench.subscribers.progress(b"cyd", b"a") is None
    assert [bench.subscribers.topic_count(name) for name in (b"ann", b"bob", b"cyd")] == [2, 1, 0]


def test_a_row_holds_all_that_there_is(bench):
    bench.progress(b"ann", b"a", (0, 3), (5, 6), now_ms=77)
    bench.progress(b"ann", b"b", (1, 2), now_ms=78)
    again = Bench()
    again.subscribers.load(bench.subscribers.row(b"ann", bench.index))
    assert again.left(b"ann", b"a") == bench.left(b"ann", b"a")
    assert again.left(b"ann", b"b") == bench.left(b"ann", b"b")
    assert again.subscribers.by_id[b"ann"].seen_ms == 78


def test_who_is_not_known_has_no_row(bench):
    assert bench.subscribers.row(b"ann", 1) is None


def test_replay_skips_what_the_row_contains_and_takes_what_came_after(bench):
    bench.progress(b"ann", b"a", (0, 1))
    bench.progress(b"ann", b"a", (1, 2))
    row = bench.subscribers.row(b"ann", 2)
    again = Bench()
    again.subscribers.load(row)
    contained = again.subscribers.by_id[b"ann"]
    again.progress(b"ann", b"x", (0, 1), recovering=True)
    again.progress(b"ann", b"x", (0, 1), recovering=True)
    assert set(contained.progress) == {b"a"}
    again.progress(b"ann", b"x", (0, 1), recovering=True)
    assert set(contained.progress) == {b"a", b"x"}


def test_changes_are_noted_for_the_checkpoint(bench):
    bench.progress(b"ann", b"a", (0, 1))
    assert list(bench.subscribers.dirty) == [b"ann"]
    bench.subscribers.dirty.clear()
    bench.forget(b"ann", 1_000)
    assert list(bench.subscribers.dirty) == [b"ann"]
    assert bench.subscribers.row(b"ann", 9) is None


def test_who_was_seen_again_is_not_forgotten(bench):
    bench.progress(b"ann", b"a", (0, 1), now_ms=1_000)
    bench.progress(b"ann", b"", now_ms=2_000)  # only seen
    bench.forget(b"ann", 1_000)
    assert bench.left(b"ann", b"a") == list(range(1, 10))
    bench.forget(b"ann", 2_000)
    assert bench.left(b"ann", b"a") == list(range(10))


def test_who_was_only_seen_has_acknowledged_nothing(bench):
    bench.progress(b"ann", b"")
    assert bench.subscribers.topic_count(b"ann") == 0


def test_forgetting_a_stranger_changes_nothing(bench):
    bench.forget(b"ann", 1)
    assert not bench.subscribers.dirty


def test_they_stand_in_the_order_in_which_they_were_seen(bench):
    for name, now_ms in ((b"ann", 10), (b"bob", 20), (b"cyd", 30), (b"ann", 40)):
        bench.progress(name, b"a", (0, 1), now_ms=now_ms)
    assert list(bench.subscribers.by_id) == [b"bob", b"cyd", b"ann"]
    again = Bench()
    for name in (b"ann", b"cyd", b"bob"):
        again.subscribers.load(bench.subscribers.row(name, bench.index))
    again.subscribers.settle()
    assert list(again.subscribers.by_id) == [b"bob", b"cyd", b"ann"]


def test_what_the_bound_gives_up_is_told(bench, monkeypatch):
    monkeypatch.setattr("penstock.core.progress.RANGES_MAX", 1)
    assert bench.progress(b"ann", b"a", (5, 6)) == 0
    assert bench.progress(b"ann", b"a", (9, 10)) == 5


def test_of_a_topic_that_several_read_the_slowest_says_what_is_done(bench):
    assert bench.subscribers.oldest_unacknowledged(b"a") is None
    bench.progress(b"ann", b"a", (0, 7))
    bench.progress(b"bob", b"a", (0, 3), (5, 6), now_ms=2_000)
    bench.progress(b"bob", b"b", (0, 1), now_ms=2_000)
    assert bench.subscribers.oldest_unacknowledged(b"a") == 3
    again = Bench()
    for name in (b"ann", b"bob"):
        again.subscribers.load(bench.subscribers.row(name, bench.index))
    assert again.subscribers.oldest_unacknowledged(b"a") == 3
    bench.forget(b"bob", 2_000)
    assert bench.subscribers.oldest_unacknowledged(b"a") == 7
    assert bench.subscribers.oldest_unacknowledged(b"b") is None
    bench.subscribers.forget_topic(b"a", bench.index, recovering=False)
    assert bench.subscribers.oldest_unacknowledged(b"a") is None
