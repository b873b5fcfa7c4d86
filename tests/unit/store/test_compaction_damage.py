"""A damaged block costs itself: other blocks are folded again all the same."""

from itertools import pairwise

import pytest

from penstock.limits import MIB
from penstock.store.batch import Batch
from penstock.store.blocks.choice import FAN_IN, Candidate, blocks_to_fold
from penstock.store.blocks.folder import inline_folder
from penstock.store.blocks.format import HEADER_BYTES
from penstock.store.lmdb_store import LmdbStore
from penstock.store.store import RetentionLimits, RetentionRequest, RetentionRules

ROUNDS = 12


@pytest.fixture
def store(tmp_path):
    found = LmdbStore(tmp_path / "data", MIB, inline_folder, block_bytes=6_000)
    yield found
    found.close()


def blocks(store):
    return store._blocks.current.blocks


def write(store):
    for number in range(ROUNDS):
        batch = Batch()
        batch.append(b"kept", [b"%d" % number * 200], 1_000, 1)
        batch.append(b"short", [bytes(5_000)], 1_000, 1)
        batch.checkpoint = store.next_index - 1
        store.commit(batch)
    passed = Batch()
    passed.checkpoint = store.next_index - 1
    store.commit(passed)


def test_other_blocks_are_folded_again_though_one_is_damaged(store):
    write(store)
    store.fold()
    before = {each.row.summary.number for each in blocks(store)}
    assert len(before) > 3
    damaged = blocks(store)[1].row.summary.number
    with store._blocks.files.file(damaged).open("r+b") as file:
        file.seek(HEADER_BYTES + 20)
        file.write(b"damage!!")
    rules = RetentionRules(default=RetentionLimits(), by_topic={b"short": RetentionLimits(1)})
    store.retain(RetentionRequest(rules, 1_000, 10**9))
    for _ in range(10):
        store._work._paused.clear()  # as if it had passed
        store.fold()
    left = {each.row.summary.number for each in blocks(store)}
    assert left & before <= {damaged, max(before)}
    messages = list(store.read_topic(b"kept", 0, 10**6, 10**9).messages())
    assert {message.offset for message in messages} >= set(range(2, ROUNDS))


def test_a_fold_reads_few_blocks_though_all_are_dead():
    candidates = [Candidate(number, 1, 10**6) for number in range(1, 1_000)]
    assert blocks_to_fold(candidates, 10**6) == list(range(1, FAN_IN + 1))


def test_blocks_are_not_folded_together_across_one_that_could_not_be_opened(tmp_path):
    """Its row keeps its place, and its file may come back."""
    path = tmp_path / "data"
    store = LmdbStore(path, MIB, inline_folder, block_bytes=6_000)
    write(store)
    store.fold()
    missing = blocks(store)[2].row.summary
    file = store._blocks.files.file(missing.number)
    store.close()
    file.rename(tmp_path / "away")
    rules = RetentionRules(default=RetentionLimits(), by_topic={b"short": RetentionLimits(1)})
    store = LmdbStore(path, MIB, inline_folder, block_bytes=6_000)
    store.retain(RetentionRequest(rules, 1_000, 10**9))
    store.fold()
    store.close()
    (tmp_path / "away").rename(file)
    store = LmdbStore(path, MIB, inline_folder, block_bytes=6_000)
    found = [each.row.summary for each in blocks(store)]
    assert missing in found
    assert all(a.end_sequence <= b.base_sequence for a, b in pairwise(found))
    kept = [message.offset for message in store.read_topic(b"kept", 0, 99, 10**6).messages()]
    assert kept == list(range(ROUNDS))
    store.close()
