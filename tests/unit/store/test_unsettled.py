"""Small commits that are only written down: LMDB gets them later, and nobody sees a difference."""

import errno
import shutil
import subprocess
import sys
import threading

import pytest
from tests.failing_writes import with_failing_writes

from penstock.errors import StorageBroken, StorageError, StorageFull
from penstock.store.batch import Batch
from penstock.store.blocks.folder import inline_folder
from penstock.store.copies.restore import restore
from penstock.store.lmdb_store import LmdbStore
from penstock.store.unsettled import DIRECT_COMMITS, WORTH_RECORDS
from penstock.store.verify import verify
from penstock.store.write_ahead import SLOT_BYTES

MIB = 1 << 20


@pytest.fixture
def store(open_store):
    """It knows the topic, and its file has room for what is to come."""
    store = open_store()
    commit(store, b"first")
    store.prepare()
    return store


def batch_of(payload, row=None, checkpoint=None):
    batch = Batch()
    batch.append(b"t", [payload], 1_000, 1)
    if row is not None:
        batch.add_row("rows", b"key", row)
    batch.checkpoint = checkpoint
    return batch


def commit(store, payload):
    return store.commit(batch_of(payload))


def commit_some(store, count=5):
    """Small commits that are unsettled afterwards; return their payloads."""
    sent = [b"%d" % (store.next_index + number) for number in range(count)]
    for payload in sent:
        store.commit_small(batch_of(payload))
    assert store._environment.is_unsettled
    return sent


def payloads(store):
    return [message.payload for message in store.read_topic(b"t", 0, 1_000, 10**6).messages()]


def in_lmdb(store):
    """How many entries LMDB has, whatever is unsettled."""
    with store._environment._lmdb.begin() as transaction:
        return transaction.stat(store._environment["journal"])["entries"]


@pytest.fixture
def crashed(tmp_path):
    """What a crash at this moment would leave."""
    opened = []

    def crash():
        path = tmp_path / f"crashed{len(opened)}"
        shutil.copytree(tmp_path / "data", path)
        opened.append(LmdbStore(path, MIB, inline_folder))
        return opened[-1]

    yield crash
    for store in opened:
        store.close()


def test_small_commits_take_no_transaction(store):
    before = store._environment.last_transaction
    commit_some(store, 20)
    assert store._environment.last_transaction == before
    assert in_lmdb(store) == 1


def test_who_reads_finds_them(store):
    sent = commit_some(store)
    assert payloads(store) == [b"first", *sent]
    assert in_lmdb(store) == 1 + len(sent)


def test_a_crash_loses_none_of_them(store, crashed):
    sent = commit_some(store)
    again = crashed()
    assert payloads(again) == [b"first", *sent]
    assert (again.next_index, again.next_sequence) == (store.next_index, store.next_sequence)


def test_rows_and_checkpoint_belong_to_them(store, crashed):
    commit_some(store)
    store.commit_small(batch_of(b"with", b"row", 3))
    for each in (crashed(), store):
        assert dict(each.rows("rows")) == {b"key": b"row"}
        assert [entry.index for entry in each.replay()] == [4, 5, 6, 7]


