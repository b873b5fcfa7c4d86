"""Closing, opening, growing, and what damage looks like from outside."""

import threading

import lmdb
import pytest

from penstock.errors import StorageDamaged
from penstock.limits import MIB
from penstock.store.applier import Applier
from penstock.store.batch import Batch
from penstock.store.blocks import tail_folding
from penstock.store.blocks.folder import inline_folder
from penstock.store.environment import DATABASES
from penstock.store.lmdb_store import LmdbStore
from penstock.store.store import RetentionLimits, RetentionRequest, RetentionRules
from penstock.store.verify import verify


def commit(store, topics=3, messages=10, size=20):
    batch = Batch()
    for number in range(messages):
        batch.append(b"t/%d" % (number % topics), [b"x" * size], 1_000 + number, 1)
    batch.add_event(("e", store.next_index))
    return store.commit(batch)


def fold(store):
    """Make blocks of all that was written."""
    batch = Batch()
    batch.checkpoint = store.next_index - 1
    store.commit(batch)
    store.fold()


def everything(store):
    """All that a reader can see."""
    topics = list(store.topics())
    return (
        store.next_sequence,
        store.next_index,
        topics,
        store.read(range(1, store.next_sequence)),
        [list(store.read_topic(t.name, 0, 10**6, 10**9).messages()) for t in topics],
        [entry.index for entry in store.replay()],
        list(store.rows("t")),
    )


def edit(path, database, change):
    """Change the file behind the store's back."""
    environment = lmdb.open(str(path), max_dbs=len(DATABASES), map_size=64 * MIB)
    with environment.begin(write=True, db=environment.open_db(database)) as transaction:
        change(transaction)
    environment.close()


def nth_key(transaction, number):
    return [bytes(key) for key, _ in transaction.cursor()][number]


@pytest.mark.parametrize("commits", [0, 1, 40])
@pytest.mark.parametrize("folded", [0, 1, 25, 40])
def test_a_store_is_the_same_after_reopening(open_store, commits, folded):
    store = open_store()
    for number in range(commits):
        commit(store, messages=3)
        if number == folded:
            fold(store)
    before = everything(store)
    assert everything(open_store()) == before


def test_a_start_does_not_read_what_was_folded(open_store, monkeypatch):
    """Only the entries of the tail are applied again."""
    store = open_store()
    for _ in range(100):
        commit(store, messages=1)
    fold(store)
    for _ in range(3):
        commit(store, messages=1)
    applied = []
    add = Applier.add
    monkeypatch.setattr(
        Applier,
        "add",
        lambda self, e, *rest: (applied.append(e.entry_index), add(self, e, *rest)),
    )
    open_store()
    assert len(applied) <= 3


def test_the_tail_is_folded_before_it_has_too_many_entries_or_topics(open_store, monkeypatch):
    """Both bound memory, and what a start applies."""
    monkeypatch.setattr(tail_folding, "ENTRIES_MAX", 50)
    monkeypatch.setattr(tail_folding, "REFERENCES_MAX", 200)
    store = open_store()
    for topics in (1, 20):
        for _ in range(200):
            batch = Batch()
            for number in range(topics):
                batch.append(b"t/%d" % number, [b"x"], 0, 0)
            batch.checkpoint = store.next_index - 1
            store.commit(batch)
            store.prepare()
            assert len(store._memory.entries) <= 55
            assert store._memory.references <= 200 + 5 * topics


def test_a_commit_writes_no_row_for_its_topics(open_store):
    """A row is written when a topic is folded, however many commits it was in."""
    store = open_store()
    for _ in range(3):
        commit(store, topics=50, messages=50)
    with store._environment.reading() as transaction:
        assert transaction.stat(store._environment["topics"])["entries"] == 0
    fold(store)
    with store._environment.reading() as transaction:
        assert transaction.stat(store._environment["topics"])["entries"] == 50
        assert transaction.stat(store._environment["index"])["entries"] == 0


