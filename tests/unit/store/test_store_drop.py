"""Topics that cease to exist: at once for every reader, in slices on disk."""

import os
import threading

import pytest
from tests.unit.store.test_store_conformance import batch_of, checkpoint, payloads
from tests.unit.store.test_store_recovery import edit, everything, nth_key

from penstock.errors import StorageDamaged, StorageFull
from penstock.store.batch import Batch
from penstock.store.blocks import tail_folding
from penstock.store.blocks.folder import inline_folder
from penstock.store.lmdb_store import LmdbStore
from penstock.store.retention import engine as retention
from penstock.store.search import offset_at_sequence
from penstock.store.store import ProtectedTopics, RetentionLimits, RetentionRequest, RetentionRules
from penstock.store.verify import verify

NOBODY_WAITS = 10**9
LONG = b"n" * 900


def drop(store, *topics, then=()):
    """Drop topics, and publish to some of that or another name in the same batch."""
    batch = Batch()
    for topic in topics:
        batch.drop(topic)
    for topic, payload in then:
        batch.append(topic, [payload], 1_000, 0)
    return store.commit(batch)


def fill(store, *topics, entries=3):
    for number in range(entries):
        store.commit(batch_of(*((topic, b"%d" % number) for topic in topics)))


def retain(store, rules=None, now_ms=0, **options):
    """Retention until nothing is left to do; all that it says it removed."""
    messages = 0
    for _ in range(1_000):
        removed = store.retain(
            RetentionRequest(rules or RetentionRules(), now_ms, NOBODY_WAITS, **options)
        )
        messages += removed.messages
        if not removed.more:
            return messages
    pytest.fail("retention does not come to an end")


def fold(store):
    """Let blocks contain everything."""
    checkpoint(store)
    store.fold()


@pytest.fixture
def store(retained):
    return retained


@pytest.fixture
def small(monkeypatch):
    """A handful of steps of retention at a time."""
    monkeypatch.setattr(retention, "SLICE_STEPS", 2)


# ── What a reader sees ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("topic", [b"a", LONG], ids=["short", "long"])
def test_a_dropped_topic_is_gone_for_every_reader(store, topic):
    fill(store, topic, b"b")
    drop(store, topic)
    assert store.topic(topic) is None
    assert [info.name for info in store.topics()] == [b"b"]
    assert store.read_topic(topic, 0, 10, 10).slices == []
    assert store.read_flags(topic, 0, 10).runs == []
    assert [message and message.topic for message in store.read(range(1, 7))] == [None, b"b"] * 3
    assert offset_at_sequence(store, topic, 1) == 0
    assert (store.trim(topic, 3), store.delete(topic, [0])) == (0, 0)
    assert store.size().messages == 3


def test_the_name_begins_anew_with_another_id_and_offset_zero(store):
    fill(store, b"a", b"b")
    old = store.topic(b"a")
    drop(store, b"a")
    store.commit(batch_of((b"a", b"new"), time_ms=2_000))
    new = store.topic(b"a")
    assert new.id > store.topic(b"b").id > old.id
    assert (new.first_offset, new.next_offset, new.bytes, new.created_ms) == (0, 1, 3, 2_000)
    assert payloads(store, b"a") == [b"new"]
    assert [message is not None for message in store.read(range(1, 8))] == [False, True] * 3 + [
        True
    ]


def test_messages_of_the_batch_that_drops_their_topic_are_the_first_of_the_new_one(store):
    """Also those that were appended to the batch before."""
    fill(store, b"a")
    batch = batch_of((b"a", b"early"))
    batch.drop(b"a")
    batch.append(b"a", [b"late"], 1_000, 0)
    batch.drop(b"a")
    commit = store.commit(batch)
    assert commit.first_offsets == (0,)
    assert payloads(store, b"a") == [b"early", b"late"]


def test_dropping_an_unknown_topic_does_nothing(store):
    fill(store, b"b")
    drop(store, b"a", then=[(b"c", b"1")])
    assert [info.name for info in store.topics()] == [b"b", b"c"]
    assert store.size().messages == 4


