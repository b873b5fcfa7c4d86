"""What an entry of the log is to those who apply it: batches of nodes, each with its place."""

from penstock.store.batch import Batch
from penstock.store.entry import Entry
from penstock.store.segments import SegmentRange, spans
from penstock.store.store import Commit, Written

NO_COST = Written(0.0, 0.0)


def parts(entry: Entry) -> list[SegmentRange]:
    """The batches within an entry; none if it holds nothing for the broker."""
    if not (entry.count or entry.events or entry.dropped):
        return []
    return spans(entry)


def commit_of(entry: Entry, span: SegmentRange, batch: Batch, written: Written = NO_COST) -> Commit:
    """Where a part of an entry lies, which is ``batch``; and what the last write cost."""
    return Commit(
        index=entry.index,
        base_sequence=entry.base_sequence + span.start,
        count=span.end - span.start,
        bytes=len(entry.buffer),
        commit_s=written.commit_s,
        fsync_s=written.fsync_s,
        first_offsets=_offsets(entry, span, batch),
        ends_entry=(span.end, span.event_end) == (entry.count, len(entry.events)),
    )


def _offsets(entry: Entry, span: SegmentRange, batch: Batch) -> tuple[int, ...]:
    """Offset of the first message of each group, in the order of the batch's own groups.

    An entry has its topics in another order: that in which the first batch with each of them came.
    """
    if span.start == 0 and span.end == entry.count:
        return tuple([view.first_offset for view in entry.groups])
    positions, bounds = entry.run_positions, entry.run_bounds
    found: dict[bytes, int] = {}
    for view in entry.groups:
        for run in range(view.run_start, view.run_end):
            if span.start <= positions[run] < span.end:
                found[view.name] = view.first_offset + bounds[run] - view.message_start
                break
    return tuple([found[name] for name in batch.groups])
