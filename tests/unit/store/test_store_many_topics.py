"""Many new topics: neither commits nor starts walk over those that wait to be folded."""

import pytest
from tests.unit.store.test_store_conformance import checkpoint

from penstock.store import topics
from penstock.store.batch import Batch
from penstock.store.blocks import tail_folding
from penstock.store.index import MemoryIndex
from penstock.store.store import RetentionLimits, RetentionRequest, RetentionRules
from penstock.store.topics import StoredTopic, TopicStates

TOPICS = 6_000
PER_COMMIT = 50


@pytest.fixture
def looks(monkeypatch):
    """How often it was asked whether a topic waits to be folded."""
    asked = []
    holds = MemoryIndex.holds
    monkeypatch.setattr(MemoryIndex, "holds", lambda *given: asked.append(given) or holds(*given))
    monkeypatch.setattr(topics, "TOPICS_CACHED_MAX", 100)
    monkeypatch.setattr(tail_folding, "REFERENCES_MAX", 2_000)
    monkeypatch.setattr(tail_folding, "TOPICS_PER_STEP", 10)
    return asked


def write(store):
    """This many topics, new ones in each commit."""
    for first in range(0, TOPICS, PER_COMMIT):
        batch = Batch()
        for number in range(first, first + PER_COMMIT):
            batch.append(b"t/%d" % number, [b"x"], 1_000, 1)
        batch.checkpoint = store.next_index - 1
        store.commit(batch)
        store.prepare()


def test_commits_and_a_start_look_at_each_topic_a_bounded_number_of_times(open_store, looks):
    store = open_store()
    write(store)
    assert len(looks) <= 4 * TOPICS
    looks.clear()
    store = open_store()
    store.fold()
    assert len(looks) <= 4 * TOPICS
    assert [store.topic(b"t/%d" % number).count for number in range(TOPICS)] == [1] * TOPICS


@pytest.mark.usefixtures("looks")
def test_memory_is_rid_of_topics_whose_rows_are_written(open_store):
    store = open_store()
    write(store)
    checkpoint(store)
    store.fold()
    assert len(store._topics) <= 100


@pytest.mark.usefixtures("looks")
def test_a_start_leaves_folding_to_the_commits_that_follow(open_store):
    """It reads, and does not write."""
    store = open_store()
    write(store)
    folded = store._position.marks.flushed_index
    assert folded < store.next_index - 1
    store = open_store()
    assert store._position.marks.flushed_index == folded


@pytest.mark.usefixtures("looks")
def test_limits_hold_for_topics_that_left_memory_before_they_were_examined(open_store):
    store = open_store()
    request = RetentionRequest(RetentionRules(RetentionLimits(messages_max=1)), 0, 10**9)
    while store.retain(request).more:
        pass
    for _ in range(2):
        write(store)
        checkpoint(store)
        store.fold()
    assert len(store._topics) <= 100
    while store.retain(request).more:
        pass
    assert store.size().messages == TOPICS


@pytest.mark.usefixtures("looks")
def test_the_oldest_block_of_many_topics_goes_though_they_are_not_in_memory(open_store):
    """Their names are in the block, and their rows change."""
    store = open_store()
    write(store)
    checkpoint(store)
    store.fold()
    request = RetentionRequest(RetentionRules(), 0, 1)
    while store._remove(request, 0).more:
        pass
    assert (store._blocks.current.blocks, store.size().messages) == ((), 0)
    assert len(store._topics) <= 100
    counts = {info.name: (info.first_offset, info.bytes) for info in open_store().topics()}
    assert counts == {b"t/%d" % number: (1, 0) for number in range(TOPICS)}


def test_the_least_recently_used_topics_are_forgotten_first(monkeypatch):
    monkeypatch.setattr(topics, "TOPICS_CACHED_MAX", 2)
    behind = {4}
    known = TopicStates()
    states = [StoredTopic(number, b"%d" % number) for number in range(6)]
    with known.lock:
        for state in states:
            known.keep(state)
        for number in (1, 0, 4, 2, 3):
            known.idle(states[number])
        known.keep(states[0])  # written to again
    known.evict(behind)
    assert [number for number in range(6) if known.get(b"%d" % number)] == [0, 4, 5]
    behind.clear()
    with known.lock:
        known.idle(states[4])
    known.evict(behind)
    assert [number for number in range(6) if known.get(b"%d" % number)] == [0, 5]
