"""The journal as a log: written before it is agreed upon, replaced where it was not, then applied."""

import pytest

from penstock.errors import StorageDamaged
from penstock.model.message import Extras
from penstock.store.batch import Batch, NodeSegment
from penstock.store.entry import decode
from penstock.store.lmdb_store import LmdbStore
from penstock.store.memory import MemoryStore
from penstock.store.segments import batch_of, first_offsets, pack_batch, spans, unpack_batch
from penstock.store.store import LogEntry, RetentionRequest, RetentionRules, Write

CONFIGURATION = 2


def batch(*messages, events=(), time_ms=1_000):
    made = Batch()
    for topic, payload in messages:
        made.append(topic, [payload], time_ms, 1)
    for event in events:
        made.add_event(event)
    return made


def drawn(store, *messages, **options):
    data = store.encode_batch(batch(*messages, **options)).data
    return LogEntry(store.last_index + 1, 0, data)


def payloads(store, topic=b"a"):
    return [message.payload for message in store.read_topic(topic, 0, 1_000, 1 << 20).messages()]


def test_what_is_written_is_not_read_before_it_is_folded(store):
    store.write(Write([drawn(store, (b"a", b"1"))], committed=0))
    assert store.last_index == 1
    assert store.next_index == 1
    assert store.topic(b"a") is None
    assert list(store.replay()) == []
    applied = store.apply(1)
    assert [entry.index for entry in applied] == [1]
    assert payloads(store) == [b"1"]
    assert store.next_sequence == 2


def test_the_tail_is_replaced_from_the_first_new_entry_on(store):
    store.write(Write([drawn(store, (b"a", b"old"))], committed=0))
    new = MemoryStore()
    new.write(Write([LogEntry(1, 0, b"")], committed=0))
    new.apply(1)
    entries = [LogEntry(1, 0, b""), drawn(new, (b"b", b"new"))]
    store.write(Write(entries, committed=0))
    assert store.last_index == 2
    store.apply(2)
    assert store.topic(b"a") is None
    assert payloads(store, b"b") == [b"new"]


def test_the_log_gives_back_what_was_put_into_it(store):
    first = drawn(store, (b"a", b"1"), events=[(1, b"x")])
    entries = [first, LogEntry(2, 0, b""), LogEntry(3, CONFIGURATION, b"whoever")]
    store.write(Write(entries, committed=0))
    assert store.log_entries(1, 4, 1 << 20) == entries
    store.apply(2)
    assert store.log_entries(1, 4, 1 << 20) == entries
    assert store.log_entries(2, 4, 0) == entries[1:2]
    with pytest.raises(LookupError):
        store.log_entries(4, 9, 1 << 20)


def test_an_entry_that_does_not_follow_is_refused(store):
    with pytest.raises(StorageDamaged, match="cannot follow"):
        store.write(Write([LogEntry(3, 0, b"")], committed=0))
    stray = drawn(store, (b"a", b"1"))
    with pytest.raises(StorageDamaged, match="is entry 1"):
        store.write(Write([LogEntry(1, 0, b""), LogEntry(2, 0, stray.data)], committed=0))


def test_what_is_folded_can_not_be_replaced(store):
    store.write(Write([drawn(store, (b"a", b"1"))], committed=0))
    store.apply(1)
    with pytest.raises(StorageDamaged):
        store.write(Write([LogEntry(1, 0, b"")], committed=0))


def test_a_start_folds_what_was_committed_and_keeps_the_rest_as_tail(tmp_path):
    store = LmdbStore(tmp_path / "data", 1 << 20)
    for number in range(3):
        store.write(Write([drawn(store, (b"a", b"%d" % number))], record=b"r", committed=number))
        store.apply(number + 1)
    other = MemoryStore()
    for entry in store.log_entries(1, 4, 1 << 20):
        other.write(Write([entry], committed=0))
    other.apply(3)
    store.write(Write([drawn(other, (b"a", b"tail"))], committed=3))
    store.close()
    store = LmdbStore(tmp_path / "data", 1 << 20)
    assert store.record() == b"r"
    assert (store.committed, store.next_index, store.last_index) == (3, 4, 4)
    assert payloads(store) == [b"0", b"1", b"2"]
    store.apply(4)
    assert payloads(store) == [b"0", b"1", b"2", b"tail"]
    store.close()


