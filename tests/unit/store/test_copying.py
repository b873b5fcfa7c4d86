"""A copy of a store in use, made by another process."""

import os
import signal
import threading
from pathlib import Path

import pytest

from penstock.errors import StorageError
from penstock.store import copying
from penstock.store.batch import Batch
from penstock.store.directory import DATA_NAME
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
    with (target / DATA_NAME).open("wb") as file:
        store.copy(file.fileno())
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
        store.copy(write)
    os.close(write)


def test_a_copy_that_is_killed_pins_no_pages(tmp_path, monkeypatch):
    store = LmdbStore(tmp_path / "data")
    commit(store, 20, size=20_000)
    run = copying.subprocess.run

    def killed(command, **options):
        script = "import os, signal, sys, lmdb; e = lmdb.open(sys.argv[1], readonly=True); t = e.begin(); os.kill(os.getpid(), signal.SIGKILL)"
        return run([command[0], "-c", script, command[-1]], **options)

    monkeypatch.setattr(copying.subprocess, "run", killed)
    pattern = f"ended with -{signal.SIGKILL.value}"
    with Path(os.devnull).open("wb") as nowhere, pytest.raises(StorageError, match=pattern):
        store.copy(nowhere.fileno())
    assert "no active readers" in store._environment._lmdb.readers()
    store.close()
