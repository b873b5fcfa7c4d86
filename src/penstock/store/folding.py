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
from operator import add, sub
from typing import Final
from zlib import crc32

import msgspec

from penstock.errors import StorageDamaged, StorageError
from penstock.store.block_format import (
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
    read_footer,
)
from penstock.store.entry import Entry
from penstock.store.gathered import GROUP_BYTES, MESSAGE_BYTES, Gathered, PartGroups, u32, u64

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
    """The chunks of the block's file, in order. The entries must stay valid to the end."""
    if plan.end_sequence - plan.base_sequence > U32_MAX:
        raise _planned_wrongly("a block cannot stand for more than 2^32 sequences")
    gathered = Gathered(plan.base_sequence)
    for entry in entries:
        _check_within(entry, plan)
        gathered.add(entry)
    gathered.seal()
    writer = _Writer(plan)
    yield pack_header(plan.number)
    order, heads, costs = _arranged(gathered, plan)
    for first, end in _stretches(gathered, order, costs, plan.part_bytes):
        pieces = order[first:end]
        low, high = bisect_right(heads, first), bisect_right(heads, end - 1)
        part = gathered.part(
            pieces, [0, *[head - first for head in heads[low:high]]], plan.last_index
        )
        yield from writer.part(*part)
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


def _arranged(gathered: Gathered, plan: Fold) -> tuple[list[int], list[int], list[int]]:
    """Pieces in order; places where a group begins; how many bytes each needs, about."""
    pieces, costs = _kept(gathered, plan)
    order = sorted(pieces, key=gathered.ids.__getitem__)
    if not order:
        return [], [], []
    heads = _heads(gathered, order)
    if heads is None:  # entries that did not ascend
        order.sort(key=lambda piece: (gathered.ids[piece], gathered.first_offsets[piece]))
        heads = _heads(gathered, order)
    if heads is None:
        raise _damaged("an offset of a topic occurs twice in the entries of a block")
    sizes = [costs[piece] for piece in order]
    for head in heads:
        sizes[head] += GROUP_BYTES + gathered.name_bytes(order[head])
    return order, heads, sizes


def _kept(gathered: Gathered, plan: Fold) -> tuple[list[int], list[int]]:
    """Pieces that stay, in order of arrival, shortened where they must be; all pieces' sizes."""
    pieces: list[int] = list(range(len(gathered.ids)))
    if plan.dropped:
        dropped, ids = plan.dropped, gathered.ids
        pieces = [piece for piece in pieces if ids[piece] not in dropped]
    if plan.cuts:
        pieces = _living(gathered, pieces, plan.cuts)
    return _cut_large(gathered, pieces, plan.part_bytes)


def _living(gathered: Gathered, pieces: list[int], cuts: dict[int, int]) -> list[int]:
    found = []
    firsts, starts, ends = gathered.first_offsets, gathered.message_starts, gathered.message_ends
    living = [cuts.get(topic_id, 0) for topic_id in gathered.ids]
    for piece in pieces:
        gone = living[piece] - firsts[piece]
        number = ends[piece] - starts[piece]
        if gone <= 0:
            found.append(piece)
        elif gone < number:
            found.append(gathered.cut(piece, gone, number))
    return found


def _costs(gathered: Gathered, first: int = 0) -> list[int]:
    """About how many bytes each piece needs, from number ``first`` on, without its group's."""
    sizes = map(sub, gathered.byte_ends[first:], gathered.byte_starts[first:])
    numbers = map(sub, gathered.message_ends[first:], gathered.message_starts[first:])
    costs = [size + MESSAGE_BYTES * number for size, number in zip(sizes, numbers, strict=True)]
    for columns in gathered.extras:
        if columns:
            starts, ends = gathered.message_starts[first:], gathered.message_ends[first:]
            costs = list(map(add, costs, map(columns.bytes_between, starts, ends)))
    return costs


