"""The slots in which a commit is written down before it is flushed."""

import shutil

import pytest

from penstock.errors import StorageError
from penstock.store import write_ahead
from penstock.store.batch import Batch
from penstock.store.blocks.folder import inline_folder
from penstock.store.lmdb_store import LmdbStore
from penstock.store.write_ahead import SLOT_BYTES, Record, WriteAhead

MIB = 1 << 20


def commit(store, payload):
    batch = Batch()
    batch.append(b"t", [payload], 1_000, 1)
    return store.commit(batch)


def copied(tmp_path):
    """What a crash of the process would leave."""
    return shutil.copytree(tmp_path / "data", tmp_path / "crashed")


def payloads(store):
    return [message.payload for message in store.read_topic(b"t", 0, 1_000, 10**6).messages()]


def record(number):
    return Record(number, number, b"entry %d" % number, [("table", b"key", None)], 3)


def test_the_records_of_a_transaction_follow_each_other(open_store):
    ahead = open_store()._ahead
    for number in range(3):
        assert ahead.note(1_000, record(number))
        ahead.flush()
    assert ahead.records() == [record(0), record(1), record(2)]


def test_the_slots_take_turns(open_store):
    ahead = open_store()._ahead
    for transaction, number in ((9, 1), (10, 2), (10, 3), (11, 4)):
        assert ahead.note(transaction, record(number))
        ahead.flush()
    assert ahead.records() == [record(2), record(3), record(4)]


def test_a_record_that_is_damaged_counts_for_nothing_nor_do_those_after_it(open_store):
    store = open_store()
    ahead = store._ahead
    for number in range(3):
        assert ahead.note(1_000, record(number))
        ahead.flush()
    with store._environment.data_path.open("r+b") as file:
        file.seek(ahead._start + 4096 + 18)
        file.write(b"\xff")
    assert ahead.records() == [record(0)]


def test_a_record_of_a_commit_that_failed_is_not_followed_by_an_older_one(open_store):
    """The next record of the same transaction takes its place; what came after it is void."""
    ahead = open_store()._ahead
    for number in (0, 1, 2):
        assert ahead.note(1_000, record(number))
        ahead.flush()
    again = WriteAhead(ahead._environment)
    again.prepare()
    assert again.note(1_000, record(7))
    assert ahead.records() == [record(7)]
    again.erase(StorageError("failed"))
    assert ahead.records() == []
    again.close()


def test_no_page_has_bytes_of_two_records(open_store):
    """A disk may damage the page that it writes over."""
    ahead, places = open_store()._ahead, []
    while ahead.note(1_000, Record(1, 1, bytes(5_000), [], None)):
        ahead.flush()
        places.append(ahead._next.offset)
    assert places == [8_192 * number for number in range(1, SLOT_BYTES // 8_192 + 1)]


def test_what_an_earlier_version_wrote_down_is_committed_again(open_store, tmp_path):
    """It had smaller slots, and one record in each."""
    store = open_store()
    commit(store, b"before")
    environment, earlier = store._environment, 32 * 1024
    noted = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(write_ahead, "SLOT_BYTES", earlier)
        small = WriteAhead(environment)
        small.prepare()
        batch = Batch()
        batch.append(b"t", [b"lost"], 1_000, 1)
        with environment.reading() as transaction:
            assigned = store._assigner.assign(transaction, batch, store._position)
        noted = [store._record_of(assigned, batch)]
        assert small.note(environment.last_transaction + 1, noted[0])
        small.close()
    again = LmdbStore(copied(tmp_path), MIB, inline_folder)
    assert payloads(again) == [b"before", b"lost"]
    commit(again, b"after")
    assert payloads(again) == [b"before", b"lost", b"after"]
    again.close()


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