def test_memory_does_not_hold_all_topics(open_store, monkeypatch):
    monkeypatch.setattr("penstock.store.topics.TOPICS_CACHED_MAX", 100)
    store = open_store()
    for start in range(0, 2_000, 500):
        batch = Batch()
        for number in range(start, start + 500):
            batch.append(b"t/%d" % number, [b"x"], 0, 0)
        store.commit(batch)
        fold(store)
    assert len(store._topics) <= 100
    assert len(list(store.topics())) == 2_000
    commit(store, topics=1_500, messages=1_500)
    assert store.topic(b"t/7").next_offset == 2
    assert store.topic(b"t/1999").next_offset == 1


def test_the_map_grows_under_readers(open_store):
    """From 1 MiB, with readers in other threads all the while."""
    store = open_store()
    commit(store)
    faults, stop = [], threading.Event()

    def read():
        while not stop.is_set():
            newest = store.next_sequence - 1
            found = store.read([1, newest])
            if any(message is None for message in found):
                faults.append(found)
            count = store.topic(b"t/0").next_offset
            found = store.read_topic(b"t/0", 0, 10**6, 10**9)
            if found.count < count:
                faults.append((found.count, count))

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(60):
        commit(store, size=10_000)
    stop.set()
    for thread in threads:
        thread.join()
    assert not faults
    assert store.size().map_bytes > 8 * MIB


def test_a_batch_larger_than_the_map_fits(open_store):
    store = open_store()
    commit(store, messages=1, size=5 * MIB)
    assert len(store.read([1])[0].payload) == 5 * MIB


def test_a_map_that_turns_out_too_small_grows_and_the_commit_is_tried_again(
    open_store, monkeypatch
):
    """The estimate is only an estimate."""
    store = open_store()
    monkeypatch.setattr("penstock.store.environment.Environment._make_room", lambda *_: None)
    for _ in range(40):
        commit(store, messages=10, size=5_000)
    assert store.next_sequence == 401


def test_space_is_reused(open_store):
    """Under a limit the file does not grow without bound."""
    store = open_store()
    rules = RetentionRules(total_bytes_max=2 * MIB)
    for _ in range(300):
        batch = Batch()
        batch.append(b"a", [b"x" * 50_000], 0, 0)
        batch.checkpoint = store.next_index - 1
        store.commit(batch)
        while store.retain(RetentionRequest(rules, 0, 0)).more:
            pass
    assert store.size().bytes_used <= 2.2 * MIB
    assert (store._directory.path / "data.mdb").stat().st_size < 3 * MIB


def test_a_sound_store_verifies(open_store, tmp_path):
    store = open_store()
    for number in range(30):
        commit(store)
        if number % 10 == 0:
            fold(store)
    for _ in range(5):
        store.retain(RetentionRequest(RetentionRules(RetentionLimits(messages_max=50)), 0, 10**9))
    store.close()
    report = verify(tmp_path / "data")
    assert report.faults == []
    assert (report.entries > 0, report.blocks > 0) == (True, True)
    assert report.topics == 3


@pytest.mark.parametrize("flushed", [0, 2, 5])
def test_what_was_deleted_stays_deleted_after_reopening(open_store, tmp_path, flushed):
    """Whether the topic's row, its index, both or none were on disk."""
    store = open_store()
    for number in range(6):
        commit(store)
        if number == flushed:
            fold(store)
    assert store.trim(b"t/0", 6) == 6
    assert store.delete(b"t/1", [0, 5, 6, 17]) == 4
    before = everything(store), store.size().messages
    store = open_store()
    assert (everything(store), store.size().messages) == before
    assert store.size().messages == 60 - 10
    commit(store)
    assert store.delete(b"t/1", [5, 7]) == 1
    store.close()
    assert verify(tmp_path / "data").faults == []


