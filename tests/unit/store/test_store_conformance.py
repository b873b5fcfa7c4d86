"""What every store must do; each test runs on both."""

import os

import pytest

from penstock.model.message import Extras, Signature
from penstock.store.batch import Batch
from penstock.store.store import (
    RetentionLimits,
    RetentionRequest,
    RetentionRules,
    TopicRetentionRule,
)

FOREVER = 10**9


def batch_of(*messages, time_ms=1_000):
    """A batch of (topic, payload) pairs."""
    batch = Batch()
    for topic, payload in messages:
        batch.append(topic, [payload], time_ms, 0)
    return batch


def checkpoint(store, index=None):
    batch = Batch()
    batch.checkpoint = store.next_index - 1 if index is None else index
    store.commit(batch)


def retain_all(store, rules, now_ms=0, floor=FOREVER):
    """Retention until nothing is left to do; how many messages limits have removed."""
    messages = 0
    for _ in range(1_000):
        removed = store.retain(RetentionRequest(rules, now_ms, floor))
        messages += removed.messages
        if not removed.more:
            return messages
    pytest.fail("retention does not come to an end")


def payloads(store, topic, offset=0, count_max=10**6, bytes_max=10**9):
    found = store.read_topic(topic, offset, count_max, bytes_max)
    return [message.payload for message in found.messages()]


def test_sequences_and_indexes_begin_at_one(store):
    assert (store.next_sequence, store.next_index) == (1, 1)
    commit = store.commit(batch_of((b"a", b"1"), (b"b", b"2")))
    assert (commit.index, commit.base_sequence, commit.count) == (1, 1, 2)
    assert (store.next_sequence, store.next_index) == (3, 2)


def test_offsets_are_counted_per_topic(store):
    store.commit(batch_of((b"a", b"1"), (b"b", b"2"), (b"a", b"3")))
    store.commit(batch_of((b"a", b"4")))
    offsets = [(m.topic, m.offset) for m in store.read([1, 2, 3, 4])]
    assert offsets == [(b"a", 0), (b"b", 0), (b"a", 1), (b"a", 2)]


def test_a_commit_says_where_each_group_begins(store):
    assert store.commit(batch_of((b"b", b"1"), (b"a", b"2"), (b"a", b"3"))).first_offsets == (0, 0)
    assert store.commit(batch_of((b"a", b"4"), (b"c", b"5"), (b"b", b"6"))).first_offsets == (
        2, 0, 1,
    )  # fmt: skip
    assert store.commit(Batch()).first_offsets == ()


def test_reading_what_is_not_there_gives_none(store):
    store.commit(batch_of((b"a", b"1")))
    assert store.read([0]) == [None]
    found = store.read([1, 2])
    assert found[0].payload == b"1"
    assert found[1] is None


@pytest.mark.parametrize("name", [b"b", b""])
def test_a_name_that_nobody_published_to_is_no_topic(store, name):
    assert store.topic(name) is None
    assert store.read_topic(name, 0, 1, 1).slices == []


def test_event_entries_do_not_hide_messages(store):
    """An entry without messages has the base sequence of the message that follows it."""
    event = Batch()
    event.add_event(("e",))
    store.commit(batch_of((b"a", b"1")))
    store.commit(event)
    store.commit(batch_of((b"a", b"2")))
    store.commit(event)
    assert [message.payload for message in store.read([1, 2])] == [b"1", b"2"]


def test_replay_gives_every_entry_after_the_checkpoint(store):
    for number in range(5):
        batch = batch_of((b"a", b"%d" % number))
        batch.add_event(("e", number))
        store.commit(batch)
    assert [entry.index for entry in store.replay()] == [1, 2, 3, 4, 5]
    checkpoint(store, 3)
    entries = list(store.replay())
    assert [entry.index for entry in entries] == [4, 5]
    assert entries[0].events == [(1, ("e", 3))]


def test_rows_are_put_replaced_and_deleted(store):
    batch = Batch()
    batch.add_row("sessions", b"a", b"1")
    batch.add_row("sessions", b"b", b"2")
    batch.add_row("retained", b"a", b"3")
    store.commit(batch)
    batch = Batch()
    batch.add_row("sessions", b"a", b"4")
    batch.add_row("sessions", b"b", None)
    batch.add_row("sessions", b"never", None)
    store.commit(batch)
    assert list(store.rows("sessions")) == [(b"a", b"4")]
    assert list(store.rows("retained")) == [(b"a", b"3")]
    assert list(store.rows("session")) == []


