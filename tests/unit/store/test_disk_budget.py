"""A store does not outgrow its total, however fast it is written to."""

import random

import pytest

from penstock.errors import StorageFull
from penstock.limits import MIB
from penstock.store.batch import Batch
from penstock.store.blocks.folder import inline_folder
from penstock.store.environment import Environment
from penstock.store.lmdb_store import LmdbStore
from penstock.store.store import ProtectedTopics, RetentionRequest, RetentionRules
from penstock.store.verify import verify

TOPICS = [b"t/%d" % number for number in range(500)]
FLOOR = 10**9
BOUND = 1.25


class Load:
    """Commits of two hundred messages to topics at random, each followed by a checkpoint."""

    def __init__(self, store, path):
        self.store = store
        self.folder = path / "data"
        self.counts = dict.fromkeys(TOPICS, 0)
        self.chance = random.Random(7)
        self.most = 0

    def write(self, total_bytes):
        """Commit this many bytes of payload, checking the file after each commit."""
        while total_bytes > 0:
            batch = self.batch()
            self.store.commit(batch)
            self.store.prepare()
            self.most = max(self.most, self.on_disk())
            total_bytes -= batch.payload_bytes

    def on_disk(self):
        """Of LMDB and of all blocks, whole or in the making."""
        files = [self.folder / "data.mdb", *(self.folder / "blocks").glob("*")]
        return sum(file.stat().st_size for file in files if file.exists())

    def batch(self):
        batch = Batch()
        for _ in range(200):
            topic = self.chance.choice(TOPICS)
            payload = self.counts[topic].to_bytes(4, "little")
            payload += self.chance.randbytes(self.chance.randrange(16, 512))
            batch.append(topic, [payload], 1_000, 1)
            self.counts[topic] += 1
        batch.checkpoint = self.store.next_index - 1
        return batch

    def kept(self):
        """How many messages are left; fails if any behind a topic's first is missing or wrong."""
        kept = 0
        for topic, count in self.counts.items():
            info = self.store.topic(topic)
            assert info.next_offset == count
            found = self.store.read_topic(topic, 0, 10**6, 10**9).messages()
            numbers = [int.from_bytes(message.payload[:4], "little") for message in found]
            assert numbers == list(range(info.first_offset, count))
            kept += len(numbers)
        return kept


def sized(store, total, **more):
    """The rules, known to the store."""
    rules = RetentionRules(total_bytes_max=total)
    while store.retain(RetentionRequest(rules, 0, FLOOR, **more)).more:
        pass
    return rules


def test_a_store_stays_below_five_quarters_of_its_total_whatever_is_written(open_store, tmp_path):
    """Retention is not called: commits make room themselves."""
    store = open_store()
    removed = []
    store.on_removed = lambda found: removed.append(found.messages)
    sized(store, 4 * MIB)
    load = Load(store, tmp_path)
    load.write(10 * MIB)
    assert load.most <= BOUND * 4 * MIB
    kept = load.kept()
    assert kept * 264 > MIB  # it is not emptied, either
    assert kept + sum(removed) == sum(load.counts.values())
    store.close()
    assert verify(tmp_path / "data").faults == []
    load.store = open_store()
    assert load.kept() == kept


def test_the_file_of_the_tail_counts_though_blocks_are_tiny(tmp_path):
    store = LmdbStore(tmp_path, MIB, inline_folder, block_bytes=4 * 1024)
    sized(store, 4 * MIB)
    batch = Batch()
    batch.append(b"t", [bytes(500_000)], 1, 1)
    batch.checkpoint = store.next_index
    store.commit(batch)
    store.fold()
    assert store._blocks.current.file_bytes < 10_000
    assert store._budget.used() > 500_000  # the file does not shrink
    store.close()


