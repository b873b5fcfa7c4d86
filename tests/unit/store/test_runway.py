"""The file is extended before a commit needs it, without visible effect."""

import errno
import os
from pathlib import Path

import pytest

from penstock.store import environment
from penstock.store.batch import Batch
from penstock.store.lmdb_store import LmdbStore


def _commit(store: LmdbStore, count: int = 1) -> None:
    for _ in range(count):
        batch = Batch()
        batch.append(b"t", [b"x" * 4000], 1, 1)
        store.commit(batch)
        store.prepare()


def _used_bytes(store: LmdbStore) -> int:
    lmdb = store._environment._lmdb
    return (lmdb.info()["last_pgno"] + 1) * lmdb.stat()["psize"]


@pytest.fixture
def store(tmp_path: Path):
    opened = LmdbStore(tmp_path, map_bytes=1 << 26)
    yield opened
    opened.close()


def _file(tmp_path: Path) -> Path:
    return tmp_path / environment.DATA_NAME


def test_a_commit_finds_blocks_to_overwrite(tmp_path, store):
    _commit(store)
    for _ in range(600):
        room = _file(tmp_path).stat().st_size - _used_bytes(store)
        assert room > 8 * 4096, "this commit will have to make the file longer"
        assert room <= environment.RUNWAY_BYTES * 5 // 4
        _commit(store)


def test_what_was_written_ahead_is_no_part_of_the_store(tmp_path, store):
    _commit(store, 20)
    size = store.size().bytes_used
    store.close()
    again = LmdbStore(tmp_path, map_bytes=1 << 26)
    assert again.size().bytes_used == size
    assert again.topic(b"t").count == 20
    again.close()


def test_a_disk_without_room_for_it_does_not_matter(tmp_path, store, monkeypatch):
    def full(*_arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(environment.os, "pwrite", full)
    _commit(store, 5)
    assert store.topic(b"t").count == 5
