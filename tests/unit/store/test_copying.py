"""A copy of a store in use, made by another process."""

import os
import signal
import threading

import pytest

from penstock.errors import StorageError
from penstock.store.batch import Batch
from penstock.store.copies import copying
from penstock.store.lmdb_store import LmdbStore


def commit(store, count=1, size=10):
    for number in range(count):
        batch = Batch()
        batch.append(b"a", [b"%d" % number + bytes(size)], 1_000, 1)
        store.commit(batch)


def payloads(path):
    store = LmdbStore(path)
    try:
        return [m.payload for m in store.read_topic(b"a", 0, 1_000, 1 << 26).messages()]
    finally:
        store.close()


def test_a_copy_is_a_store_of_one_moment(tmp_path):
    source, target = tmp_path / "source", tmp_path / "target"
    LmdbStore(target).close()
    store = LmdbStore(source)
    commit(store, 50)
    with store.copy() as copy:
        copy.write_to(target)
    commit(store, 50)
    store.close()
    assert payloads(target) == payloads(source)[:50]


def test_the_map_grows_while_a_copy_is_being_made(tmp_path):
    """A copy that is no longer read delays no commit."""
    store = LmdbStore(tmp_path / "data", map_bytes=1 << 20)
    commit(store, 20, size=20_000)
    read, write = os.pipe()
    copy = threading.Thread(target=_copy_until_closed, args=(store, write))
    copy.start()
    assert os.read(read, 1)  # it has begun, and is stuck: a pipe holds less than the store
    before = store.size().map_bytes
    commit(store, 100, size=20_000)
    assert store.size().map_bytes > before
    os.close(read)
    copy.join(10)
    assert not copy.is_alive()
    store.close()


def _copy_until_closed(store, write):
    with pytest.raises(StorageError, match="could not be copied"):
        copying.copy_in_process(store._directory.path, store._environment, write)
    os.close(write)


def test_a_copy_that_is_killed_pins_no_pages(tmp_path, monkeypatch):
    store = LmdbStore(tmp_path / "data")
    commit(store, 20, size=20_000)
    run_instead(monkeypatch, "os.kill(os.getpid(), signal.SIGKILL)")
    with pytest.raises(StorageError, match=f"ended with -{signal.SIGKILL.value}"):
        store.copy()
    assert "no active readers" in store._environment._lmdb.readers()
    store.close()


def run_instead(monkeypatch, then):
    """The process that copies opens the database, and then does this."""
    popen = copying.subprocess.Popen
    script = f"import os, signal, sys, lmdb; e = lmdb.open(sys.argv[1], readonly=True); t = e.begin(); {then}"
    monkeypatch.setattr(
        copying.subprocess,
        "Popen",
        lambda command, **options: popen([command[0], "-c", script, command[-1]], **options),
    )


def test_a_copy_that_is_no_longer_wanted_ends(tmp_path, monkeypatch):
    store = LmdbStore(tmp_path / "data")
    commit(store, 20, size=20_000)
    run_instead(monkeypatch, "signal.pause()")
    wanted = iter([True, False])
    with pytest.raises(StorageError, match="could not be copied"):
        store.copy(lambda: next(wanted, False))
    assert "no active readers" in store._environment._lmdb.readers()
    store.close()
