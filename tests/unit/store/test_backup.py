"""A backup is one file of one moment; a restore puts all of it in place, or nothing."""

import os
import shutil
import stat
from pathlib import Path

import pytest

from penstock.errors import (
    PenstockError,
    StorageDamaged,
    StorageError,
    StorageForeign,
    StorageFull,
)
from penstock.limits import GIB
from penstock.store.batch import Batch
from penstock.store.blocks.files import BlockFiles
from penstock.store.blocks.folder import inline_folder
from penstock.store.copies import backup as backup_module
from penstock.store.copies.backup import back_up
from penstock.store.copies.file import BackupReader
from penstock.store.copies.restore import restore
from penstock.store.directory import read_marker
from penstock.store.lmdb_store import LmdbStore
from penstock.store.verify import verify

BLOCK_BYTES = 4096
TOPIC = b"a"


def opened(path):
    return LmdbStore(path, 1 << 24, inline_folder, BLOCK_BYTES)


def commit(path, count=20, *, fold=True):
    """Publish to a stopped store; the newest entries stay in the tail."""
    store = opened(path)
    for number in range(count):
        batch = Batch()
        batch.append(TOPIC, [b"%d" % store.next_sequence, os.urandom(500)], 1_000, 1)
        batch.checkpoint = store.next_index
        store.commit(batch)
        if fold and number == count - 3:
            store.fold()
    store.close()


def messages(path):
    store = opened(path)
    try:
        found = store.read_topic(TOPIC, 0, 10_000, GIB).messages()
        return [(m.sequence, m.offset, bytes(m.payload)) for m in found]
    finally:
        store.close()


@pytest.fixture
def data(tmp_path):
    commit(tmp_path / "data")
    return tmp_path / "data"


@pytest.fixture
def file(tmp_path, data):
    back_up(data, tmp_path / "full.backup", None)
    return tmp_path / "full.backup"


@pytest.fixture
def target(tmp_path):
    return tmp_path / "restored"


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def index_of(file):
    with BackupReader(file) as reader:
        return reader.index


def flip(path, at):
    content = bytearray(path.read_bytes())
    content[at] ^= 0x40
    path.write_bytes(content)


def test_a_restored_store_is_the_one_that_was_backed_up(data, file, target):
    written = messages(data)
    commit(data, 5)
    report = restore(file, target)
    assert report.blocks > 3
    assert messages(target) == written
    assert verify(target).is_sound
    assert read_marker(target) == read_marker(data)


def test_a_backup_is_for_its_owner_alone_and_nothing_lies_beside_it(file, data, target, tmp_path):
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert names(tmp_path) == ["data", "full.backup"]
    restore(file, target)
    assert stat.S_IMODE(target.stat().st_mode) == 0o700
    assert names(target) == ["PENSTOCK", "blocks", "data.mdb"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in (target / "blocks").iterdir()} == {0o600}
    assert not list(data.glob("copy.*"))


def test_a_backup_does_not_overwrite(data, file):
    before = file.read_bytes()
    with pytest.raises(PenstockError, match="exists already"):
        back_up(data, file, None)
    assert file.read_bytes() == before


def test_a_file_that_appears_meanwhile_is_not_overwritten(data, tmp_path):
    file = tmp_path / "late.backup"

    def appears(done, of):
        if done == of:
            file.write_bytes(b"mine")

    with pytest.raises(PenstockError, match="exists already"):
        back_up(data, file, None, appears)
    assert file.read_bytes() == b"mine"
    assert names(tmp_path) == ["data", "late.backup"]


def test_what_a_killed_backup_left_goes_with_the_next_one(data, tmp_path):
    (tmp_path / ".full.backup.99999.new").write_bytes(b"half")
    (tmp_path / ".other.backup.99999.new").write_bytes(b"of another")
    back_up(data, tmp_path / "full.backup", None)
    assert names(tmp_path) == [".other.backup.99999.new", "data", "full.backup"]


def test_progress_reaches_the_whole(data, tmp_path, target):
    seen = []
    file = tmp_path / "full.backup"
    back_up(data, file, None, lambda done, of: seen.append((done, of)))
    assert seen[-1][0] == seen[-1][1] > 10_000
    seen.clear()
    restore(file, target, lambda done, of: seen.append((done, of)))
    assert seen[-1][0] == seen[-1][1]
    assert seen == sorted(seen)


