"""The feed: followers get each message once, in ranges; watchers are only notified."""

import pytest

from penstock.commit.feed import CommittedMessages, Feed, shifted
from penstock.model.message import Extras
from penstock.store.batch import Batch
from penstock.store.memory import MemoryStore

HEADERS = Extras(headers=((b"k", b"v"),))


class Bench:
    """A feed on a store; ``told`` is what each named follower has received."""

    def __init__(self) -> None:
        self.feed = Feed()
        self.store = MemoryStore()
        self.told: list[tuple[str, CommittedMessages]] = []
        self._followers = {}

    def follower(self, name):
        return self._followers.setdefault(name, lambda part: self.told.append((name, part)))

    def follow(self, name, topic_filter):
        self.feed.follow(topic_filter, self.follower(name))

    def commit(self, *runs, extras=None):
        """Commit runs: a topic and its payloads each."""
        batch = Batch()
        for topic, *payloads in runs:
            batch.append(topic, payloads, 1_000, 1, extras)
        self.feed.committed(batch, self.store.commit(batch))

    def heard(self):
        """Received messages: name, topic, sequence, offset, payload."""
        heard = [
            (name, part.topic, stretch.sequence + number, stretch.offset + number, payload)
            for name, part in self.told
            for stretch in part.stretches()
            for number, payload in enumerate(stretch.payloads)
        ]
        self.told.clear()
        return heard


@pytest.fixture
def bench():
    return Bench()


def test_a_follower_is_told_the_sequence_and_offset_of_each_message(bench):
    bench.follow("f", b"a")
    bench.commit((b"x", b"0"), (b"a", b"1", b"2"), (b"x", b"3"), (b"a", b"4"))
    bench.commit((b"a", b"5"))
    assert bench.heard() == [
        ("f", b"a", 2, 0, b"1"),
        ("f", b"a", 3, 1, b"2"),
        ("f", b"a", 5, 2, b"4"),
        ("f", b"a", 6, 3, b"5"),
    ]


@pytest.mark.parametrize("skipped", range(7))
def test_stretches_begin_where_they_are_asked_to(bench, skipped):
    bench.follow("f", b"a")
    bench.commit((b"a", b"0", b"1"), (b"x", b"-"), (b"a", b"2"), (b"x", b"-"), (b"a", b"3", b"4"))
    ((_, part),) = bench.told
    found = [
        (stretch.offset + number, stretch.sequence + number, payload)
        for stretch in part.stretches(skipped)
        for number, payload in enumerate(stretch.payloads)
    ]
    everything = [(0, 1, b"0"), (1, 2, b"1"), (2, 4, b"2"), (3, 6, b"3"), (4, 7, b"4")]
    assert found == everything[skipped:]


def test_a_follower_by_several_filters_is_told_once(bench):
    for topic_filter in (b"a/b", b"a/#", b"+/b", b"#"):
        bench.follow("f", topic_filter)
    bench.commit((b"a/b", b"m"))
    assert len(bench.told) == 1


def test_who_does_not_follow_any_more_is_told_nothing(bench):
    bench.follow("f", b"a")
    bench.follow("g", b"#")
    bench.feed.unfollow(b"a", bench.follower("f"))
    bench.commit((b"a", b"m"))
    assert [name for name, _ in bench.told] == ["g"]
    assert bench.feed.follower_count(b"a") == 1
    bench.feed.unfollow(b"#", bench.follower("g"))
    assert bench.feed.follower_count(b"a") == 0
    assert not bench.feed.is_wanted


def test_a_watcher_hears_once_for_each_commit_that_concerns_it(bench):
    calls = []
    watcher = lambda: calls.append(1)  # noqa: E731 - it is compared by identity
    bench.feed.watch(b"a", watcher)
    bench.commit((b"a", b"1"), (b"x", b"2"), (b"a", b"3"))
    bench.commit((b"x", b"4"))
    assert len(calls) == 1
    bench.feed.unwatch(b"a", watcher)
    bench.commit((b"a", b"5"))
    assert len(calls) == 1
    assert not bench.feed.is_wanted


def test_one_followers_trouble_stays_its_own(bench):
    bench.feed.follow(b"a", lambda _part: 1 / 0)
    bench.feed.watch(b"a", lambda: 1 / 0)
    bench.follow("g", b"a")
    bench.commit((b"a", b"m"))
    assert [name for name, _ in bench.told] == ["g"]


def test_extras_stay_with_their_messages(bench):
    bench.follow("f", b"a")
    bench.commit((b"a", b"0", b"1", b"2"), extras=[None, HEADERS, None])
    ((_, part),) = bench.told
    (whole,), (rest,) = list(part.stretches()), list(part.stretches(1))
    assert whole.extras == {1: HEADERS}
    assert rest.extras == {0: HEADERS}
    assert shifted(part.extras, 2, 3) == {}
