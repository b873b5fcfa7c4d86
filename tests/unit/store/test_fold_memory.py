"""A fold is bounded by what it folds: its columns once, and what it takes to sort them."""

import tracemalloc

from penstock.store.batch import Batch
from penstock.store.blocks.fold import Fold, fold
from penstock.store.entry import Placement, decode, encode

ENTRIES, TOPICS = 60, 200


def entries():
    """The worst case: a message per topic and entry."""
    for index in range(ENTRIES):
        batch = Batch()
        for topic in range(TOPICS):
            batch.append(b"plant/device/%d" % topic, [b"%d" % index + bytes(100)], 1_000, 1)
        places = [Placement(topic, index) for topic in range(TOPICS)]
        yield decode(encode(batch, index + 1, 1 + TOPICS * index, places))


def test_a_fold_takes_little_more_than_twice_the_memory_of_its_entries():
    journal = list(entries())
    size = sum(len(entry.buffer) for entry in journal)
    plan = Fold(1, 1, 1 + ENTRIES * TOPICS, 1, ENTRIES)
    tracemalloc.start()
    try:
        for _ in fold(journal, plan):
            pass
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2.7 * size