def test_an_entry_says_which_topics_it_dropped(store):
    fill(store, b"a", b"b", entries=1)
    drop(store, b"unknown", b"b", then=[(b"b", b"1")])
    *_, entry = store.replay()
    assert entry.dropped == [(2, b"b")]
    assert [(group.name, group.topic_id) for group in entry.groups] == [(b"b", 3)]


def test_deleted_messages_are_not_counted_twice(store):
    fill(store, b"a", b"b", entries=5)
    store.trim(b"a", 2)
    store.delete(b"a", [3])
    drop(store, b"a")
    assert store.size().messages == 5
    assert retain(store) == 0
    assert store.size().messages == 5


def test_what_was_deleted_of_a_topic_is_not_deleted_of_its_successor(store):
    fill(store, b"a", entries=4)
    store.delete(b"a", [0, 1, 3])
    drop(store, b"a")
    fill(store, b"a", entries=4)
    assert payloads(store, b"a") == [b"0", b"1", b"2", b"3"]
    assert store.delete(b"a", [1]) == 1
    assert store.topic(b"a").count == 3


def test_a_failed_commit_drops_nothing(open_store, monkeypatch):
    store = open_store()
    fill(store, b"a")

    def full(*_):
        raise StorageFull("full", "")

    with monkeypatch.context() as patch:
        patch.setattr(store._environment, "_attempt", full)
        with pytest.raises(StorageFull):
            drop(store, b"a")
    assert payloads(store, b"a") == [b"0", b"1", b"2"]
    fill(store, b"a", entries=1)
    assert store.topic(b"a").next_offset == 4


# ── What retention does ───────────────────────────────────────────────────────────────────────


@pytest.mark.usefixtures("small")
def test_the_space_of_a_dropped_topic_is_freed_but_not_counted_again(store):
    fill(store, b"a", entries=20)
    fill(store, b"a", b"b", entries=2)
    drop(store, b"a")
    assert retain(store) == 0
    assert store.size().messages == 2


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("folded", [0, 1, 2])
def test_blocks_of_a_dropped_topic_go(open_store, folded):
    """Whether they were made before it was dropped, after it, or when all of it was freed."""
    store = open_store()
    for step, act in enumerate([lambda: fill(store, b"a"), lambda: drop(store, b"a"), fold]):
        if step == folded:
            fold(store)
        act() if step < 2 else act(store)
    drop(store, b"unknown", then=[(b"b", b"")])
    fold(store)
    retain(store)
    store.fold()
    (block,) = store._blocks.current.blocks
    assert (block.row.summary.count - block.row.dead_messages, store.size().messages) == (1, 1)
    assert len(list((store._directory.path / "blocks").iterdir())) == 1


def rows_on_disk(store):
    """How many rows the databases have that a dropped topic leaves something in."""
    names = ("journal", "blocks", "topics", "deleted", "meta")
    with store._environment.reading() as transaction:
        return [transaction.stat(store._environment[name])["entries"] for name in names]


MARKS_ONLY = [0, 0, 0, 0, 1]


@pytest.mark.usefixtures("small")
def test_nothing_is_left_on_disk(open_store):
    store = open_store()
    fill(store, b"a", entries=10)
    store.delete(b"a", [1, 3, 5, 7, 9])
    drop(store, b"a", then=[(b"a", b"new")])
    fold(store)
    drop(store, b"a")
    fold(store)
    retain(store)
    assert rows_on_disk(store) == MARKS_ONLY
    assert not store._dropped


def test_a_dropped_topic_is_freed_when_blocks_have_all_of_it(open_store):
    """Until then a start would take its messages for those of a new topic."""
    store = open_store()
    names = [b"t/%d" % number for number in range(6)]
    fill(store, *names)
    drop(store, *names)
    retain(store)
    assert len(store._dropped) == 6
    fold(store)
    retain(store)
    assert rows_on_disk(store) == MARKS_ONLY