def test_a_chain_of_three_has_every_block_once(data, file, target, tmp_path):
    commit(data)
    second, third = tmp_path / "second.backup", tmp_path / "third.backup"
    first_report = index_of(file)
    report = back_up(data, second, file)
    assert 0 < report.blocks_written < report.blocks
    assert report.blocks_written <= report.blocks - len(first_report.blocks) + 1
    assert report.needs == ["full.backup"]
    commit(data)
    report = back_up(data, third, second)
    assert report.needs == ["second.backup", "full.backup"]
    written = messages(data)
    commit(data, 5)
    assert len(restore(third, target).files) == 3
    assert messages(target) == written
    assert verify(target).is_sound


def test_predecessors_are_found_whatever_their_names(data, file, target, tmp_path):
    commit(data)
    back_up(data, tmp_path / "second.backup", file)
    written = messages(data)
    file.rename(tmp_path / "monday")
    (tmp_path / "stranger").write_bytes(b"PSTBK\0\0\1")
    restore(tmp_path / "second.backup", target)
    assert messages(target) == written


def test_a_missing_predecessor_is_named(data, file, target, tmp_path):
    commit(data)
    second = tmp_path / "second.backup"
    back_up(data, second, file)
    file.unlink()
    with pytest.raises(PenstockError, match=r"these are missing: full\.backup of 20"):
        restore(second, target)
    with pytest.raises(PenstockError, match=r"these are missing: full\.backup of 20"):
        back_up(data, tmp_path / "third.backup", second)
    assert names(tmp_path) == ["data", "second.backup"]


def test_a_predecessor_without_living_blocks_is_not_needed(data, tmp_path, target):
    """A backup of a store that has only a tail: the next one has all blocks itself."""
    young = tmp_path / "young"
    commit(young, 3, fold=False)
    back_up(young, tmp_path / "1", None)
    commit(young)
    assert back_up(young, tmp_path / "2", tmp_path / "1").needs == []
    (tmp_path / "1").unlink()
    restore(tmp_path / "2", target)
    assert messages(target) == messages(young)


def test_a_backup_of_another_store_is_no_predecessor(file, tmp_path):
    commit(tmp_path / "other")
    with pytest.raises(PenstockError, match="of another store"):
        back_up(tmp_path / "other", tmp_path / "x", file)


