"""Messages in bulk as they lie in the journal: the same as those that are read one by one."""

from array import array
from random import Random

import pytest
from tests.unit.store.raw_answers import (
    TOPIC,
    fill,
    messages_of,
    notes_in,
    numbered,
    u32,
)

from penstock.model import columns
from penstock.model.message import Extras
from penstock.store import raw
from penstock.store.batch import Batch
from penstock.store.raw import lessened
from penstock.store.store import RawQuery
from penstock.wire.queue._generated.queue_pb2 import Response
from penstock.wire.queue.bulk import Bulk, fetched

MANY = 1_000_000


def read(store, start=0, end=0, *, count_max=MANY, bytes_max=MANY, mask=columns.ALL):
    """What the journal has, by way of the frame that a client would get."""

    def make(info, next_offset, slices):
        frame = fetched(Bulk(info.id, info.first_offset, info.next_offset, next_offset), slices, 7)
        return Response.FromString(frame[4:])

    found = store.read_raw(RawQuery(TOPIC, start, end, count_max, bytes_max, mask), make)
    assert found.request_id == 7
    return found.fetched


def expected(store, start=0, end=MANY):
    return [
        (m.offset, m.sequence, m.time_ms, m.flags, m.payload, m.extras)
        for m in store.read_topic(TOPIC, start, MANY, MANY).messages()
        if m.offset < end
    ]


@pytest.mark.parametrize("seed", range(12))
def test_raw_columns_say_what_messages_say(store, seed):
    fill(store, seed)
    assert messages_of(read(store)) == expected(store)


@pytest.mark.parametrize("seed", range(12))
def test_a_stretch_may_begin_and_end_anywhere(store, seed):
    fill(store, seed)
    dice = Random(seed)
    end = store.topic(TOPIC).next_offset
    for _ in range(25):
        start, stop = sorted(dice.sample(range(end + 1), 2))
        answer = read(store, start, stop)
        assert messages_of(answer) == expected(store, start, stop)
        assert answer.next_offset == stop
        plain = store.read_topic(TOPIC, start, stop - start, MANY).slices
        assert numbered((part.first_offset, notes_in(part)) for part in answer.slices) == numbered(
            (part.first_offset, part.producers) for part in plain
        )


@pytest.mark.parametrize("bounds", [{"count_max": 7}, {"bytes_max": 40}, {"bytes_max": 0}])
def test_reading_goes_on_where_it_ended_and_misses_nothing(store, bounds):
    fill(store, 3)
    found, offset = [], 0
    while offset < store.topic(TOPIC).next_offset:
        answer = read(store, offset, **bounds)
        part = messages_of(answer)
        assert part
        assert len(part) <= bounds.get("count_max", MANY)
        found += part
        offset = answer.next_offset
    assert found == expected(store)


def test_neither_payloads_nor_headers_exceed_the_bound_unless_one_message_does(store):
    batch = Batch()
    small, large = Extras(((b"n", b"v"),)), Extras(((b"n", bytes(100)),))
    batch.append(TOPIC, [b"1234"] * 6, 1, 0, [small, None, large, small, large, small])
    store.commit(batch)
    found, offset = [], 0
    while offset < 6:
        answer = read(store, offset, bytes_max=50)
        found.append([message[0] for message in messages_of(answer)])
        offset = answer.next_offset
    assert found == [[0, 1], [2], [3], [4], [5]]


def test_a_message_that_exceeds_the_bound_is_read_alone_whatever_follows(store):
    for payload, extras in ((bytes(60), None), (b"1", Extras(((b"n", b"v"),))), (b"2", None)):
        batch = Batch()
        batch.append(TOPIC, [payload], 1, 0, [extras] if extras else None)
        store.commit(batch)
    assert [message[0] for message in messages_of(read(store, bytes_max=50))] == [0]


