"""A copy of a store with blocks: of one moment and whole, whatever is removed meanwhile."""

import os
from errno import EMFILE
from pathlib import Path

import pytest

from penstock.errors import StorageError, StorageFull
from penstock.limits import GIB
from penstock.store.batch import Batch
from penstock.store.blocks.files import BlockFiles
from penstock.store.blocks.folder import inline_folder
from penstock.store.copies import store_copy
from penstock.store.copies.store_copy import copy_store
from penstock.store.directory import COPY_PREFIX
from penstock.store.lmdb_store import LmdbStore

BLOCK_BYTES = 4096


def opened(path):
    return LmdbStore(path, 1 << 24, inline_folder, BLOCK_BYTES)


def commit(store, count=20):
    for _ in range(count):
        batch = Batch()
        batch.append(b"a", [b"%d" % store.next_sequence, os.urandom(500)], 1_000, 1)
        batch.checkpoint = store.next_index
        store.commit(batch)
    store.fold()


def descriptors():
    return len(list(Path("/proc/self/fd").iterdir()))


def payloads(path):
    store = opened(path)
    try:
        found = [m.payload for m in store.read_topic(b"a", 0, 10_000, GIB).messages()]
        assert not store._blocks.damage.found
        return found
    finally:
        store.close()


@pytest.fixture
def store(tmp_path):
    store = opened(tmp_path / "source")
    commit(store)
    yield store
    store.close()


@pytest.fixture
def source(tmp_path):
    return tmp_path / "source"


@pytest.fixture
def target(tmp_path):
    opened(tmp_path / "target").close()
    return tmp_path / "target"


def test_a_copy_has_all_blocks_and_the_tail(store, target):
    assert len(store._blocks.current.blocks) > 3
    written = [m.payload for m in store.read_topic(b"a", 0, 10_000, GIB).messages()]
    with store.copy() as copy:
        commit(store)
        copy.write_to(target)
    assert payloads(target) == written


def test_blocks_that_are_removed_later_are_in_it(store, source, target):
    with store.copy() as copy:
        for number in BlockFiles(source).numbers():
            BlockFiles(source).remove(number)
        copy.write_to(target)
    assert len(payloads(target)) == 40


def test_a_copy_starts_over_if_blocks_go_before_they_are_open(store, source, target):
    """As compaction does it: another block takes the place of some, whose files go."""
    copies = []

    def copied(file):
        write = store_copy_of(store, file)
        copies.append(write)
        if len(copies) == 1:
            commit(store)
            blocks = store._blocks
            gone = blocks.current.blocks[0].row
            store._environment.write(0, lambda t: blocks.delete(store._environment, t, gone))
            blocks.replace((), {gone.summary.number})

    with copy_store(source, copied) as copy:
        assert not any(block.is_lost for block in copy.blocks)
        copy.write_to(target)
    assert len(copies) == 2
    assert len(payloads(target)) < 80


def store_copy_of(store, file):
    return store._environment.copy(file)


def test_a_lost_block_costs_itself_alone(store, source, target):
    lost, *_ = BlockFiles(source).numbers()
    BlockFiles(source).file(lost).unlink()
    with store.copy() as copy:
        assert [block.summary.number for block in copy.blocks if block.is_lost] == [lost]
        copy.write_to(target)
    found = opened(target)
    rest = list(found.read_topic(b"a", 0, 10_000, GIB).messages())
    assert 0 < len(rest) < 40
    assert len(found._blocks.damage.found) == 1
    found.close()


def test_a_block_with_the_footer_of_another_is_lost(store, source):
    first, second, *_ = BlockFiles(source).numbers()
    files = BlockFiles(source)
    files.file(first).unlink()
    os.link(files.file(second), files.file(first))
    with store.copy() as copy:
        assert [block.summary.number for block in copy.blocks if block.is_lost] == [first]


def test_blocks_that_always_go_first_are_an_error_and_nothing_stays_open(store, source):
    before = descriptors()

    def copied(file):
        store_copy_of(store, file)
        commit(store, 2)
        for number in BlockFiles(source).numbers():
            BlockFiles(source).remove(number)

    with pytest.raises(StorageError, match="removed faster"):
        copy_store(source, copied)
    mapped = len(store._blocks.current.blocks)
    assert descriptors() <= before + mapped


def test_a_process_that_may_open_no_more_files_says_so(store, monkeypatch, source):
    before = descriptors()

    def refused(*_given):
        raise OSError(EMFILE, "Too many open files")

    monkeypatch.setattr(store_copy, "_open", refused)
    with pytest.raises(StorageError, match="Too many open files"):
        store.copy()
    assert descriptors() == before
    assert not list(source.glob(f"{COPY_PREFIX}*"))


def test_a_copy_leaves_room_to_the_store(store, source, monkeypatch):
    monkeypatch.setattr(store_copy, "SPARED_BYTES", 1 << 60)
    with pytest.raises(StorageFull, match="are free on its disk"):
        store.copy()
    assert not list(source.glob(f"{COPY_PREFIX}*"))


def test_a_start_removes_a_copy_that_a_crash_left(store, source):
    store.close()
    (source / f"{COPY_PREFIX}x").mkdir()
    (source / f"{COPY_PREFIX}x" / "data.mdb").write_bytes(b"half")
    payloads(source)
    assert not list(source.glob(f"{COPY_PREFIX}*"))
