"""The codec of journal entries: nothing is lost on the way, and no flipped bit goes unnoticed."""

import struct
from base64 import b64decode
from zlib import crc32, decompress

import pytest

from penstock.errors import StorageDamaged, StorageForeign
from penstock.model.message import Extras, Signature
from penstock.store.batch import Batch
from penstock.store.entry import (
    DROPPED_IDS,
    HEADER_NUMBERS,
    PAYLOADS,
    PRODUCER_NUMBERS,
    RUN_TYPES,
    SCHEDULE_NUMBERS,
    SIGNATURES,
    TOPIC_IDS,
    Placement,
    decode,
    encode,
    join_sections,
)

PLAIN = range(TOPIC_IDS, PAYLOADS + 1)
PLACEMENTS = [Placement(3, 10), Placement(4, 0)]
SIGNED = Extras(signature=Signature(1, 7, b"s" * 64))
HEADED = Extras(((b"name", b"value"), (b"", b"")))
BOTH = Extras(((b"n", b"v" * 9),), Signature(2, 2**32 - 1, b"t" * 64, 2**40, b"\0nonce\0"))

LATER = Extras(due_ms=2**64 - 1)
SOON = Extras(((b"n", b"v"),), expires_ms=1_001)
IN_BETWEEN = Extras(due_ms=2, expires_ms=3)

# What the first release wrote for `sample` and `adorned`.
FIRST_SAMPLE = (
    "eNoLCA7xZmTgZdBt14lnAAJ2BghIgdKsQMwExM+ZIXxGIOaAigkAMTOUzwKlWaE0G5QNMo8HKgZSzwnlc0H1cgOxBFTM"
    "CGg4L5AWg8qxQNUhAxYkNzFD3QPiJybpH96DpIYZSQ8zkj5GqNhXKIORBaGOEYqZoe4HucfQyMjY2LhiFBANIGE5cRLr"
    "5GX5Bal5qSlH2JJzMlPzSiYxAiMNAOfLn3M="
)
FIRST_ADORNED = (
    "eNoLCA7xZmQQYuj5Nf8+AxCwM0BACpQG8ZmA+AUzhM8IxBxQMQEgZobyWaA0K5Rmg6phh6oDiYkAMSeUzwXVww3ECkDM"
    "A1XLB1XLD8QbkPQKQtUIAbEMEAtDMTPUHC4GVMAKNQ8mzwh1T2ISQg0LkjsZoDQLkl5kwAijgQBZjAnJDlaoeSC9hkam"
    "ZubGJmA1ILliCgGac8B2gMwuoRDAPZKXn5ecysDwHwiY2BH+gUkzo4UFFzSuhJEwCOSVwUBeYm5qWWJOaSpYHAAvTlMi"
)


def sample() -> bytes:
    batch = Batch()
    batch.append(b"a", [b"1", b"", b"22"], 1_000, 1)
    batch.append("b/ü".encode(), [b"x" * 300], 1_500, 0)
    batch.append(b"a", [b"333"], 999, 4)
    batch.add_event(("opened", b"client", [1, 2]))
    return encode(batch, 7, 100, PLACEMENTS)


def by_sections(encoded: bytes) -> bytes:
    """The same entry, put together column by column."""
    entry = decode(encoded)
    header = (entry.index, entry.base_sequence, entry.count, entry.group_count, entry.time_ms)
    return join_sections(header, [(n, bytes(entry.column(n))) for n in PLAIN if entry.has(n)])


def adorned() -> bytes:
    """Some messages have headers, some signatures, one both; numbers are not those of arrival."""
    batch = Batch()
    batch.append(b"a", [b"1", b"2"], 1_000, 1, [None, SIGNED])
    batch.append(b"b", [b"3", b"4"], 1_000, 1, [HEADED, None])
    batch.append(b"a", [b"5", b"6"], 1_000, 1)
    batch.append(b"a", [b"7"], 1_001, 1, [BOTH])
    return encode(batch, 7, 100, PLACEMENTS)


def scheduled() -> bytes:
    """Priorities, content types, and times before and after which a message is not wanted."""
    batch = Batch()
    batch.append(b"a", [b"1", b"2"], 1_000, 0x31, [None, LATER])
    batch.append(b"b", [b"3"], 1_000, 0x1, [SOON])
    batch.append(b"a", [b"4"], 1_000, 0x372)
    batch.append(b"a", [b"5"], 1_000, 0x272, [IN_BETWEEN])
    return encode(batch, 7, 100, PLACEMENTS)


