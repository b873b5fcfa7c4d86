"""Places in the order in which they are emptied: blocks, and entries of the tail, oldest first.

A place is known by its entries' indices, so a cursor over places holds when the tail is folded into
a block, or blocks into another: what it has passed is looked at again at most.
"""

from collections.abc import Iterable, Iterator
from itertools import takewhile
from typing import Protocol, TypeAlias

from penstock.store.blocks.block import Block
from penstock.store.entry import NAME_ENDS, NAMES, Entry
from penstock.store.index import indexed_entry
from penstock.store.retention.slice import RetentionSlice

Extent: TypeAlias = tuple[
    int, int, int, int, int
]  # number, topic id, first offset, messages, bytes


class Place(Protocol):
    """A block, or an entry of the tail."""

    block_number: int | None
    first_index: int
    last_index: int
    end_sequence: int
    oldest_ms: int
    newest_ms: int
    group_count: int

    def extents(self, first: int, end: int) -> Iterable[Extent]: ...

    def name(self, number: int) -> bytes:
        """The topic of a group."""

    def newest(self) -> list[int]:
        """The newest time of each group."""


class BlockPlace:
    """See ``Place``; only the directory is read, and a part where a name is asked for."""

    def __init__(self, block: Block) -> None:
        summary = block.summary
        self._block = block
        self.block_number: int | None = summary.number
        self.first_index = summary.first_index
        self.last_index = summary.last_index
        self.end_sequence = summary.end_sequence
        self.oldest_ms, self.newest_ms = summary.oldest_ms, summary.newest_ms
        self.group_count = summary.group_count
        self._names = _Names()

    def extents(self, first: int, end: int) -> Iterable[Extent]:
        return self._block.extents(first, end)

    def name(self, number: int) -> bytes:
        if number not in self._names.numbers:
            entry, place = self._block.opened(number)
            self._names = _Names(entry, number - place)
        return self._names.name(number)

    def newest(self) -> list[int]:
        return [group.newest_ms for group in self._block.groups()]


class EntryPlace:
    """See ``Place``."""

    block_number: int | None = None

    def __init__(self, entry: Entry) -> None:
        self._entry = entry
        self.first_index = self.last_index = entry.index
        self.end_sequence = entry.end_sequence
        self.oldest_ms = entry.time_ms
        self.newest_ms = entry.time_ms + max(entry.run_times, default=0)
        self.group_count = entry.group_count
        self._names = _Names(entry)

    def extents(self, first: int, end: int) -> Iterable[Extent]:
        found = self._entry.extents(first, end)
        return [(number, key, start, count, size) for number, key, _, start, count, size in found]

    def name(self, number: int) -> bytes:
        return self._names.name(number)

    def newest(self) -> list[int]:
        return [reference[4] for reference in indexed_entry(self._entry).references]


class _Names:
    """Names of the groups of an entry, or of a part of a block that begins with group ``first``."""

    def __init__(self, entry: Entry | None = None, first: int = 0) -> None:
        self._first = first
        self._names = bytes(entry.column(NAMES)) if entry else b""
        self._ends = entry.column(NAME_ENDS).tolist() if entry else []
        self.numbers = range(first, first + len(self._ends))

    def name(self, number: int) -> bytes:
        place = number - self._first
        return self._names[self._ends[place - 1] if place else 0 : self._ends[place]]


def places(work: RetentionSlice, index: int) -> Iterator[Place]:
    """All places with entries from ``index`` on."""
    marks = work.marks
    yield from block_places(work, index)
    if marks.converted < marks.indexed:
        first = max(marks.converted, index - 1)
        zone = takewhile(lambda entry: entry.index <= marks.indexed, work.journal.after(first))
        yield from map(EntryPlace, zone)
        yield from _opened(work, index, range(marks.indexed + 1, 1 << 62))
    yield from map(EntryPlace, work.journal.after(max(marks.flushed_index, index - 1)))


def block_places(work: RetentionSlice, index: int) -> Iterator[BlockPlace]:
    """Blocks with entries from ``index`` on, before which nothing is stored otherwise."""
    marks = work.marks
    end = marks.indexed + 1 if marks.converted < marks.indexed else 1 << 62
    return _opened(work, index, range(end))


def _opened(work: RetentionSlice, index: int, entries: range) -> Iterator[BlockPlace]:
    for each in work.blocks.blocks:
        summary = each.row.summary
        if summary.last_index >= index and summary.first_index in entries:
            yield BlockPlace(each.block)