def test_tombstones_go_away_with_the_messages(open_store):
    store = open_store()
    for _ in range(6):
        commit(store)
    store.trim(b"t/0", 6)
    store.delete(b"t/1", [0, 5, 6, 17])
    while store.retain(
        RetentionRequest(RetentionRules(RetentionLimits(messages_max=0)), 0, 10**9)
    ).more:
        pass
    with store._environment.reading() as transaction:
        assert transaction.stat(store._environment["deleted"])["entries"] == 0
    assert not store._topics.deleted_names()


def test_topics_with_tombstones_stay_in_memory(open_store, monkeypatch):
    """Else a reader could combine an old row with new tombstones."""
    monkeypatch.setattr("penstock.store.topics.TOPICS_CACHED_MAX", 1)
    store = open_store()
    commit(store, topics=3)
    store.delete(b"t/0", [1])
    for _ in range(3):
        commit(store, topics=5)
        fold(store)
    assert store._topics.get(b"t/0") is not None
    store = open_store()
    assert store._topics.get(b"t/0") is not None
    assert store.topic(b"t/0").count == 4 + 3 * 2 - 1


def test_a_million_deleted_in_a_row_are_one_range(open_store):
    store = open_store()
    batch = Batch()
    batch.append(b"a", [b"x"] * 1_000_000, 0, 0)
    store.commit(batch)
    assert store.delete(b"a", range(500_000, 1_000_000)) == 500_000
    assert store.delete(b"a", range(400_000, 500_000)) == 100_000
    assert store.trim(b"a", 400_000) == 400_000
    assert len(store._topics.deleted(b"a").firsts) == 1
    assert store.topic(b"a").bytes == 0


@pytest.fixture
def closed(tmp_path):
    """A store with a block of three entries, and three entries in the tail, closed."""
    store = LmdbStore(tmp_path / "data", MIB, inline_folder)
    for number in range(6):
        commit(store)
        if number == 2:
            fold(store)
    store.close()
    return tmp_path / "data"


def flip(number):
    def change(transaction):
        key = nth_key(transaction, number)
        value = bytearray(transaction.get(key))
        value[-20] ^= 1
        transaction.put(key, bytes(value))

    return change


def drop(number):
    return lambda transaction: transaction.delete(nth_key(transaction, number))


def lengthen(number, place=0):
    """Make the row of a range say that it ends one later."""

    def change(transaction):
        key = nth_key(transaction, number)
        value = bytearray(transaction.get(key))
        value[place] += 1
        transaction.put(key, bytes(value))

    return change


def outweigh(number):
    """Make the row of a range say that it has a byte more."""
    return lengthen(number, place=8)


@pytest.mark.parametrize("number", range(3))
def test_a_flipped_bit_in_an_entry_is_found_at_the_start(closed, number):
    edit(closed, b"journal", flip(number))
    with pytest.raises(StorageDamaged, match=f"entry {number + 4}: checksum"):
        LmdbStore(closed, MIB)
    assert f"entry {number + 4}: checksum" in verify(closed).faults[0]


@pytest.mark.parametrize("number", [0, 1])
def test_a_missing_entry_in_the_tail_is_found_at_the_start(closed, number):
    edit(closed, b"journal", drop(number))
    with pytest.raises(StorageDamaged, match=f"entry {number + 5}"):
        LmdbStore(closed, MIB)
    assert f"entries {number + 4} to {number + 4} are missing" in verify(closed).faults


def block_file(closed):
    (found,) = (closed / "blocks").iterdir()
    return found


def damage_block(closed, place=200):
    content = bytearray(block_file(closed).read_bytes())
    content[place] ^= 1
    block_file(closed).write_bytes(bytes(content))


def test_a_missing_topic_row_is_found_by_verify(closed):
    edit(closed, b"topics", drop(0))
    assert not verify(closed).is_sound


