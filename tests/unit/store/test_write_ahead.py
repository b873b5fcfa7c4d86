"""The slots in which a commit is written down before it is flushed."""

import shutil

from penstock.store.batch import Batch
from penstock.store.blocks.folder import inline_folder
from penstock.store.lmdb_store import LmdbStore
from penstock.store.write_ahead import SLOT_BYTES, Record

MIB = 1 << 20


def commit(store, payload):
    batch = Batch()
    batch.append(b"t", [payload], 1_000, 1)
    return store.commit(batch)


def payloads(store):
    return [message.payload for message in store.read_topic(b"t", 0, 1_000, 10**6).messages()]


def test_a_record_belongs_to_one_transaction(open_store):
    ahead = open_store()._ahead
    record = Record(7, 5, b"entry", [("table", b"key", None)], 3)
    assert ahead.note(1_000, record)
    assert ahead.lost(999) == record
    assert ahead.lost(998) is None
    assert ahead.lost(1_000) is None
    assert ahead.lost(1_001) is None


def test_the_slots_take_turns(open_store):
    ahead = open_store()._ahead
    first, second = Record(1, 1, b"first", [], None), Record(2, 2, b"second", [], None)
    assert ahead.note(10, first)
    assert ahead.note(11, second)
    assert (ahead.lost(9), ahead.lost(10)) == (first, second)


def test_a_record_that_is_damaged_counts_for_nothing(open_store):
    store = open_store()
    ahead = store._ahead
    assert ahead.note(1_000, Record(7, 5, b"entry", [], None))
    with store._environment.data_path.open("r+b") as file:
        file.seek(ahead._slot(1_000) + 18)
        file.write(b"\xff")
    assert ahead.lost(999) is None


def test_what_does_not_fit_is_not_written_down(open_store):
    store = open_store()
    assert not store._ahead.note(1_000, Record(7, 5, bytes(SLOT_BYTES), [], None))
    commit(store, bytes(SLOT_BYTES))
    commit(store, b"small")
    assert payloads(open_store()) == [bytes(SLOT_BYTES), b"small"]


def test_the_slots_stay_where_they_are(open_store):
    places = set()
    for number in range(3):
        store = open_store()
        for _ in range(20):
            commit(store, b"%d" % number * 500)
        store.prepare()
        places.add((store._ahead._name, store._ahead._start))
    assert len(places) == 1


def test_a_copy_gets_slots_of_its_own(open_store, tmp_path):
    """In a copy the pages are elsewhere, and the transactions are counted from the beginning."""
    store = open_store()
    for number in range(50):
        commit(store, b"%d" % number)
    other = tmp_path / "other"
    shutil.copytree(tmp_path / "data", other, ignore=shutil.ignore_patterns("*.mdb"))
    with (other / "data.mdb").open("wb") as file:
        store._environment.copy(file.fileno())
    copied = LmdbStore(other, MIB, inline_folder)
    commit(copied, b"of the copy")
    assert payloads(copied) == [*payloads(store), b"of the copy"]
    assert copied._ahead._name != store._ahead._name
    copied.close()