def test_a_larger_store_that_is_told_a_smaller_total_goes_on_and_shrinks(open_store, tmp_path):
    store = open_store()
    load = Load(store, tmp_path)
    load.write(6 * MIB)
    store.retain(
        RetentionRequest(RetentionRules(total_bytes_max=2 * MIB), 0, FLOOR)
    )  # one slice, far from enough
    before = load.kept()
    store.commit(load.batch())
    assert load.kept() > before / 2  # this commit did not wait for all of it
    load.write(4 * MIB)
    assert store.size().bytes_used < 2 * MIB * BOUND


def test_what_a_start_would_replay_and_what_is_kept_whole_is_not_waited_for(open_store, tmp_path):
    store = open_store()
    sized(store, MIB, protected=ProtectedTopics(kept=(b"t/",)))
    load = Load(store, tmp_path)
    load.write(2 * MIB)
    assert load.kept() == sum(load.counts.values())
    store = load.store = open_store()
    sized(store, MIB)
    for _ in range(60):
        batch = load.batch()
        batch.checkpoint = None
        store.commit(batch)
        store.prepare()
    last = store.next_index - 61
    assert [entry.index for entry in store.replay()] == list(range(last, store.next_index))


def test_the_total_takes_what_other_nodes_may_ask_for_but_not_what_a_start_needs(
    open_store, tmp_path
):
    store = open_store()
    store.log_floor = 1
    sized(store, MIB)
    load = Load(store, tmp_path)
    load.write(3 * MIB)
    assert store.first_index > 1
    assert store.size().bytes_used < MIB * BOUND
    store.start_floor = needed = store.first_index + 2
    load.write(3 * MIB)
    assert store.first_index == needed


def test_entries_go_as_a_whole_though_topics_were_dropped_or_messages_deleted(open_store, tmp_path):
    """Nothing is counted twice, and no row is left behind."""
    store = open_store()
    load = Load(store, tmp_path)
    load.write(2 * MIB)
    drop = Batch()
    gone = TOPICS[:50]
    for name in gone:
        drop.drop(name)
        drop.append(name, [bytes(16)], 1_000, 1)
        load.counts[name] = 1
    store.commit(drop)
    for name in TOPICS[50:60]:
        store.delete(name, [1, 3])
    sequence, messages = store.next_sequence, store.size().messages
    removed = []
    store.on_removed = lambda found: removed.append(found.messages)
    rules = RetentionRules(total_bytes_max=MIB)
    removed.append(store.retain(RetentionRequest(rules, 0, FLOOR)).messages)
    load.write(2 * MIB)
    while (found := store.retain(RetentionRequest(rules, 0, FLOOR))).more:
        removed.append(found.messages)
    removed.append(found.messages)
    assert store.size().messages == messages + store.next_sequence - sequence - sum(removed)
    store.close()
    assert verify(tmp_path / "data").faults == []


def test_a_disk_that_is_full_fails_the_commit_and_not_before(open_store, tmp_path, monkeypatch):
    """Removing needs room as well; the commit reports the error, as always."""
    store = open_store()
    sized(store, MIB)
    load = Load(store, tmp_path)
    load.write(2 * MIB)
    with monkeypatch.context() as full:

        def write(*_given):
            raise StorageFull("full", "Make room.")

        full.setattr(store._environment, "write_directly", write)
        with pytest.raises(StorageFull):
            store.commit(load.batch())
    load.counts = {name: store.topic(name).next_offset for name in TOPICS}
    load.write(MIB)
    assert load.most <= BOUND * MIB + 512 * 1024


def test_far_from_its_total_a_store_is_not_measured_at_every_commit(store, monkeypatch):
    store.retain(
        RetentionRequest(
            RetentionRules(total_bytes_max=1024 * MIB), 1_000, FLOOR, ProtectedTopics()
        )
    )
    measured = []
    used_bytes = Environment.used_bytes
    monkeypatch.setattr(
        Environment, "used_bytes", lambda *of: measured.append(of[2]) or used_bytes(*of)
    )
    for number in range(200):
        batch = Batch()
        batch.append(b"t", [b"x"], number, 1)
        store.commit(batch)
        store.prepare()
    assert len(measured) <= 6