def test_damage_in_a_block_costs_that_block_alone(closed):
    damage_block(closed)
    (fault, *_) = verify(closed).faults
    assert "block 0000000000000001: part 0" in fault
    store = LmdbStore(closed, MIB)
    assert store.read(range(1, 31)) == [None] * 30
    assert all(store.read(range(31, 61)))
    assert [m.offset for m in store.read_topic(b"t/1", 0, 99, 999).messages()] == [*range(9, 18)]
    commit(store)
    store.close()


def test_a_store_whose_block_is_missing_starts_without_it(closed):
    block_file(closed).unlink()
    assert "is missing" in verify(closed).faults[0]
    store = LmdbStore(closed, MIB)
    assert [m.offset for m in store.read_topic(b"t/1", 0, 99, 999).messages()] == [*range(9, 18)]
    store.close()


def test_a_block_that_was_never_registered_is_removed_by_a_start(closed):
    stranger = closed / "blocks" / f"{99:016x}.blk"
    stranger.write_bytes(block_file(closed).read_bytes())
    (closed / "blocks" / f"{98:016x}.7.new").write_bytes(b"half")
    LmdbStore(closed, MIB).close()
    assert len(list((closed / "blocks").iterdir())) == 1


@pytest.fixture
def closed_with_tombstones(closed):
    store = LmdbStore(closed, MIB)
    store.delete(b"t/0", [1, 2, 5])
    store.close()
    return closed


@pytest.mark.parametrize("number", [1, 2], ids=["first range", "second range"])
@pytest.mark.parametrize("change", [drop, lengthen, outweigh])
def test_damaged_tombstones_are_found_by_verify(closed_with_tombstones, number, change):
    """The marks count what was removed; ranges know their bytes."""
    assert verify(closed_with_tombstones).is_sound
    edit(closed_with_tombstones, b"deleted", change(number))
    assert not verify(closed_with_tombstones).is_sound


def test_tombstones_without_a_topic_are_found(closed_with_tombstones):
    edit(closed_with_tombstones, b"deleted", drop(0))
    with pytest.raises(StorageDamaged, match="no name"):
        LmdbStore(closed_with_tombstones, MIB)
    assert "no name" in verify(closed_with_tombstones).faults[0]


def test_damaged_marks_are_found(closed):
    edit(closed, b"meta", flip(0))
    with pytest.raises(StorageDamaged, match="marks"):
        LmdbStore(closed, MIB)
    assert "marks" in verify(closed).faults[0]


def test_readers_miss_nothing_while_the_tail_is_folded(open_store):
    """Memory first, then blocks, then the snapshot: what moves meanwhile is found in either."""
    store = open_store()
    store._folding.block_bytes = 2_000
    faults, is_over = [], threading.Event()

    def read():
        while not is_over.is_set():
            info = store.topic(b"t/1")
            if info is None:
                continue
            found = list(store.read_topic(b"t/1", 0, 10**6, 10**9).messages())
            if [message.offset for message in found][: info.next_offset] != [
                *range(info.next_offset)
            ]:
                faults.append((len(found), info.next_offset))
            newest = store.next_sequence - 1
            if None in store.read([1, newest // 2 + 1, newest]):
                faults.append(newest)

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(200):
        commit(store)
        passed = Batch()
        passed.checkpoint = store.next_index - 1
        store.commit(passed)
        store.prepare()
    is_over.set()
    for thread in threads:
        thread.join()
    assert not faults
    assert len(store._blocks.current.blocks) > 3


def test_a_tail_at_rest_is_folded_before_it_is_due(open_store):
    store = open_store()
    batch = Batch()
    for number in range(1_100):
        batch.append(b"t/%d" % number, [b"x"], 0, 0)
    store.commit(batch)
    passed = Batch()
    passed.checkpoint = store.next_index - 1
    store.commit(passed)
    for now_ms in (1_000, 5_900):
        store.retain(RetentionRequest(RetentionRules(), now_ms, 10**9))
        assert not store._blocks.current.blocks
    while store.retain(RetentionRequest(RetentionRules(), 6_000, 10**9)).more:
        pass
    assert len(store._blocks.current.blocks) == 1