@pytest.mark.usefixtures("small")
def test_many_dropped_topics_that_were_empty_are_freed_in_slices(open_store, monkeypatch):
    monkeypatch.setattr("penstock.store.lmdb_store.RETAIN_S", 0)
    store = open_store()
    names = [b"t/%d" % number for number in range(10)]
    fill(store, *names, entries=1)
    retain(store, RetentionRules(RetentionLimits(messages_max=0)))
    drop(store, *names)
    fold(store)
    assert store.retain(RetentionRequest(RetentionRules(), 0, NOBODY_WAITS)).more
    assert len(store._dropped) == 8
    retain(store)
    assert not store._dropped


def test_entries_that_a_start_replays_stay(open_store):
    store = open_store()
    fill(store, b"a", entries=4)
    checkpoint(store, 2)
    drop(store, b"a")
    store.fold()
    retain(store)
    assert [entry.index for entry in store.replay()] == [3, 4, 5]
    assert store.size().entries == 3


LIMITS = [
    RetentionLimits(messages_max=2),
    RetentionLimits(bytes_max=2),
    RetentionLimits(age_ms_max=500),
]


@pytest.mark.parametrize("limits", LIMITS, ids=["count", "bytes", "age"])
def test_limits_do_not_take_the_successor_for_the_dropped_topic(store, limits):
    """Its offsets and its times are others."""
    rules = RetentionRules(limits)
    fill(store, b"a", b"b", entries=6)
    retain(store, rules, now_ms=1_100)
    drop(store, b"a")
    batch = Batch()
    batch.append(b"a", [b"x"], 3_000, 0)
    batch.append(b"a", [b"y"], 3_000, 0)
    store.commit(batch)
    retain(store, rules, now_ms=3_100)
    assert payloads(store, b"a") == [b"x", b"y"]
    assert store.topic(b"b").first_offset == (6 if limits.age_ms_max else 4)


def make_room(store, file_bytes):
    request = RetentionRequest(RetentionRules(), 0, NOBODY_WAITS)
    while store._remove(request, file_bytes).more:
        pass


@pytest.mark.parametrize("is_freed", [False, True])
def test_a_total_that_is_exceeded_does_not_take_the_successor_for_the_dropped_topic(
    open_store, is_freed
):
    """Offsets in the oldest block are those of the topic before."""
    store = open_store()
    for number in range(8):
        store.commit(batch_of((b"a", os.urandom(20_000)), (b"b", b"%d" % number)))
    fold(store)
    drop(store, b"a", then=[(b"a", b"new")])
    if is_freed:
        fold(store)
    make_room(store, 10_000)
    assert (payloads(store, b"a"), payloads(store, b"b")) == ([b"new"], [])
    assert len(store._blocks.current.blocks) == is_freed
    fold(store)
    retain(store)
    assert [each.row.dead_messages for each in store._blocks.current.blocks] == [0]


def test_a_total_that_is_exceeded_takes_nothing_while_a_dropped_topic_makes_room(open_store):
    store = open_store()
    store.commit(batch_of((b"b", b"kept")))
    for _ in range(20):
        store.commit(batch_of((b"a", os.urandom(20_000))))
    drop(store, b"a")
    fold(store)
    make_room(store, 150_000)
    assert payloads(store, b"b") == [b"kept"]


def test_a_young_dropped_topic_does_not_hold_up_the_age_of_others(store):
    for time_ms, topic in [(1_000, b"b"), (9_000, b"a"), (1_001, b"b")]:
        store.commit(batch_of((topic, b"x"), time_ms=time_ms))
    rules = RetentionRules(RetentionLimits(age_ms_max=100))
    retain(store, rules, now_ms=2_000)
    assert store.topic(b"b").first_offset >= 1
    drop(store, b"a")
    retain(store, rules, now_ms=2_000)
    assert store.topic(b"b").first_offset == 2


