"""The columns of many entries, one after the other, and parts cut out of them in another order.

This is the inner loop of a fold. A *piece* is what one entry has of one topic, or a stretch of it.
Columns of all entries are appended to one set of columns, shifted so that they count from the
block's beginning; then the pieces of a part are picked, column by column. There is no step in
Python per message: lengths, payloads and runs are copied in slices per piece, or with one
``itemgetter`` per part where each piece is one message, as it is with many devices.
"""

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, chain
from operator import add, itemgetter, sub
from struct import pack
from typing import Any, Final, NamedTuple, TypeAlias

from penstock.store import entry as sections
from penstock.store.entry import TIME_SPAN_MS_MAX, Entry, join_sections
from penstock.store.gathered_extras import EXTRAS, SparseColumns

Numbers: TypeAlias = "array[int]"

MESSAGE_BYTES: Final = 17  # of columns, per message; those that share a run need less
GROUP_BYTES: Final = 24  # of columns, per group, without its name


def u32(numbers: Sequence[int]) -> bytes:
    return pack(f"<{len(numbers)}I", *numbers)


def u64(numbers: Sequence[int]) -> bytes:
    return pack(f"<{len(numbers)}Q", *numbers)


class PartGroups(NamedTuple):
    """What the directory says about the groups of a part."""

    topic_ids: list[int]
    first_offsets: list[int]
    counts: list[int]
    payload_bytes: list[int]
    newest_ms: list[int]
    positions: Sequence[int]  # of the runs
    oldest_ms: int


