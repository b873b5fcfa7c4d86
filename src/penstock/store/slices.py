"""Copying a range of one topic out of an entry, column by column, without a loop over messages."""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from penstock.store.entry import Entry, GroupView
from penstock.store.store import TopicFlags, TopicSlice


class GroupRange(NamedTuple):
    """Offsets ``first … end - 1`` of a topic, all in one group of an entry."""

    entry: Entry
    group: int
    first: int
    end: int


def gather(parts: Iterable[GroupRange], count_max: int, bytes_max: int) -> list[TopicSlice]:
    """Slices of successive ranges, within the two bounds; at least one message, if any."""
    slices: list[TopicSlice] = []
    for part in parts:
        found = cut(part, count_max, bytes_max)
        if slices and len(found.blob) > bytes_max:
            break  # a cut yields one message at least, and this one does not fit
        slices.append(found)
        count_max -= found.count
        bytes_max -= len(found.blob)
        if count_max <= 0 or found.first_offset + found.count < part.end:
            break
    return slices


def gather_flags(parts: Iterable[GroupRange], start: int, count_max: int) -> TopicFlags:
    found = TopicFlags(start, [], {})
    for part in parts:
        _mark(part, found)
        count_max -= part.end - part.first
        if count_max <= 0:
            break
    return found


def _mark(part: GroupRange, found: TopicFlags) -> None:
    """Add the flags and schedules of a range, merging runs that only differ in time."""
    entry, group = part.entry, part.entry.group(part.group)
    first, end = _numbers(part)
    shift = part.first - first
    run_start, run_end = _run_range(entry, group, first, end)
    bounds = [first, *entry.run_bounds[run_start + 1 : run_end], end]
    for place, run in enumerate(range(run_start, run_end)):
        found.add_run(bounds[place] + shift, bounds[place + 1] + shift, entry.flags(run))
    for number, schedule in entry.schedule(first, end).items():
        found.schedule[number + shift] = schedule
    found.next_offset = part.end


def part_bytes(part: GroupRange) -> int:
    first, end = _numbers(part)
    bounds = part.entry.bounds
    return int(bounds[end] - bounds[first])


def reach(part: GroupRange, size: int) -> int:
    """The offset after the last message that fits into a number of payload bytes."""
    first, end = _numbers(part)
    bounds = part.entry.bounds
    number = bisect_right(bounds, bounds[first] + size, first, end + 1) - 1
    return part.first + number - first


def timed_runs(part: GroupRange) -> Iterator[tuple[int, int]]:
    """The offset after each run, and the time of its messages."""
    entry, group = part.entry, part.entry.group(part.group)
    first, end = _numbers(part)
    shift = part.first - first
    run_start, run_end = _run_range(entry, group, first, end)
    for run in range(run_start, run_end):
        yield min(entry.run_bounds[run + 1], end) + shift, entry.time_ms + entry.run_times[run]


def offset_at(part: GroupRange, sequence: int) -> int:
    """The first offset with this sequence or a greater one; the end if there is none."""
    entry, group = part.entry, part.entry.group(part.group)
    first, end = _numbers(part)
    run_start, run_end = _run_range(entry, group, first, end)
    position = sequence - entry.base_sequence
    run = max(bisect_right(entry.run_positions, position, run_start, run_end) - 1, run_start)
    within = max(position - entry.run_positions[run], 0)  # in the run, or after it
    number = min(entry.run_bounds[run] + within, entry.run_bounds[run + 1])
    return int(part.first - first + min(max(number, first), end))


def _numbers(part: GroupRange) -> tuple[int, int]:
    """Message number in the entry of the first message, and of the one after the last."""
    group = part.entry.group(part.group)
    shift = group.message_start - group.first_offset
    return part.first + shift, part.end + shift


def cut(part: GroupRange, count_max: int, bytes_max: int) -> TopicSlice:
    entry, group = part.entry, part.entry.group(part.group)
    first, last = _numbers(part)
    last = min(last, first + max(count_max, 1))
    bounds = entry.bounds
    fitting = bisect_right(bounds, bounds[first] + bytes_max, first, last + 1) - 1
    end = min(max(fitting, first + 1), last)
    run_start, run_end = _run_range(entry, group, first, end)
    starts, positions = _runs(entry, run_start, run_end, first)
    return TopicSlice(
        first_offset=part.first,
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
        producers=list(entry.producer_runs(first, end)),
    )


def _run_range(entry: Entry, group: GroupView, first: int, end: int) -> tuple[int, int]:
    run_start = bisect_right(entry.run_bounds, first, group.run_start, group.run_end) - 1
    return run_start, bisect_left(entry.run_bounds, end, run_start, group.run_end)


def _runs(entry: Entry, run_start: int, run_end: int, first: int) -> tuple[bytes, bytes]:
    bounds = entry.run_bounds[run_start:run_end].tolist()
    positions = array("I", entry.run_positions[run_start:run_end])
    positions[0] += first - bounds[0]
    starts = array("I", [max(bound - first, 0) for bound in bounds])
    return starts.tobytes(), positions.tobytes()