def test_rows_and_topics_may_have_names_of_any_length(store):
    names = [b"n" * length for length in (1, 477, 478, 479, 511, 512, 1_024)]
    batch = batch_of(*((name, name) for name in names))
    for name in names:
        batch.add_row("retained", name, b"v" + name)
    store.commit(batch)
    assert dict(store.rows("retained")) == {name: b"v" + name for name in names}
    assert [store.topic(name).name for name in names] == names
    assert sorted(info.name for info in store.topics(b"n" * 500)) == names[4:]
    assert all(payloads(store, name) == [name] for name in names)


def test_many_rows_are_all_listed(store):
    batch = Batch()
    rows = {b"%05d" % number: b"v" for number in range(1_000)}
    for key, value in rows.items():
        batch.add_row("t", key, value)
    store.commit(batch)
    assert list(store.rows("t")) == sorted(rows.items())


def test_a_topic_is_read_across_entries(store):
    for number in range(6):
        store.commit(batch_of((b"b", b"-"), (b"a", b"%d" % number), (b"a", b"+%d" % number)))
    expected = [b"0", b"+0", b"1", b"+1", b"2", b"+2", b"3", b"+3", b"4", b"+4", b"5", b"+5"]
    assert payloads(store, b"a") == expected
    for offset in range(12):
        assert payloads(store, b"a", offset) == expected[offset:]
        assert payloads(store, b"a", offset, count_max=3) == expected[offset : offset + 3]


def test_a_topic_read_and_a_sequence_read_agree(store):
    """Sequences, times and flags of a slice that begins inside a run."""
    batch = Batch()
    batch.append(b"a", [b"1", b"2", b"3"], 1_000, 1)
    batch.append(b"b", [b"-"], 1_001, 0)
    batch.append(b"a", [b"4", b"5"], 1_002, 2)
    store.commit(batch)
    whole = [m for m in store.read([1, 2, 3, 4, 5, 6]) if m.topic == b"a"]
    for offset in range(5):
        for count in range(1, 6):
            found = store.read_topic(b"a", offset, count, 10**6)
            assert list(found.messages()) == whole[offset : offset + count]


def test_extras_are_read_by_sequence_and_by_topic(store):
    """Also where a slice begins inside a run, or inside a group."""
    signed = Extras(signature=Signature(1, 7, b"s" * 64))
    headed = Extras(((b"name", b"value"),))
    batch = Batch()
    batch.append(b"a", [b"1", b"2", b"3"], 1_000, 1, [None, signed, None])
    batch.append(b"b", [b"-"], 1_001, 0)
    batch.append(b"a", [b"4", b"5"], 1_002, 2, [headed, signed])
    store.commit(batch)
    expected = [None, signed, None, headed, signed]
    assert [m.extras for m in store.read([1, 2, 3, 5, 6])] == expected
    for offset in range(5):
        for count in range(1, 6):
            found = store.read_topic(b"a", offset, count, 10**6)
            extras = [message.extras for message in found.messages()]
            assert extras == expected[offset : offset + count]
            (part,) = found.slices
            assert part.extras.keys() <= set(range(part.count))


def test_a_read_is_bounded_by_bytes_but_gives_at_least_one(store):
    store.commit(batch_of((b"a", b"12345"), (b"a", b"12345"), (b"a", b"12345")))
    store.commit(batch_of((b"a", b"12345")))
    assert len(payloads(store, b"a", bytes_max=1)) == 1
    assert len(payloads(store, b"a", bytes_max=9)) == 1
    assert len(payloads(store, b"a", bytes_max=10)) == 2
    assert len(payloads(store, b"a", bytes_max=19)) == 3
    assert len(payloads(store, b"a", bytes_max=20)) == 4
    assert store.read_topic(b"a", 1, 10, 5).next_offset == 2


def test_reading_at_the_end_of_a_topic_says_where_to_wait(store):
    store.commit(batch_of((b"a", b"1")))
    found = store.read_topic(b"a", 1, 10, 10)
    assert (found.first_offset, found.next_offset, found.slices) == (0, 1, [])


def test_an_unknown_topic_is_empty(store):
    assert store.topic(b"a") is None
    assert store.read_topic(b"a", 0, 10, 10).slices == []


