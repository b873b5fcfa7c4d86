"""Topics that limits leave alone until they were worked through, on both stores."""

import pytest
from tests.unit.store.test_store_conformance import batch_of, checkpoint

from penstock.errors import StorageError
from penstock.store import lmdb_store
from penstock.store.store import (
    ProtectedTopics,
    RetentionLimits,
    RetentionRequest,
    RetentionResult,
    RetentionRules,
    TopicRetentionRule,
)

NOBODY_WAITS = 10**9
LATER_MS = 9_999
"""Everything was committed at 1,000."""

LIMITS = {
    "count": RetentionLimits(messages_max=3),
    "bytes": RetentionLimits(bytes_max=3),
    "age": RetentionLimits(age_ms_max=1),
    "all": RetentionLimits(messages_max=3, age_ms_max=1, bytes_max=3),
}
by_any_limit = pytest.mark.parametrize("limits", LIMITS.values(), ids=LIMITS)


@pytest.fixture
def store(retained):
    return retained


def fill(store, *topics, entries=10):
    for _ in range(entries):
        store.commit(batch_of(*((topic, b"x") for topic in topics)))


def retain(store, rules, floors=None, now_ms=LATER_MS, floor_sequence=NOBODY_WAITS):
    """Retention until nothing is left to do, sparing what begins with ``q:``."""
    total, protected = RetentionResult(), ProtectedTopics(b"q:", floors or {})
    for _ in range(1_000):
        removed = store.retain(RetentionRequest(rules, now_ms, floor_sequence, protected))
        total.add(removed)
        if not removed.more:
            return total
    pytest.fail("retention does not come to an end")


def first_offset(store, topic=b"q:a"):
    return store.topic(topic).first_offset


@by_any_limit
def test_a_topic_that_nobody_began_to_work_on_is_kept_whole(store, limits):
    fill(store, b"q:a", b"other")
    removed = retain(store, RetentionRules(limits))
    assert first_offset(store) == 0
    assert first_offset(store, b"other") >= 7
    assert removed.offsets.keys() == {b"other"}


@by_any_limit
def test_what_was_worked_through_may_go_and_no_more(store, limits):
    fill(store, b"q:a", b"q:b")
    retain(store, RetentionRules(limits), {b"q:a": 4})
    assert (first_offset(store), first_offset(store, b"q:b")) == (4, 0)


@by_any_limit
def test_limits_take_hold_as_the_work_goes_on_though_nothing_is_written(store, limits):
    """A cursor by age has long passed these messages when they are free to go."""
    fill(store, b"q:a")
    rules = RetentionRules(limits)
    for floor in (0, 0, 2, 5, 5, 7):
        retain(store, rules, {b"q:a": floor})
        assert first_offset(store) == floor
    retain(store, rules, {b"q:a": 10})
    assert first_offset(store) == (10 if limits.age_ms_max else 7)


def test_a_topic_goes_on_after_its_floor_fell_back(store):
    """Its group was removed and recreated."""
    fill(store, b"q:a")
    rules = RetentionRules(LIMITS["age"])
    for floors, expected in [({b"q:a": 3}, 3), ({}, 3), ({b"q:a": 2}, 3), ({b"q:a": 6}, 6)]:
        retain(store, rules, floors)
        assert first_offset(store) == expected


def test_messages_stay_until_they_are_too_old_though_they_were_worked_through(store):
    fill(store, b"q:a", entries=5)
    rules = RetentionRules(RetentionLimits(age_ms_max=500))
    retain(store, rules, {b"q:a": 2}, now_ms=1_200)
    assert first_offset(store) == 0
    retain(store, rules, {b"q:a": 2}, now_ms=1_500)
    store.commit(batch_of((b"q:a", b"young"), time_ms=1_400))
    retain(store, rules, {b"q:a": 6}, now_ms=1_600)
    assert first_offset(store) == 5


def test_what_was_committed_at_once_goes_as_far_as_it_was_worked_through(store):
    store.commit(batch_of(*[(b"q:a", b"x")] * 5))
    fill(store, b"q:a", entries=5)
    rules = RetentionRules(LIMITS["count"])
    for floor in (0, 2, 4, 5):
        retain(store, rules, {b"q:a": floor})
        assert first_offset(store) == floor


