"""Where the groups of a topic are: references, in rows of many.

A *reference* locates one group. References of a topic are packed one after another, 56 bytes each,
ascending by offset; on disk the key of a row is topic id ‖ first offset.

The index of the tail is in memory only; a start builds it from the tail's entries. What was folded
into a block is found by the block's own directory. Rows on disk, in the database ``index``, are
from earlier versions, and go as their entries are converted.

Readers take a topic's references in memory under a lock and *then* look at blocks and disk. What is
folded in between is seen twice, never missed; overlaps are recognised by their offsets.
"""

import struct
import threading
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, pairwise, repeat
from operator import sub
from typing import NamedTuple

from penstock.store.batch import Batch
from penstock.store.entry import (
    FIRST_OFFSETS,
    GROUP_MESSAGES,
    GROUP_RUNS,
    RUN_BOUNDS,
    RUN_POSITIONS,
    RUN_TIMES,
    TOPIC_IDS,
    EncodedEntry,
    Entry,
    Sections,
)
from penstock.store.slices import GroupRange
from penstock.store.wide_entries import (
    COLUMNS,
    WIDE_GROUPS_MIN,
    ReferenceFields,
    WideEntries,
    WideEntry,
)

_REFERENCE = struct.Struct("<QQQQQIIII")
_FIRST_OFFSET = struct.Struct("<Q")
_ENTRY_INDEX = struct.Struct("<Q")
_INDEX_PLACE = 16  # of the entry's index in a reference

INDEX_MAX = 2**64 - 1


class Reference(NamedTuple):
    """One group: where it is, and what retention must know without opening the entry."""

    first_offset: int
    base_sequence: int
    entry_index: int
    last_sequence: int
    time_ms: int  # newest in the group
    group: int
    group_count: int  # of the entry
    message_count: int
    bytes: int

    @property
    def next_offset(self) -> int:
        return self.first_offset + self.message_count

    def part(self, entry: Entry, first: int, end: int) -> GroupRange:
        """The part of this group within an offset range, which must not be empty."""
        return GroupRange(
            entry, self.group, max(first, self.first_offset), min(end, self.next_offset)
        )


def reference(entry: Entry, number: int) -> Reference:
    group = entry.group(number)
    last = group.run_end - 1
    run_bounds, bounds = entry.run_bounds, entry.bounds
    last_position = entry.run_positions[last] + run_bounds[last + 1] - run_bounds[last] - 1
    return Reference(
        group.first_offset,
        entry.base_sequence,
        entry.index,
        entry.base_sequence + last_position,
        entry.time_ms + max(entry.run_times[group.run_start : group.run_end]),
        number,
        entry.group_count,
        group.message_end - group.message_start,
        bounds[group.message_end] - bounds[group.message_start],
    )


class IndexedEntry(NamedTuple):
    """What the index and the topic states take from an entry: columns with an item per group."""

    entry_index: int
    base_sequence: int
    end_sequence: int
    bytes: int
    time_ms: int
    topic_ids: Sequence[int]
    first_offsets: Sequence[int]
    message_counts: Sequence[int]
    group_bytes: Sequence[int]
    sections: Sections  # of the entry, at least ``COLUMNS``; unless it has one message

    @property
    def references(self) -> list[tuple[int, ...]]:
        """The references as plain tuples."""
        if self.end_sequence - self.base_sequence == 1:
            return [self._single()]
        columns = (
            self.first_offsets,
            repeat(self.base_sequence),
            repeat(self.entry_index),
            self._last_sequences(),
            self._newest_ms(),
            range(len(self.topic_ids)),
            repeat(len(self.topic_ids)),
            self.message_counts,
            self.group_bytes,
        )
        return list(zip(*columns, strict=False))  # some do not end

    def _single(self) -> tuple[int, ...]:
        """The reference of an entry that has one message."""
        base, size = self.base_sequence, self.group_bytes[0]
        return self.first_offsets[0], base, self.entry_index, base, self.time_ms, 0, 1, 1, size

    def wide(self) -> WideEntry:
        columns = {section: bytes(self.sections[section]) for section in COLUMNS}  # and no more
        return WideEntry(self.entry_index, self.base_sequence, self.time_ms, columns)

    def _last_sequences(self) -> list[int]:
        base, positions = self.base_sequence - 1, self._column(RUN_POSITIONS)
        bounds, ends = self._column(RUN_BOUNDS), self._column(GROUP_RUNS)
        return [base + positions[end - 1] + bounds[end] - bounds[end - 1] for end in ends]

    def _newest_ms(self) -> list[int]:
        time_ms, times, ends = self.time_ms, self._column(RUN_TIMES), self._column(GROUP_RUNS)
        if len(times) == len(ends):
            return [time_ms + time for time in times]
        return [time_ms + max(times[start:end]) for start, end in pairwise(chain((0,), ends))]

    def _column(self, section: int) -> memoryview:
        return memoryview(self.sections.get(section, b"")).cast("I")


def indexed_batch(
    batch: Batch,
    encoded: EncodedEntry,
    index: int,
    base: int,
    topic_ids: Sequence[int],
    first_offsets: Sequence[int],
) -> IndexedEntry:
    """The same for a batch just encoded; ``base`` is the sequence of its first message."""
    return IndexedEntry(
        index,
        base,
        base + batch.count,
        len(encoded.data),
        encoded.time_ms,
        topic_ids,
        first_offsets,
        batch.group_messages,
        encoded.group_bytes,
        encoded.sections,
    )