def _cut_large(
    gathered: Gathered, pieces: list[int], part_bytes: int
) -> tuple[list[int], list[int]]:
    """Cut what is larger than a quarter of a part, so that parts are well filled."""
    costs = _costs(gathered)
    bound = max(part_bytes // 4, 1)
    if max(costs, default=0) <= bound:
        return pieces, costs
    found: list[int] = []
    before = len(costs)
    for piece in pieces:
        if costs[piece] > bound:
            found += _quarters(gathered, piece, bound)
        else:
            found.append(piece)
    return found, costs + _costs(gathered, before)


def _quarters(gathered: Gathered, piece: int, bound: int) -> Iterator[int]:
    start = gathered.message_starts[piece]
    sizes = [length + MESSAGE_BYTES for length in gathered.lengths(piece)]
    for columns in gathered.extras:
        if columns:
            firsts = range(start, start + len(sizes))
            extra = map(columns.bytes_between, firsts, [first + 1 for first in firsts])
            sizes = list(map(add, sizes, extra))
    ends = list(accumulate(sizes))
    first, before = 0, 0
    while first < len(ends):
        end = max(bisect_right(ends, before + bound, first), first + 1)
        yield gathered.cut(piece, first, end)
        first, before = end, ends[end - 1]


def _heads(gathered: Gathered, order: list[int]) -> list[int] | None:
    """Places where another topic begins, or offsets have a gap; None if they do not ascend."""
    ids = [gathered.ids[piece] for piece in order]
    firsts = [gathered.first_offsets[piece] for piece in order]
    starts, ends = gathered.message_starts, gathered.message_ends
    nexts = [
        first + ends[piece] - starts[piece] for first, piece in zip(firsts, order, strict=True)
    ]
    columns = zip(ids, ids[1:], nexts, firsts[1:], strict=False)
    heads = [
        place
        for place, (before, topic_id, following, first) in enumerate(columns, start=1)
        if following != first or before != topic_id
    ]
    for head in heads:
        if ids[head] == ids[head - 1] and firsts[head] < nexts[head - 1]:
            return None
    return [0, *heads]


def _stretches(
    gathered: Gathered, order: list[int], costs: list[int], part_bytes: int
) -> Iterator[tuple[int, int]]:
    """Places of the pieces of each part: of about equal size, and with times that fit."""
    sums = list(accumulate(costs))
    first, before = 0, 0
    # a part's times are u32, counted from its earliest
    is_long = bool(order) and _is_too_long(gathered, order)
    while first < len(order):
        end = max(bisect_right(sums, before + part_bytes, first), first + 1)
        if is_long:
            end = _end_of_span(gathered, order, first, end)
        yield first, end
        first, before = end, sums[end - 1]


def _is_too_long(gathered: Gathered, order: list[int]) -> bool:
    oldest, newest = gathered.span_ms(order)
    return newest - oldest > U32_MAX


def _end_of_span(gathered: Gathered, order: list[int], first: int, end: int) -> int:
    oldest, newest = gathered.span_ms(order[first : first + 1])
    for place in range(first + 1, end):
        low, high = gathered.span_ms(order[place : place + 1])
        oldest, newest = min(oldest, low), max(newest, high)
        if newest - oldest > U32_MAX:
            return place
    return end


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
        self._ids.extend(groups.topic_ids)
        self._first_offsets.extend(groups.first_offsets)
        self._counts.extend(groups.counts)
        self._sizes.extend(groups.payload_bytes)
        self._newest.extend(groups.newest_ms)
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
        yield from self._stored(self._directory(oldest), 0, RAW)
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

    def _directory(self, oldest: int) -> bytes:
        extents = self._extents
        return join_directory(
            [
                self._ids.tobytes(),
                self._first_offsets.tobytes(),
                u32(list(accumulate(self._counts))),
                self._sizes.tobytes(),
                u32([min(newest - oldest, U32_MAX) for newest in self._newest]),
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
            return u32([positions[number] for number in numbers]) + u32(numbers)
        # Sorting is slow, and positions are unique and dense: each run goes to its place.
        places = [0] * span
        for number, position in enumerate(positions, start=1):
            places[position] = number
        ascending = list(compress(count(), places))
        if len(ascending) != len(positions):
            raise _damaged("a sequence occurs twice in the entries of a block")
        return u32(ascending) + u32([number - 1 for number in filter(None, places)])