class Gathered:
    """Columns of entries that were added; pieces are known by number."""

    def __init__(self, base_sequence: int) -> None:
        self._base = base_sequence
        self.ids: Numbers = array("I")
        self.first_offsets: Numbers = array("Q")
        self.message_starts: Numbers = array("I")
        self.message_ends: Numbers = array("I")
        self.byte_starts: Numbers = array("Q")
        self.byte_ends: Numbers = array("Q")
        self._run_starts: Numbers = array("I")
        self._run_ends: Numbers = array("I")
        self._name_starts: Numbers = array("I")
        self._name_ends: Numbers = array("I")
        self._name_pieces: list[bytes] = []
        self._names = b""
        # per run
        self._positions: Numbers = array("I")
        self._counts: Numbers = array("I")
        self._times: Numbers = array("Q")
        self._flags = bytearray()
        self._types = bytearray()  # shorter than the others if the last are 0
        # per message
        self._lengths: Numbers = array("I")
        self._blobs: list[memoryview] = []
        self._blob = b""
        self._bytes = 0
        self._name_bytes = 0
        self.extras: list[SparseColumns] = [kind() for kind in EXTRAS]

    def add(self, entry: Entry) -> None:
        """Add an entry, whose buffer must stay valid until ``seal``."""
        if not entry.count:
            return
        messages, bounds = len(self._lengths), entry.bounds.tolist()
        ends = entry.column(sections.GROUP_MESSAGES).tolist()
        if entry.has_extras:
            for columns in self.extras:
                columns.add(entry, messages)
        self.ids.frombytes(entry.u32(sections.TOPIC_IDS, 0, len(ends)))
        self.first_offsets.frombytes(entry.u64(sections.FIRST_OFFSETS, 0, len(ends)))
        self.message_ends.frombytes(u32([end + messages for end in ends]))
        self.byte_ends.frombytes(u64([bounds[end] + self._bytes for end in ends]))
        self._lengths.frombytes(u32(list(map(sub, bounds[1:], bounds))))
        self._blobs.append(entry.payloads)
        self._bytes += bounds[-1]
        self._add_names(entry)
        self._add_runs(entry)

    def _add_names(self, entry: Entry) -> None:
        before = self._name_bytes
        ends = [end + before for end in entry.column(sections.NAME_ENDS).tolist()]
        self._name_ends.frombytes(u32(ends))
        self._name_pieces.append(bytes(entry.column(sections.NAMES)))
        self._name_bytes = ends[-1]

    def _add_runs(self, entry: Entry) -> None:
        runs, bounds = len(self._positions), entry.run_bounds.tolist()
        shift, time_ms = entry.base_sequence - self._base, entry.time_ms
        self._run_ends.frombytes(u32([end + runs for end in entry.group_runs.tolist()]))
        self._counts.frombytes(u32(list(map(sub, bounds[1:], bounds))))
        self._positions.frombytes(u32([at + shift for at in entry.run_positions.tolist()]))
        self._times.frombytes(u64([time + time_ms for time in entry.run_times.tolist()]))
        self._flags += entry.run_flags
        types = entry.run_types
        if types:
            self._types += bytes(runs - len(self._types))
            self._types += types

    def seal(self) -> None:
        """No entry follows: from now on there are pieces."""
        self._blob, self._blobs = b"".join(self._blobs), []
        self._names, self._name_pieces = b"".join(self._name_pieces), []
        self._types += bytes(len(self._flags) - len(self._types)) if self._types else b""
        self.message_starts = _starts(self.message_ends)
        self.byte_starts = _starts(self.byte_ends)
        self._run_starts = _starts(self._run_ends)
        self._name_starts = _starts(self._name_ends)

    def cut(self, piece: int, first: int, end: int) -> int:
        """A new piece: the messages ``first … end - 1`` of another, counted in that."""
        start, size = self.message_starts[piece], self.byte_starts[piece]
        low = size + sum(self._lengths[start : start + first])
        high = low + sum(self._lengths[start + first : start + end])
        self.ids.append(self.ids[piece])
        self.first_offsets.append(self.first_offsets[piece] + first)
        self.message_starts.append(start + first)
        self.message_ends.append(start + end)
        self.byte_starts.append(low)
        self.byte_ends.append(high)
        self._name_starts.append(self._name_starts[piece])
        self._name_ends.append(self._name_ends[piece])
        self._cut_runs(piece, first, end)
        return len(self.ids) - 1

    def _cut_runs(self, piece: int, first: int, end: int) -> None:
        """Append the runs of a stretch of a piece, with the first and the last shortened."""
        runs = slice(self._run_starts[piece], self._run_ends[piece])
        bounds = list(accumulate(self._counts[runs], initial=0))
        low, high = bisect_right(bounds, first) - 1, bisect_right(bounds, end - 1)
        self._run_starts.append(len(self._counts))
        for run in range(low, high):
            start, stop = max(bounds[run], first), min(bounds[run + 1], end)
            number = runs.start + run
            self._positions.append(self._positions[number] + start - bounds[run])
            self._counts.append(stop - start)
            self._times.append(self._times[number])
            self._flags.append(self._flags[number])
            if self._types:
                self._types.append(self._types[number])
        self._run_ends.append(len(self._counts))

    def lengths(self, piece: int) -> Numbers:
        return self._lengths[self.message_starts[piece] : self.message_ends[piece]]

    def name(self, piece: int) -> bytes:
        return self._names[self._name_starts[piece] : self._name_ends[piece]]

    def name_bytes(self, piece: int) -> int:
        return self._name_ends[piece] - self._name_starts[piece]

    def span_ms(self, pieces: Iterable[int]) -> tuple[int, int]:
        """The earliest and the latest time of some pieces."""
        spans = [slice(self._run_starts[piece], self._run_ends[piece]) for piece in pieces]
        times = [self._times[span] for span in spans]
        return min(map(min, times)), max(map(max, times))

    def part(self, pieces: Sequence[int], heads: list[int], index: int) -> tuple[bytes, PartGroups]:
        """An entry of some pieces; ``heads`` are the places in ``pieces`` where groups begin."""
        pick = _picker(pieces)
        starts, ends = pick(self.message_starts), pick(self.message_ends)
        message_ends = _group_ends(heads, map(sub, ends, starts))
        groups = _Groups(
            pick(self.ids), pick(self.first_offsets), heads, message_ends,
            list(map(self.name, _picker(heads)(pieces))),
        )  # fmt: skip
        runs = self._runs(pick, heads)
        bounds = self._bounds(starts, ends)
        payloads = zip(pick(self.byte_starts), pick(self.byte_ends), strict=True)
        columns = [
            *groups.sections(runs.ends),
            *runs.sections(),
            (sections.BOUNDS, u32(bounds)),
            (sections.PAYLOADS, b"".join([self._blob[low:high] for low, high in payloads])),
            *self._extras(starts, ends),
        ]
        header = index, self._base, message_ends[-1], len(heads), runs.oldest_ms
        sizes = [bounds[end] for end in message_ends]
        return join_sections(header, columns), PartGroups(
            groups.topic_ids,
            groups.first_offsets,
            list(map(sub, message_ends, chain((0,), message_ends))),
            list(map(sub, sizes, chain((0,), sizes))),
            runs.newest_ms(),
            runs.positions,
            runs.oldest_ms,
        )

    def _bounds(self, starts: Sequence[int], ends: Sequence[int]) -> list[int]:
        lengths: Iterable[int]
        if sum(ends) - sum(starts) == len(starts):  # one message each
            lengths = _picker(starts)(self._lengths)
        else:
            stretches = map(slice, starts, ends)
            lengths = chain.from_iterable(map(self._lengths.__getitem__, stretches))
        return list(accumulate(lengths, initial=0))

    def _runs(self, pick: "Picker", heads: list[int]) -> "_Runs":
        starts, ends = pick(self._run_starts), pick(self._run_ends)
        numbers: Sequence[int] = starts
        if sum(ends) - sum(starts) != len(starts):
            numbers = list(chain.from_iterable(map(range, starts, ends)))
        pick = _picker(numbers)
        types = pick(self._types) if self._types else ()
        return _Runs(
            pick(self._positions), pick(self._counts), pick(self._times), pick(self._flags),
            types if any(types) else (), _group_ends(heads, map(sub, ends, starts)),
        ).merged()  # fmt: skip

    def _extras(self, starts: Sequence[int], ends: Sequence[int]) -> Iterable[tuple[int, bytes]]:
        kinds = [columns for columns in self.extras if columns]
        if not kinds:
            return
        places = list(accumulate(map(sub, ends, starts), initial=0))
        for columns in kinds:
            yield from columns.sections(starts, ends, places)


