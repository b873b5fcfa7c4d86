"""Retained messages: the last one counts, the limit holds, checkpoints see every change."""

import pytest

from penstock.core.retained import Retained, RetainedMessage
from penstock.errors import StorageDamaged


def message(topic, payload=b"21.5", sequence=1, qos=1):
    return RetainedMessage(topic, payload, qos, time_ms=1_700_000_000_000, sequence=sequence)


@pytest.fixture
def retained():
    return Retained(count_max=3)


def test_a_retained_message_is_found_by_topic_and_by_filter(retained):
    kept = message(b"a/b")
    retained.set(kept)
    assert retained.get(b"a/b") is kept
    assert retained.get(b"a") is None
    assert retained.match(b"a/+") == [kept]


def test_the_last_message_replaces_the_one_before(retained):
    """[MQTT-3.3.1-5]"""
    retained.set(message(b"a", b"old", sequence=1))
    retained.set(message(b"a", b"newer", sequence=2))
    assert [kept.payload for kept in retained.match(b"#")] == [b"newer"]
    assert (retained.count, retained.bytes) == (1, 6)


def test_an_empty_payload_removes_the_message_and_is_not_kept(retained):
    """[MQTT-3.3.1-10], [MQTT-3.3.1-11]"""
    retained.set(message(b"a"))
    retained.set(message(b"a", b""))
    assert retained.match(b"#") == []
    assert (retained.count, retained.bytes) == (0, 0)


def test_removing_what_was_never_kept_leaves_nothing_to_write(retained):
    retained.set(message(b"a", b""))
    assert retained.dirty_count == 0


def test_matches_come_in_order_of_publication_whatever_the_history():
    """Packet ids follow this order, so it must survive a restart that rebuilds the tree."""
    messages = [message(b"b/%d" % number, sequence=number) for number in range(8)]
    forwards, backwards = Retained(), Retained()
    for kept in messages:
        forwards.set(kept)
    for kept in reversed(messages):
        backwards.restore(kept)
    assert forwards.match(b"b/+") == backwards.match(b"b/+") == messages


def test_messages_of_the_same_sequence_come_in_order_of_topic(retained):
    for topic in (b"b", b"c", b"a"):
        retained.set_ephemeral(message(topic, sequence=0))
    assert [kept.topic for kept in retained.match(b"#")] == [b"a", b"b", b"c"]


def test_a_full_store_admits_a_change_of_a_topic_it_has_and_no_other(retained):
    for topic in (b"a", b"b", b"c"):
        assert retained.admits(topic)
        retained.set(message(topic))
    assert retained.admits(b"a")
    assert not retained.admits(b"d")
    retained.set(message(b"a", b""))
    assert retained.admits(b"d")


def test_values_of_the_brokers_own_take_no_room_from_clients():
    retained = Retained(count_max=1)
    retained.set_ephemeral(message(b"$SYS/uptime"))
    assert retained.admits(b"a")


def test_what_was_admitted_once_is_kept_whatever_the_limit():
    """The journal's word is final: replaying it must not depend on how full we are."""
    retained = Retained(count_max=0)
    kept = message(b"a")
    retained.set(kept)
    assert retained.get(b"a") is kept
    assert retained.take_dirty(10) == [(b"a", kept)]


def test_ephemeral_values_are_found_but_neither_counted_nor_written(retained):
    value = message(b"$SYS/uptime", b"12")
    retained.set_ephemeral(value)
    assert retained.match(b"$SYS/#") == [value]
    assert retained.get(b"$SYS/uptime") is value
    assert (retained.count, retained.bytes, retained.dirty_count) == (0, 0, 0)
    retained.set_ephemeral(message(b"$SYS/uptime", b""))
    assert retained.match(b"$SYS/#") == []


def test_a_topic_is_of_one_kind_for_good(retained):
    retained.set(message(b"a"))
    retained.set_ephemeral(message(b"$SYS/a"))
    with pytest.raises(AssertionError):
        retained.set_ephemeral(message(b"a"))
    with pytest.raises(AssertionError):
        retained.set(message(b"$SYS/a"))


def test_changes_are_taken_once_oldest_first_up_to_the_limit(retained):
    kept = {topic: message(topic) for topic in (b"a", b"b", b"c")}
    for each in kept.values():
        retained.set(each)
    retained.set(message(b"b", b""))
    assert retained.dirty_count == 3
    assert retained.take_dirty(2) == [(b"a", kept[b"a"]), (b"b", None)]
    assert retained.take_dirty(2) == [(b"c", kept[b"c"])]
    assert retained.take_dirty(2) == []


def test_a_topic_that_changes_again_keeps_its_place_and_gives_its_last_message(retained):
    retained.set(message(b"a", b"1"))
    retained.set(message(b"b", b"1"))
    last = message(b"a", b"2")
    retained.set(last)
    assert retained.take_dirty(1) == [(b"a", last)]


def test_topics_of_a_failed_commit_are_dirty_again(retained):
    retained.set(message(b"a"))
    taken = retained.take_dirty(10)
    retained.mark_dirty(topic for topic, _ in taken)
    assert retained.take_dirty(10) == taken


def test_restored_messages_are_clean_and_pass_a_limit_that_was_lowered():
    retained = Retained(count_max=1)
    for topic in (b"a", b"b"):
        retained.restore(message(topic, b"1"))
    assert (retained.count, retained.bytes, retained.dirty_count) == (2, 4, 0)


def test_a_message_survives_its_row():
    kept = message("größe/\u2603".encode(), bytes(range(256)), sequence=2**64 - 1, qos=2)
    assert RetainedMessage.decode(kept.encode()) == kept


@pytest.mark.parametrize("row", [b"", b"\xc0", b"\x95\x01\x02\x03\x04\x05", b"not a row"])
def test_a_row_that_is_no_message_is_reported_as_damage(row):
    with pytest.raises(StorageDamaged, match="retained message"):
        RetainedMessage.decode(row)


def test_a_durable_message_is_found_by_its_sequence(retained):
    for sequence, topic in enumerate([b"a", b"b"], start=7):
        retained.set(message(topic, sequence=sequence))
    retained.set_ephemeral(message(b"$SYS/a", sequence=9))
    assert retained.find(8) is retained.get(b"b")
    assert retained.find(9) is None


def test_a_message_that_was_replaced_or_removed_is_not_found_by_its_sequence(retained):
    retained.restore(message(b"a", sequence=7))
    retained.set(message(b"b", sequence=8))
    retained.set(message(b"a", sequence=9))
    retained.set(message(b"b", b"", sequence=10))
    assert [retained.find(sequence) for sequence in (7, 8, 9, 10)] == [
        None,
        None,
        retained.get(b"a"),
        None,
    ]


def test_a_message_that_is_applied_twice_is_found_by_its_sequence(retained):
    """Replay may bring what the checkpoint holds already."""
    retained.restore(message(b"a", sequence=7))
    retained.set(message(b"a", sequence=7))
    assert retained.find(7) is retained.get(b"a")