def test_topics_are_listed_by_prefix_in_order(store):
    store.commit(batch_of((b"b/2", b""), (b"a/1", b""), (b"b/1", b"xyz"), (b"b/1", b"")))
    assert [info.name for info in store.topics()] == [b"a/1", b"b/1", b"b/2"]
    first, _ = store.topics(b"b/")
    assert (first.name, first.count, first.bytes, first.created_ms) == (b"b/1", 2, 3, 1_000)


def test_a_count_limit_keeps_exactly_that_many(retained):
    for number in range(10):
        retained.commit(batch_of((b"a", b"%d" % number), (b"a", b"+")))
    assert retain_all(retained, RetentionRules(RetentionLimits(messages_max=5))) == 15
    found = retained.read_topic(b"a", 0, 100, 100)
    assert (found.first_offset, found.count, found.next_offset) == (15, 5, 20)
    assert retained.read([15, 16])[0] is None
    assert retained.read([15, 16])[1].payload == b"+"
    assert retained.size().messages == 5
    assert (retained.topic(b"a").bytes, payloads(retained, b"a")[1]) == (5, b"8")


def test_a_bytes_limit_keeps_at_least_that_much_and_less_than_a_message_more(retained):
    for _ in range(5):
        retained.commit(batch_of((b"a", b"x" * 100), (b"a", b""), (b"a", b"y" * 30)))
    rules = RetentionRules(RetentionLimits(bytes_max=250))
    assert retain_all(retained, rules) == 9
    assert retained.topic(b"a").bytes == 260
    assert payloads(retained, b"a") == [b"x" * 100, b"", b"y" * 30] * 2


def test_an_age_limit_removes_what_is_older(retained):
    for time_ms in (1_000, 2_000, 3_000):
        retained.commit(batch_of((b"a", b"%d" % time_ms), time_ms=time_ms))
    rules = RetentionRules(RetentionLimits(age_ms_max=500))
    assert retain_all(retained, rules, now_ms=1_499) == 0
    assert retain_all(retained, rules, now_ms=2_500) == 2
    assert payloads(retained, b"a") == [b"3000"]
    assert retain_all(retained, rules, now_ms=9_999) == 1
    assert payloads(retained, b"a") == []


def test_age_divides_what_was_committed_at_once(retained):
    batch = Batch()
    for time_ms in (1_000, 1_000, 1_010, 1_020):
        batch.append(b"a", [b"x", b"y"], time_ms, 0)
    retained.commit(batch)
    rules = RetentionRules(RetentionLimits(age_ms_max=500))
    expected = [(1_499, 0), (1_500, 4), (1_509, 4), (1_510, 6), (1_530, 8)]
    for now_ms, first_offset in expected:
        retain_all(retained, rules, now_ms=now_ms)
        assert retained.topic(b"a").first_offset == first_offset


def test_a_young_message_keeps_what_comes_after_it(retained):
    """A clock was set back."""
    for time_ms in (1_000, 3_000, 1_000):
        retained.commit(batch_of((b"a", b"%d" % time_ms), time_ms=time_ms))
    rules = RetentionRules(RetentionLimits(age_ms_max=500))
    retain_all(retained, rules, now_ms=2_000)
    assert payloads(retained, b"a") == [b"3000", b"1000"]


def test_a_young_message_that_goes_by_count_keeps_nothing_behind_it(retained):
    """A clock was set back."""
    for time_ms in (3_000, 1_000, 1_000):
        retained.commit(batch_of((b"a", b"%d" % time_ms), time_ms=time_ms))
    own = RetentionLimits(messages_max=2, age_ms_max=500)
    request = RetentionRequest(RetentionRules(by_topic={b"a": own}), 2_000, FOREVER)
    assert retained.retain(request).messages == 3
    assert payloads(retained, b"a") == []


def test_a_time_in_the_future_does_not_hold_up_the_others(retained):
    for time_ms in (10**9, 1_000):
        retained.commit(batch_of((b"t%d" % time_ms, b""), time_ms=time_ms))
    assert retain_all(retained, RetentionRules(RetentionLimits(age_ms_max=1)), now_ms=5_000) == 1


def test_the_first_rule_that_matches_counts(retained):
    for _ in range(4):
        retained.commit(batch_of((b"keep/1", b""), (b"drop/1", b""), (b"other", b"")))
    rules = RetentionRules(
        RetentionLimits(messages_max=2),
        (
            TopicRetentionRule(lambda topic: topic.startswith(b"keep"), RetentionLimits()),
            TopicRetentionRule(
                lambda topic: topic.startswith(b"drop"), RetentionLimits(messages_max=1)
            ),
        ),
    )
    retain_all(retained, rules)
    assert [(info.name, info.count) for info in retained.topics()] == [
        (b"drop/1", 1),
        (b"keep/1", 4),
        (b"other", 2),
    ]


