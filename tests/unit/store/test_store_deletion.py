"""Trimming and deleting, on both stores: what is gone, what is left, and how it is counted."""

import pytest
from tests.unit.store.test_store_conformance import checkpoint, payloads, retain_all

from penstock.store.batch import Batch
from penstock.store.store import RetentionLimits, RetentionRules


def fill(store, entries=3, size=4, topic=b"a"):
    """Entries with ``size`` messages of the topic each, and one of another; bytes differ."""
    for _ in range(entries):
        batch = Batch()
        known = store.topic(topic)
        first = known.next_offset if known else 0
        batch.append(b"other", [b"-"], 1_000, 0)
        for offset in range(first, first + size):
            batch.append(topic, [b"%d" % offset + b"x" * offset], 1_000 + offset, 0)
        store.commit(batch)


def offsets(store, topic=b"a", offset=0, count_max=10**6, bytes_max=10**9):
    found = store.read_topic(topic, offset, count_max, bytes_max)
    return [message.offset for message in found.messages()]


def assert_holds(store, expected, topic=b"a"):
    """Every way of asking agrees on which offsets are there."""
    info = store.topic(topic)
    found = store.read_topic(topic, 0, 10**6, 10**9)
    messages = list(found.messages())
    assert [message.offset for message in messages] == expected
    assert found.count == info.count == len(expected)
    assert info.first_offset == (expected[0] if expected else info.next_offset)
    assert info.bytes == sum(len(message.payload) for message in messages)
    read = store.read(range(1, store.next_sequence))
    assert [m for m in read if m and m.topic == topic] == messages
    assert store.size().messages == sum(info.count for info in store.topics())


@pytest.mark.parametrize("offset", range(13))
def test_trimming_is_exact_wherever_the_groups_end(store, offset):
    fill(store)
    assert store.trim(b"a", offset) == offset
    assert_holds(store, list(range(offset, 12)))
    assert store.trim(b"a", offset) == 0


def test_trimming_beyond_the_end_takes_what_is_there(store):
    fill(store)
    assert store.trim(b"a", 99) == 12
    assert_holds(store, [])
    found = store.read_topic(b"a", 0, 10, 10)
    assert (found.first_offset, found.next_offset, found.slices) == (12, 12, [])
    fill(store, entries=1, size=1)
    assert_holds(store, [12])


@pytest.mark.parametrize("deleted", [[0], [11], [5], [3, 4], [0, 1, 2, 3], [0, 2, 4, 6], range(12)])
def test_a_deleted_message_is_never_given_again(store, deleted):
    fill(store)
    assert store.delete(b"a", deleted) == len(deleted)
    assert_holds(store, [offset for offset in range(12) if offset not in deleted])


def test_only_what_was_there_is_counted(store):
    fill(store)
    assert store.delete(b"a", [3, 1, 3, 12, -1]) == 2
    assert store.delete(b"a", [1, 2, 3]) == 1
    assert store.trim(b"a", 6) == 3
    assert store.delete(b"a", [0, 5, 6]) == 1
    assert_holds(store, list(range(7, 12)))


def test_a_topic_that_is_not_there_has_nothing_to_remove(store):
    assert store.trim(b"never", 10) == 0
    assert store.delete(b"never", [0, 1]) == 0


def test_reading_moves_past_what_was_deleted(store):
    fill(store)
    store.delete(b"a", [2, 3, 4, 5, 10, 11])
    assert store.read_topic(b"a", 0, 2, 10**6).next_offset == 6
    assert store.read_topic(b"a", 0, 1, 10**6).next_offset == 1
    assert offsets(store, offset=3, count_max=1) == [6]
    assert offsets(store, count_max=4) == [0, 1, 6, 7]
    found = store.read_topic(b"a", 10, 10, 10**6)
    assert (found.next_offset, found.slices) == (12, [])
    assert store.read_topic(b"a", 9, 10, 10**6).next_offset == 12


def test_a_bound_on_bytes_holds_across_what_was_deleted(store):
    fill(store)  # the payload of offset n has n bytes and its number
    store.delete(b"a", [1, 2])
    assert offsets(store, bytes_max=1) == [0]
    assert offsets(store, bytes_max=4) == [0]
    assert offsets(store, bytes_max=5) == [0, 3]


def test_slices_are_cut_around_the_deleted_and_are_still_columns(store):
    fill(store)
    store.delete(b"a", [1, 6, 7, 8])
    found = store.read_topic(b"a", 0, 10**6, 10**9)
    spans = [(part.first_offset, part.count) for part in found.slices]
    assert spans == [(0, 1), (2, 2), (4, 2), (9, 3)]
    assert [m.time_ms - 1_000 for m in found.messages()] == [0, 2, 3, 4, 5, 9, 10, 11]


def test_other_topics_of_the_same_entries_are_left_alone(store):
    fill(store)
    store.trim(b"a", 99)
    assert payloads(store, b"other") == [b"-"] * 3


def test_offsets_that_come_later_are_not_deleted_in_advance(store):
    fill(store, entries=1, size=2)
    store.delete(b"a", [1, 2, 3])
    fill(store, entries=1, size=2)
    assert_holds(store, [0, 2, 3])


def test_a_beginning_of_which_everything_is_gone_is_forgotten_by_retention(retained):
    """Whatever the limits, and although a session waits: nothing is left to wait for."""
    store = retained
    fill(store)
    store.trim(b"other", 99)
    store.trim(b"a", 9)
    checkpoint(store)
    assert retain_all(store, RetentionRules(), floor=1) == 0
    assert_holds(store, [9, 10, 11])
    store.delete(b"a", [10, 9, 11])
    assert retain_all(store, RetentionRules(), floor=1) == 0
    assert_holds(store, [])
    assert store.size().messages == 0


def test_limits_count_what_is_left(retained):
    """Deleted messages do not push out others that a limit says must be kept."""
    store = retained
    fill(store)
    store.delete(b"a", [8, 9, 10, 11, 3])
    assert retain_all(store, RetentionRules(RetentionLimits(messages_max=7))) == 0
    assert_holds(store, [0, 1, 2, 4, 5, 6, 7])
    assert retain_all(store, RetentionRules(RetentionLimits(messages_max=4))) == 3
    assert_holds(store, [4, 5, 6, 7])


def test_a_bytes_limit_counts_what_is_left(retained):
    store = retained
    fill(store)
    store.delete(b"a", [0, 8, 9, 10, 11])
    kept = store.topic(b"a").bytes
    oldest = 2 + 3 + 4  # offsets 1, 2 and 3
    retain_all(store, RetentionRules(RetentionLimits(bytes_max=kept - oldest + 1)))
    assert_holds(store, [3, 4, 5, 6, 7])
    retain_all(store, RetentionRules(RetentionLimits(bytes_max=kept - oldest)))
    assert_holds(store, [4, 5, 6, 7])


def test_what_retention_removes_is_not_counted_twice(retained):
    """Ranges that reach beyond what is removed are cut there."""
    store = retained
    fill(store)
    store.trim(b"a", 2)
    store.delete(b"a", [3, 4, 6, 11])
    rules = RetentionRules(RetentionLimits(age_ms_max=0))
    assert retain_all(store, rules, now_ms=1_003) == 1 + 3  # offset 2, and the other topic
    assert_holds(store, [5, 7, 8, 9, 10])
    assert retain_all(store, rules, now_ms=10**6) == 5
    assert_holds(store, [])
