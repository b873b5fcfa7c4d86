"""Limits that are set for single topics at run time, and offsets below which nothing is needed."""

import pytest
from tests.unit.store.test_store_conformance import batch_of

from penstock.store.batch import Batch
from penstock.store.retention import engine as retention
from penstock.store.retention.engine import RetentionEngine
from penstock.store.store import (
    CLOCK_ERROR_MS_MAX,
    ProtectedTopics,
    RetentionLimits,
    RetentionRequest,
    RetentionRules,
    TopicRetentionRule,
)

NOBODY_WAITS = 10**9
LATER_MS = 9_999
"""Everything was committed at 1,000."""
KEEP_ALL = RetentionRules()


@pytest.fixture
def store(retained):
    return retained


def fill(store, *topics, entries=10):
    for _ in range(entries):
        store.commit(batch_of(*((topic, b"x") for topic in topics)))


def publish(store, time_ms, topic=b"a"):
    batch = Batch()
    batch.append(topic, [b"x"], time_ms, 0)
    store.commit(batch)


def retain(store, rules=KEEP_ALL, floor_sequence=NOBODY_WAITS, now_ms=LATER_MS, **options):
    for _ in range(1_000):
        if not store.retain(RetentionRequest(rules, now_ms, floor_sequence, **options)).more:
            return
    pytest.fail("retention does not come to an end")


def first_offset(store, topic=b"a"):
    return store.topic(topic).first_offset


def own(limits, *, topic=b"a", **options):
    return RetentionRules(by_topic={topic: limits}, **options)


# ── Lows ──────────────────────────────────────────────────────────────────────────────────────


def test_what_lies_below_a_low_goes_whatever_the_rules_say(store):
    fill(store, b"a", b"b")
    retain(store, protected=ProtectedTopics(b"a", {b"a": 2}), low_water_marks={b"a": 4})
    assert (first_offset(store), first_offset(store, b"b")) == (4, 0)


def test_a_low_divides_what_was_committed_at_once(store):
    store.commit(batch_of(*[(b"a", b"xy")] * 5))
    for low in (1, 4, 5):
        retain(store, low_water_marks={b"a": low})
        assert first_offset(store) == low
        assert store.topic(b"a").bytes == 2 * (5 - low)


def test_what_is_waited_for_stays_above_or_below(store):
    fill(store, b"a")
    retain(store, floor_sequence=4, low_water_marks={b"a": 8})
    assert first_offset(store) == 3


def test_what_was_waited_for_goes_when_the_low_is_passed_again(store):
    """Though the low is the same, and though it was not passed for a while."""
    fill(store, b"a")
    retain(store, floor_sequence=4, low_water_marks={b"a": 8})
    retain(store, floor_sequence=6, low_water_marks={b"b": 1})
    assert first_offset(store) == 3
    retain(store, floor_sequence=6, low_water_marks={b"a": 8})
    assert first_offset(store) == 5


def test_lows_follow_the_work_though_nothing_is_written(store):
    fill(store, b"a")
    for low, expected in [(0, 0), (2, 2), (5, 5), (3, 5), (20, 10)]:
        retain(store, low_water_marks={b"a": low})
        assert first_offset(store) == expected


def test_a_low_of_an_unknown_topic_does_nothing(store):
    retain(store, low_water_marks={b"a": 3})
    assert store.topic(b"a") is None


def test_topics_whose_lows_did_not_rise_are_not_examined_again(open_store, monkeypatch):
    store = open_store()
    for number in range(100):
        fill(store, b"t/%d" % number, entries=2)
    low_water_marks = {b"t/%d" % number: 1 for number in range(100)}
    retain(store, low_water_marks=low_water_marks)
    examined = []
    examine = RetentionEngine._examine
    monkeypatch.setattr(
        RetentionEngine, "_examine", lambda *call: (examined.append(call[2]), examine(*call))[1]
    )
    low_water_marks[b"t/7"] = 2
    retain(store, low_water_marks=low_water_marks)
    assert examined == [b"t/7"]


# ── Limits of single topics ───────────────────────────────────────────────────────────────────


def test_limits_of_a_topic_come_before_rules_and_default(store):
    fill(store, b"a", b"b", b"c")
    rule = TopicRetentionRule(lambda topic: topic != b"c", RetentionLimits(messages_max=5))
    retain(
        store,
        own(
            RetentionLimits(messages_max=2), default=RetentionLimits(messages_max=7), rules=(rule,)
        ),
    )
    assert [first_offset(store, name) for name in (b"a", b"b", b"c")] == [8, 5, 3]


