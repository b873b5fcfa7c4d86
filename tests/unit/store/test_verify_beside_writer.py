"""A store is verified while its blocks are removed: what is open stays, what is gone is no damage."""

import subprocess
import sys

import pytest

from penstock.store.batch import Batch
from penstock.store.blocks.files import BlockFiles
from penstock.store.blocks.folder import inline_folder
from penstock.store.lmdb_store import LmdbStore
from penstock.store.store import RetentionLimits, RetentionRequest, RetentionRules

VERIFY = """
import sys
from pathlib import Path
from penstock.store import verify as module

def pause():
    print("paused", flush=True)
    sys.stdin.readline()

listed, pauses = module.block_rows, [pause]

def rows(*arguments):
    found = list(listed(*arguments))
    if where == "listed" and pauses:
        pauses.pop()()
    return found

def progress(_done, _of):
    if where == "opened" and pauses:
        pauses.pop()()

where = sys.argv[2]
module.block_rows = rows
report = module.verify(Path(sys.argv[1]), progress)
print(report.blocks, report.faults, flush=True)
"""


@pytest.fixture
def store(tmp_path):
    opened = LmdbStore(tmp_path, 1 << 20, inline_folder, block_bytes=2_000)
    for number in range(20):
        batch = Batch()
        batch.append(b"t", [b"%d" % number * 1_000], 1, 1)
        opened.commit(batch)
    passed = Batch()
    passed.checkpoint = opened.next_index - 1
    opened.commit(passed)
    opened.fold()
    yield opened
    opened.close()


def keep_one(store):
    rules = RetentionRules(RetentionLimits(messages_max=1))
    while store.retain(RetentionRequest(rules, now_ms=1, floor_sequence=1 << 40)).more:
        pass


@pytest.mark.parametrize("where", ["listed", "opened"])
def test_blocks_that_are_removed_meanwhile_are_not_damage(tmp_path, store, where):
    before = len(BlockFiles(tmp_path).numbers())
    command = [sys.executable, "-c", VERIFY, str(tmp_path), where]
    with subprocess.Popen(command, stdin=-1, stdout=-1, text=True) as child:
        assert child.stdout.readline() == "paused\n"
        keep_one(store)
        after = len(BlockFiles(tmp_path).numbers())
        answer, _ = child.communicate("go on\n", timeout=60)
    assert after < before
    assert answer == f"{after if where == 'listed' else before} []\n"


def test_a_block_that_every_snapshot_lists_is_missing(tmp_path, store):
    number = BlockFiles(tmp_path).numbers()[3]
    BlockFiles(tmp_path).remove(number)
    command = [sys.executable, "-c", VERIFY, str(tmp_path), "nowhere"]
    answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert f"{number:016x}.blk is missing" in answer
