"""Entries with many topics are indexed as they are; what is found is the same as by rows."""

import random

import pytest

from penstock.store import index
from penstock.store.batch import Batch
from penstock.store.entry import decode, encode_entry
from penstock.store.index import MemoryIndex, indexed_batch, indexed_entry

ENTRIES = 30
TOPICS = 40


def entries(seed):
    """Entries with few and with many topics, as commits index them."""
    chance = random.Random(seed)
    offsets, sequence = [0] * TOPICS, 1
    for number in range(1, ENTRIES + 1):
        batch = Batch()
        for _ in range(chance.choice((1, 3, 60))):
            payloads = [b"x" * chance.randrange(9) for _ in range(chance.choice((1, 1, 3)))]
            batch.append(b"%d" % chance.randrange(TOPICS), payloads, chance.randrange(1_000), 0)
        ids = [int(topic) for topic in batch.topics]
        encoded = encode_entry(batch, number, sequence, ids, firsts := [offsets[i] for i in ids])
        yield indexed_batch(batch, encoded, number, sequence, ids, firsts), encoded.data
        sequence += batch.count
        for topic_id, count in zip(ids, batch.group_messages, strict=True):
            offsets[topic_id] += count


def seen(memory):
    """Everything that can be asked."""
    return (
        {i: b"".join(memory.rows(i)) for i in range(TOPICS + 1)},
        [memory.holds(i) for i in range(TOPICS + 1)],
        [sorted(memory.topic_ids(number)) for number in range(ENTRIES + 1)],
        memory.first_offsets(),
        (memory.references, memory.bytes, len(memory.entries)),
    )


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("is_start", [False, True], ids=["committed", "read at a start"])
def test_what_is_found_does_not_depend_on_how_it_is_kept(monkeypatch, seed, is_start):
    """Some entries as they are, some as rows; and after some were folded away."""
    by_rows, mixed = MemoryIndex(), MemoryIndex()
    for committed, data in entries(seed):
        entry = indexed_entry(decode(data)) if is_start else committed
        monkeypatch.setattr(index, "WIDE_GROUPS_MIN", TOPICS + 1)
        by_rows.add(entry)
        monkeypatch.setattr(index, "WIDE_GROUPS_MIN", 10)
        mixed.add(entry)
    assert mixed._wide
    assert mixed._rows
    assert seen(mixed) == seen(by_rows)
    for last in (7, 8, 20, ENTRIES):
        for memory in (by_rows, mixed):
            memory.forget(memory.topic_ids(last), last)
            memory.forget_entries(last)
        assert seen(mixed) == seen(by_rows)
    assert not mixed.topic_ids()
    assert not mixed._wide


def test_an_entry_with_many_topics_costs_no_work_per_topic():
    """Until somebody asks: then it is one dictionary for all topics of the entry."""
    batch = Batch()
    for number in range(index.WIDE_GROUPS_MIN):
        batch.append(b"%d" % number, [b"x"], 5, 0)
    ids = list(range(index.WIDE_GROUPS_MIN))
    encoded = encode_entry(batch, 1, 1, ids, ids)
    memory = MemoryIndex()
    memory.add(indexed_batch(batch, encoded, 1, 1, ids, ids))
    assert not memory._rows
    (entry,) = memory._wide._entries
    assert entry._numbers is None
    assert memory.rows(7)
    assert entry._numbers is not None
