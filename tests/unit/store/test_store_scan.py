"""Scans: many topics in bulk, in steps, each message once and in order."""

import itertools
from random import Random

import pytest
from tests.unit.store.raw_answers import fill, messages_in, notes_in, u32, u64

from penstock.model import columns
from penstock.staging.visible_store import VisibleStore
from penstock.store import raw_scan, scan
from penstock.store.batch import Batch
from penstock.store.blocks.folder import inline_folder
from penstock.store.lmdb_store import LmdbStore
from penstock.store.scan import Scan, ScanTopic
from penstock.wire.queue._generated.queue_pb2 import Response
from penstock.wire.queue.bulk import fetched_many, scanned

MANY = 1_000_000
MIB = 1024 * 1024
NAMES = (b"a", b"t", b"z")


def step(store, scanning, count_max=MANY, bytes_max=MANY):
    """One step, by way of the frame that a client would get."""

    def make(found):
        return Response.FromString(fetched_many(scanned(*found), 7)[4:])

    found = store.read_raw_many(scanning, count_max, bytes_max, make)
    assert found.request_id == 7
    return found.fetched_many


def rows(answer):
    """Topic number and message of each row: offset, sequence, time, flags, payload, extras."""
    found = []
    for part in answer.slices:
        starts = [*u32(part.group_starts), part.count]
        groups = zip(u32(part.group_topics), u64(part.group_offsets), strict=True)
        messages = list(messages_in(part))
        for (topic, offset), (start, end) in zip(groups, itertools.pairwise(starts), strict=True):
            found += [
                (topic, offset + number - start, *messages[number][1:])
                for number in range(start, end)
            ]
    return found


def everything(store, scanning, **bounds):
    found = []
    while not scanning.is_done:
        answer = step(store, scanning, **bounds)
        assert answer.slices or scanning.is_done
        found += rows(answer)
    return found


def of_topics(names, mask=columns.ALL):
    return Scan([ScanTopic(number, name) for number, name in enumerate(names)], mask)


def expected(store, number, name, start=0, end=MANY):
    return [
        (number, m.offset, m.sequence, m.time_ms, m.flags, m.payload, m.extras)
        for m in store.read_topic(name, start, MANY, MANY).messages()
        if m.offset < end
    ]


def by_topic(found, number):
    return [row for row in found if row[0] == number]


def put(store, topic, *payloads):
    batch = Batch()
    batch.append(topic, list(payloads), 1, 0)
    store.commit(batch)


@pytest.mark.parametrize("bounds", [{}, {"count_max": 7}, {"bytes_max": 40}, {"bytes_max": 0}])
@pytest.mark.parametrize("seed", range(6))
def test_a_scan_has_every_message_of_its_topics_once_and_in_order(store, seed, bounds):
    fill(store, seed, entries=9)
    found = everything(store, of_topics(NAMES), **bounds)
    for number, name in enumerate(NAMES):
        assert by_topic(found, number) == expected(store, number, name)
    assert len(found) == sum(len(by_topic(found, number)) for number in range(3))


@pytest.mark.parametrize("seed", range(6))
def test_each_topic_begins_and_ends_where_it_is_asked_to(store, seed):
    fill(store, seed, entries=9)
    dice = Random(seed)
    topics = []
    for number, name in enumerate(NAMES):
        info = store.topic(name)
        start, end = sorted(dice.sample(range(info.next_offset + 1), 2))
        topics.append(ScanTopic(number, name, start, end, info.id))
    asked = [(topic.next, topic.end) for topic in topics]
    found = everything(store, Scan(topics, columns.ALL), count_max=dice.randrange(1, 90))
    for number, (name, span) in enumerate(zip(NAMES, asked, strict=True)):
        assert by_topic(found, number) == expected(store, number, name, *span)


def test_messages_of_many_topics_in_small_entries_are_joined_in_one_slice(store):
    names = [b"device/%d" % number for number in range(40)]
    for turn in range(3):
        for name in names:
            put(store, name, b"%d" % turn)
    answer = step(store, of_topics(names))
    assert len(answer.slices) == 1
    assert sorted((row[0], row[1]) for row in rows(answer)) == [
        (n, t) for n in range(40) for t in range(3)
    ]


def test_producers_of_all_topics_keep_their_messages(store):
    for name in NAMES:
        batch = Batch()
        batch.append(name, [b"1", b"2", b"3"], 1, 0)
        batch.add_producer_run(name, 1, 2, b"p" + name, 7)
        store.commit(batch)
    [part] = step(store, of_topics(NAMES)).slices
    assert notes_in(part) == [(1, 2, b"pa", 7), (4, 2, b"pt", 7), (7, 2, b"pz", 7)]


def test_deleted_messages_are_passed_over_and_are_no_loss(store):
    put(store, b"t", *[b"%d" % number for number in range(10)])
    store.delete(b"t", [4, 5, 9])
    scanning = of_topics([b"t"])
    answer = step(store, scanning)
    assert [row[1] for row in rows(answer)] == [0, 1, 2, 3, 6, 7, 8]
    assert not answer.removed_topics
    assert (scanning.is_done, scanning.topics[0].next) == (True, 10)


