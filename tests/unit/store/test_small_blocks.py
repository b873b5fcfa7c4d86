"""Commits neither wait for tiny blocks nor make them, however little of a tail may be folded."""

import pytest

from penstock.limits import MIB
from penstock.store.batch import Batch
from penstock.store.blocks.folder import inline_folder
from penstock.store.blocks.tail_folding import BLOCK_SHARE
from penstock.store.disk_budget import TAIL_BLOCKS
from penstock.store.lmdb_store import LmdbStore
from penstock.store.store import ProtectedTopics, RetentionRequest, RetentionRules

PAYLOAD = 1_000
BLOCK_BYTES = 64 * PAYLOAD
COMMITS = 300


@pytest.fixture
def store(tmp_path):
    found = LmdbStore(tmp_path / "data", MIB, inline_folder, block_bytes=BLOCK_BYTES)
    yield found
    found.close()


def write(store, count, log_kept=None):
    for _ in range(count):
        batch = Batch()
        batch.append(b"t", [bytes(PAYLOAD)], 1_000, 1)
        batch.checkpoint = store.next_index - 1
        if log_kept is not None:
            store.log_floor = max(store.next_index - log_kept, 1)
        store.commit(batch)
        store.prepare()


def blocks_made(store):
    return store._blocks._last_number


def test_what_other_nodes_need_of_a_long_tail_makes_no_block_of_every_entry(store):
    kept = 3 * TAIL_BLOCKS * BLOCK_BYTES // PAYLOAD
    write(store, COMMITS + kept, log_kept=kept)
    smallest = BLOCK_BYTES // PAYLOAD // BLOCK_SHARE
    folds = COMMITS // smallest
    assert COMMITS * PAYLOAD // BLOCK_BYTES / 2 < blocks_made(store) < 1.3 * folds
    assert len(store._memory.entries) < kept + BLOCK_BYTES // PAYLOAD


def test_a_total_full_of_what_is_kept_makes_no_block_of_every_entry(store):
    protected = ProtectedTopics(kept=(b"t",))
    rules = RetentionRules(total_bytes_max=4 * BLOCK_BYTES)
    store.retain(RetentionRequest(rules, 0, 1, protected))
    write(store, COMMITS)
    assert store.topic(b"t").first_offset == 0
    assert blocks_made(store) < COMMITS / 2
    assert len(list(store.read_topic(b"t", 0, 10**6, 10**9).messages())) == COMMITS
