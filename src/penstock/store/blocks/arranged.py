"""The pieces of a fold in their new order, and parts cut out of them.

This is the inner loop of a fold. Columns would be read at random places, each of which misses the
processor's cache. So pieces and runs become *records* first, columns side by side. A piece is then
three slices: its runs' records, its messages' lengths and its payloads. Joined records become
columns again with a step (``records[2::5]``). All of that is copying.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, chain, compress, count
from operator import add, eq, itemgetter, ne, or_, sub
from typing import Any, Final, NamedTuple, TypeAlias

from penstock.errors import StorageDamaged
from penstock.store import entry as sections
from penstock.store.blocks.gathered import MESSAGE_BYTES, Gathered, Numbers, u32, u64
from penstock.store.entry import TIME_SPAN_MS_MAX, join_sections

GROUP_BYTES: Final = 24  # of columns, per group, without its name
_PIECE: Final = 11  # u32 per piece
_CHUNK: Final = 2_048  # pieces that are put into order together
_RUN: Final = 5  # u32 per run: position, count, time after the block's first (two), flags
_RUN_BYTES: Final = 4 * _RUN
_FLAGS_PLACE: Final = 16  # of the flags' low byte in a run's record; the high one follows

Picker: TypeAlias = Callable[[Any], tuple[Any, ...]]


class PartGroups(NamedTuple):
    """What the directory says about the groups of a part."""

    topic_ids: Sequence[int]
    first_offsets: Sequence[int]
    counts: list[int]
    payload_bytes: list[int]
    newest_ms: list[int]
    oldest_ms: int
    positions: Sequence[int]  # of the runs


class Arranged:
    """Pieces in order. Raises StorageDamaged if an offset occurs twice."""

    def __init__(self, gathered: Gathered, pieces: list[int]) -> None:
        self._gathered = gathered
        self._oldest_ms = gathered.oldest_ms
        self._is_long = gathered.newest_ms - gathered.oldest_ms > TIME_SPAN_MS_MAX
        self._runs = _run_records(gathered, self._oldest_ms)
        self._lengths = gathered.lengths.tobytes()
        records = _piece_records(gathered)
        gathered.release(times=not self._is_long)
        order = sorted(pieces, key=gathered.ids.__getitem__)  # stable: pieces ascend in a topic
        self._arrange(records, order)
        if not self._ascends():
            offsets = gathered.first_offsets
            order.sort(key=lambda piece: (gathered.ids[piece], offsets[piece]))
            self._arrange(records, order)
            if not self._ascends():
                raise _twice()

    def _arrange(self, records: bytes, order: list[int]) -> None:
        size = 4 * _PIECE
        joined = []
        for first in range(0, len(order), _CHUNK):  # what is copied stays in the cache
            places = [size * piece for piece in order[first : first + _CHUNK]]
            joined.append(b"".join([records[place : place + size] for place in places]))
        view = memoryview(b"".join(joined)).cast("I")
        del joined
        (
            self.ids, low, high, self._counts, self._message_starts, self._run_starts,
            self._run_ends, self._byte_starts, self._byte_ends, self._name_starts, self._name_ends,
        ) = (_column(view, place, _PIECE) for place in range(_PIECE))  # fmt: skip
        offsets = array("I", bytes(8 * len(order)))
        offsets[0::2], offsets[1::2] = low, high
        self.first_offsets: Numbers = array("Q", offsets.tobytes())
        self._nexts: Numbers = array("Q", u64(list(map(add, self.first_offsets, self._counts))))
        self.heads = self._find_heads()

    def _find_heads(self) -> Numbers:
        """Places where a group begins: another topic, or a gap in the offsets."""
        if not self.ids:
            return array("I")
        is_other = map(ne, self.ids[1:], self.ids)
        is_apart = map(ne, self.first_offsets[1:], self._nexts)
        found = compress(count(1), map(or_, is_other, is_apart))
        return array("I", u32([0, *found]))

    def _ascends(self) -> bool:
        ids, first_offsets, nexts = self.ids, self.first_offsets, self._nexts
        apart = [head for head in self.heads[1:] if ids[head] == ids[head - 1]]
        return all(first_offsets[head] >= nexts[head - 1] for head in apart)

    def stretches(self, part_bytes: int) -> Iterator[tuple[int, int]]:
        """Places of the pieces of each part: of about equal size, and with times that fit."""
        sums = array("Q", u64(list(accumulate(self._sizes()))))
        first, before = 0, 0
        while first < len(sums):
            end = max(bisect_right(sums, before + part_bytes, first), first + 1)
            if self._is_long:
                end = self._end_of_span(first, end)
            yield first, end
            first, before = end, sums[end - 1]

    def _sizes(self) -> list[int]:
        starts, ends, counts = self._byte_starts, self._byte_ends, self._counts
        sizes = [
            end - start + MESSAGE_BYTES * number
            for start, end, number in zip(starts, ends, counts, strict=True)
        ]
        for columns in self._gathered.extras:
            if columns:
                ends = array("I", map(add, self._message_starts, counts))
                sizes = list(
                    map(add, sizes, map(columns.bytes_between, self._message_starts, ends))
                )
        for head in self.heads:
            sizes[head] += GROUP_BYTES + self._name_ends[head] - self._name_starts[head]
        return sizes

    def _end_of_span(self, first: int, end: int) -> int:
        """Where a part must end, at the latest, so that its times fit: they are u32."""
        oldest, newest = self._span_ms(first)
        for place in range(first + 1, end):
            low, high = self._span_ms(place)
            oldest, newest = min(oldest, low), max(newest, high)
            if newest - oldest > TIME_SPAN_MS_MAX:
                return place
        return end

    def _span_ms(self, place: int) -> tuple[int, int]:
        times = self._gathered.times[self._run_starts[place] : self._run_ends[place]]
        return min(times), max(times)

    def part(self, first: int, end: int, index: int) -> tuple[bytes, PartGroups]:
        """An entry of the pieces ``first … end - 1``, and what the directory says about it."""
        low, high = bisect_left(self.heads, first + 1), bisect_left(self.heads, end)
        heads = [0, *[head - first for head in self.heads[low:high]]]
        pick = _picker(heads)
        counts = self._counts[first:end]
        message_ends = _group_ends(heads, counts)
        runs = self._part_runs(first, end, heads)
        bounds = self._bounds(first, end)
        ids, first_offsets = pick(self.ids[first:end]), pick(self.first_offsets[first:end])
        columns = [
            (sections.TOPIC_IDS, u32(ids)),
            (sections.FIRST_OFFSETS, u64(first_offsets)),
            (sections.GROUP_MESSAGES, u32(message_ends)),
            (sections.GROUP_RUNS, u32(runs.ends)),
            *self._names(first, end, pick),
            *runs.sections(),
            (sections.BOUNDS, u32(bounds)),
            (sections.PAYLOADS, self._payloads(first, end)),
            *self._extras(first, end),
        ]
        base = self._gathered.base_sequence
        header = index, base, message_ends[-1], len(heads), runs.base_ms
        sizes = [bounds[at] for at in message_ends]
        return join_sections(header, columns), PartGroups(
            ids,
            first_offsets,
            list(map(sub, message_ends, chain((0,), message_ends))),
            list(map(sub, sizes, chain((0,), sizes))),
            runs.newest_ms(),
            runs.oldest_ms,
            runs.positions,
        )

    def _payloads(self, first: int, end: int) -> bytes:
        payloads = self._gathered.payloads
        spans = zip(self._byte_starts[first:end], self._byte_ends[first:end], strict=True)
        return b"".join([payloads[low:high] for low, high in spans])

    def _bounds(self, first: int, end: int) -> list[int]:
        counts, lengths = self._counts[first:end], self._lengths
        if sum(counts) == len(counts):  # one message each, as it is with many devices
            sizes = map(sub, self._byte_ends[first:end], self._byte_starts[first:end])
            return list(accumulate(sizes, initial=0))
        spans = zip(self._message_starts[first:end], counts, strict=True)
        found = b"".join([lengths[4 * at : 4 * (at + number)] for at, number in spans])
        return list(accumulate(memoryview(found).cast("I").tolist(), initial=0))

    def _names(self, first: int, end: int, pick: Picker) -> list[tuple[int, bytes]]:
        starts, ends = pick(self._name_starts[first:end]), pick(self._name_ends[first:end])
        names = self._gathered.names
        found = [names[low:high] for low, high in zip(starts, ends, strict=True)]
        return [
            (sections.NAME_ENDS, u32(list(accumulate(map(len, found))))),
            (sections.NAMES, b"".join(found)),
        ]

    def _part_runs(self, first: int, end: int, heads: list[int]) -> "_Runs":
        records, size = self._runs, _RUN_BYTES
        starts, ends = self._run_starts[first:end], self._run_ends[first:end]
        spans = zip(starts, ends, strict=True)
        found = memoryview(b"".join([records[size * a : size * b] for a, b in spans]))
        runs = _Runs(found, _group_ends(heads, map(sub, ends, starts)), self._oldest_ms)
        return runs.merged()

    def _extras(self, first: int, end: int) -> Iterable[tuple[int, bytes]]:
        kinds = [columns for columns in self._gathered.extras if columns]
        if not kinds:
            return
        starts, counts = self._message_starts[first:end], self._counts[first:end]
        ends = list(map(add, starts, counts))
        places = list(accumulate(counts, initial=0))
        for columns in kinds:
            yield from columns.sections(starts, ends, places)


class _Runs:
    """The runs of a part, out of joined records; ``ends`` are cumulative, per group."""

    def __init__(self, records: memoryview, ends: list[int], oldest_ms: int) -> None:
        view = records.cast("I")
        self.ends = ends
        self.base_ms = oldest_ms
        self.positions = view[0::_RUN].tolist()
        self.counts = view[1::_RUN].tolist()
        self.times = view[2::_RUN].tolist()  # after ``base_ms``
        self._flags = records[_FLAGS_PLACE::_RUN_BYTES].tobytes()
        self._types = records[_FLAGS_PLACE + 1 :: _RUN_BYTES].tobytes()
        late = view[3::_RUN]
        if late.tobytes().strip(b"\0"):
            self._count_from_first(late.tolist())

    def _count_from_first(self, late: list[int]) -> None:
        """Times of a block that spans many weeks are counted from the part's first."""
        times = [time + (high << 32) for time, high in zip(self.times, late, strict=True)]
        first = min(times)
        self.base_ms += first
        self.times = [min(time - first, TIME_SPAN_MS_MAX) for time in times]

    def merged(self) -> "_Runs":
        """Join runs that follow each other without a gap and do not differ."""
        positions, times, flags, types = self.positions, self.times, self._flags, self._types
        if len(self.ends) == len(positions):
            return self  # a run each, and a run never extends into another group
        following = map(add, positions, self.counts)
        adjacent = set(compress(count(1), map(eq, following, positions[1:])))
        adjacent.difference_update(self.ends)
        joined = {
            run
            for run in adjacent
            if times[run] == times[run - 1]
            and (flags[run], types[run]) == (flags[run - 1], types[run - 1])
        }
        if joined:
            self._join(joined)
        return self

    def _join(self, joined: set[int]) -> None:
        kept = [number for number in range(len(self.counts)) if number not in joined]
        pick = _picker(kept)
        bounds = list(accumulate(self.counts, initial=0))
        starts = pick(bounds)
        self.positions = list(pick(self.positions))
        self.counts = list(map(sub, (*starts[1:], bounds[-1]), starts))
        self.times = list(pick(self.times))
        self._flags, self._types = bytes(pick(self._flags)), bytes(pick(self._types))
        self.ends = [bisect_left(kept, end) for end in self.ends]

    def sections(self) -> list[tuple[int, bytes]]:
        found = [
            (sections.RUN_POSITIONS, u32(self.positions)),
            (sections.RUN_BOUNDS, u32(list(accumulate(self.counts, initial=0)))),
            (sections.RUN_TIMES, u32(self.times)),
            (sections.RUN_FLAGS, self._flags),
        ]
        if self._types.strip(b"\0"):
            found.append((sections.RUN_TYPES, self._types))
        return found

    @property
    def oldest_ms(self) -> int:
        return self.base_ms + min(self.times)

    def newest_ms(self) -> list[int]:
        """The latest time of each group."""
        base, times = self.base_ms, self.times
        if len(self.ends) == len(times):
            return [base + time for time in times]
        spans = zip(chain((0,), self.ends), self.ends, strict=False)
        return [
            base + (times[start] if end - start == 1 else max(times[start:end]))
            for start, end in spans
        ]