def test_a_slot_that_is_full_is_settled_by_the_next_commit(store, crashed):
    sent = commit_some(store, SLOT_BYTES // 4096 - 1)
    assert in_lmdb(store) == 1
    for number in range(40):
        sent.append(b"more %d" % number)
        store.commit_small(batch_of(sent[-1]))
    assert in_lmdb(store) > SLOT_BYTES // 4096 - 1
    assert payloads(crashed()) == [b"first", *sent]
    assert payloads(store) == [b"first", *sent]


def test_the_commit_that_settles_a_full_slot_is_flushed_once(store, monkeypatch):
    """It is written down in the place that was left for it."""
    synced = []
    monkeypatch.setattr(store._environment, "_flush", lambda: synced.append(store.next_index))
    before = store._environment.last_transaction
    for number in range(SLOT_BYTES // 4096):
        store.commit_small(batch_of(b"%d" % number))
    assert store._environment.last_transaction == before + 1
    assert not synced


def test_a_commit_of_another_kind_takes_them_along(store, crashed):
    """In its own transaction, with one flush; so do those that are not written down."""
    before = store._environment.last_transaction
    sent = commit_some(store)
    commit(store, b"direct")
    assert store._environment.last_transaction == before + 1
    assert in_lmdb(store) == 7
    sent += [b"direct", *commit_some(store)]
    commit(store, bytes(SLOT_BYTES))
    assert store._environment.last_transaction == before + 2
    assert payloads(crashed()) == [b"first", *sent, bytes(SLOT_BYTES)]


@pytest.mark.parametrize(
    "work",
    [
        lambda store: store.trim(b"t", 1),
        lambda store: store.delete(b"t", [3]),
        lambda store: store.fold(),
        lambda store: store.copy().__enter__(),
    ],
    ids=["trim", "delete", "fold", "copy"],
)
def test_other_work_comes_after_them(store, crashed, work):
    commit_some(store)
    store.commit_small(batch_of(b"with", None, 4))
    work(store)
    assert not store._environment.is_unsettled
    assert payloads(crashed()) == payloads(store)
    assert payloads(store)[-1] == b"with"


def test_a_backup_has_them_though_another_process_makes_it(store, tmp_path):
    sent = commit_some(store)
    file, data = tmp_path / "backup.tar", tmp_path / "restored"
    command = [sys.executable, "-m", "penstock", "backup", "--data", str(tmp_path / "data")]
    subprocess.run([*command, str(file)], check=True, capture_output=True, timeout=50)
    restore(file, data)
    restored = LmdbStore(data, MIB, inline_folder)
    assert payloads(restored) == [b"first", *sent]
    commit(restored, b"after")
    restored.close()
    assert verify(data).is_sound


def test_a_topic_that_is_not_known_takes_a_transaction(store):
    batch = Batch()
    batch.append(b"new", [b"payload"], 1_000, 1)
    store.commit_small(batch)
    assert not store._environment.is_unsettled
    store.commit_small(batch)
    assert store._environment.is_unsettled


def test_without_room_in_the_file_none_waits_for_room_later(open_store):
    store = open_store()
    for number in range(40):
        store.commit_small(batch_of(b"%d" % number * 100))
        if store._environment.is_unsettled:
            assert store._environment.spare_bytes > 0
    assert len(payloads(store)) == 40


def test_where_readers_follow_each_commit_none_is_put_off(store):
    commit_some(store, WORTH_RECORDS - 1)
    payloads(store)
    for number in range(DIRECT_COMMITS):
        store.commit_small(batch_of(b"%d" % number))
        assert not store._environment.is_unsettled
    commit_some(store, WORTH_RECORDS)
    payloads(store)
    commit_some(store)


def test_a_flush_that_fails_ends_the_store_and_its_commit_is_refused(store, crashed):
    sent = commit_some(store)
    with pytest.MonkeyPatch.context() as patch:

        def fail(_file):
            raise OSError(errno.EIO, "failed")

        patch.setattr("os.fdatasync", fail)
        with pytest.raises(StorageBroken):
            store.commit_small(batch_of(b"refused"))
    for again in (commit, lambda *given: store.commit_small(batch_of(given[1]))):
        with pytest.raises(StorageBroken):
            again(store, b"refused, too")
    assert payloads(crashed())[: 1 + len(sent)] == [b"first", *sent]


def test_a_full_disk_fails_the_commit_and_none_of_those_before(store, crashed):
    sent = commit_some(store)
    with pytest.raises(StorageFull):
        with_failing_writes(errno.ENOSPC, lambda: commit(store, b"x" * 100_000), beyond=2 * 4096)
    assert payloads(crashed()) == [b"first", *sent]
    assert payloads(store) == [b"first", *sent]
    sent += commit_some_later(store)
    assert payloads(store) == payloads(crashed()) == [b"first", *sent]


def commit_some_later(store):
    """After the disk was full; some may go to LMDB directly."""
    sent = [b"later %d" % number for number in range(DIRECT_COMMITS + 3)]
    for payload in sent:
        store.commit_small(batch_of(payload))
    return sent


def test_a_stop_on_a_full_disk_leaves_them_to_the_next_start(store, open_store):
    sent = commit_some(store)
    with pytest.MonkeyPatch.context() as patch:

        def fail(*_given):
            raise StorageError("full")

        patch.setattr(store._environment, "write_directly", fail)
        store.close()
    assert payloads(open_store()) == [b"first", *sent]


def test_readers_in_other_threads_see_whatever_was_acknowledged(store):
    """The writer commits while others read; each sees all commits that ended before it began."""
    faults, done = [], threading.Event()
    committed = [1]

    def read():
        while not done.is_set():
            before = committed[0]
            found = len(payloads(store))
            if not before <= found:
                faults.append((before, found))

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for number in range(300):
        (store.commit_small if number % 10 else store.commit)(batch_of(b"%d" % number))
        committed[0] += 1
    done.set()
    for reader in readers:
        reader.join()
    assert not faults
    assert len(payloads(store)) == 301
