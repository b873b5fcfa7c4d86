"""``penstock store verify``: sound or damaged, said plainly and by exit status."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.store.batch import Batch
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


def test_a_directory_that_is_no_store_is_named(tmp_path):
    done = verify(tmp_path)
    assert done.returncode == 1
    assert str(tmp_path) in done.stderr
    assert "Traceback" not in done.stderr