def test_what_is_not_asked_for_is_not_there(store):
    fill(store, 1)
    whole, numbers = read(store).slices, read(store, mask=columns.NUMBERS).slices
    assert [part.run_positions for part in numbers] == [part.run_positions for part in whole]
    for part in numbers:
        names = {field.name for field, _ in part.ListFields()}
        assert names <= {
            "first_offset", "count", "base_sequence", "time_ms",
            "run_starts", "run_positions", "run_times", "run_flags", "run_types",
        }  # fmt: skip
    only = read(store, mask=columns.SIGNATURES).slices
    assert [part.signatures for part in only] == [part.signatures for part in whole]
    assert not any(part.payloads or part.bounds or part.header_texts for part in only)


def test_what_was_deleted_or_removed_is_passed_over(store):
    batch = Batch()
    batch.append(TOPIC, [b"%d" % number for number in range(10)], 1, 0, None)
    store.commit(batch)
    store.trim(TOPIC, 2)
    store.delete(TOPIC, [4, 5, 9])
    answer = read(store)
    assert [message[0] for message in messages_of(answer)] == [2, 3, 6, 7, 8]
    assert (answer.first_offset, answer.next_offset, answer.end_offset) == (2, 10, 10)
    assert read(store, 4, 6).next_offset == 6
    assert read(store, 3, 5).next_offset == 5
    assert read(store, 30).next_offset == 30


def test_there_is_nothing_of_no_topic(store):
    assert store.read_raw(RawQuery(TOPIC, 0, 0, 9, 9, columns.ALL), None) is None


@pytest.mark.parametrize("count", [0, 1, 24, 25, 3000])
def test_a_number_is_taken_from_all_numbers_of_a_column(count):
    numbers = [Random(count).randrange(77, 2**32) for _ in range(count)]
    column = memoryview(array("I", numbers).tobytes())
    assert u32(lessened(column, 77)) == [number - 77 for number in numbers]
    assert u32(lessened(column, 0)) == numbers


# ── how far bytes reach


def reach_of(store, start, bytes_max):
    """The same, message by message."""
    reached = start
    for message in store.read_topic(TOPIC, start, MANY, MANY).messages():
        bytes_max -= len(message.payload)
        if bytes_max < 0 and reached > start:
            break
        reached = message.offset + 1
        if bytes_max < 0:
            break
    return reached


@pytest.mark.parametrize("seed", range(6))
def test_bytes_reach_as_far_as_messages_fit(store, seed):
    fill(store, seed)
    dice = Random(seed)
    end = store.topic(TOPIC).next_offset
    for _ in range(40):
        start, bytes_max = dice.randrange(end), dice.choice([1, 15, 200, 2000, MANY])
        assert store.measure(TOPIC, start, bytes_max) == reach_of(store, start, bytes_max)


def test_bytes_reach_over_what_was_deleted_and_not_beyond_the_end(store):
    for _ in range(3):
        batch = Batch()
        batch.append(TOPIC, [b"1234"] * 4, 1, 0, None)
        store.commit(batch)
    store.delete(TOPIC, [2, 3, 4])
    assert store.measure(TOPIC, 0, 12) == 6
    assert store.measure(TOPIC, 0, MANY) == 12
    assert store.measure(TOPIC, 12, MANY) == 12
    assert store.measure(b"none", 5, MANY) == 5


def test_only_so_many_entries_are_opened_for_one_answer(store, monkeypatch):
    """The next one goes on where it ends, and nothing is missing."""
    monkeypatch.setattr(raw, "GROUPS_OPENED_MAX", 3)
    for number in range(8):
        batch = Batch()
        batch.append(TOPIC, [b"%d" % number], 1, 0)
        store.commit(batch)
    found, start = [], 0
    while start < 8:
        answer = read(store, start, mask=columns.PAYLOADS)
        assert len(messages_of(answer)) <= 3
        found += [message[4] for message in messages_of(answer)]
        start = answer.next_offset
    assert found == [b"%d" % number for number in range(8)]
