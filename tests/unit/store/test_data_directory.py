"""Ownership of the directory, and the errors when it is foreign or damaged."""

import os
import subprocess
import sys

import lmdb
import pytest

from penstock.errors import StorageDamaged, StorageError, StorageForeign, StorageLocked
from penstock.store.batch import Batch
from penstock.store.directory import DataDirectory
from penstock.store.lmdb_store import LmdbStore

MIB = 1024 * 1024


def commit_one(store):
    batch = Batch()
    batch.append(b"a", [b"payload"], 1, 0)
    store.commit(batch)


def made(path):
    """A closed store with one message."""
    store = LmdbStore(path, MIB)
    commit_one(store)
    store.close()
    return path


def test_a_second_opener_is_refused_and_told_who_has_it(tmp_path):
    store = LmdbStore(tmp_path, MIB)
    with pytest.raises(StorageLocked, match=f"process {os.getpid()}"):
        LmdbStore(tmp_path, MIB)
    commit_one(store)
    store.close()
    LmdbStore(tmp_path, MIB).close()


def test_another_process_is_refused_too(tmp_path):
    store = LmdbStore(tmp_path, MIB)
    script = (
        "import sys, pathlib\n"
        "from penstock.store.lmdb_store import LmdbStore\n"
        "LmdbStore(pathlib.Path(sys.argv[1]))\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    other = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "StorageLocked" in other.stderr
    store.close()


def test_a_directory_with_other_things_in_it_is_left_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("precious")
    with pytest.raises(StorageForeign, match=r"thesis\.txt"):
        LmdbStore(tmp_path, MIB)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["thesis.txt"]


@pytest.mark.parametrize("below", ["", "data"])
def test_a_file_is_said_to_be_one(tmp_path, below):
    file = tmp_path / "thesis.txt"
    file.write_text("precious")
    with pytest.raises(StorageForeign, match=r"thesis\.txt is a file, not a directory\n"):
        LmdbStore(file / below, MIB)


def test_a_database_without_marker_is_foreign(tmp_path):
    made(tmp_path)
    (tmp_path / "PENSTOCK").unlink()
    with pytest.raises(StorageForeign, match=r"data\.mdb"):
        LmdbStore(tmp_path, MIB)


def test_a_mounted_volume_with_lost_and_found_is_fine(tmp_path):
    (tmp_path / "lost+found").mkdir()
    LmdbStore(tmp_path, MIB).close()


def test_a_later_format_is_refused_by_number(tmp_path):
    marker = made(tmp_path) / "PENSTOCK"
    marker.write_bytes(marker.read_bytes().replace(b'"format":2', b'"format":3'))
    with pytest.raises(StorageForeign, match="format 3"):
        LmdbStore(tmp_path, MIB)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b'{"format":"one"}'])
def test_a_damaged_marker_is_reported(tmp_path, content):
    (made(tmp_path) / "PENSTOCK").write_bytes(content)
    with pytest.raises(StorageDamaged, match="PENSTOCK"):
        LmdbStore(tmp_path, MIB)


def test_a_database_that_vanished_is_not_made_anew(tmp_path):
    (made(tmp_path) / "data.mdb").unlink()
    with pytest.raises(StorageDamaged, match="missing"):
        LmdbStore(tmp_path, MIB)
    assert not (tmp_path / "data.mdb").exists()


@pytest.mark.parametrize("content", [b"x" * 8192, b"", b"\0" * 100])
def test_a_database_with_a_broken_head_is_reported(tmp_path, content):
    (made(tmp_path) / "data.mdb").write_bytes(content)
    with pytest.raises(StorageDamaged):
        LmdbStore(tmp_path, MIB)


def test_an_empty_database_in_place_of_ours_is_reported(tmp_path):
    made(tmp_path)
    for name in ("data.mdb", "lock.mdb"):
        (tmp_path / name).unlink()
    lmdb.open(str(tmp_path), max_dbs=1).close()
    with pytest.raises(StorageDamaged, match="marks"):
        LmdbStore(tmp_path, MIB)


@pytest.mark.parametrize("content", [None, b"", b"half a page"])
def test_a_creation_that_was_cut_short_is_begun_anew(tmp_path, content):
    DataDirectory(tmp_path).close()
    if content is not None:
        (tmp_path / "data.mdb").write_bytes(content)
    (tmp_path / "PENSTOCK.new").write_bytes(b"{")
    store = LmdbStore(tmp_path, MIB)
    commit_one(store)
    store.close()
    store = LmdbStore(tmp_path, MIB)
    assert store.next_sequence == 2
    store.close()


def test_a_path_that_can_not_be_a_directory_is_reported_with_advice(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(StorageError, match="cannot be used") as caught:
        LmdbStore(tmp_path / "link", MIB)
    assert caught.value.advice


def test_a_failed_opening_lets_go_of_the_lock(tmp_path):
    marker = made(tmp_path) / "PENSTOCK"
    content = marker.read_bytes()
    marker.write_bytes(b"{")
    with pytest.raises(StorageDamaged):
        LmdbStore(tmp_path, MIB)
    marker.write_bytes(content)
    LmdbStore(tmp_path, MIB).close()
