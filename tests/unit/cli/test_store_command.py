"""``penstock store verify``: sound or damaged, said plainly and by exit status."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import lmdb
import pytest
from click.testing import CliRunner

from penstock.cli import penstock
from penstock.config.schema import Config
from penstock.errors import StorageForeign
from penstock.store.batch import Batch
from penstock.store.blocks.folder import inline_folder
from penstock.store.lmdb_store import LmdbStore


@pytest.fixture
def directory(tmp_path):
    store = LmdbStore(tmp_path / "data", map_bytes=1 << 24)
    for number in range(5):
        batch = Batch()
        batch.append(b"plant/pump", [b"reading %d" % number] * 100, 1_000 + number, 1)
        store.commit(batch)
    store.close()
    return tmp_path / "data"


def verify(directory: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "penstock", "store", "verify", str(directory), *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)


def test_a_sound_store_is_called_sound(directory):
    done = verify(directory)
    assert done.returncode == 0
    assert "sound" in done.stdout
    assert "500 messages" in done.stdout


def test_a_changed_byte_is_found_and_the_exit_status_says_so(directory):
    data = (directory / "data.mdb").read_bytes()
    assert b"reading 3" in data
    (directory / "data.mdb").write_bytes(data.replace(b"reading 3", b"reading 7"))
    done = verify(directory, "--json")
    findings = json.loads(done.stdout)
    assert done.returncode == 1
    assert not findings["sound"]
    assert any("checksum" in fault for fault in findings["faults"])


def test_counts_are_those_of_the_broker_and_what_was_removed_is_told_apart(directory):
    store = LmdbStore(directory, map_bytes=1 << 24)
    store.delete(b"plant/pump", range(30))
    size = store.size()
    store.close()
    findings = json.loads(verify(directory, "--json").stdout)
    assert (findings["entries"], findings["messages"]) == (size.entries, size.messages)
    assert (findings["messages"], findings["removed"], findings["topics"]) == (470, 30, 1)
    said = verify(directory).stdout
    assert "470 messages in" in said
    assert "also 30 removed messages in entries that others still need" in said


def test_topics_at_fault_are_named_as_they_are_written(directory):
    store = LmdbStore(directory, 1 << 24, inline_folder)
    passed = Batch()
    passed.checkpoint = store.next_index - 1
    store.commit(passed)
    store.fold()
    store.delete(b"plant/pump", range(30))
    store.close()
    _clear(directory, b"blocks")
    done = verify(directory)
    assert done.returncode == 1
    assert "topic 'plant/pump' should have 500 messages, has 0" in done.stdout


def test_a_damaged_part_of_a_block_costs_its_own_messages_alone(tmp_path):
    store = LmdbStore(tmp_path / "data", 1 << 24, inline_folder)
    for topic in (b"first", b"second"):
        batch = Batch()
        batch.append(topic, [os.urandom(300_000)], 1_000, 1)  # more than a part
        store.commit(batch)
    passed = Batch()
    passed.checkpoint = store.next_index - 1
    store.commit(passed)
    store.fold()
    store.close()
    (block,) = (tmp_path / "data" / "blocks").iterdir()
    content = bytearray(block.read_bytes())
    content[100_000] ^= 0xFF
    block.write_bytes(content)
    findings = json.loads(verify(tmp_path / "data", "--json").stdout)
    assert findings["messages"] == 1
    assert "topic 'first' should have 1 messages, has 0" in findings["faults"]
    assert not any("second" in fault for fault in findings["faults"])


def _clear(directory: Path, database: bytes) -> None:
    with (
        lmdb.open(str(directory), max_dbs=16, map_size=1 << 24) as environment,
        environment.begin(write=True) as transaction,
    ):
        transaction.drop(environment.open_db(database, transaction), delete=False)


def test_file_in_place_of_its_directory_is_said(directory):
    done = verify(directory / "data.mdb")
    assert done.returncode == 1
    assert f"Name the directory that contains it: {directory}\n" in done.stderr


def test_file_that_is_no_part_of_a_store_is_said(tmp_path):
    (tmp_path / "notes").touch()
    done = verify(tmp_path / "notes")
    assert done.returncode == 1
    assert "Name the directory that the broker was started with." in done.stderr


def test_marker_that_is_missing_is_said_with_what_to_do_by_verify_and_by_the_broker(directory):
    (directory / "PENSTOCK").unlink()
    told = verify(directory).stderr
    assert "the marker file PENSTOCK is missing" in told
    assert "copy PENSTOCK from where data.mdb came from" in told
    with pytest.raises(StorageForeign, match="the marker file PENSTOCK is missing"):
        LmdbStore(directory, map_bytes=1 << 24)


def test_help_names_the_default():
    said = CliRunner().invoke(penstock, ["store", "verify", "--help"]).stdout
    assert f"{Config().data} by default" in said


def test_directory_that_the_broker_makes_is_for_its_owner_only(tmp_path):
    LmdbStore(tmp_path / "parent" / "data", map_bytes=1 << 24).close()
    assert _mode(tmp_path / "parent" / "data") == 0o700


def test_directory_that_was_there_keeps_its_mode(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data").chmod(0o750)
    LmdbStore(tmp_path / "data", map_bytes=1 << 24).close()
    assert _mode(tmp_path / "data") == 0o750


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_directory_that_is_no_store_is_named(tmp_path):
    done = verify(tmp_path)
    assert done.returncode == 1
    assert str(tmp_path) in done.stderr
    assert "Traceback" not in done.stderr