def indexed_entry(entry: Entry) -> IndexedEntry:
    message_ends, bounds = entry.column(GROUP_MESSAGES).tolist(), entry.bounds
    byte_ends = [bounds[end] for end in message_ends]
    return IndexedEntry(
        entry.index,
        entry.base_sequence,
        entry.end_sequence,
        len(entry.buffer),
        entry.time_ms,
        entry.column(TOPIC_IDS).tolist(),
        entry.column(FIRST_OFFSETS).tolist(),
        list(map(sub, message_ends, chain((0,), message_ends))),
        list(map(sub, byte_ends, chain((0,), byte_ends))),
        {section: entry.column(section).tobytes() for section in COLUMNS},
    )


def references_from(row: bytes | memoryview, offset: int) -> Iterator[Reference]:
    """References of a row, from the one that holds ``offset`` (or the next) on."""
    number = bisect_right(
        range(len(row) // _REFERENCE.size),
        offset,
        key=lambda place: _FIRST_OFFSET.unpack_from(row, place * _REFERENCE.size)[0],
    )
    start = max(number - 1, 0) * _REFERENCE.size
    for fields in _REFERENCE.iter_unpack(row[start:]):
        found = Reference._make(fields)
        if found.next_offset > offset:
            yield found


def row_span(row: bytes | bytearray | memoryview) -> tuple[int, int]:
    last = Reference._make(_REFERENCE.unpack_from(row, len(row) - _REFERENCE.size))
    return _FIRST_OFFSET.unpack_from(row)[0], last.next_offset


class TailEntry(NamedTuple):
    """An entry of the tail: how far it reaches, and what it costs."""

    entry_index: int
    end_sequence: int
    bytes: int
    references: int


class MemoryIndex:
    """The index of the tail. The writer changes it; readers only call ``rows``.

    Entries with few topics are indexed by a row per topic, those with many as they are.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rows: dict[int, bytearray] = {}
        self._wide = WideEntries()
        self.entries: deque[TailEntry] = deque()
        self.bytes = 0
        self.references = 0  # of all ``entries``

    def add(self, entry: IndexedEntry) -> None:
        references = len(entry.topic_ids)
        if references:  # else it has events only
            with self._lock:
                if references >= WIDE_GROUPS_MIN:
                    self._wide.add(entry.wide())
                else:
                    self._add_rows(entry)
        self.entries.append(
            TailEntry(entry.entry_index, entry.end_sequence, entry.bytes, references)
        )
        self.bytes += entry.bytes
        self.references += references

    def _add_rows(self, entry: IndexedEntry) -> None:
        pack, known = _REFERENCE.pack, self._rows
        for topic_id, fields in zip(entry.topic_ids, entry.references, strict=True):
            row = known.get(topic_id)
            if row is None:
                known[topic_id] = bytearray(pack(*fields))
            else:
                row += pack(*fields)

    def rows(self, topic_id: int) -> list[bytes]:
        """A topic's references in memory, ascending. Any thread."""
        with self._lock:
            row = bytes(self._rows.get(topic_id, b""))
            wide = list(self._wide.references(topic_id)) if self._wide else []
        if wide:
            row = _merged(row, wide)
        return [row] if row else []

    def holds(self, topic_id: int) -> bool:
        """Whether a topic has references only here, so that its row is behind its state."""
        if topic_id in self._rows or not self._wide:
            return topic_id in self._rows
        with self._lock:  # readers look into the same entries
            return self._wide.holds(topic_id)

    def first_offsets(self) -> dict[int, int]:
        """Where the tail begins, of all topics."""
        found = self._wide.first_offsets()
        for topic_id, row in self._rows.items():
            first_offset = _first_offset(bytes(row[: _FIRST_OFFSET.size]), 0)
            found[topic_id] = min(first_offset, found.get(topic_id, first_offset))
        return found

    def topic_ids(self, index: int = INDEX_MAX) -> list[int]:
        """Topics with references to entries up to ``index``."""
        found = self._wide.topic_ids(index)
        found.update([i for i, row in self._rows.items() if _entry_index(row, 0) <= index])
        return list(found)

    def forget(self, topic_ids: Sequence[int], index: int) -> None:
        """Forget some topics' references to entries up to ``index``: blocks have them.

        Entries with many topics are forgotten whole, with the first.
        """
        with self._lock:
            self._wide.forget(index)
            for topic_id in topic_ids:
                row = self._rows.get(topic_id)
                if row is None:
                    continue
                count = bisect_right(
                    range(len(row) // _REFERENCE.size), index, key=partial(_entry_index, row)
                )
                if count * _REFERENCE.size == len(row):
                    del self._rows[topic_id]
                else:
                    del row[: count * _REFERENCE.size]

    def forget_entries(self, index: int) -> None:
        with self._lock:
            self._wide.forget(index)
        while self.entries and self.entries[0].entry_index <= index:
            entry = self.entries.popleft()
            self.bytes -= entry.bytes
            self.references -= entry.references


def _merged(row: bytes, references: Iterable[ReferenceFields]) -> bytes:
    """A row with further references, which ascend, at their places."""
    parts: list[bytes] = []
    start, count, size = 0, len(row) // _REFERENCE.size, _REFERENCE.size
    for fields in references:
        end = bisect_right(range(count), fields[0], lo=start, key=partial(_first_offset, row))
        parts += (row[start * size : end * size], _REFERENCE.pack(*fields))
        start = end
    parts.append(row[start * size :])
    return b"".join(parts)


def _first_offset(row: bytes, place: int) -> int:
    found: int = _FIRST_OFFSET.unpack_from(row, place * _REFERENCE.size)[0]
    return found


def _entry_index(row: bytes | bytearray, place: int) -> int:
    found: int = _ENTRY_INDEX.unpack_from(row, place * _REFERENCE.size + _INDEX_PLACE)[0]
    return found