def test_any_flipped_bit_is_found_and_nothing_is_left(file, target, tmp_path):
    size = file.stat().st_size
    original = file.read_bytes()
    for at in [0, 7, *range(8, size, size // 20), *range(size - 48, size, 9)]:
        flip(file, at)
        with pytest.raises((StorageDamaged, StorageForeign), match=r"full\.backup"):
            restore(file, target)
        assert names(tmp_path) == ["data", "full.backup"]
        file.write_bytes(original)
    restore(file, target)


@pytest.mark.parametrize("kept", [0, 7, 8, 50, 0.5, 0.999])
def test_a_file_that_was_cut_is_refused(file, target, kept):
    os.truncate(file, int(file.stat().st_size * kept) if kept < 1 else kept)
    with pytest.raises((StorageDamaged, StorageForeign), match=r"full\.backup"):
        restore(file, target)
    assert not target.exists()


def test_damage_in_a_backup_is_named(file, target):
    index = index_of(file)
    block = index.blocks[2]
    flip(file, block.section.start + 100)
    what = (
        rf"full\.backup is damaged: block {block.summary.number:016x} does not match its checksum"
    )
    with pytest.raises(StorageDamaged, match=what):
        restore(file, target)


def test_damage_of_the_store_is_reported_by_a_backup_and_costs_that_part_alone(
    data, tmp_path, target
):
    number = BlockFiles(data).numbers()[1]
    flip(BlockFiles(data).file(number), 40)
    lost = BlockFiles(data).numbers()[2]
    BlockFiles(data).file(lost).unlink()
    report = back_up(data, tmp_path / "x", None)
    assert len(report.damaged) == 2
    assert f"block {number:016x}" in report.damaged[0]
    assert report.damaged[1] == f"block {lost:016x} is lost or damaged"
    restored = restore(tmp_path / "x", target)
    assert restored.lost == [f"block {lost:016x}"]
    assert restored.damaged == [f"block {number:016x}"]
    assert messages(target) == messages(data)


def test_damage_is_reported_by_every_backup_of_a_chain(data, tmp_path, target):
    """What an earlier backup has damaged is not taken from there, but looked at again."""
    written, block = messages(data), BlockFiles(data).file(BlockFiles(data).numbers()[1])
    flip(block, 40)
    first = back_up(data, tmp_path / "1", None)
    second = back_up(data, tmp_path / "2", tmp_path / "1")
    assert first.damaged == second.damaged != []
    flip(block, 40)  # sound again
    third = back_up(data, tmp_path / "3", tmp_path / "2")
    assert (third.damaged, third.blocks_written) == ([], 1)
    assert restore(tmp_path / "3", target).damaged == []
    assert messages(target) == written


def test_a_block_that_was_damaged_since_is_restored_from_the_earlier_backup(
    data, file, tmp_path, target
):
    written = messages(data)
    flip(BlockFiles(data).file(BlockFiles(data).numbers()[1]), 40)
    assert back_up(data, tmp_path / "x", file).damaged == []
    restore(tmp_path / "x", target)
    assert messages(target) == written


def test_a_restore_overwrites_nothing(data, file, tmp_path):
    before = messages(data)
    with pytest.raises(StorageForeign, match="never overwrites"):
        restore(file, data)
    assert messages(data) == before
    with pytest.raises(StorageForeign, match="is not a directory: a restore never overwrites"):
        restore(file, file)
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(StorageForeign, match="never overwrites"):
        restore(file, tmp_path / "link")


def test_a_restore_may_fill_an_empty_directory(file, target, data):
    target.mkdir()
    restore(file, target)
    assert messages(target) == messages(data)


def test_a_directory_that_is_filled_meanwhile_is_left_alone(file, target):
    def filled(_draft: Path) -> None:
        target.mkdir()
        (target / "mine").touch()

    with pytest.raises(StorageForeign, match="not empty any more"):
        restore(file, target, finish=filled)
    assert names(target) == ["mine"]
    assert not list(target.parent.glob(".*"))


def test_two_restores_do_not_meet(file, target):
    def second(_draft: Path) -> None:
        with pytest.raises(PenstockError, match="under way"):
            restore(file, target)

    restore(file, target, look=second)


def test_the_rest_of_a_killed_restore_is_removed(file, target, data):
    left = target.with_name(".restored.restoring")
    (left / "blocks").mkdir(parents=True)
    (left / "blocks" / "x.blk").touch()
    (left / "data.mdb").write_bytes(b"half")
    restore(file, target)
    assert messages(target) == messages(data)
    assert not left.exists()


def test_a_restore_without_room_says_so_before_it_writes(file, target, monkeypatch):
    found = os.statvfs(file.parent)
    none = os.statvfs_result((*found[:4], 0, *found[5:]))
    monkeypatch.setattr(os, "statvfs", lambda _path: none)
    with pytest.raises(StorageFull, match="are free"):
        restore(file, target)
    assert not target.exists()


def test_what_is_no_store_is_not_backed_up(tmp_path, data):
    (tmp_path / "empty").mkdir()
    for path in (tmp_path / "empty", tmp_path / "nowhere"):
        with pytest.raises(StorageForeign, match="not a Penstock data directory"):
            back_up(path, tmp_path / "x", None)
    (data / "PENSTOCK").unlink()
    with pytest.raises(StorageForeign, match="marker"):
        back_up(data, tmp_path / "x", None)
    assert not (tmp_path / "x").exists()


def test_a_store_that_is_replaced_meanwhile_is_not_mixed_with_the_new_one(
    data, tmp_path, monkeypatch
):
    """As when a node gets a snapshot of another one."""
    copied = backup_module.copy_store

    def replaced(path, write_database):
        copy = copied(path, write_database)
        shutil.copy(path / "data.mdb", path / "other")
        (path / "other").rename(path / "data.mdb")
        return copy

    monkeypatch.setattr(backup_module, "copy_store", replaced)
    with pytest.raises(StorageError, match="was replaced"):
        back_up(data, tmp_path / "x", None)
    assert names(tmp_path) == ["data"]
    monkeypatch.undo()
    (data / "snapshot.ready").mkdir()
    with pytest.raises(StorageError, match="is being replaced"):
        back_up(data, tmp_path / "x", None)


def test_a_file_system_without_links_takes_backups_too(data, tmp_path, target, monkeypatch):
    def refused(*_given):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(backup_module.os, "link", refused)
    back_up(data, tmp_path / "x", None)
    restore(tmp_path / "x", target)
    assert names(tmp_path) == ["data", "restored", "x"]


def test_a_folder_that_is_not_there_is_a_clear_error(data, tmp_path):
    with pytest.raises(PenstockError, match=r"could not be written \(No such file or directory\)"):
        back_up(data, tmp_path / "nowhere" / "x", None)


def test_a_restored_store_goes_on_and_is_backed_up_again(file, target, data, tmp_path):
    """Blocks of the same number that came to be after the restore are other blocks."""
    restore(file, target)
    commit(data)
    commit(target)
    back_up(data, tmp_path / "old", file)
    back_up(target, tmp_path / "new", tmp_path / "old")
    written = messages(target)
    shutil.rmtree(target)
    restore(tmp_path / "new", target)
    assert messages(target) == written