def test_lows_and_floors_of_the_dropped_topic_do_not_bind_its_successor(store):
    rules = RetentionRules(RetentionLimits(messages_max=1))
    fill(store, b"a", entries=6)
    retain(store, rules, protected=ProtectedTopics(b"a", {b"a": 4}), low_water_marks={b"a": 3})
    assert store.topic(b"a").first_offset == 4
    drop(store, b"a")
    fill(store, b"a", entries=6)
    for low_water_marks, expected in [({b"b": 1}, 1), ({b"a": 2}, 2)]:
        retain(
            store,
            rules,
            protected=ProtectedTopics(b"a", {b"a": 1}),
            low_water_marks=low_water_marks,
        )
        assert store.topic(b"a").first_offset == expected


# ── Starts, folds, damage ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("folded", range(5))
@pytest.mark.parametrize("is_retained", [False, True])
def test_a_start_finds_the_lives_of_a_topic_as_they_were(open_store, tmp_path, folded, is_retained):
    """Wherever the last block ended."""
    store = open_store()
    steps = [
        lambda: fill(store, b"a", b"b"),
        lambda: drop(store, b"a", then=[(b"a", b"second")]),
        lambda: drop(store, b"a"),
        lambda: fill(store, b"a", LONG),
        lambda: drop(store, LONG, b"a", then=[(b"a", b"fourth"), (b"b", b"x")]),
    ]
    for number, step in enumerate(steps):
        step()
        if number == folded:
            fold(store)
    if is_retained:
        retain(store)
    before = everything(store), store.size().messages
    store = open_store()
    assert (everything(store), store.size().messages) == before
    retain(store)
    fold(store)
    before = everything(store), store.size().messages  # less is replayed
    store = open_store()
    assert (everything(store), store.size().messages) == before
    assert [payloads(store, topic) for topic in (b"a", b"b", LONG)] == [
        [b"fourth"], [b"0", b"1", b"2", b"x"], [],
    ]  # fmt: skip
    store.close()
    assert verify(tmp_path / "data").faults == []


def test_a_topic_may_be_dropped_while_it_is_folded(open_store, monkeypatch):
    """Its row was put, or is put no more; the block has its messages, and they count as dead."""
    monkeypatch.setattr(tail_folding, "TOPICS_PER_STEP", 1)
    monkeypatch.setattr(tail_folding, "ENTRIES_MAX", 1)
    store = open_store()
    names = [b"t/%d" % number for number in range(6)]
    fill(store, *names, entries=1)
    checkpoint(store)
    for name in names:
        store.prepare()
        drop(store, name)
    assert list(store.topics()) == []
    store = open_store()
    assert list(store.topics()) == []
    fold(store)
    retain(store)
    assert list(store.topics()) == []
    assert rows_on_disk(store) == MARKS_ONLY


def test_a_topic_that_is_not_in_memory_can_be_dropped(open_store, monkeypatch):
    monkeypatch.setattr("penstock.store.topics.TOPICS_CACHED_MAX", 0)
    store = open_store()
    fill(store, b"a", b"b")
    fold(store)
    assert store._topics.get(b"a") is None
    drop(store, b"a", then=[(b"b", b"3")])
    assert store.topic(b"a") is None
    fill(store, b"a", entries=1)
    assert payloads(store, b"a") == [b"0"]


def test_a_start_goes_on_freeing_where_the_last_one_stopped(open_store, monkeypatch, tmp_path):
    monkeypatch.setattr("penstock.store.lmdb_store.RETAIN_S", 0)
    monkeypatch.setattr(retention, "SLICE_STEPS", 2)
    store = open_store()
    fill(store, b"a", b"b", entries=10)
    store.delete(b"a", [2, 5])
    drop(store, b"a")
    fold(store)
    for _ in range(30):
        more = store.retain(RetentionRequest(RetentionRules(), 0, NOBODY_WAITS)).more
        store.close()
        assert verify(tmp_path / "data").faults == []
        store = open_store()
    assert not more
    assert not store._dropped
    assert store.size().messages == 10


