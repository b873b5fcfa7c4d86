"""Many new topics: neither commits nor starts walk over those that wait to be written."""

import pytest

from penstock.store import index, topics
from penstock.store.batch import Batch
from penstock.store.index import MemoryIndex
from penstock.store.topics import StoredTopic, TopicStates

TOPICS = 6_000
PER_COMMIT = 50


@pytest.fixture
def looks(monkeypatch):
    """How often it was asked whether a topic waits to be written."""
    asked = []
    holds = MemoryIndex.holds
    monkeypatch.setattr(MemoryIndex, "holds", lambda *given: asked.append(given) or holds(*given))
    monkeypatch.setattr(topics, "TOPICS_CACHED_MAX", 100)
    monkeypatch.setattr(index, "ROUND_REFERENCES", 2_000)
    monkeypatch.setattr(index, "SLICE_TOPICS", 10)
    return asked


def write(store):
    """This many topics, new ones in each commit."""
    for first in range(0, TOPICS, PER_COMMIT):
        batch = Batch()
        for number in range(first, first + PER_COMMIT):
            batch.append(b"t/%d" % number, [b"x"], 1_000, 1)
        store.commit(batch)


def test_commits_and_a_start_look_at_each_topic_a_bounded_number_of_times(open_store, looks):
    store = open_store()
    write(store)
    assert len(looks) <= 2 * TOPICS
    looks.clear()
    store = open_store()
    while store.flush():
        pass
    assert len(looks) <= 2 * TOPICS
    assert [store.topic(b"t/%d" % number).count for number in range(TOPICS)] == [1] * TOPICS


@pytest.mark.usefixtures("looks")
def test_memory_is_rid_of_topics_whose_rows_are_written(open_store):
    store = open_store()
    write(store)
    while store.flush():
        pass
    assert len(store._topics.infos(b"")) <= 100


@pytest.mark.usefixtures("looks")
def test_a_start_leaves_the_rounds_of_its_last_life_to_the_commits_that_follow(
    open_store, monkeypatch
):
    """It reads, and does not write; but what crash after crash has left is written in the end."""
    store = open_store()
    write(store)
    flushed = store._position.marks.flushed_index
    store = open_store()
    assert store._position.marks.flushed_index == flushed
    store = open_store()
    monkeypatch.setattr(index, "ROUND_REFERENCES", 200)
    store = open_store()
    assert store._position.marks.flushed_index > flushed


def test_the_least_recently_used_topics_are_forgotten_first(monkeypatch):
    monkeypatch.setattr(topics, "TOPICS_CACHED_MAX", 2)
    behind = {4}
    known = TopicStates(behind.__contains__)
    states = [StoredTopic(number, b"%d" % number) for number in range(6)]
    with known.lock:
        for state in states:
            known.keep(state)
        for number in (1, 0, 4, 2, 3):
            known.idle(states[number])
        known.keep(states[0])  # written to again
    known.evict()
    assert [number for number in range(6) if known.get(b"%d" % number)] == [0, 4, 5]
    behind.clear()
    with known.lock:
        known.idle(states[4])
    known.evict()
    assert [number for number in range(6) if known.get(b"%d" % number)] == [0, 5]
