"""Scans over blocks: the same rows as topic by topic, and each part is decoded once."""

import itertools
from random import Random

import pytest
from tests.unit.store.raw_answers import fill, messages_in, notes_in, numbered, u32, u64

from penstock.model import columns
from penstock.store.batch import Batch
from penstock.store.blocks.block import Block
from penstock.store.blocks.fold import Fold, fold
from penstock.store.blocks.part_cache import PartCache
from penstock.store.blocks.scan import Topics, Walk
from penstock.store.memory import MemoryStore
from penstock.store.raw_scan import ScanGathering
from penstock.store.scan import Scan, ScanTopic
from penstock.wire.queue._generated.queue_pb2 import Response
from penstock.wire.queue.bulk import fetched_many, scanned

MANY = 1_000_000
NAMES = (b"a", b"t", b"z")


class Counting(PartCache):
    """A cache that keeps nothing, and counts what is decoded."""

    def __init__(self):
        super().__init__(0)
        self.decoded = []

    def put(self, key, found, size):
        self.decoded.append(key)


def folded(store, cuts, part_bytes=2_000, cache=None, numbers=None):
    """Blocks of the entries up to each of these indices."""
    entries = list(store.replay())
    found = []
    for number, (first, end) in enumerate(itertools.pairwise([0, *cuts]), 1):
        some = entries[first:end]
        base, last = some[0].base_sequence, some[-1]
        plan = Fold(number if numbers is None else numbers[number - 1], base, last.end_sequence,
                    some[0].index, last.index, part_bytes=part_bytes)  # fmt: skip
        found.append(Block(b"".join(fold(some, plan)), cache))
    return found


def view_of(store):
    def view(name):
        state = store._topics.get(name)
        return None if state is None else (state.view(), state.deleted)

    return view


def intact_in(store):
    def is_intact(topic_id, name, offset):
        state = store._topics.get(name)
        is_there = state is not None and state.id == topic_id
        return is_there and state.first_offset <= offset and not state.deleted.count

    return is_intact


def rows(answer):
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


def answer_of(gathering):
    return Response.FromString(fetched_many(scanned(*gathering.step()), 1)[4:]).fetched_many


def walked(store, blocks, scan, count_max=MANY, bytes_max=MANY, between=None, tail=0):
    """All answers until the walk is over, and their rows; the last ``tail`` entries are not folded."""
    entries = list(store.replay())[-tail:] if tail else []
    walk, topics = Walk(scan, view_of(store)), Topics(view_of(store), intact_in(store))
    answers = []
    while not walk.is_over:
        gathering = ScanGathering(scan.columns, count_max, bytes_max)
        if walk.read_blocks(blocks, topics, gathering):
            left = [entry for entry in entries if entry.index > walk.entry_index]
            walk.read_tail(left, topics, gathering)
        answers.append(answer_of(gathering))
        assert walk.is_over or answers[-1].slices
        if between is not None:
            blocks = between(blocks)
    return answers, [row for answer in answers for row in rows(answer)]


def of_topics(store, names, mask=columns.ALL):
    ids = [store.topic(name).id for name in names]
    topics = [
        ScanTopic(n, name, 0, 0, i) for n, (name, i) in enumerate(zip(names, ids, strict=True))
    ]
    return Scan(topics, mask)


def expected(store, number, name, start=0, end=MANY):
    return [
        (number, m.offset, m.sequence, m.time_ms, m.flags, m.payload, m.extras)
        for m in store.read_topic(name, start, MANY, MANY).messages()
        if m.offset < end
    ]


def by_topic(found, number):
    return [row for row in found if row[0] == number]


def fleet(devices=30, turns=8):
    store = MemoryStore()
    names = [b"device/%d" % number for number in range(devices)]
    for turn in range(turns):
        batch = Batch()
        for name in names:
            batch.append(name, [b"%d %s" % (turn, name)], 1_000 + turn, turn % 4)
        store.commit(batch)
    return store, names


