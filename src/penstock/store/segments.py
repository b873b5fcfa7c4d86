"""One node's part of an entry as a batch; and the encoding of a batch for another node.

In a cluster the leader joins the batches of all nodes into entries, and each node applies them
batch by batch. A batch travels encoded as an entry without a place in the journal.
"""

from collections.abc import Iterator
from itertools import pairwise
from operator import itemgetter
from typing import NamedTuple

from penstock.store.batch import Batch, NodeSegment
from penstock.store.entry import Entry, GroupView, Placement, decode, encode

_NOWHERE = Placement(0, 0)


class SegmentRange(NamedTuple):
    """One node's part of an entry: messages by position, events by number."""

    segment: NodeSegment | None
    start: int
    end: int
    event: int
    event_end: int


def pack_batch(batch: Batch) -> bytes:
    return encode(batch, 0, 0, [_NOWHERE] * len(batch.topics), [(0, name) for name in batch.drops])


def unpack_batch(data: bytes) -> Batch:
    """The inverse of ``pack_batch``; raises StorageDamaged, StorageForeign."""
    entry = decode(data)
    return batch_of(entry, whole(entry))


def whole(entry: Entry, segment: NodeSegment | None = None) -> SegmentRange:
    return SegmentRange(segment, 0, entry.count, 0, len(entry.events))


def spans(entry: Entry) -> list[SegmentRange]:
    """The parts of an entry, in order; one without a cluster."""
    segments = entry.segments
    if len(segments) < 2:
        return [whole(entry, segments[0] if segments else None)]
    ends = [*((segment.position, segment.event) for segment in segments)]
    ends.append((entry.count, len(entry.events)))
    return [
        SegmentRange(segment, start, end, event, event_end)
        for segment, ((start, event), (end, event_end)) in zip(
            segments, pairwise(ends), strict=True
        )
    ]


def batch_of(entry: Entry, span: SegmentRange) -> Batch:
    """One part as a batch; its topics are in the order of the entry's groups."""
    batch = Batch()
    found = [run for group in entry.groups for run in _group_runs(batch, entry, group, span)]
    found.sort(key=itemgetter(0))
    for _, group, payloads, time_ms, flags in found:
        batch.add_run(group, payloads, time_ms, flags)
    assert batch.count == span.end - span.start
    events = entry.events[span.event : span.event_end]
    batch.events = [(position - span.start, event) for position, event in events]
    batch.drops = dict.fromkeys(name for _, name in entry.dropped)  # such an entry has one part
    if span.segment is not None:
        batch.segments = [span.segment]
    return batch


def _group_runs(
    batch: Batch, entry: Entry, view: GroupView, span: SegmentRange
) -> list[tuple[int, int, list[bytes], int, int]]:
    """The runs of a group within a part: position, number of the topic, payloads, time, flags."""
    runs = list(_runs(entry, view, span))
    if not runs:
        return []
    group = batch.add_topic(view.name)
    first, end = runs[0][0], runs[-1][1]  # those of one part are in a row: parts do not mix
    cuts = entry.bounds[first : end + 1].tolist()
    content = bytes(entry.payloads[cuts[0] : cuts[-1]])
    payloads = [content[a - cuts[0] : b - cuts[0]] for a, b in pairwise(cuts)]
    batch.payload_bytes += len(content)
    if entry.has_extras:
        _add_extras(batch, entry, view.name, first, end)
    return [
        (
            entry.run_positions[run],
            group,
            payloads[start - first : stop - first],
            entry.time_ms + entry.run_times[run],
            entry.flags(run),
        )
        for start, stop, run in runs
    ]


def _runs(entry: Entry, view: GroupView, span: SegmentRange) -> Iterator[tuple[int, int, int]]:
    """First message number, end and run number of a group's runs within a part."""
    positions, bounds = entry.run_positions, entry.run_bounds
    for run in range(view.run_start, view.run_end):
        if span.start <= positions[run] < span.end:
            yield bounds[run], bounds[run + 1], run


def _add_extras(batch: Batch, entry: Entry, topic: bytes, first: int, end: int) -> None:
    extras = entry.extras(first, end)
    if extras:
        batch.extras[topic] = dict(sorted(extras.items()))
    producer_runs = list(entry.producer_runs(first, end))
    if producer_runs:
        batch.producers[topic] = producer_runs


def first_offsets(entry: Entry, span: SegmentRange) -> tuple[int, ...]:
    found = []
    for view in entry.groups:
        run = next(_runs(entry, view, span), None)
        if run is not None:
            found.append(view.first_offset + run[0] - view.message_start)
    return tuple(found)
