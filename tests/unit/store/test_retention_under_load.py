"""Retention of the durable store while many topics are written to."""

import pytest

from penstock.limits import MIB
from penstock.store import lmdb_store
from penstock.store.batch import Batch
from penstock.store.store import RetentionLimits, RetentionRequest, RetentionRules

TOPICS = 1_000
FLOOR = 10**9


def commit_to(store, names, payload=b"x" * 100):
    """One entry with a message for each topic; a start would replay none of those before it."""
    batch = Batch()
    for name in names:
        batch.append(name, [payload], 1_000, 0)
    batch.checkpoint = store.next_index - 1
    store.commit(batch)


@pytest.fixture
def ample_time(monkeypatch):
    """What is tested is the count of what is removed, not the speed of the machine."""
    monkeypatch.setattr(lmdb_store, "RETAIN_S", 60)


@pytest.mark.usefixtures("ample_time")
@pytest.mark.parametrize(
    "rules",
    [RetentionRules(RetentionLimits(bytes_max=300)), RetentionRules(total_bytes_max=MIB)],
    ids=["bytes", "total"],
)
def test_removal_keeps_up_with_a_thousand_busy_topics(open_store, rules):
    """One call between any two commits is enough, though it never finds the index at rest."""
    store = open_store()
    names = [b"t/%d" % number for number in range(TOPICS)]
    most_kept = 0
    for _ in range(20):
        commit_to(store, names)
        store.retain(RetentionRequest(rules, 0, FLOOR))
        most_kept = max(most_kept, store.size().messages)
    assert most_kept <= 8 * TOPICS


def test_what_is_not_folded_yet_does_not_hold_up_removal(open_store, monkeypatch):
    """A call without time for all topics removes messages of some."""
    store = open_store()
    names = [b"t/%d" % number for number in range(TOPICS)]
    rules = RetentionRules(RetentionLimits(messages_max=1))
    for _ in range(3):
        commit_to(store, names)
    monkeypatch.setattr(lmdb_store, "RETAIN_S", 0)
    removed = store.retain(RetentionRequest(rules, 0, FLOOR))
    assert removed.more
    assert 0 < removed.messages < 2 * TOPICS
    while store.retain(RetentionRequest(rules, 0, FLOOR)).more:
        pass
    assert store.size().messages == TOPICS


@pytest.mark.usefixtures("ample_time")
def test_what_was_removed_of_the_tail_stays_removed_after_reopening(open_store, monkeypatch):
    """The start applies the entries again; offsets and counts must not come back."""
    store = open_store()
    names = [b"t/%d" % number for number in range(TOPICS)]
    for _ in range(3):
        commit_to(store, names)
    monkeypatch.setattr(lmdb_store, "RETAIN_S", 0)
    rules = RetentionRules(RetentionLimits(messages_max=1))
    assert store.retain(RetentionRequest(rules, 0, FLOOR)).messages > 0
    before = list(store.topics()), store.size().messages
    store = open_store()
    assert (list(store.topics()), store.size().messages) == before
    commit_to(store, [b"other"])
    store.fold()
    (block,) = store._blocks.current.blocks
    assert block.row.summary.count == before[1]  # the fold leaves out what is gone
    while store.retain(RetentionRequest(rules, 0, FLOOR)).more:
        pass
    assert {info.count for info in store.topics()} == {1}
    assert store.size().messages == len(names) + 1


@pytest.mark.usefixtures("ample_time")
def test_invented_topics_do_not_cost_others_their_messages(open_store):
    """Their rows stay forever, so they must not count against the total."""
    store = open_store()
    rules = RetentionRules(total_bytes_max=MIB)
    for start in range(0, 3_000, 500):
        names = [b"x/%d/" % number + b"y" * 900 for number in range(start, start + 500)]
        commit_to(store, names, b"")
        store.retain(RetentionRequest(rules, 0, FLOOR))
    commit_to(store, [b"precious"])
    commit_to(store, [b"later"])
    store.retain(RetentionRequest(rules, 0, 1))
    assert store.size().bytes_used > 2 * MIB  # the rows of topics alone are beyond the total
    assert store.topic(b"precious").count == 1