def numbered() -> bytes:
    """Two producers numbered some messages; the others have no producer."""
    batch = Batch()
    batch.append(b"a", [b"1", b"2", b"3"], 1_000, 1)
    batch.append(b"b", [b"4"], 1_000, 1)
    batch.append(b"a", [b"5", b"6"], 1_000, 1)
    batch.add_producer_run(b"a", 1, 2, b"one", 2**64 - 2)
    batch.add_producer_run(b"b", 0, 1, b"", 5)
    batch.add_producer_run(b"a", 3, 1, b"two", 0)
    return encode(batch, 7, 100, PLACEMENTS)


def dropping() -> bytes:
    """Two topics are dropped, one of them is recreated."""
    batch = Batch()
    batch.append(b"a", [b"1"], 1_000, 1)
    return encode(batch, 7, 100, PLACEMENTS[:1], [(1, b"a"), (2, b""), (2**32 - 1, b"n" * 99)])


def resealed(data: bytes) -> bytes:
    """The same bytes with a checksum that fits them."""
    checksum = crc32(data[12:], crc32(data[:8]))
    return data[:8] + struct.pack("<I", checksum) + data[12:]


def test_messages_come_back_in_order_of_arrival():
    entry = decode(sample())
    rows = [
        (m.sequence, m.topic, m.offset, m.payload, m.time_ms, m.flags) for m in entry.messages()
    ]
    topic = "b/ü".encode()
    assert rows == [
        (100, b"a", 10, b"1", 1_000, 1),
        (101, b"a", 11, b"", 1_000, 1),
        (102, b"a", 12, b"22", 1_000, 1),
        (103, topic, 0, b"x" * 300, 1_500, 0),
        (104, b"a", 13, b"333", 999, 4),
    ]


def test_a_message_is_found_by_its_sequence():
    entry = decode(sample())
    assert [entry.message(sequence) for sequence in range(100, 105)] == list(entry.messages())


def test_events_come_back_with_their_position():
    assert decode(sample()).events == [(5, ("opened", b"client", [1, 2]))]


def test_an_entry_may_hold_events_only():
    batch = Batch()
    batch.add_event(("closed",))
    entry = decode(encode(batch, 1, 9, []))
    assert (entry.count, entry.groups, list(entry.messages())) == (0, [], [])
    assert entry.end_sequence == entry.base_sequence == 9


def test_headers_and_signatures_come_back_with_their_messages():
    entry = decode(adorned())
    expected = [None, SIGNED, HEADED, None, None, None, BOTH]
    assert [message.extras for message in entry.messages()] == expected
    assert [entry.message(sequence).extras for sequence in range(100, 107)] == expected


def test_flags_of_sixteen_bits_and_schedules_come_back_with_their_messages():
    entry = decode(scheduled())
    expected = [(0x31, None), (0x31, LATER), (0x1, SOON), (0x372, None), (0x272, IN_BETWEEN)]
    assert [(message.flags, message.extras) for message in entry.messages()] == expected
    assert [entry.flags(run) for run in entry.arrival] == [0x31, 0x1, 0x372, 0x272]
    assert entry.schedule(1, 3) == {1: (2**64 - 1, 0)}


def test_producers_come_back_with_the_offsets_of_their_messages():
    entry = decode(numbered())
    assert list(entry.producers()) == [
        (b"a", 11, 2, b"one", 2**64 - 2),
        (b"a", 13, 1, b"two", 0),
        (b"b", 0, 1, b"", 5),
    ]
    assert not list(decode(sample()).producers())


def test_dropped_topics_come_back_with_their_ids():
    assert decode(dropping()).dropped == [(1, b"a"), (2, b""), (2**32 - 1, b"n" * 99)]
    assert decode(sample()).dropped == []


@pytest.mark.parametrize(
    ("stretch", "expected"),
    [
        ((0, 1), []),
        ((0, 2), [(1, 1, b"one", 2**64 - 2)]),
        ((2, 5), [(0, 1, b"one", 2**64 - 1), (1, 1, b"two", 0)]),
        ((4, 6), [(1, 1, b"", 5)]),
    ],
)
def test_notes_are_cut_to_the_messages_asked_for(stretch, expected):
    assert list(decode(numbered()).producer_runs(*stretch)) == expected


@pytest.mark.parametrize(("make", "written"), [(sample, FIRST_SAMPLE), (adorned, FIRST_ADORNED)])
def test_entries_of_the_first_release_are_read_and_still_written_byte_for_byte(make, written):
    """New fields have their own sections, which batches without them do not get."""
    first = decompress(b64decode(written))
    assert list(decode(first).messages()) == list(decode(make()).messages())
    assert first == make()