@by_any_limit
def test_a_rule_for_the_topic_is_obeyed(store, limits):
    fill(store, b"q:a", b"q:b")
    rule = TopicRetentionRule(lambda topic: topic == b"q:a", limits)
    retain(store, RetentionRules(limits, (rule,)), {b"q:a": 1})
    assert first_offset(store) >= 7
    assert first_offset(store, b"q:b") == 0


def test_the_total_takes_the_oldest_though_it_is_spared(store):
    fill(store, b"q:a")
    checkpoint(store)
    retain(store, RetentionRules(total_bytes_max=1))
    assert store.topic(b"q:a").count == 0


def test_what_a_session_waits_for_is_kept_though_it_was_worked_through(store):
    fill(store, b"q:a")
    rules = RetentionRules(LIMITS["all"])
    retain(store, rules, {b"q:a": 10}, floor_sequence=5)
    assert first_offset(store) == 4
    retain(store, rules, {b"q:a": 10}, floor_sequence=9)
    assert first_offset(store) == 8


def test_what_is_deleted_is_gone_though_it_is_spared(store):
    fill(store, b"q:a")
    store.trim(b"q:a", 6)
    retain(store, RetentionRules(LIMITS["all"]))
    assert (first_offset(store), store.topic(b"q:a").count) == (6, 4)


def test_removal_says_which_offsets_went_without_those_deleted_before(store):
    fill(store, b"a", b"b")
    store.delete(b"a", [1, 2, 5])
    removed = retain(store, RetentionRules(RetentionLimits(messages_max=2)))
    assert removed.offsets == {b"a": [(0, 1), (3, 5), (6, 8)], b"b": [(0, 8)]}
    assert removed.messages == 13


def test_what_was_removed_before_the_disk_failed_is_told(open_store, monkeypatch):
    """Otherwise it would not be counted; the next call reports the error."""
    store = open_store()
    fill(store, b"a")
    monkeypatch.setattr(lmdb_store, "RETAIN_S", 60)
    monkeypatch.setattr("penstock.store.retention.engine.SLICE_STEPS", 4)
    work, slices = store._retention.slice, []

    def fail_at_third(*arguments):
        slices.append(arguments)
        if len(slices) > 2:
            raise StorageError("no more")
        return work(*arguments)

    monkeypatch.setattr(store._retention, "slice", fail_at_third)
    rules = RetentionRules(RetentionLimits(messages_max=1))
    removed = store.retain(RetentionRequest(rules, 0, NOBODY_WAITS))
    assert removed.offsets == {b"a": [(0, first_offset(store, b"a"))]}
    assert removed.messages > 0
    with pytest.raises(StorageError):
        store.retain(RetentionRequest(rules, 0, NOBODY_WAITS))


# ── kept whole ────────────────────────────────────────────────────────────────────────────────


@by_any_limit
def test_what_is_kept_is_beyond_limits_of_its_own_and_beyond_the_total(store, limits):
    fill(store, b"k:a", b"other")
    checkpoint(store)
    own = TopicRetentionRule(lambda topic: topic == b"k:a", limits)
    rules = RetentionRules(limits, (own,), total_bytes_max=1)
    for _ in range(100):
        store.retain(
            RetentionRequest(rules, LATER_MS, NOBODY_WAITS, ProtectedTopics(kept=(b"k:",)))
        )
    assert first_offset(store, b"k:a") == 0
    assert first_offset(store, b"other") == 10


def test_what_is_kept_goes_when_its_topic_ends(store):
    fill(store, b"k:a")
    ending = batch_of((b"other", b"x"))
    ending.drop(b"k:a")
    store.commit(ending)
    checkpoint(store)
    for _ in range(100):
        store.retain(
            RetentionRequest(
                RetentionRules(), LATER_MS, NOBODY_WAITS, ProtectedTopics(kept=(b"k:",))
            )
        )
    assert store.topic(b"k:a") is None
    assert store.size().messages == 1
