"""Where the groups of a topic are: references, in rows of many.

A *reference* locates one group. References of a topic are packed one after another, 56 bytes each,
ascending by offset; on disk the key of a row is topic id ‖ first offset.

References of new commits are collected in memory. A *round* freezes what was collected and writes
one row per topic, spread over the commits that follow; it is complete when the next one is due. A
start rebuilds the index from the entries after the last complete round.

Readers take a topic's rows in memory under a lock and *then* look at the disk. What a round moves
in between is seen twice, never missed; overlapping rows are recognised by their offsets.
"""

import struct
import threading
from bisect import bisect_right
from collections.abc import Iterator, Sequence
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

ROUND_ENTRIES = 256
ROUND_REFERENCES = 262_144
# a round is due when any of these is reached; they bound memory and the work of a start
ROUND_BYTES = 64 * 1024 * 1024
SLICE_TOPICS = 256  # topics written with one commit, unless the next round is near; two puts each

_REFERENCE = struct.Struct("<QQQQQIIII")
_FIRST_OFFSET = struct.Struct("<Q")


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
    sections: Sections  # of the entry, at least ``INDEXED``

    @property
    def references(self) -> list[tuple[int, ...]]:
        """The references as plain tuples."""
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


INDEXED = (GROUP_RUNS, RUN_POSITIONS, RUN_BOUNDS, RUN_TIMES)


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
        {section: entry.column(section).tobytes() for section in INDEXED},
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


class MemoryIndex:
    """References that are not on disk yet. The writer changes it; readers only call ``rows``."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._gathering: dict[int, bytearray] = {}
        self._round: dict[int, bytearray] = {}
        self._order: list[int] = []
        self._written = 0
        # topics of the round whose rows are on disk (and still in ``_round``)
        self._done: set[int] = set()
        self._entries = 0
        self._references = 0
        self._bytes = 0
        # bytes of entries after which a round is due; less for a small journal
        self.round_bytes = ROUND_BYTES
        self.round_index = 0
        self.round_sequence = 0  # last entry of the round being written, and the sequence after it

    def add(self, entry: IndexedEntry) -> None:
        pack, gathering = _REFERENCE.pack, self._gathering
        with self._lock:
            for topic_id, fields in zip(entry.topic_ids, entry.references, strict=True):
                row = gathering.get(topic_id)
                if row is None:
                    gathering[topic_id] = bytearray(pack(*fields))
                else:
                    row += pack(*fields)
        self._entries += 1
        self._references += len(entry.topic_ids)
        self._bytes += entry.bytes

    def rows(self, topic_id: int) -> list[bytes]:
        """A topic's rows in memory, ascending. Any thread."""
        with self._lock:
            found = (self._round.get(topic_id), self._gathering.get(topic_id))
            return [bytes(row) for row in found if row]

    def holds(self, topic_id: int) -> bool:
        """Whether a topic has references only here, so that its row is behind its state."""
        if topic_id in self._gathering:
            return True
        return topic_id in self._round and topic_id not in self._done

    @property
    def fullness(self) -> float:
        """How full the next round is; it is due at 1."""
        return max(
            self._entries / ROUND_ENTRIES,
            self._references / ROUND_REFERENCES,
            self._bytes / self.round_bytes,
        )

    @property
    def is_writing(self) -> bool:
        return self.round_index > 0

    @property
    def is_gathering(self) -> bool:
        return self._entries > 0

    def begin_round(self, index: int, sequence: int) -> None:
        assert not self.is_writing
        with self._lock:
            self._round, self._gathering = self._gathering, {}
        self._order = list(self._round)
        self._written = 0
        self._entries = self._references = self._bytes = 0
        self.round_index, self.round_sequence = index, sequence

    def slice(self, topics_min: int = 0) -> list[tuple[int, bytearray]]:
        total = len(self._order)
        due = int(total * min(self.fullness, 1.0)) - self._written
        end = self._written + max(SLICE_TOPICS, topics_min, due)
        return [(topic, self._round[topic]) for topic in self._order[self._written : end]]

    def is_last(self, written: int) -> bool:
        return self.is_writing and self._written + written == len(self._order)

    def advance(self, written: int) -> None:
        self._done.update(self._order[self._written : self._written + written])
        self._written += written
        if self.is_last(0):
            with self._lock:
                self._round = {}
            self._order = []
            self._done = set()
            self.round_index = 0