@pytest.mark.parametrize("bounds", [{}, {"count_max": 7}, {"bytes_max": 40}, {"bytes_max": 0}])
@pytest.mark.parametrize("seed", range(6))
def test_a_walk_has_every_message_of_its_topics_once_and_in_order(seed, bounds):
    store = MemoryStore()
    fill(store, seed, entries=9)
    answers, found = walked(store, folded(store, [2, 3, 9]), of_topics(store, NAMES), **bounds)
    for number, name in enumerate(NAMES):
        assert by_topic(found, number) == expected(store, number, name)
    assert len(found) == sum(len(by_topic(found, number)) for number in range(3))
    assert all(
        sum(part.count for part in it.slices) <= bounds.get("count_max", MANY) for it in answers
    )


@pytest.mark.parametrize("bounds", [{}, {"count_max": 7}, {"bytes_max": 40}])
@pytest.mark.parametrize(("cuts", "tail"), [([2, 5], 4), ([2, 5], 7), ([], 9)])
def test_what_is_in_no_block_is_walked_entry_by_entry(cuts, tail, bounds):
    """Entries that are in a block, too, are passed over."""
    store = MemoryStore()
    fill(store, 5, entries=9)
    scan = of_topics(store, NAMES)
    _, found = walked(store, folded(store, cuts), scan, tail=tail, **bounds)
    for number, name in enumerate(NAMES):
        assert by_topic(found, number) == expected(store, number, name)
    assert all(topic.is_done for topic in scan.topics)


def test_neighbours_in_an_entry_leave_together():
    store, names = fleet()
    [answer], found = walked(store, [], of_topics(store, names), tail=8)
    assert len(answer.slices) == 8
    assert len(found) == 240


@pytest.mark.parametrize("seed", range(6))
def test_some_topics_are_walked_from_anywhere_to_anywhere(seed):
    store = MemoryStore()
    fill(store, seed, entries=9)
    dice = Random(seed)
    topics = []
    for number, name in enumerate((b"a", b"z")):
        info = store.topic(name)
        start, end = sorted(dice.sample(range(info.next_offset + 1), 2))
        topics.append(ScanTopic(number, name, start, end, info.id))
    asked = [(topic.next, topic.end) for topic in topics]
    _, found = walked(
        store, folded(store, [4, 9]), Scan(topics, columns.ALL), count_max=dice.randrange(1, 90)
    )
    for number, (name, span) in enumerate(zip((b"a", b"z"), asked, strict=True)):
        assert by_topic(found, number) == expected(store, number, name, *span)


def test_groups_of_neighbours_leave_together_and_each_part_is_decoded_once():
    store, names = fleet()
    cache = Counting()
    blocks = folded(store, [4, 8], part_bytes=1_000, cache=cache)
    parts = sum(block.part_count for block in blocks)
    assert parts > 4
    answers, found = walked(store, blocks, of_topics(store, names))
    assert len(cache.decoded) == len(set(cache.decoded)) == parts
    assert sum(len(answer.slices) for answer in answers) == parts
    assert len(found) == 240


def test_an_answer_may_end_within_a_group_and_the_next_one_goes_on_there():
    store, names = fleet()
    blocks = folded(store, [8], part_bytes=100_000)
    answers, found = walked(store, blocks, of_topics(store, names), count_max=100)
    assert [sum(part.count for part in it.slices) for it in answers] == [100, 100, 40]
    assert [row[0] for row in found] == [n for n in range(30) for _ in range(8)]


def test_topics_that_are_few_among_many_are_looked_up():
    store, names = fleet(devices=60)
    chosen = [names[1], names[58]]
    _, found = walked(store, folded(store, [4, 8]), of_topics(store, chosen))
    for number, name in enumerate(chosen):
        assert by_topic(found, number) == expected(store, number, name)


def test_a_scan_that_begins_late_decodes_no_old_block():
    store, names = fleet()
    cache = Counting()
    blocks = folded(store, [4, 8], cache=cache)
    scan = of_topics(store, names)
    for topic in scan.topics:
        topic.next = 5
    _, found = walked(store, blocks, scan)
    assert {row[1] for row in found} == {5, 6, 7}
    assert {key[0] for key in cache.decoded} == {2}


