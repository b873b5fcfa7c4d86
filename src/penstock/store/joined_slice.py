"""Small parts of a topic, each from another entry, joined to one slice.

Devices that publish one by one leave a few messages per topic in each entry. Their numbers are
copied and counted from the beginning of the joined slice; payloads and texts stay views, and are
joined when the slice is complete. A scan joins parts of several topics, and notes where each
begins.
"""

from array import array
from functools import lru_cache
from struct import Struct
from typing import Final, NamedTuple

from penstock.model import columns as wanted
from penstock.store import entry as sections
from penstock.store.entry import Entry
from penstock.store.raw_slice import Column, RawSlice

SMALL: Final = 32  # messages of a part that is worth joining

MESSAGES_MAX: Final = 8_192

U32_MAX: Final = 0xFFFF_FFFF

# A scan begins each topic with its oldest entry again: numbers may be lower than the first by this.
_SLACK: Final = 1 << 31


@lru_cache(maxsize=4 * SMALL)
def _unpacker(count: int) -> Struct:
    return Struct(f"<{count}I")


def _u32(column: Column) -> tuple[int, ...]:
    return _unpacker(len(column) // 4).unpack(column)


class _Counted:
    """Bounds of bytes that come in parts, counted from the first."""

    __slots__ = ("numbers", "total")

    def __init__(self, *first: int) -> None:
        self.numbers = array("I", first)
        self.total = 0

    def add(self, bounds: tuple[int, ...]) -> None:
        """Add bounds, of which only the differences count."""
        shift = self.total - bounds[0]
        self.numbers.extend([bound + shift for bound in bounds[1:]])
        self.total = bounds[-1] + shift


class JoinedPart(NamedTuple):
    """Some messages of an entry, by number, and their runs."""

    first_offset: int
    entry: Entry
    first: int
    end: int
    run_start: int
    run_end: int


class Joined:
    """A slice under construction; columns that are not wanted stay empty."""

    def __init__(self, entry: Entry, first_offset: int, *, is_scan: bool = False) -> None:
        slack = _SLACK if is_scan else 0
        self.count = 0
        self._before = 0  # messages before the last part
        self._first_offset = first_offset
        self._next_offset = first_offset
        self._base = max(entry.base_sequence - slack, 0)
        self._time_ms = max(entry.time_ms - slack, 0)
        self._topic = -1  # of a scan: the topic of the last part
        self._groups = array("I"), array("I"), array("Q")
        self._bounds = _Counted(0)
        self._payloads: list[Column] = []
        self._runs = array("I"), array("I"), array("I")  # starts, positions, times
        self._flags: list[Column] = []
        self._types: list[Column] = []
        self._has_types = False
        self._signatures: tuple[array[int], list[Column]] = array("I"), []
        self._headers = array("I"), _Counted(0), _Counted(0)
        self._texts: list[Column] = []
        self._schedules: tuple[array[int], list[Column], list[Column]] = array("I"), [], []
        self._notes: tuple[array[int], list[Column], list[Column]] = array("I"), [], []
        self._name_ends = _Counted()
        self._names: list[Column] = []

    def add(self, part: JoinedPart, mask: int, topic: int = -1) -> bool:
        """Add messages; False if they do not continue this slice, or their numbers do not fit.

        ``topic`` is its number in a scan, where messages of other topics and offsets continue it.
        """
        first_offset, entry, first, end, start, stop = part
        times = _u32(entry.u32(sections.RUN_TIMES, start, stop))
        later = entry.time_ms - self._time_ms
        is_next = first_offset == self._next_offset and topic == self._topic
        fits = (
            (is_next or topic >= 0)
            and self.count + end - first <= MESSAGES_MAX
            and entry.base_sequence >= self._base
            and entry.base_sequence + entry.count - self._base <= U32_MAX
            and 0 <= later <= U32_MAX - max(times)
        )
        if not fits:
            return False
        if not is_next:
            self._note_group(topic, first_offset)
        self._before = self.count
        self.count += end - first
        self._next_offset = first_offset + end - first
        self._runs[2].extend([time_ms + later for time_ms in times])
        self._add_runs(entry, first, start, stop)
        if mask & wanted.PAYLOADS:
            bounds = _u32(entry.u32(sections.BOUNDS, first, end + 1))
            self._bounds.add(bounds)
            self._payloads.append(entry.bytes_of(sections.PAYLOADS, bounds[0], bounds[-1]))
        return True

    def add_single(self, part: JoinedPart, mask: int, topic: int) -> bool:
        """``add`` for one message of a scan, of one run, without rare properties: much cheaper."""
        first_offset, entry, number, _, run, _ = part
        position = entry.base_sequence - self._base + entry.run_positions[run]
        position += number - entry.run_bounds[run]
        time_ms = entry.time_ms - self._time_ms + entry.run_times[run]
        if not (self.count < MESSAGES_MAX and 0 <= position <= U32_MAX and 0 <= time_ms <= U32_MAX):
            return False
        if first_offset != self._next_offset or topic != self._topic:
            self._note_group(topic, first_offset)
        starts, positions, times = self._runs
        starts.append(self.count)
        positions.append(position)
        times.append(time_ms)
        self._before = self.count
        self.count += 1
        self._next_offset = first_offset + 1
        self._flags.append(entry.run_flags[run : run + 1])
        types = entry.run_types
        self._has_types |= bool(types)
        self._types.append(types[run : run + 1] or b"\0")
        if mask & wanted.PAYLOADS:
            bounds, own = entry.bounds, self._bounds
            start, end = bounds[number], bounds[number + 1]
            own.total += end - start
            own.numbers.append(own.total)
            self._payloads.append(entry.payloads[start:end])
        return True

    def _note_group(self, topic: int, first_offset: int) -> None:
        self._topic = topic
        topics, starts, offsets = self._groups
        topics.append(topic)
        starts.append(self.count)
        offsets.append(first_offset)

    def _add_runs(self, entry: Entry, first: int, start: int, stop: int) -> None:
        starts, positions, _ = self._runs
        shift = entry.base_sequence - self._base
        firsts = _u32(entry.u32(sections.RUN_BOUNDS, start, stop))
        trimmed = first - firsts[0]
        found = _u32(entry.u32(sections.RUN_POSITIONS, start, stop))
        starts.append(self._before)
        positions.append(found[0] + shift + trimmed)
        if stop - start > 1:
            starts.extend([bound - first + self._before for bound in firsts[1:]])
            positions.extend([position + shift for position in found[1:]])
        self._flags.append(entry.bytes_of(sections.RUN_FLAGS, start, stop))
        has_types = entry.has(sections.RUN_TYPES)
        self._has_types |= has_types
        self._types.append(
            entry.bytes_of(sections.RUN_TYPES, start, stop) if has_types else bytes(stop - start)
        )

    def add_signatures(self, numbers: Column, records: Column) -> None:
        """Add signatures, by number counted from the first message of the last part."""
        self._number(self._signatures[0], numbers)
        self._signatures[1].append(records)

    def add_headers(
        self, numbers: Column, bounds: Column, text_bounds: Column, texts: Column
    ) -> None:
        own, own_bounds, own_text_bounds = self._headers
        self._number(own, numbers)
        own_bounds.add(_u32(bounds))
        own_text_bounds.add(_u32(text_bounds))
        self._texts.append(texts)

    def add_schedules(self, numbers: Column, due: Column, expiry: Column) -> None:
        self._number(self._schedules[0], numbers)
        self._schedules[1].append(due)
        self._schedules[2].append(expiry)

    def add_producers(
        self, numbers: Column, counts: Column, seqs: Column, name_ends: Column, names: Column
    ) -> None:
        self._number(self._notes[0], numbers)
        self._notes[1].append(counts)
        self._notes[2].append(seqs)
        self._name_ends.add((0, *_u32(name_ends)))
        self._names.append(names)

    def _number(self, own: "array[int]", numbers: Column) -> None:
        own.extend([number + self._before for number in _u32(numbers)])

    def slice(self) -> RawSlice:
        payloads = b"".join(self._payloads)
        return RawSlice(
            self._first_offset,
            self.count,
            self._base,
            self._time_ms,
            (self._bounds.numbers.tobytes(), payloads) if self._payloads else (),
            (
                *[numbers.tobytes() for numbers in self._runs],
                b"".join(self._flags),
                b"".join(self._types) if self._has_types else b"",
            ),
            _columns(*self._signatures),
            self._header_columns(),
            _columns(*self._schedules),
            (*_columns(*self._notes), *self._name_columns()),
            tuple([numbers.tobytes() for numbers in self._groups]) if self._groups[0] else (),
        )

    def _header_columns(self) -> tuple[Column, ...]:
        numbers, bounds, text_bounds = self._headers
        if not numbers:
            return ()
        texts = b"".join(self._texts)
        own = numbers.tobytes(), bounds.numbers.tobytes(), text_bounds.numbers.tobytes()
        return *own, texts

    def _name_columns(self) -> tuple[Column, ...]:
        if not self._names:
            return ()
        return self._name_ends.numbers.tobytes(), b"".join(self._names)


def _columns(numbers: "array[int]", *others: list[Column]) -> tuple[Column, ...]:
    if not numbers:
        return ()
    return numbers.tobytes(), *[b"".join(pieces) for pieces in others]
