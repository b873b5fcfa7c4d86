"""Folding entries into a block: sorting what they hold by topic and offset. Pure: bytes in and out.

All pieces (what an entry has of a topic) are gathered, left out or shortened as the plan says,
sorted by topic id and offset, and written in parts of about equal size. A piece that is larger
than a part is cut. Within a topic, entries ascend, so a stable sort by topic id is enough.

The input may be entries of the journal or parts of other blocks. A fold holds the columns of its
input once and a part at a time; where the input is not a memory map, the input too.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate, compress, count
from typing import Final

import msgspec

from penstock.errors import StorageDamaged, StorageError
from penstock.store.blocks.arranged import Arranged, PartGroups
from penstock.store.blocks.format import (
    HEADER_BYTES,
    PART_BYTES,
    RAW,
    U32_MAX,
    ZSTD,
    BlockSummary,
    Extent,
    Footer,
    compressed,
    join_directory,
    pack_footer,
    pack_header,
    padding,
    planes,
    read_footer,
)
from penstock.store.blocks.gathered import Gathered, u32, u64
from penstock.store.checksum import crc32
from penstock.store.entry import Entry

_SCATTER: Final = 16  # positions per run up to which runs are ordered by placing them


class Fold(msgspec.Struct, frozen=True):
    """What a fold makes: a block that stands for these sequences and entries.

    ``cuts`` are first living offsets by topic id; what is below is left out, and all messages of
    ``dropped`` topic ids.
    """

    number: int
    base_sequence: int
    end_sequence: int
    first_index: int
    last_index: int
    cuts: dict[int, int] = {}
    dropped: frozenset[int] = frozenset()
    codec: int = ZSTD
    part_bytes: int = PART_BYTES


def fold(entries: Iterable[Entry], plan: Fold) -> Iterator[bytes | memoryview]:
    """The chunks of the block's file, in order. Entries are needed until the first chunk."""
    if plan.end_sequence - plan.base_sequence > U32_MAX:
        raise _planned_wrongly("a block cannot stand for more than 2^32 sequences")
    gathered = Gathered(plan.base_sequence)
    for entry in entries:
        _check_within(entry, plan)
        gathered.add(entry)
    gathered.seal()
    yield pack_header(plan.number)
    arranged, writer = Arranged(gathered, _kept(gathered, plan)), _Writer(plan)
    for first, end in arranged.stretches(plan.part_bytes):
        yield from writer.part(*arranged.part(first, end, plan.last_index))
    yield from writer.end()


def summary_of(buffer: bytes | memoryview) -> BlockSummary:
    """The summary of a block's file, from its footer; raises StorageDamaged."""
    return read_footer(memoryview(buffer)).summary


def _check_within(entry: Entry, plan: Fold) -> None:
    if entry.base_sequence < plan.base_sequence:
        raise _planned_wrongly(f"entry {entry.index} begins before the block that should hold it")


def _planned_wrongly(what: str) -> StorageError:
    return StorageError(what, "Report this: a fold was planned wrongly. Nothing was changed.")


def _damaged(what: str) -> StorageDamaged:
    return StorageDamaged(
        what,
        "Restore the data directory from a backup; docs/operating/storage.md explains how to "
        "assess the damage.",
    )


