"""Cutting a stretch of one topic out of an entry, column by column.

Cost: a few copies of contiguous memory and a handful of bisections, whatever the number of
messages. Only the first run of a slice needs arithmetic, as a slice may begin inside it.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from penstock.store.entry import Entry
from penstock.store.index import Reference
from penstock.store.store import TopicSlice

__all__ = ["cut", "gather"]


def gather(
    groups: Iterable[tuple[Entry, Reference]], start: int, count_max: int, bytes_max: int
) -> list[TopicSlice]:
    """Slices of successive groups from offset ``start`` on; at least one message, if any."""
    slices: list[TopicSlice] = []
    for entry, reference in groups:
        part = cut(entry, reference.group, start, count_max, bytes_max)
        if slices and len(part.blob) > bytes_max:
            break  # a cut yields one message at least, and this one does not fit
        slices.append(part)
        count_max -= part.count
        bytes_max -= len(part.blob)
        if count_max <= 0 or part.first_offset + part.count < reference.next_offset:
            break
    return slices


def cut(entry: Entry, number: int, offset: int, count_max: int, bytes_max: int) -> TopicSlice:
    """Messages of group ``number`` from ``offset`` on: at least one, within the two bounds."""
    group = entry.group(number)
    first = group.message_start + max(offset - group.first_offset, 0)
    last = min(group.message_end, first + max(count_max, 1))
    bounds = entry.bounds
    fitting = bisect_right(bounds, bounds[first] + bytes_max, first, last + 1) - 1
    end = min(max(fitting, first + 1), last)
    run_start = bisect_right(entry.run_bounds, first, group.run_start, group.run_end) - 1
    run_end = bisect_left(entry.run_bounds, end, run_start, group.run_end)
    starts, positions = _runs(entry, run_start, run_end, first)
    return TopicSlice(
        first_offset=group.first_offset + first - group.message_start,
        count=end - first,
        index=entry.index,
        base_sequence=entry.base_sequence,
        time_ms=entry.time_ms,
        bounds=bytes(bounds[first : end + 1]),
        blob=bytes(entry.payloads[bounds[first] : bounds[end]]),
        run_starts=starts,
        run_positions=positions,
        run_times=bytes(entry.run_times[run_start:run_end]),
        run_flags=bytes(entry.run_flags[run_start:run_end]),
        extras=entry.extras(first, end),
    )


def _runs(entry: Entry, run_start: int, run_end: int, first: int) -> tuple[bytes, bytes]:
    """Starts (counted from message ``first``) and positions of runs, the first one trimmed."""
    bounds = entry.run_bounds[run_start:run_end].tolist()
    positions = array("I", entry.run_positions[run_start:run_end])
    positions[0] += first - bounds[0]
    starts = array("I", [max(bound - first, 0) for bound in bounds])
    return starts.tobytes(), positions.tobytes()