def test_a_lone_store_counts_everything_as_committed(tmp_path):
    store = LmdbStore(tmp_path / "data", 1 << 20)
    store.commit(batch((b"a", b"1")))
    store.write(Write([drawn(store, (b"a", b"2"))], record=b"", committed=None))
    store.close()
    store = LmdbStore(tmp_path / "data", 1 << 20)
    assert store.committed is None
    assert payloads(store) == [b"1", b"2"]
    store.close()


def test_a_drop_takes_effect_when_it_is_folded_and_only_once(tmp_path):
    store = LmdbStore(tmp_path / "data", 1 << 20)
    store.commit(batch((b"a", b"1"), (b"b", b"1")))
    dropping = batch((b"a", b"new"))
    dropping.drop(b"a")
    entry = LogEntry(2, 0, store.encode_batch(dropping).data)
    store.write(Write([entry], record=b"", committed=1))
    assert payloads(store) == [b"1"]
    store.apply(2)
    assert payloads(store) == [b"new"]
    store.close()  # before it was recorded that entry 2 is committed
    store = LmdbStore(tmp_path / "data", 1 << 20)
    store.apply(2)
    assert payloads(store) == [b"new"]
    assert store.size().messages == 2
    store.close()


def test_the_log_stays_whole_from_its_floor_on(store):
    for number in range(6):
        store.commit(batch(events=[(number, b"")]))
    rows = Batch()
    rows.checkpoint = 6
    store.commit(rows)
    store.log_floor = 4
    while store.retain(RetentionRequest(RetentionRules(), 0, 1 << 60)).more:
        pass
    if isinstance(store, LmdbStore):
        store.fold()
    assert store.first_index == 4
    assert [entry.index for entry in store.log_entries(4, 7, 1 << 20)] == [4, 5, 6]
    with pytest.raises(LookupError):
        store.log_entries(3, 7, 1 << 20)


# ── segments ──────────────────────────────────────────────────────────────────────────────────


def like(made):
    """A batch in a form that can be compared."""
    groups = {topic: (group.payloads, group.runs) for topic, group in made.groups.items()}
    events = [(position, list(event)) for position, event in made.events]
    return groups, made.count, events, made.extras, made.producers, list(made.drops)


def rich():
    made = Batch()
    made.append(b"a", [b"1", b"2"], 1_000, 1)
    made.append(b"b", [b"3"], 1_001, 0, [Extras(headers=((b"k", b"v"),))])
    made.append(b"a", [b"4"], 1_002, 5)
    made.add_producer_run(b"a", 2, 1, b"p", 7)
    made.add_event((9, b"x"))
    return made


def test_a_batch_that_travels_arrives_as_it_was():
    made = rich()
    made.drop(b"c")
    assert like(unpack_batch(pack_batch(made))) == like(made)


def test_a_damaged_batch_is_refused():
    data = bytearray(pack_batch(rich()))
    data[-3] ^= 1
    with pytest.raises(StorageDamaged):
        unpack_batch(bytes(data))


def test_every_batch_of_a_joined_entry_is_found_again_with_its_offsets():
    parts = [rich(), batch(events=[(1, b"only")]), rich(), batch((b"c", b"5"))]
    joined = Batch()
    for number, part in enumerate(parts):
        joined.absorb(part, NodeSegment(number + 1, 77, 10 + number))
    store = MemoryStore()
    store.commit(batch((b"a", b"before")))
    entry = decode(store.encode_batch(joined).data)
    found = spans(entry)
    assert [(span.segment.node, span.segment.number) for span in found] == [
        (1, 10), (2, 11), (3, 12), (4, 13)
    ]  # fmt: skip
    assert [like(batch_of(entry, span)) for span in found] == [like(part) for part in parts]
    assert [first_offsets(entry, span) for span in found] == [(1, 0), (), (4, 1), (0,)]