def _kept(gathered: Gathered, plan: Fold) -> list[int]:
    """Pieces that stay, in order of arrival, shortened where they must be."""
    pieces: list[int] = list(range(len(gathered.ids)))
    if plan.dropped:
        dropped, ids = plan.dropped, gathered.ids
        pieces = [piece for piece in pieces if ids[piece] not in dropped]
    if plan.cuts:
        pieces = _living(gathered, pieces, plan.cuts)
    return _cut_large(gathered, pieces, max(plan.part_bytes // 4, 1))


def _living(gathered: Gathered, pieces: list[int], cuts: dict[int, int]) -> list[int]:
    """Leave out what lies below the cuts."""
    firsts, starts, ends = gathered.first_offsets, gathered.message_starts, gathered.message_ends
    living = [cuts.get(topic_id, 0) for topic_id in gathered.ids]
    found = []
    for piece in pieces:
        gone = living[piece] - firsts[piece]
        if gone > 0:
            number = ends[piece] - starts[piece]
            if gone < number:
                found.append(gathered.cut(piece, gone, number))
        else:
            found.append(piece)
    return found


def _cut_large(gathered: Gathered, pieces: list[int], bytes_max: int) -> list[int]:
    """Cut what is larger than a quarter of a part, so that parts are well filled."""
    if not gathered.may_be_larger(bytes_max):
        return pieces
    sizes = gathered.sizes()
    found: list[int] = []
    for piece in pieces:
        if sizes[piece] > bytes_max:
            found += _quarters(gathered, piece, bytes_max)
        else:
            found.append(piece)
    return found


def _quarters(gathered: Gathered, piece: int, bytes_max: int) -> Iterator[int]:
    ends = list(accumulate(gathered.message_sizes(piece)))
    first, before = 0, 0
    while first < len(ends):
        end = max(bisect_right(ends, before + bytes_max, first), first + 1)
        yield gathered.cut(piece, first, end)
        first, before = end, ends[end - 1]


class _Writer:
    """Packs parts, and collects what directory, order and footer say about them."""

    def __init__(self, plan: Fold) -> None:
        self._plan = plan
        self._at = HEADER_BYTES
        self._extents: list[Extent] = []
        self._first_groups: list[int] = []
        self._first_runs: list[int] = []
        self._ids = array("I")
        self._first_offsets = array("Q")
        self._counts = array("I")
        self._sizes = array("I")
        self._newest = array("Q")
        self._positions = array("I")
        self._oldest_ms = 1 << 64

    def part(self, raw: bytes, groups: PartGroups) -> Iterator[bytes]:
        self._first_groups.append(len(self._ids))
        self._first_runs.append(len(self._positions))
        stored, codec = compressed(raw, self._plan.codec)
        yield from self._stored(stored, len(raw), codec)
        self._ids.frombytes(u32(groups.topic_ids))
        self._first_offsets.frombytes(u64(groups.first_offsets))
        self._counts.frombytes(u32(groups.counts))
        self._sizes.frombytes(u32(groups.payload_bytes))
        self._newest.frombytes(u64(groups.newest_ms))
        self._positions.frombytes(u32(groups.positions))
        self._oldest_ms = min(self._oldest_ms, groups.oldest_ms)

    def _stored(self, stored: bytes, raw_bytes: int, codec: int) -> Iterator[bytes]:
        fill = padding(len(stored))
        checksum = crc32(fill, crc32(stored))
        extent = Extent(self._at, len(stored), raw_bytes, checksum, codec)
        self._extents.append(extent)
        self._at = extent.end
        yield stored
        if fill:
            yield fill

    def end(self) -> Iterator[bytes]:
        """Directory, order and footer."""
        plan, parts = self._plan, len(self._extents)
        oldest, newest = (self._oldest_ms, max(self._newest)) if parts else (0, 0)
        yield from self._stored(self._directory(oldest, newest), 0, RAW)
        directory = self._extents.pop()
        order = self._order()
        stored, codec = compressed(order, plan.codec)
        yield from self._stored(stored, len(order), codec)
        summary = BlockSummary(
            plan.number, plan.base_sequence, plan.end_sequence, plan.first_index, plan.last_index,
            sum(self._counts), len(self._ids), sum(self._sizes), 0, oldest, newest, 0,
        )  # fmt: skip
        footer = Footer(summary, len(self._positions), parts, directory, self._extents.pop())
        yield pack_footer(footer)[0]

    def _directory(self, oldest: int, newest: int) -> bytes:
        extents = self._extents
        ages = [time - oldest for time in self._newest]
        if newest - oldest > U32_MAX:
            ages = [min(age, U32_MAX) for age in ages]
        return join_directory(
            [
                self._ids.tobytes(),
                self._first_offsets.tobytes(),
                u32(list(accumulate(self._counts))),
                self._sizes.tobytes(),
                u32(ages),
                u32(self._first_groups),
                u32(self._first_runs),
                u64([extent.start for extent in extents]),
                u32([extent.stored_bytes for extent in extents]),
                u32([extent.raw_bytes for extent in extents]),
                u32([extent.checksum for extent in extents]),
                bytes([extent.codec for extent in extents]),
            ]
        )

    def _order(self) -> bytes:
        """Positions of all runs, ascending, then the runs' numbers."""
        positions = self._positions
        span = max(positions, default=-1) + 1
        if span > self._plan.end_sequence - self._plan.base_sequence:
            raise _planned_wrongly("a message comes after the block that should hold it")
        if span > _SCATTER * len(positions):
            numbers = sorted(range(len(positions)), key=positions.__getitem__)
            return planes(u32([positions[number] for number in numbers])) + planes(u32(numbers))
        # Sorting is slow, and positions are unique and dense: each run goes to its place.
        places = [0] * span
        for number, position in enumerate(positions, start=1):
            places[position] = number
        is_dense = span == len(positions) and all(places)
        ascending = range(span) if is_dense else list(compress(count(), places))
        if len(ascending) != len(positions):
            raise _damaged("a sequence occurs twice in the entries of a block")
        numbers = [number - 1 for number in filter(None, places)]
        return planes(u32(ascending)) + planes(u32(numbers))
