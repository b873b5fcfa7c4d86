"""Cutting a range of one topic out of an entry, column by column.

This costs a few copies of contiguous memory and some bisections, whatever the number of messages.
Only the first run of a slice needs arithmetic, as a slice may begin inside it.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from penstock.store.entry import Entry, GroupView
from penstock.store.store import TopicFlags, TopicSlice


class GroupRange(NamedTuple):
    """Offsets ``first … end - 1`` of a topic, all in one group of an entry."""

    entry: Entry
    group: int
    first: int
    end: int


def gather(pieces: Iterable[GroupRange], count_max: int, bytes_max: int) -> list[TopicSlice]:
    """Slices of successive ranges, within the two bounds; at least one message, if any."""
    slices: list[TopicSlice] = []
    for piece in pieces:
        part = cut(piece, count_max, bytes_max)
        if slices and len(part.blob) > bytes_max:
            break  # a cut yields one message at least, and this one does not fit
        slices.append(part)
        count_max -= part.count
        bytes_max -= len(part.blob)
        if count_max <= 0 or part.first_offset + part.count < piece.end:
            break
    return slices


def gather_flags(pieces: Iterable[GroupRange], start: int, count_max: int) -> TopicFlags:
    """Flags and schedules of successive ranges, about ``count_max`` messages."""
    found = TopicFlags(start, [], {})
    for piece in pieces:
        _mark(piece, found)
        count_max -= piece.end - piece.first
        if count_max <= 0:
            break
    return found


def _mark(piece: GroupRange, found: TopicFlags) -> None:
    """Add the flags and schedules of a range, merging runs that only differ in time."""
    entry, group = piece.entry, piece.entry.group(piece.group)
    first, end = _numbers(piece)
    shift = piece.first - first
    run_start, run_end = _run_range(entry, group, first, end)
    bounds = [first, *entry.run_bounds[run_start + 1 : run_end], end]
    for place, run in enumerate(range(run_start, run_end)):
        found.add_run(bounds[place] + shift, bounds[place + 1] + shift, entry.flags(run))
    for number, schedule in entry.schedule(first, end).items():
        found.schedule[number + shift] = schedule
    found.next_offset = piece.end


def piece_bytes(piece: GroupRange) -> int:
    first, end = _numbers(piece)
    bounds = piece.entry.bounds
    return int(bounds[end] - bounds[first])


def _numbers(piece: GroupRange) -> tuple[int, int]:
    """Message number in the entry of the first message, and of the one after the last."""
    group = piece.entry.group(piece.group)
    shift = group.message_start - group.first_offset
    return piece.first + shift, piece.end + shift


def cut(piece: GroupRange, count_max: int, bytes_max: int) -> TopicSlice:
    """The first messages of a range: at least one, within the two bounds."""
    entry, group = piece.entry, piece.entry.group(piece.group)
    first, last = _numbers(piece)
    last = min(last, first + max(count_max, 1))
    bounds = entry.bounds
    fitting = bisect_right(bounds, bounds[first] + bytes_max, first, last + 1) - 1
    end = min(max(fitting, first + 1), last)
    run_start, run_end = _run_range(entry, group, first, end)
    starts, positions = _runs(entry, run_start, run_end, first)
    return TopicSlice(
        first_offset=piece.first,
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
        run_types=bytes(entry.run_types[run_start:run_end]),
        producers=list(entry.notes(first, end)),
    )


def _run_range(entry: Entry, group: GroupView, first: int, end: int) -> tuple[int, int]:
    """The run of a group that holds message ``first``, and the one after that of ``end - 1``."""
    run_start = bisect_right(entry.run_bounds, first, group.run_start, group.run_end) - 1
    return run_start, bisect_left(entry.run_bounds, end, run_start, group.run_end)


def _runs(entry: Entry, run_start: int, run_end: int, first: int) -> tuple[bytes, bytes]:
    """Starts (counted from message ``first``) and positions of runs, the first one trimmed."""
    bounds = entry.run_bounds[run_start:run_end].tolist()
    positions = array("I", entry.run_positions[run_start:run_end])
    positions[0] += first - bounds[0]
    starts = array("I", [max(bound - first, 0) for bound in bounds])
    return starts.tobytes(), positions.tobytes()
