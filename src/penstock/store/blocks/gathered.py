"""The columns of many entries, one after the other: what a fold is made from.

A *piece* is what one entry has of one topic, or a stretch of it. Columns of all entries are
appended to one set of columns, shifted so that they count from the block's beginning. ``arranged``
puts the pieces into another order. Neither takes a step in Python per message, as far as possible:
columns are shifted and copied at once.
"""

from array import array
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from operator import sub
from struct import pack
from typing import Final, TypeAlias

from penstock.errors import StorageError
from penstock.store import entry as sections
from penstock.store.blocks.gathered_extras import EXTRAS, SparseColumns
from penstock.store.entry import Entry

Numbers: TypeAlias = "array[int]"

MESSAGE_BYTES: Final = 17  # of columns, per message; those that share a run need less
BYTES_MAX: Final = 0xFFFF_FFFF  # of payloads, and of each column: places in them are u32


def u32(numbers: Sequence[int]) -> bytes:
    return pack(f"<{len(numbers)}I", *numbers)


def u64(numbers: Sequence[int]) -> bytes:
    return pack(f"<{len(numbers)}Q", *numbers)


class Gathered:
    """Columns of entries that were added; pieces are known by number, in order of arrival."""

    def __init__(self, base_sequence: int) -> None:
        self.base_sequence = base_sequence
        self.oldest_ms = 1 << 64  # no time is earlier, none later than ``newest_ms``
        self.newest_ms = 0
        self.ids: Numbers = array("I")
        self.first_offsets: Numbers = array("Q")
        self.message_starts: Numbers = array("I")
        self.message_ends: Numbers = array("I")
        self.byte_starts: Numbers = array("I")
        self.byte_ends: Numbers = array("I")
        self.run_starts: Numbers = array("I")
        self.run_ends: Numbers = array("I")
        self.name_starts: Numbers = array("I")
        self.name_ends: Numbers = array("I")
        # per run
        self.positions: Numbers = array("I")
        self.counts: Numbers = array("I")
        self.times: Numbers = array("Q")
        self.flags = bytearray()
        self.types = bytearray()  # empty: all are 0
        # per message
        self.lengths: Numbers = array("I")
        self.payloads = b""
        self.names = b""
        self.extras: list[SparseColumns] = [kind() for kind in EXTRAS]
        self._payloads: list[memoryview] = []
        self._names: list[memoryview] = []
        self._bytes = 0
        self._name_bytes = 0
        self._largest_entry = 0

    def add(self, entry: Entry) -> None:
        """Add an entry, whose buffer must stay valid until ``seal``."""
        if not entry.count:
            return
        messages, bounds = len(self.lengths), entry.numbers(sections.BOUNDS)
        if max(self._bytes + bounds[-1], 20 * (messages + entry.count)) > BYTES_MAX:
            raise StorageError(
                "a block cannot hold more than 4 GiB",
                "Report this: a fold was planned wrongly. Nothing was changed.",
            )
        self._largest_entry = max(self._largest_entry, len(entry.buffer))
        ends = entry.numbers(sections.GROUP_MESSAGES)
        if entry.has_extras:
            for columns in self.extras:
                columns.add(entry, messages)
        self.ids.frombytes(entry.u32(sections.TOPIC_IDS, 0, len(ends)))
        self.first_offsets.frombytes(entry.u64(sections.FIRST_OFFSETS, 0, len(ends)))
        self.message_ends.frombytes(u32([end + messages for end in ends]))
        before = self._bytes
        self.byte_ends.frombytes(u32([bounds[end] + before for end in ends]))
        self.lengths.frombytes(u32(list(map(sub, bounds[1:], bounds))))
        self._payloads.append(entry.bytes_of(sections.PAYLOADS, 0, bounds[-1]))
        self._bytes += bounds[-1]
        self._add_names(entry)
        self._add_runs(entry)

    def _add_names(self, entry: Entry) -> None:
        before = self._name_bytes
        ends = [end + before for end in entry.numbers(sections.NAME_ENDS)]
        self.name_ends.frombytes(u32(ends))
        self._names.append(entry.bytes_of(sections.NAMES, 0, ends[-1] - before))
        self._name_bytes = ends[-1]

    def _add_runs(self, entry: Entry) -> None:
        runs, bounds = len(self.positions), entry.numbers(sections.RUN_BOUNDS)
        shift, time_ms = entry.base_sequence - self.base_sequence, entry.time_ms
        self.run_ends.frombytes(u32([end + runs for end in entry.numbers(sections.GROUP_RUNS)]))
        self.counts.frombytes(u32(list(map(sub, bounds[1:], bounds))))
        self.positions.frombytes(u32([at + shift for at in entry.numbers(sections.RUN_POSITIONS)]))
        times = [time + time_ms for time in entry.numbers(sections.RUN_TIMES)]
        self.times.frombytes(u64(times))
        self.oldest_ms = min(self.oldest_ms, time_ms)
        self.newest_ms = max(self.newest_ms, max(times))  # noqa: PLW3301 - no copy
        self.flags += entry.bytes_of(sections.RUN_FLAGS, 0, len(bounds) - 1)
        if entry.has(sections.RUN_TYPES):
            self.types += bytes(runs - len(self.types))
            self.types += entry.run_types

    def seal(self) -> None:
        """No entry follows: from now on there are pieces, and the entries are not needed."""
        self.payloads, self._payloads = b"".join(self._payloads), []
        self.names, self._names = b"".join(self._names), []
        if self.types:
            self.types += bytes(len(self.flags) - len(self.types))
        self.message_starts = _starts(self.message_ends)
        self.byte_starts = _starts(self.byte_ends)
        self.run_starts = _starts(self.run_ends)
        self.name_starts = _starts(self.name_ends)

    def cut(self, piece: int, first: int, end: int) -> int:
        """A new piece: the messages ``first … end - 1`` of another, counted in that."""
        start = self.message_starts[piece]
        low = self.byte_starts[piece] + sum(self.lengths[start : start + first])
        self.ids.append(self.ids[piece])
        self.first_offsets.append(self.first_offsets[piece] + first)
        self.message_starts.append(start + first)
        self.message_ends.append(start + end)
        self.byte_starts.append(low)
        self.byte_ends.append(low + sum(self.lengths[start + first : start + end]))
        self.name_starts.append(self.name_starts[piece])
        self.name_ends.append(self.name_ends[piece])
        self._cut_runs(piece, first, end)
        return len(self.ids) - 1

    def _cut_runs(self, piece: int, first: int, end: int) -> None:
        """Append the runs of a stretch of a piece, with the first and the last shortened."""
        runs = slice(self.run_starts[piece], self.run_ends[piece])
        bounds = list(accumulate(self.counts[runs], initial=0))
        low, high = bisect_right(bounds, first) - 1, bisect_right(bounds, end - 1)
        self.run_starts.append(len(self.counts))
        for run in range(low, high):
            start, stop = max(bounds[run], first), min(bounds[run + 1], end)
            number = runs.start + run
            self.positions.append(self.positions[number] + start - bounds[run])
            self.counts.append(stop - start)
            self.times.append(self.times[number])
            self.flags.append(self.flags[number])
            if self.types:
                self.types.append(self.types[number])
        self.run_ends.append(len(self.counts))

    def message_sizes(self, piece: int) -> list[int]:
        """About how many bytes each message of a piece needs."""
        start, end = self.message_starts[piece], self.message_ends[piece]
        sizes = [length + MESSAGE_BYTES for length in self.lengths[start:end]]
        for columns in self.extras:
            if columns:
                extra = [columns.bytes_between(at, at + 1) for at in range(start, end)]
                sizes = [size + more for size, more in zip(sizes, extra, strict=True)]
        return sizes

    def release(self, *, times: bool) -> None:
        """Let go of columns that have become records; ids and offsets are needed for sorting."""
        for column in (
            self.message_starts, self.message_ends,
            self.byte_starts, self.byte_ends, self.run_starts, self.run_ends, self.name_starts,
            self.name_ends, self.positions, self.counts, self.lengths,
        ):  # fmt: skip
            del column[:]
        del self.flags[:], self.types[:]
        if times:
            del self.times[:]

    def may_be_larger(self, bytes_max: int) -> bool:
        """Whether a piece may need more: asked first, as in most folds none does."""
        if self._largest_entry <= bytes_max:
            return False
        largest = max(map(sub, self.byte_ends, self.byte_starts), default=0)
        most = max(map(sub, self.message_ends, self.message_starts), default=0)
        return any(self.extras) or largest + MESSAGE_BYTES * most > bytes_max

    def sizes(self) -> list[int]:
        """About how many bytes each piece needs, without its group's."""
        sizes = map(sub, self.byte_ends, self.byte_starts)
        counts = map(sub, self.message_ends, self.message_starts)
        found = [size + MESSAGE_BYTES * count for size, count in zip(sizes, counts, strict=True)]
        for columns in self.extras:
            if columns:
                extra = map(columns.bytes_between, self.message_starts, self.message_ends)
                found = [size + more for size, more in zip(found, extra, strict=True)]
        return found


def _starts(ends: Numbers) -> Numbers:
    starts = array(ends.typecode, [0])
    starts += ends
    starts.pop()
    return starts