def test_a_topic_may_be_without_limit(store):
    fill(store, b"a", b"b")
    retain(store, own(RetentionLimits(), default=RetentionLimits(messages_max=1, age_ms_max=1)))
    assert (first_offset(store), first_offset(store, b"b")) == (0, 10)


@pytest.mark.parametrize("limits", [RetentionLimits(messages_max=3), RetentionLimits(bytes_max=3)])
def test_a_topic_is_examined_when_its_limits_change(store, limits):
    fill(store, b"a", b"b")
    retain(store)
    retain(store, own(limits))
    assert (first_offset(store), first_offset(store, b"b")) == (7, 0)


def test_limits_of_a_topic_are_obeyed_though_it_is_spared(store):
    fill(store, b"a", b"b")
    retain(
        store, own(RetentionLimits(messages_max=3, age_ms_max=1)), protected=ProtectedTopics(b"")
    )
    assert (first_offset(store), first_offset(store, b"b")) == (10, 0)


def test_messages_go_when_they_come_of_the_age_of_their_topic(store):
    rules = own(RetentionLimits(age_ms_max=100))
    for time_ms in (1_000, 1_010, 1_020):
        publish(store, time_ms)
        publish(store, time_ms, b"b")
    for now_ms, expected in [(1_099, 0), (1_100, 1), (1_115, 2), (1_119, 2), (1_120, 3)]:
        retain(store, rules, now_ms=now_ms)
        assert first_offset(store) == expected
    publish(store, 1_200)
    retain(store, rules, now_ms=1_300)
    assert (first_offset(store), first_offset(store, b"b")) == (4, 0)


def test_what_is_waited_for_is_kept_beyond_the_age_of_its_topic(store):
    fill(store, b"a")
    rules = own(RetentionLimits(age_ms_max=1))
    retain(store, rules, floor_sequence=4)
    assert first_offset(store) == 3
    retain(store, rules, floor_sequence=6)
    assert first_offset(store) == 5


def test_a_topic_that_lost_its_limits_is_treated_like_others(store):
    """A cursor by age has long passed its messages."""
    fill(store, b"a", b"b")
    default = RetentionLimits(age_ms_max=100)
    retain(store, own(RetentionLimits(), default=default))
    assert (first_offset(store), first_offset(store, b"b")) == (0, 10)
    retain(store, RetentionRules(default), floor_sequence=7)  # two topics, one after the other
    assert first_offset(store) == 3
    retain(store, RetentionRules(default), floor_sequence=11)
    assert first_offset(store) == 5


def test_a_wrong_clock_does_not_hold_up_the_age_of_a_topic(store):
    """Once a message with a believable date is too old, those before it go as well."""
    rules = own(RetentionLimits(age_ms_max=100))
    for time_ms in (1_000, CLOCK_ERROR_MS_MAX * 9, 1_010):
        publish(store, time_ms)
    retain(store, rules, now_ms=1_105)
    assert first_offset(store) == 1
    retain(store, rules, now_ms=1_110)
    assert first_offset(store) == 3


def test_what_a_wrong_clock_dated_stays_when_its_topic_loses_its_limits(store):
    publish(store, CLOCK_ERROR_MS_MAX * 9)
    default = RetentionLimits(age_ms_max=100)
    retain(store, own(RetentionLimits(), default=default))
    retain(store, RetentionRules(default))
    assert first_offset(store) == 0


def test_as_many_ages_as_topics_cost_no_cursor_each(open_store):
    store = open_store()
    names = [b"t/%d" % number for number in range(300)]
    for name in names:
        publish(store, 1_000, name)
    by_topic = {name: RetentionLimits(age_ms_max=100 + n) for n, name in enumerate(names)}
    rules = RetentionRules(by_topic=by_topic)
    retain(store, rules, now_ms=1_199)
    assert [first_offset(store, name) for name in names] == [1] * 100 + [0] * 200
    assert not store._retention._ages


def test_a_change_for_one_topic_examines_no_other(open_store, monkeypatch):
    monkeypatch.setattr(retention, "SLICE_STEPS", 10)
    store = open_store()
    for number in range(40):
        fill(store, b"t/%d" % number, entries=1)
    limits = {b"t/%d" % number: RetentionLimits(messages_max=5) for number in range(40)}
    retain(store, RetentionRules(by_topic=limits))
    examined = []
    examine = RetentionEngine._examine
    monkeypatch.setattr(
        RetentionEngine, "_examine", lambda *call: (examined.append(call[2]), examine(*call))[1]
    )
    retain(store, RetentionRules(by_topic={**limits, b"t/3": RetentionLimits(messages_max=1)}))
    assert examined == [b"t/3"]