def test_two_ages_are_followed_separately(retained):
    for time_ms in range(10):
        retained.commit(batch_of((b"short", b""), (b"long", b""), time_ms=time_ms))
    rules = RetentionRules(
        RetentionLimits(age_ms_max=8),
        (TopicRetentionRule(lambda t: t == b"short", RetentionLimits(age_ms_max=2)),),
    )
    for now_ms, short, long in [(9, 8, 2), (12, 10, 5)]:
        retain_all(retained, rules, now_ms=now_ms)
        assert retained.topic(b"short").first_offset == short
        assert retained.topic(b"long").first_offset == long


def test_a_topic_that_grows_is_examined_again(retained):
    """Under the same rules, after the walk over all topics has ended."""
    rules = RetentionRules(RetentionLimits(messages_max=2))
    for _ in range(3):
        for _ in range(4):
            retained.commit(batch_of((b"a", b"")))
        retain_all(retained, rules)
        assert retained.topic(b"a").count == 2


def test_changed_rules_are_applied_to_topics_at_rest(retained):
    for _ in range(4):
        retained.commit(batch_of((b"a", b"")))
    retain_all(retained, RetentionRules(RetentionLimits(messages_max=4)))
    assert retained.topic(b"a").count == 4
    retain_all(retained, RetentionRules(RetentionLimits(messages_max=2)))
    assert retained.topic(b"a").count == 2


@pytest.mark.parametrize("limits", [RetentionLimits(messages_max=1), RetentionLimits(age_ms_max=1)])
def test_what_somebody_waits_for_is_kept_until_they_have_it(retained, limits):
    for _ in range(3):
        retained.commit(batch_of((b"a", b""), (b"a", b"")))
    rules = RetentionRules(limits)
    assert retain_all(retained, rules, now_ms=9_999, floor=4) == 3
    assert retained.topic(b"a").first_offset == 3
    assert retain_all(retained, rules, now_ms=9_999, floor=6) == 2


def test_the_total_takes_the_oldest_even_if_waited_for(retained):
    for number in range(50):
        retained.commit(batch_of((b"t%d" % (number % 7), os.urandom(10_000))))
    checkpoint(retained)
    retain_all(retained, RetentionRules(total_bytes_max=400_000), floor=1)
    assert retained.size().messages < 50
    kept = [m is not None for m in retained.read(range(1, 51))]
    assert kept == sorted(kept)  # oldest first: all that is gone comes before all that is left


def test_the_total_spares_what_a_start_would_replay(store):
    for _ in range(5):
        store.commit(batch_of((b"a", b"x" * 10_000)))
    retain_all(store, RetentionRules(total_bytes_max=1))
    assert store.size().messages == 5
    checkpoint(store, 3)
    retain_all(store, RetentionRules(total_bytes_max=1))
    assert store.topic(b"a").first_offset == 3
    assert [entry.index for entry in store.replay()] == [4, 5]


def test_messages_go_for_one_topic_and_stay_for_another(retained):
    for number in range(3):
        retained.commit(batch_of((b"a", b"%d" % number), (b"b", b"%d" % number)))
    only_a = TopicRetentionRule(lambda topic: topic == b"a", RetentionLimits(messages_max=1))
    assert retain_all(retained, RetentionRules(rules=(only_a,))) == 2
    assert retained.read([1]) == [None]
    assert retained.read([2])[0].payload == b"0"
    assert retain_all(retained, RetentionRules(RetentionLimits(messages_max=1))) == 2


def test_what_was_removed_is_still_replayed(store):
    """A start needs the entry; its messages are gone."""
    for _ in range(3):
        store.commit(batch_of((b"a", b"")))
    assert retain_all(store, RetentionRules(RetentionLimits(messages_max=1))) == 2
    assert [entry.index for entry in store.replay()] == [1, 2, 3]
    assert store.read([1, 2]) == [None, None]


def test_offsets_go_on_after_everything_was_removed(retained):
    retained.commit(batch_of((b"a", b"1"), (b"a", b"2")))
    retain_all(retained, RetentionRules(RetentionLimits(age_ms_max=0)), now_ms=10**6)
    assert retained.size().messages == 0
    retained.commit(batch_of((b"a", b"3")))
    assert retained.read([3])[0].offset == 2
    assert retained.topic(b"a").first_offset == 2