def _piece_records(gathered: Gathered) -> bytes:
    number = len(gathered.ids)
    found = array("I", bytes(4 * _PIECE * number))
    offsets = array("I", gathered.first_offsets.tobytes())
    counts = array("I", u32(list(map(sub, gathered.message_ends, gathered.message_starts))))
    columns = (
        gathered.ids, offsets[0::2], offsets[1::2], counts, gathered.message_starts,
        gathered.run_starts, gathered.run_ends, gathered.byte_starts, gathered.byte_ends,
        gathered.name_starts, gathered.name_ends,
    )  # fmt: skip
    for place, column in enumerate(columns):
        found[place::_PIECE] = column
    return found.tobytes()


def _run_records(gathered: Gathered, oldest_ms: int) -> bytes:
    number = len(gathered.positions)
    found = array("I", bytes(_RUN_BYTES * number))
    halves = array("I", u64([time - oldest_ms for time in gathered.times]))
    columns = gathered.positions, gathered.counts, halves[0::2], halves[1::2]
    for place, column in enumerate(columns):
        found[place::_RUN] = column
    with memoryview(found) as view, view.cast("B") as content:
        content[_FLAGS_PLACE::_RUN_BYTES] = gathered.flags
        if gathered.types:
            content[_FLAGS_PLACE + 1 :: _RUN_BYTES] = gathered.types
    return found.tobytes()


def _column(view: memoryview, place: int, step: int) -> Numbers:
    return array("I", view[place::step].tobytes())


def _picker(numbers: Sequence[int]) -> Picker:
    if len(numbers) == 1:
        number = numbers[0]
        return lambda column: (column[number],)
    return itemgetter(*numbers)


def _group_ends(heads: list[int], counts: Iterable[int]) -> list[int]:
    """Cumulative sums of ``counts`` at the ends of the groups that begin at ``heads``."""
    ends = list(accumulate(counts))
    if len(heads) == len(ends):
        return ends
    return [*[ends[head - 1] for head in heads[1:]], ends[-1]]


def _twice() -> StorageDamaged:
    return StorageDamaged(
        "an offset of a topic occurs twice in the entries of a block",
        "Restore the data directory from a backup; docs/operating/storage.md explains how to "
        "assess the damage.",
    )
