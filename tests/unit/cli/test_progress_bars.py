"""Commands that take long show their progress on a terminal, and nothing elsewhere."""

import json
import os
import pty
import subprocess
import sys

import pytest

from penstock.cli.progress import size_text
from penstock.store.batch import Batch
from penstock.store.blocks.folder import inline_folder
from penstock.store.lmdb_store import LmdbStore


@pytest.fixture
def data(tmp_path):
    store = LmdbStore(tmp_path / "data", 1 << 24, inline_folder, 4096)
    batch = Batch()
    batch.append(b"a", [b"x" * 5_000], 1_000, 1)
    batch.checkpoint = store.next_index
    store.commit(batch)
    store.fold()
    store.close()
    return tmp_path / "data"


def commands(data):
    file = data.parent / "x.backup"
    return {
        "backing up": ("backup", file, "--data", data),
        "restoring": ("restore", file, "--data", data.parent / "restored"),
        "verifying": ("store", "verify", data),
        "converting": ("store", "convert", data),
        "compacting": ("store", "compact", data),
    }


def run(arguments, stderr):
    command = [sys.executable, "-m", "penstock", *map(str, arguments), "--json"]
    return subprocess.run(
        command, stdout=subprocess.PIPE, stderr=stderr, timeout=60, check=True, text=True
    )


def test_on_a_terminal_a_bar_reaches_the_end(data):
    for label, arguments in commands(data).items():
        ours, theirs = pty.openpty()
        done = run(arguments, theirs)
        os.close(theirs)
        shown = os.read(ours, 65_536).decode()
        os.close(ours)
        assert label in shown
        assert "100%" in shown
        assert json.loads(done.stdout)


def test_elsewhere_nothing_is_shown(data):
    for arguments in commands(data).values():
        assert run(arguments, subprocess.PIPE).stderr == ""


@pytest.mark.parametrize(
    ("size", "text"), [(12, "12 bytes"), (1536, "1.5 KiB"), (201666635, "192.3 MiB")]
)
def test_sizes_are_readable(size, text):
    assert size_text(size) == text
