"""Finding the offset of a sequence or a time, on both stores."""

import pytest

from penstock.store.batch import Batch
from penstock.store.search import offset_at_sequence, offset_at_time, offset_of_entry


@pytest.fixture
def filled(store):
    """Offsets 0 to 19, at times 1,000 to 1,190, in groups of 1 to 5; another topic in between."""
    offset = 0
    for size in (1, 5, 2, 4, 3, 5):
        batch = Batch()
        for _ in range(size):
            batch.append(b"other", [b"-"], 9_999, 0)
            batch.append(b"a", [b"%d" % offset], 1_000 + 10 * offset, 0)
            offset += 1
        store.commit(batch)
    return store


def expected(store, is_reached):
    messages = store.read_topic(b"a", 0, 10**6, 10**9).messages()
    found = (message.offset for message in messages if is_reached(message))
    return next(found, store.topic(b"a").next_offset)


def assert_found(store):
    for sequence in range(store.next_sequence + 2):
        wanted = expected(store, lambda m, sequence=sequence: m.sequence >= sequence)
        assert offset_at_sequence(store, b"a", sequence) == wanted
    for time_ms in range(990, 1_210, 5):
        wanted = expected(store, lambda m, time_ms=time_ms: m.time_ms >= time_ms)
        assert offset_at_time(store, b"a", time_ms) == wanted


def test_the_first_offset_that_reaches_it_is_found(filled):
    assert_found(filled)
    assert offset_at_time(filled, b"a", 1_055) == 6
    assert offset_at_sequence(filled, b"a", 13) == 6


@pytest.mark.parametrize("deleted", [[0, 1], [19], [5, 6, 7, 8], range(1, 20, 2), range(20)])
def test_offsets_that_were_deleted_are_passed_over(filled, deleted):
    filled.delete(b"a", deleted)
    assert_found(filled)


@pytest.mark.parametrize("offset", [1, 3, 8, 20])
def test_offsets_that_were_trimmed_are_passed_over(filled, offset):
    filled.trim(b"a", offset)
    assert_found(filled)


def test_an_unknown_topic_begins_at_zero(store):
    assert offset_at_sequence(store, b"a", 5) == 0
    assert offset_at_time(store, b"a", 5) == 0


def test_the_past_is_the_first_offset_and_the_future_the_next(filled):
    filled.trim(b"a", 3)
    assert offset_at_time(filled, b"a", 0) == 3
    assert offset_at_time(filled, b"a", 10**12) == 20


def entries(store, start):
    messages = store.read_topic(b"a", start, 10**6, 10**9).messages()
    return [(message.time_ms, message.offset) for message in messages]


@pytest.mark.parametrize("deleted", [[], [0], [5, 6, 7], [19], range(0, 20, 3)])
@pytest.mark.parametrize("trimmed", [0, 4])
def test_an_entry_is_placed_by_its_time_then_by_its_offset(filled, trimmed, deleted):
    filled.delete(b"a", deleted)
    filled.trim(b"a", trimmed)
    there = entries(filled, 0)
    for time_ms in range(985, 1_205, 5):
        for offset in (0, 1, 2, 5, 6, 8, 18, 19, 20, 2**64 - 1):
            for is_behind in (False, True):
                if (1_000 + offset * 10 - time_ms) and offset in set(range(20)) - {
                    found for _, found in there
                }:
                    continue  # removed, and another time: within the skew that is borne with
                place = offset_of_entry(filled, b"a", time_ms, offset, is_behind=is_behind)
                name = (time_ms, offset)
                wanted = [one for one in there if (one > name if is_behind else one >= name)]
                assert entries(filled, place) == wanted


def test_an_entry_by_its_own_name_is_found_where_clocks_go_back(store):
    times = [100, 200, 150, 160, 155, 300]
    for time_ms in times:
        batch = Batch()
        batch.append(b"a", [b""], time_ms, 0)
        store.commit(batch)
    for offset, time_ms in enumerate(times):
        assert offset_of_entry(store, b"a", time_ms, offset) == offset
        assert offset_of_entry(store, b"a", time_ms, offset, is_behind=True) == offset + 1
        assert offset_of_entry(store, b"a", time_ms, offset + 1) == offset + 1


def test_who_read_an_entry_that_is_gone_goes_on_behind_it_where_clocks_go_back(store):
    times = [100, 200, 150, 160, 155, 300, 290]
    for time_ms in times:
        batch = Batch()
        batch.append(b"a", [b""], time_ms, 0)
        store.commit(batch)
    store.delete(b"a", [1, 3, 6])
    for offset in (1, 3, 6):
        place = offset_of_entry(store, b"a", times[offset], offset, is_behind=True)
        assert place == offset + 1


def test_a_removed_entry_with_a_time_far_from_its_neighbours_is_placed_by_time(filled):
    filled.trim(b"a", 10)
    assert offset_of_entry(filled, b"a", 5_000, 3) == 20
    assert offset_of_entry(filled, b"a", 3, 15) == 0
    assert offset_of_entry(filled, b"a", 1_150, 0) == 15


def test_an_entry_of_an_unknown_topic_is_placed_at_zero(store):
    assert offset_of_entry(store, b"a", 5, 7) == 0


def test_where_a_clock_was_set_back_times_pass_at_the_answer(store):
    times = [10, 20, 30, 5, 15, 25, 35, 1, 40]
    for time_ms in times:
        batch = Batch()
        batch.append(b"a", [b""], time_ms, 0)
        store.commit(batch)
    for wanted in range(45):
        offset = offset_at_time(store, b"a", wanted)
        assert offset == len(times) or times[offset] >= wanted
        assert offset == 0 or times[offset - 1] < wanted


def test_a_search_reads_twenty_messages_of_a_million(store, monkeypatch):
    for _ in range(10):
        batch = Batch()
        batch.append(b"a", [b"x"] * 100_000, 1_000 + store.next_index, 0)
        store.commit(batch)
    reads = []
    read_topic = store.read_topic

    def counted(*arguments):
        reads.append(arguments)
        return read_topic(*arguments)

    monkeypatch.setattr(store, "read_topic", counted)
    assert offset_at_time(store, b"a", 1_004) == 300_000
    assert offset_at_sequence(store, b"a", 777_778) == 777_777
    assert len(reads) <= 2 * 22