def test_a_walk_goes_on_when_blocks_are_folded_together():
    store, names = fleet()
    whole = folded(store, [8], numbers=[9])
    _, found = walked(
        store, folded(store, [4, 8]), of_topics(store, names), count_max=50,
        between=lambda _blocks: whole,
    )  # fmt: skip
    for number, name in enumerate(names):
        assert by_topic(found, number) == expected(store, number, name)


def test_a_topic_with_a_gap_is_left_where_the_gap_begins():
    """A block is missing: its messages may be somewhere else, and come first."""
    store, names = fleet(devices=3)
    first, _, last = folded(store, [3, 5, 8])
    scan = of_topics(store, names)
    _, found = walked(store, [first, last], scan)
    assert {row[1] for row in found} == {0, 1, 2}
    assert [(topic.next, topic.is_done) for topic in scan.topics] == [(3, False)] * 3


def test_deleted_messages_leave_their_topic_to_others():
    store, names = fleet(devices=3)
    store.delete(names[1], [4])
    scan = of_topics(store, names)
    _, found = walked(store, folded(store, [8]), scan)
    assert {row[0] for row in found} == {0, 2}
    assert [topic.is_done for topic in scan.topics] == [True, False, True]


def test_what_was_removed_is_told_and_the_rest_is_walked():
    store, names = fleet(devices=3)
    blocks = folded(store, [3, 8])
    store.trim(names[1], 5)
    [answer], found = walked(store, blocks, of_topics(store, names))
    assert [row[1] for row in by_topic(found, 1)] == [5, 6, 7]
    assert u32(answer.removed_topics) == [1]
    assert (u64(answer.removed_begins), u64(answer.removed_ends)) == ([0], [5])


def test_a_damaged_part_leaves_its_topics_to_others_which_tell_of_it():
    store, names = fleet(devices=3)
    [block] = folded(store, [8])
    content = bytearray(block._buffer)
    content[40] ^= 1
    scan = of_topics(store, names)
    _, found = walked(store, [Block(bytes(content))], scan)
    assert found == []
    assert not any(topic.is_done for topic in scan.topics)


def test_topics_that_are_gone_or_another_are_passed_over():
    store, names = fleet(devices=3)
    blocks = folded(store, [8])
    scan = of_topics(store, names)
    batch = Batch()
    batch.drop(names[0])
    batch.drop(names[1])
    batch.append(names[1], [b"new"], 1, 0)
    store.commit(batch)
    _, found = walked(store, blocks, scan)
    assert {row[0] for row in found} == {2}
    assert all(topic.is_done for topic in scan.topics)


def test_headers_count_so_that_an_answer_is_at_most_a_part_too_large():
    store = MemoryStore()
    fill(store, 1, entries=9)
    answers, _ = walked(
        store, folded(store, [9], part_bytes=500), of_topics(store, NAMES), bytes_max=200
    )
    assert max(sum(len(part.header_texts) for part in it.slices) for it in answers) < 1_000


def test_producers_of_all_topics_keep_their_messages():
    store = MemoryStore()
    fill(store, 4, entries=9)
    answers, _ = walked(store, folded(store, [9]), of_topics(store, NAMES))
    found = {}
    for part in (part for answer in answers for part in answer.slices):
        place = [
            *zip(
                u32(part.group_starts), u32(part.group_topics), u64(part.group_offsets), strict=True
            )
        ]
        for number, count, producer, seq in notes_in(part):
            for step in range(count):
                start, topic, offset = max(it for it in place if it[0] <= number + step)
                found[topic, offset + number + step - start] = (producer, seq + step)
    for number, name in enumerate(NAMES):
        plain = store.read_topic(name, 0, MANY, MANY).slices
        wanted = numbered((part.first_offset, part.producers) for part in plain)
        assert {key[1]: value for key, value in found.items() if key[0] == number} == wanted
