"""``penstock store compact|convert`` on a stopped broker: smaller or current, and nothing lost."""

import json
import os
import tarfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from penstock.cli import penstock
from penstock.errors import StorageError, StorageForeign, StorageFull, StorageLocked
from penstock.limits import GIB
from penstock.store.batch import Batch
from penstock.store.blocks.files import BlockFiles
from penstock.store.blocks.folder import inline_folder
from penstock.store.directory import read_marker
from penstock.store.lmdb_store import LmdbStore
from penstock.store.maintenance import compact, convert
from penstock.store.verify import verify

EARLIER = Path(__file__).parents[2] / "anomaly" / "earlier" / "before_work_queues.tar.xz"


def opened(path):
    return LmdbStore(path, 1 << 24, inline_folder, 4096)


def messages(path):
    store = opened(path)
    try:
        return {
            topic.name: [
                (message.sequence, message.offset, bytes(message.payload))
                for message in store.read_topic(topic.name, 0, 10_000, GIB).messages()
            ]
            for topic in store.topics()
        }
    finally:
        store.close()


@pytest.fixture
def data(tmp_path):
    """A store with many small blocks, of which much is removed, and a database with free pages."""
    path = tmp_path / "data"
    store = opened(path)
    for number in range(60):
        batch = Batch()
        batch.append(b"a", [os.urandom(8_000)], 1_000, 1)
        batch.append(b"b", [b"%d" % number], 1_000, 1)
        batch.checkpoint = store.next_index
        store.commit(batch)
    store.fold()
    store.trim(b"a", 50)
    store.close()
    return path


@pytest.fixture
def earlier(tmp_path):
    path = tmp_path / "earlier"
    path.mkdir()
    with tarfile.open(EARLIER) as archive:
        for name in ("PENSTOCK", "data.mdb"):
            member = next(m for m in archive.getmembers() if m.name.endswith(name))
            (path / name).write_bytes(archive.extractfile(member).read())
    return path


def test_a_compacted_store_is_smaller_and_has_the_same_messages(data):
    before, blocks = messages(data), len(BlockFiles(data).numbers())
    report = compact(data)
    assert report.blocks_before == blocks > report.blocks_after
    assert report.bytes_after < report.bytes_before // 2
    files = [data / "data.mdb", *(data / "blocks").iterdir()]
    assert report.bytes_after == sum(path.stat().st_size for path in files)
    assert messages(data) == before
    assert verify(data).is_sound


def test_an_earlier_directory_is_converted_completely(earlier):
    assert read_marker(earlier).format == 1
    seen = []
    report = convert(earlier, lambda done, of: seen.append((done, of)))
    assert (report.blocks_before, report.blocks_after, report.entries_left) == (0, 1, 0)
    assert seen[-1][0] == seen[-1][1]
    assert read_marker(earlier).format == 2
    found = verify(earlier)
    assert found.is_sound
    assert (found.messages, found.topics) == (81, 4)
    assert convert(earlier).blocks_after == 1


def test_a_running_broker_is_not_disturbed(data):
    store = opened(data)
    for work in (compact, convert):
        with pytest.raises(StorageLocked, match="in use by another broker"):
            work(data)
    store.close()


def test_a_fold_that_fails_is_an_error_and_costs_nothing(earlier, monkeypatch):
    def full(*_given):
        raise StorageFull("the disk is full", "Make room.")

    with monkeypatch.context() as patched:
        patched.setattr(BlockFiles, "create", full)
        with pytest.raises(StorageFull, match="the disk is full"):
            convert(earlier)
    assert convert(earlier).blocks_after == 1
    assert verify(earlier).messages == 81


def test_a_database_that_cannot_be_written_anew_stays(data, monkeypatch):
    before = messages(data)

    def refused(*_given):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", refused)
        with pytest.raises(StorageError, match="No space left"):
            compact(data)
    assert not list(data.glob("copy.*"))
    assert messages(data) == before


def test_what_is_no_store_is_refused(tmp_path, data):
    for work in (compact, convert):
        with pytest.raises(StorageForeign, match="not a Penstock data directory"):
            work(tmp_path)
    (data / "PENSTOCK").unlink()
    with pytest.raises(StorageForeign, match="marker"):
        compact(data)


def test_the_commands_say_what_was_and_what_is(data, earlier):
    done = CliRunner().invoke(penstock, ["store", "compact", str(data)])
    assert done.exit_code == 0, done.output
    assert " before, " in done.stdout
    assert " blocks instead of " in done.stdout
    done = CliRunner().invoke(penstock, ["store", "convert", str(earlier), "--json"])
    assert json.loads(done.stdout)["blocks_after"] == 1
    done = CliRunner().invoke(penstock, ["store", "verify", str(earlier)])
    assert "81 messages in 1 block and 1 entry" in done.stdout