def test_sections_for_extras_are_written_only_where_there_are_any():
    optional = {
        SIGNATURES,
        HEADER_NUMBERS,
        RUN_TYPES,
        SCHEDULE_NUMBERS,
        PRODUCER_NUMBERS,
        DROPPED_IDS,
    }
    assert not optional & decode(sample())._sections.keys()
    batch = Batch()
    batch.append(b"a", [b"1"], 1_000, 1, [SIGNED])
    entry = decode(encode(batch, 7, 100, PLACEMENTS[:1]))
    assert optional & entry._sections.keys() == {SIGNATURES}


def test_signatures_are_records_of_one_size_on_multiples_of_eight():
    """A reader of columns takes them as they are."""
    entry = decode(adorned())
    assert all(start % 8 == 0 for start, _ in entry._sections.values())
    assert len(entry.column(SIGNATURES)) == 2 * 88


@pytest.mark.parametrize("make", [sample, adorned, scheduled, numbered, dropping])
def test_every_flipped_bit_is_noticed(make):
    data = make()
    for place in range(len(data)):
        for bit in range(8):
            flipped = bytearray(data)
            flipped[place] ^= 1 << bit
            with pytest.raises(StorageDamaged):
                decode(bytes(flipped))


def test_every_truncation_is_noticed():
    data = sample()
    for length in range(len(data)):
        with pytest.raises(StorageDamaged):
            decode(data[:length])


@pytest.mark.parametrize("length", [48, 100, -8])
def test_a_truncation_under_a_fitting_checksum_is_noticed(length):
    with pytest.raises(StorageDamaged, match="entry"):
        decode(resealed(sample()[:length]))


def test_a_later_version_is_refused_by_name():
    data = bytearray(sample())
    data[4] = 2
    with pytest.raises(StorageForeign, match="version 2"):
        decode(resealed(bytes(data)))


def test_a_section_that_nobody_knows_is_passed_over():
    """That is how columns are added without a new version."""
    data = sample()
    number = struct.unpack_from("<H", data, 6)[0]
    directory_end = 48 + 8 * number
    added = struct.pack("<HHI", 999, 0, 3)
    longer = (
        data[:6]
        + struct.pack("<H", number + 1)
        + data[8:directory_end]
        + added
        + data[directory_end:]
        + b"new\0\0\0\0\0"
    )
    assert list(decode(resealed(longer)).messages()) == list(decode(data).messages())


def test_a_clock_that_jumps_by_months_within_a_batch_is_clipped():
    batch = Batch()
    batch.append(b"a", [b"1"], 0, 0)
    batch.append(b"a", [b"2"], 2**40, 0)
    entry = decode(encode(batch, 1, 1, [Placement(1, 0)]))
    assert [m.time_ms for m in entry.messages()] == [0, 2**32 - 1]


def test_sections_begin_on_multiples_of_eight():
    """Arrow wants its buffers aligned."""
    entry = decode(sample())
    assert all(start % 8 == 0 for start, _ in entry._sections.values())


@pytest.mark.parametrize("payload", [b"", b"1", b"12345678", b"x" * 100_000])
@pytest.mark.parametrize("topic", [b"a", b"fleet/42", "b/ü".encode()])
@pytest.mark.parametrize("flags", [0, 1, 0xFF])
def test_an_entry_of_one_message_is_the_one_that_its_columns_make(
    payload: bytes, topic: bytes, flags: int
) -> None:
    batch = Batch()
    batch.append(topic, [payload], 2**41, flags)
    encoded = encode(batch, 7, 2**40, [Placement(2**31, 2**50)])
    entry = decode(encoded)
    columns = [entry.column(number).tolist() for number in PLAIN]
    assert columns == [
        [2**31], [2**50], [1], [1], [len(topic)], list(topic),
        [0], [0, 1], [0], [flags], [0, len(payload)], list(payload),
    ]  # fmt: skip
    assert (entry.index, entry.base_sequence, entry.time_ms) == (7, 2**40, 2**41)
    assert encoded == by_sections(encoded)


def test_an_entry_of_one_message_keeps_what_comes_with_it() -> None:
    batch = Batch()
    batch.append(b"a", [b"1"], 1_000, 0x372, [HEADED])
    batch.add_event(("opened", b"client", [1, 2]))
    entry = decode(encode(batch, 7, 100, [Placement(3, 10)]))
    assert entry.message(100).extras == HEADED
    assert entry.message(100).flags == 0x372
    assert len(entry.events) == 1
