"""Cutting a range of one topic out of an entry as views, without decoding it.

``slices`` copies what it cuts and makes objects of rare properties, which is too slow for bulk
reads. Here a column is a view of the entry's bytes, valid as long as the entry is. Columns whose
numbers count from the beginning of the entry are shifted at once (``lessened``): a column is one
large integer, from which the same number is subtracted at every position.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from itertools import islice
from struct import Struct
from typing import Final

from penstock.model import columns as wanted
from penstock.store import entry as sections
from penstock.store.deletions import Ranges
from penstock.store.entry import Entry
from penstock.store.joined_slice import SMALL, Joined, JoinedPart
from penstock.store.raw_slice import Column, RawSlice
from penstock.store.slices import GroupRange
from penstock.store.store import RawQuery, TopicInfo

_U32: Final = Struct("<I")
_U64: Final = Struct("<Q")
SIGNATURE_BYTES: Final = 88  # one record; see ``extras``

FEW: Final = 24  # numbers that are faster to shift one by one

GROUPS_OPENED_MAX: Final = (
    2_048  # ranges that are opened for one answer; tiny ones take an entry each
)

# 0, 1, 2 …: message numbers where all have the property
_COUNTED: Final = memoryview(array("I", range(65_536)).tobytes())

_ZERO: Final = bytes(4)


class Gathering:
    """Slices under construction: small ranges are joined, large ones stay as they are."""

    def __init__(self, columns: int) -> None:
        self.slices: list[RawSlice] = []
        self.columns = columns
        self._joined: Joined | None = None

    def add(self, part: JoinedPart, topic: int = -1) -> None:
        """Add a range; ``topic`` is the number of its topic in a scan."""
        if part.end - part.first > SMALL:
            self.end()
            found = cut_raw(part, self.columns)
            self.slices.append(found if topic < 0 else of_topic(found, topic))
            return
        if self._joined is None or not self._joined.add(part, self.columns, topic):
            self.end()
            self._joined = Joined(part.entry, part.first_offset, is_scan=topic >= 0)
            self._joined.add(part, self.columns, topic)
        if part.entry.has_extras:
            self._add_extras(self._joined, part)

    def add_single(self, part: JoinedPart, topic: int) -> None:
        """Add one message of a scan that has no rare properties."""
        if self._joined is None or not self._joined.add_single(part, self.columns, topic):
            self.add(part, topic)

    def _add_extras(self, joined: Joined, part: JoinedPart) -> None:
        _, entry, first, end, _, _ = part
        for bit, cut, add in (
            (wanted.SIGNATURES, _signatures, joined.add_signatures),
            (wanted.HEADERS, _headers, joined.add_headers),
            (wanted.SCHEDULES, _schedules, joined.add_schedules),
            (wanted.PRODUCERS, _producers, joined.add_producers),
        ):
            found = cut(entry, first, end) if self.columns & bit else ()
            if found:
                add(*found)

    def end(self) -> None:
        if self._joined is not None:
            self.slices.append(self._joined.slice())
            self._joined = None


def gather_raw(
    parts: Iterable[GroupRange], count_max: int, bytes_max: int, columns: int
) -> list[RawSlice]:
    """Slices of successive ranges, within the bounds; at least one message, if any."""
    gathering = Gathering(columns)
    is_first = True
    for part in islice(parts, GROUPS_OPENED_MAX):
        shift, run_start, run_end = part.entry.span(part.group)
        first = part.first + shift
        end, size = fitting_numbers(part, first, part.end + shift, (count_max, bytes_max, columns))
        if size > bytes_max and not is_first:
            break  # a cut yields one message at least, and this one does not fit
        runs = run_range(part.entry, (run_start, run_end), first, end)
        gathering.add(JoinedPart(part.first, part.entry, first, end, *runs))
        is_first = False
        count_max -= end - first
        bytes_max -= size
        if count_max <= 0 or bytes_max < 0 or end < part.end + shift:
            break
    gathering.end()
    return gathering.slices


def of_topic(found: RawSlice, topic: int) -> RawSlice:
    """A slice of a scan whose messages are all of one topic."""
    return found._replace(groups=(_U32.pack(topic), _ZERO, _U64.pack(found.first_offset)))


def run_range(entry: Entry, runs: tuple[int, int], first: int, end: int) -> tuple[int, int]:
    start, stop = runs
    if stop - start == 1:
        return runs
    start = bisect_right(entry.run_bounds, first, start, stop) - 1
    return start, bisect_left(entry.run_bounds, end, start, stop)


def raw_span(query: RawQuery, info: TopicInfo, deleted: Ranges) -> tuple[int, int]:
    start = deleted.skip(max(query.start, info.first_offset))
    return start, min(query.end or info.next_offset, info.next_offset)


def raw_next(
    query: RawQuery, span: tuple[int, int], deleted: Ranges, slices: list[RawSlice]
) -> int:
    start, end = span
    if slices:
        start = deleted.skip(slices[-1].first_offset + slices[-1].messages)
    return max(query.start, min(start, end))


def fitting(part: GroupRange, count_max: int, bytes_max: int, columns: int) -> tuple[int, int]:
    """End offset of the first messages that fit (at least one), and their size."""
    shift = part.entry.span(part.group)[0]
    bounds = count_max, bytes_max, columns
    end, size = fitting_numbers(part, part.first + shift, part.end + shift, bounds)
    return end - shift, size


def fitting_numbers(
    part: GroupRange, first: int, end: int, bounds: tuple[int, int, int]
) -> tuple[int, int]:
    entry = part.entry
    count_max, bytes_max, columns = bounds
    end = min(end, first + max(count_max, 1))
    size = 0
    if columns & wanted.PAYLOADS:
        start = entry.u32_at(sections.BOUNDS, first)
        size = entry.u32_at(sections.BOUNDS, end) - start
        if size > bytes_max:
            fits = bisect_right(entry.bounds, start + bytes_max, first, end + 1) - 1
            end = max(fits, first + 1)
            size = entry.bounds[end] - start
    if columns & wanted.HEADERS and entry.has(sections.HEADER_TEXTS):
        end, header_bytes = _fitting_headers(entry, first, end, bytes_max)
        size = max(size, header_bytes)
    return end, size


def _fitting_headers(entry: Entry, first: int, end: int, bytes_max: int) -> tuple[int, int]:
    numbers = entry.column(sections.HEADER_NUMBERS)
    low, high = bisect_left(numbers, first), bisect_left(numbers, end)
    before = _text_start(entry, low)
    if _text_start(entry, high) - before > bytes_max:
        places = range(low, high + 1)
        fits = bisect_right(places, before + bytes_max, key=lambda at: _text_start(entry, at)) - 1
        high = max(low + fits, low)
        end = max(numbers[high], first + 1)
        high = bisect_left(numbers, end)
    return end, _text_start(entry, high) - before


def header_bytes(entry: Entry, first: int, end: int) -> int:
    """Bytes of the headers of the messages ``first … end - 1``."""
    low, high = _places(entry, sections.HEADER_NUMBERS, first, end)
    return _text_start(entry, high) - _text_start(entry, low)


def _text_start(entry: Entry, place: int) -> int:
    """Where the header texts begin of the message that is the ``place``-th with headers."""
    header = entry.column(sections.HEADER_BOUNDS)[place]
    return int(entry.column(sections.HEADER_TEXT_BOUNDS)[2 * header])


def cut_raw(part: JoinedPart, columns: int) -> RawSlice:
    first_offset, entry, first, end, _, _ = part
    return RawSlice(
        first_offset,
        end - first,
        entry.base_sequence,
        entry.time_ms,
        _payloads(entry, first, end) if columns & wanted.PAYLOADS else (),
        _runs(part),
        _signatures(entry, first, end) if columns & wanted.SIGNATURES else (),
        _headers(entry, first, end) if columns & wanted.HEADERS else (),
        _schedules(entry, first, end) if columns & wanted.SCHEDULES else (),
        _producers(entry, first, end) if columns & wanted.PRODUCERS else (),
    )


def _payloads(entry: Entry, first: int, end: int) -> tuple[Column, ...]:
    bounds = entry.bounds
    return entry.u32(sections.BOUNDS, first, end + 1), entry.payloads[bounds[first] : bounds[end]]


def _runs(part: JoinedPart) -> tuple[Column, ...]:
    _, entry, first, _, start, stop = part
    positions: Column = entry.u32(sections.RUN_POSITIONS, start, stop)
    trimmed = first - entry.run_bounds[start]
    if trimmed:
        position = _U32.pack(entry.run_positions[start] + trimmed)
        positions = position + positions[4:]
    starts = _ZERO
    if stop - start > 1:
        starts += lessened(entry.u32(sections.RUN_BOUNDS, start + 1, stop), first)
    times = entry.u32(sections.RUN_TIMES, start, stop)
    return starts, positions, times, entry.run_flags[start:stop], entry.run_types[start:stop]


def _signatures(entry: Entry, first: int, end: int) -> tuple[Column, ...]:
    low, high = _places(entry, sections.SIGNATURE_NUMBERS, first, end)
    if low == high:
        return ()
    records = entry.column(sections.SIGNATURES)[low * SIGNATURE_BYTES : high * SIGNATURE_BYTES]
    return _numbers(entry, sections.SIGNATURE_NUMBERS, (low, high), first, end), records


def _headers(entry: Entry, first: int, end: int) -> tuple[Column, ...]:
    low, high = _places(entry, sections.HEADER_NUMBERS, first, end)
    if low == high:
        return ()
    bounds = entry.column(sections.HEADER_BOUNDS)
    first_text, last_text = 2 * bounds[low], 2 * bounds[high]
    start, stop = _text_start(entry, low), _text_start(entry, high)
    return (
        _numbers(entry, sections.HEADER_NUMBERS, (low, high), first, end),
        entry.u32(sections.HEADER_BOUNDS, low, high + 1),
        entry.u32(sections.HEADER_TEXT_BOUNDS, first_text, last_text + 1),
        entry.column(sections.HEADER_TEXTS)[start:stop],
    )


def _schedules(entry: Entry, first: int, end: int) -> tuple[Column, ...]:
    low, high = _places(entry, sections.SCHEDULE_NUMBERS, first, end)
    if low == high:
        return ()
    return (
        _numbers(entry, sections.SCHEDULE_NUMBERS, (low, high), first, end),
        entry.u64(sections.SCHEDULE_DUE, low, high),
        entry.u64(sections.SCHEDULE_EXPIRY, low, high),
    )


def _producers(entry: Entry, first: int, end: int) -> tuple[Column, ...]:
    numbers = entry.column(sections.PRODUCER_NUMBERS)
    counts = entry.column(sections.PRODUCER_COUNTS)
    low, high = bisect_left(numbers, first), bisect_left(numbers, end)
    if low and numbers[low - 1] + counts[low - 1] > first:
        low -= 1
    if low == high:
        return ()
    skipped = max(first - numbers[low], 0)
    seqs: Column = entry.u64(sections.PRODUCER_SEQS, low, high)
    if skipped:
        seqs = _U64.pack(entry.column(sections.PRODUCER_SEQS)[low] + skipped) + seqs[8:]
    return (
        _note_numbers(entry, low, high, first),
        _note_counts(entry, low, high, skipped, end),
        seqs,
        *_names(entry, low, high),
    )


def _note_numbers(entry: Entry, low: int, high: int, first: int) -> Column:
    number = max(entry.column(sections.PRODUCER_NUMBERS)[low] - first, 0)
    rest = entry.u32(sections.PRODUCER_NUMBERS, low + 1, high)
    return _U32.pack(number) + lessened(rest, first)


def _note_counts(entry: Entry, low: int, high: int, skipped: int, end: int) -> Column:
    numbers = entry.column(sections.PRODUCER_NUMBERS)
    counts = entry.column(sections.PRODUCER_COUNTS)
    beyond = max(numbers[high - 1] + counts[high - 1] - end, 0)
    column = entry.u32(sections.PRODUCER_COUNTS, low, high)
    if not skipped and not beyond:
        return column
    if high - low == 1:
        return _U32.pack(counts[low] - skipped - beyond)
    ends = _U32.pack(counts[low] - skipped), _U32.pack(counts[high - 1] - beyond)
    return b"".join((ends[0], column[4:-4], ends[1]))


def _names(entry: Entry, low: int, high: int) -> tuple[Column, Column]:
    ends = entry.column(sections.PRODUCER_NAME_ENDS)
    start = ends[low - 1] if low else 0
    name_ends = lessened(entry.u32(sections.PRODUCER_NAME_ENDS, low, high), start)
    return name_ends, entry.column(sections.PRODUCER_NAMES)[start : ends[high - 1]]


def _places(entry: Entry, section: int, first: int, end: int) -> tuple[int, int]:
    """Which entries of a sparse column belong to the messages ``first … end - 1``."""
    numbers = entry.column(section)
    return bisect_left(numbers, first), bisect_left(numbers, end)


def _numbers(entry: Entry, section: int, places: tuple[int, int], first: int, end: int) -> Column:
    """Message numbers of a sparse column, counted from the beginning of the slice."""
    low, high = places
    if high - low == end - first <= len(_COUNTED) // 4:
        return _COUNTED[: 4 * (high - low)]  # all have it
    return lessened(entry.u32(section, low, high), first)


def lessened(column: Column, by: int) -> Column:
    """A column of u32 with ``by`` subtracted from each number."""
    if not by or not column:
        return column
    count = len(column) // 4
    if count <= FEW:
        return array("I", [number - by for number in memoryview(column).cast("I")]).tobytes()
    lanes = int.from_bytes(by.to_bytes(4, "little") * count, "little")
    return (int.from_bytes(column, "little") - lanes).to_bytes(len(column), "little")