Picker: TypeAlias = Callable[[Any], tuple[Any, ...]]


def _picker(numbers: Sequence[int]) -> Picker:
    if len(numbers) == 1:
        number = numbers[0]
        return lambda column: (column[number],)
    return itemgetter(*numbers)


def _starts(ends: Numbers) -> Numbers:
    starts = array(ends.typecode, [0])
    starts += ends
    starts.pop()
    return starts


def _group_ends(heads: list[int], counts: Iterable[int]) -> list[int]:
    """Cumulative sums of ``counts`` at the ends of the groups that begin at ``heads``."""
    ends = list(accumulate(counts))
    if len(heads) == len(ends):
        return ends
    return [*[ends[head - 1] for head in heads[1:]], ends[-1]]


class _Groups:
    def __init__(
        self,
        ids: Sequence[int],
        first_offsets: Sequence[int],
        heads: list[int],
        message_ends: list[int],
        names: list[bytes],
    ) -> None:
        pick = _picker(heads)
        self.topic_ids = list(pick(ids))
        self.first_offsets = list(pick(first_offsets))
        self._message_ends = message_ends
        self._names = names

    def sections(self, run_ends: list[int]) -> list[tuple[int, bytes]]:
        return [
            (sections.TOPIC_IDS, u32(self.topic_ids)),
            (sections.FIRST_OFFSETS, u64(self.first_offsets)),
            (sections.GROUP_MESSAGES, u32(self._message_ends)),
            (sections.GROUP_RUNS, u32(run_ends)),
            (sections.NAME_ENDS, u32(list(accumulate(map(len, self._names))))),
            (sections.NAMES, b"".join(self._names)),
        ]


class _Runs(NamedTuple):
    positions: Sequence[int]
    counts: Sequence[int]
    times: Sequence[int]
    flags: Sequence[int]
    types: Sequence[int]  # empty: all 0
    ends: list[int]  # per group, cumulative

    @property
    def oldest_ms(self) -> int:
        return min(self.times)

    def merged(self) -> "_Runs":
        """Join runs that follow each other without a gap and do not differ."""
        following = map(add, self.positions, self.counts)
        adjacent = [
            number
            for number, (end, start) in enumerate(
                zip(following, self.positions[1:], strict=False), start=1
            )
            if end == start
        ]
        if not adjacent:
            return self
        types = self.types or bytes(len(self.flags))
        properties = list(zip(self.times, self.flags, types, strict=True))
        firsts = {0, *self.ends}  # a run never extends into another group
        joined = {
            number
            for number in adjacent
            if number not in firsts and properties[number] == properties[number - 1]
        }
        return self._joined(joined) if joined else self

    def _joined(self, joined: set[int]) -> "_Runs":
        kept = [number for number in range(len(self.counts)) if number not in joined]
        pick = _picker(kept)
        bounds = list(accumulate(self.counts, initial=0))
        starts = pick(bounds)
        counts = list(map(sub, (*starts[1:], bounds[-1]), starts))
        return _Runs(
            pick(self.positions), counts, pick(self.times), pick(self.flags),
            pick(self.types) if self.types else (),
            [bisect_right(kept, end - 1) for end in self.ends],
        )  # fmt: skip

    def sections(self) -> list[tuple[int, bytes]]:
        oldest = self.oldest_ms
        times = [min(time - oldest, TIME_SPAN_MS_MAX) for time in self.times]
        found = [
            (sections.RUN_POSITIONS, u32(self.positions)),
            (sections.RUN_BOUNDS, u32(list(accumulate(self.counts, initial=0)))),
            (sections.RUN_TIMES, u32(times)),
            (sections.RUN_FLAGS, bytes(self.flags)),
        ]
        if self.types:
            found.append((sections.RUN_TYPES, bytes(self.types)))
        return found

    def newest_ms(self) -> list[int]:
        if len(self.ends) == len(self.times):
            return list(self.times)
        starts = (0, *self.ends)
        return [max(self.times[start:end]) for start, end in zip(starts, self.ends, strict=False)]
