"""What a commit indexes from its batch is what a start would index from the entry."""

import pytest

from penstock.store.batch import Batch
from penstock.store.entry import TIME_SPAN_MS_MAX, decode, encode_entry
from penstock.store.index import indexed_batch, indexed_entry, reference


def batch_of(*runs):
    batch = Batch()
    for topic, sizes, time_ms, flags in runs:
        batch.append(topic, [b"x" * size for size in sizes], time_ms, flags)
    return batch


@pytest.mark.parametrize(
    "batch",
    [
        batch_of((b"a", [1], 5, 0)),
        batch_of((b"a", [0, 3], 5, 0), (b"b", [2], 4, 1), (b"a", [7], 9, 0), (b"a", [1], 3, 2)),
        batch_of((b"a", [1], 5, 0), (b"b", [2, 3], 6, 0), (b"c", [4], 6, 0), (b"b", [5], 7, 0)),
        batch_of((b"a", [1], 5, 0), (b"b", [2], 6, 0), (b"c", [4], 4, 0)),
        batch_of(*((b"%d" % (n % 7), [n], n, 0) for n in range(50))),
        batch_of((b"late", [1], TIME_SPAN_MS_MAX + 9, 0), (b"early", [1, 1], 2, 0)),
    ],
)
def test_the_index_is_the_same_from_the_batch_as_from_the_entry(batch):
    ids = [7 + number for number in range(len(batch.topics))]
    offsets = [10 * number for number in range(len(batch.topics))]
    encoded = encode_entry(batch, 3, 100, ids, offsets)
    from_batch = indexed_batch(batch, encoded, 3, 100, ids, offsets)
    entry = decode(encoded.data)
    from_entry = indexed_entry(entry)
    assert from_batch.references == from_entry.references
    assert from_batch.references == [tuple(reference(entry, number)) for number in range(len(ids))]
    assert from_batch._replace(sections={}) == from_entry._replace(sections={})