def test_messages_that_were_removed_before_their_turn_are_told(store):
    put(store, b"a", b"0", b"1")
    put(store, b"t", *[b"%d" % number for number in range(10)])
    scanning = of_topics([b"a", b"t"])
    step(store, scanning, count_max=5)
    store.trim(b"t", 6)
    answer = step(store, scanning)
    assert [row[1] for row in rows(answer)] == [6, 7, 8, 9]
    assert u32(answer.removed_topics) == [1]
    assert (u64(answer.removed_begins), u64(answer.removed_ends)) == ([3], [6])


def test_a_topic_that_is_gone_or_another_is_done(store):
    for name in NAMES:
        put(store, name, b"0", b"1")
    scanning = of_topics([*NAMES, b"none"])
    scanning.topics[2].incarnation = store.topic(b"z").id
    step(store, scanning, count_max=1)
    batch = Batch()
    batch.drop(b"a")
    batch.drop(b"z")
    batch.append(b"z", [b"new"], 1, 0)
    store.commit(batch)
    other = ScanTopic(3, b"t", incarnation=store.topic(b"t").id + 1)
    assert {row[0] for row in rows(step(store, scanning))} == {1}
    assert scanning.is_done
    assert everything(store, Scan([other], columns.ALL)) == []


def test_only_so_many_groups_are_opened_and_topics_looked_at_in_one_step(store, monkeypatch):
    monkeypatch.setattr(raw_scan, "GROUPS_OPENED_MAX", 3)
    names = [b"device/%d" % number for number in range(8)]
    for name in names:
        put(store, name, b"x")
    found = step(store, of_topics(names))
    assert [row[0] for row in rows(found)] == [0, 1, 2]
    monkeypatch.setattr(scan, "TOPICS_AT_ONCE", 2)
    scanning = of_topics(names)
    assert [row[0] for row in rows(step(store, scanning))] == [0, 1]
    assert [row[0] for row in everything(store, scanning)] == [2, 3, 4, 5, 6, 7]


def test_staged_topics_are_not_there(store):
    put(store, b"$stage/s/1/p", b"x")
    put(store, b"t", b"x")
    scanning = of_topics([b"$stage/s/1/p", b"t"])
    assert [row[0] for row in everything(VisibleStore(store), scanning)] == [1]


class Fleet:
    """A store with small blocks, and many topics in every commit."""

    def __init__(self, path, seed):
        self.dice = Random(seed)
        self.store = LmdbStore(path, MIB, inline_folder, block_bytes=30_000)
        self.names = [b"device/%d" % number for number in range(90)]

    def commit(self):
        batch = Batch()
        for name in self.dice.sample(self.names, self.dice.randrange(70, 90)):
            count = self.dice.randrange(1, 4)
            batch.append(name, [self.dice.randbytes(20) for _ in range(count)], 1_000, 0)
        batch.checkpoint = self.store.next_index - 1
        self.store.commit(batch)

    def scan(self):
        infos = [self.store.topic(name) for name in self.names]
        return Scan(
            [ScanTopic(n, it.name, 0, it.next_offset, it.id) for n, it in enumerate(infos)],
            columns.ALL,
        )


@pytest.fixture(params=range(4))
def fleet(request, tmp_path):
    made = Fleet(tmp_path / "data", request.param)
    yield made
    made.store.close()


@pytest.mark.parametrize("bounds", [{}, {"count_max": 50}, {"bytes_max": 3_000}])
def test_a_scan_over_blocks_and_tail_misses_nothing_while_entries_are_folded(fleet, bounds):
    for turn in range(12):
        fleet.commit()
        if turn % 5 == 4:
            fleet.store.fold()
    assert len(fleet.store._blocks.current.blocks) > 1
    scanning, found = fleet.scan(), []
    wanted = [
        expected(fleet.store, topic.number, topic.name, 0, topic.end) for topic in scanning.topics
    ]
    while not scanning.is_done:
        found += rows(step(fleet.store, scanning, **bounds))
        if fleet.dice.randrange(3) == 0:
            fleet.commit()
            fleet.store.fold()
    for number, rows_of_topic in enumerate(wanted):
        assert by_topic(found, number) == rows_of_topic


def test_what_is_deleted_or_trimmed_during_a_scan_comes_no_more_and_what_is_lost_is_told(fleet):
    for turn in range(12):
        fleet.commit()
        if turn == 8:
            fleet.store.fold()
    scanning, dice, store = fleet.scan(), fleet.dice, fleet.store
    ends = [topic.end for topic in scanning.topics]
    had = [set() for _ in ends]
    gone = [set() for _ in ends]
    lost = [set() for _ in ends]
    while not scanning.is_done:
        answer = step(store, scanning, count_max=60)
        removed = (answer.removed_topics, answer.removed_begins, answer.removed_ends)
        for number, begin, end in zip(u32(removed[0]), *map(u64, removed[1:]), strict=True):
            lost[number] |= set(range(begin, end))
        for number, offset, *_ in rows(answer):
            assert offset not in had[number] | gone[number] | lost[number]
            had[number].add(offset)
        for number in dice.sample(range(len(ends)), 5):
            offset, name = dice.randrange(ends[number]), fleet.names[number]
            if dice.randrange(2):
                gone[number] |= {offset} if store.delete(name, [offset]) else set()
            else:
                store.trim(name, offset)
                gone[number] |= set(range(offset)) - had[number]
    for number, end in enumerate(ends):
        assert had[number] | gone[number] | lost[number] >= set(range(end))