def test_reads_in_other_threads_see_one_life_at_a_time(open_store):
    """Each incarnation publishes its own number; no reader sees two of them, or an error."""
    store = open_store()
    failures, done = [], threading.Event()

    def read() -> None:
        try:
            while not done.is_set():
                found = store.read_topic(b"a", 0, 10**6, 10**9)
                assert len({message.payload for message in found.messages()}) <= 1
                assert store.read_flags(b"a", 0, 10**6).next_offset <= 3
                assert [info.name for info in store.topics()][-1:] == [b"b"]
                assert store.topic(b"a") is not None
                store.read(range(1, store.next_sequence))
        except BaseException as error:  # noqa: BLE001 - the test must see it
            failures.append(error)

    store.commit(batch_of((b"a", b"0"), (b"b", b"")))
    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for life in range(1, 120):
        drop(store, b"a", then=[(b"a", b"%d" % life)] * 2)
        store.commit(batch_of((b"a", b"%d" % life)))
        if life % 5 == 0:
            checkpoint(store)
            store.retain(RetentionRequest(RetentionRules(), 0, NOBODY_WAITS))
    done.set()
    for reader in readers:
        reader.join()
    assert failures == []


def drop_after(monkeypatch, store, owner, method):
    """Drop a topic and recreate it right after a method was called for the first time."""
    called = getattr(owner, method)

    def call(*arguments):
        monkeypatch.setattr(owner, method, called)
        result = called(*arguments)
        drop(store, b"a", then=[(b"a", b"new")])
        return result

    monkeypatch.setattr(owner, method, call)


def test_a_topic_is_found_though_it_begins_anew_while_it_is_looked_up(open_store, monkeypatch):
    """It was not in memory when that was asked, and is nowhere else afterwards."""
    with monkeypatch.context() as patch:
        patch.setattr("penstock.store.topics.TOPICS_CACHED_MAX", 0)
        store = open_store()
        fill(store, b"a")
        fold(store)
    drop_after(monkeypatch, store, store._topics, "view")
    assert store.topic(b"a").next_offset == 1


def test_a_topic_that_begins_anew_while_it_is_read_is_read_as_it_was(open_store, monkeypatch):
    store = open_store()
    fill(store, b"a", entries=5)
    retain(store, RetentionRules(RetentionLimits(messages_max=3)))
    drop_after(monkeypatch, store, store._memory, "rows")
    found = store.read_topic(b"a", 0, 10, 10)
    assert (found.first_offset, found.next_offset) == (2, 5)
    assert [message.payload for message in found.messages()] == [b"2", b"3", b"4"]
    drop_after(monkeypatch, store, store._memory, "rows")
    assert store.read_flags(b"a", 0, 10).runs == [(0, 1, 0)]


@pytest.fixture
def closed(tmp_path):
    """A store of which a topic was dropped; it is not freed yet."""
    store = LmdbStore(tmp_path / "data", 1 << 20, inline_folder)
    fill(store, b"a", b"b")
    fold(store)
    drop(store, b"a")
    fold(store)
    store.close()
    return tmp_path / "data"


def test_a_lost_record_of_a_dropped_topic_is_found_by_verify(closed):
    edit(closed, b"meta", lambda transaction: transaction.delete(nth_key(transaction, 0)))
    assert "block 1 should have 6 messages alive, has 3" in verify(closed).faults


def test_a_lost_record_is_found_at_the_start_if_the_entry_is_read_there(closed):
    store = LmdbStore(closed, 1 << 20)
    drop(store, b"b")
    store.close()
    edit(closed, b"meta", lambda transaction: transaction.delete(nth_key(transaction, 1)))
    with pytest.raises(StorageDamaged, match="on record"):
        LmdbStore(closed, 1 << 20)


def test_a_row_that_came_back_is_found_by_verify(closed):
    def revive(transaction):
        key = nth_key(transaction, 0)
        row = bytearray(transaction.get(key))
        row[0:4], row[40:] = (1).to_bytes(4, "little"), b"a"
        transaction.put(b"a", bytes(row))

    edit(closed, b"topics", revive)
    assert "topic 'a', which was dropped, has a row" in verify(closed).faults


def test_verify_counts_a_dropped_topic_as_removed(closed):
    report = verify(closed)
    assert (report.faults, report.topics, report.messages, report.removed) == ([], 1, 3, 3)
