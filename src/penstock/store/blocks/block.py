"""An open block: finding messages by topic and offset, or by sequence.

The buffer is a memory map as a rule. Opening looks at the footer only, so a store with thousands of
blocks starts at once; the directory is verified when it is first used, a part whenever it is
decoded. A part is an entry (see ``entry``), and what reads entries reads parts. Layout:
``block_format``; writing: ``folding``.

Damage raises StorageDamaged, which names block and part; other parts are still read.
"""

import threading
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from operator import sub
from typing import Final, NamedTuple

from penstock.errors import StorageDamaged, StorageError
from penstock.model.message import Message
from penstock.store import entry as sections
from penstock.store.blocks.format import (
    HEADER_BYTES,
    U32_MAX,
    BlockSummary,
    Directory,
    check_extent,
    damaged,
    from_planes,
    read_extent,
    read_footer,
    split_directory,
)
from penstock.store.blocks.part_cache import PartCache
from penstock.store.blocks.part_check import ascends, fault_in
from penstock.store.entry import Entry, decode

__all__ = ["Block", "BlockGroup", "BlockSummary", "PartCache"]

_ORDER: Final = -1  # place of the order in the cache, beside the parts


class BlockGroup(NamedTuple):
    """Messages of one topic with successive offsets, all in one part."""

    number: int
    topic_id: int
    first_offset: int
    message_count: int
    bytes: int
    newest_ms: int

    @property
    def next_offset(self) -> int:
        return self.first_offset + self.message_count


class Block:
    """An open block, for any thread. Raises StorageDamaged if it has no sound footer."""

    def __init__(self, buffer: bytes | memoryview, cache: PartCache | None = None) -> None:
        self._buffer = memoryview(buffer).toreadonly()
        self._footer = read_footer(self._buffer)
        self.summary = self._footer.summary
        self._cache = PartCache() if cache is None else cache
        self._lock = threading.Lock()
        self._found: Directory | None = None

    @property
    def part_count(self) -> int:
        return self._footer.part_count

    @property
    def topic_ids(self) -> memoryview:
        """Topic id of each group, ascending."""
        return self._directory.topic_ids

    @property
    def _directory(self) -> Directory:
        found = self._found
        if found is None:
            with self._lock:
                found = self._found = self._found or self._read_directory()
        return found

    def group(self, number: int) -> BlockGroup:
        found, summary = self._directory, self.summary
        ends, newest = found.message_ends, found.newest[number]
        return BlockGroup(
            number,
            found.topic_ids[number],
            found.first_offsets[number],
            ends[number] - (ends[number - 1] if number else 0),
            found.payload_bytes[number],
            summary.newest_ms if newest == U32_MAX else summary.oldest_ms + newest,
        )

    def groups(self, first: int = 0) -> Iterator[BlockGroup]:
        """Groups from one on, as the directory has them: no part is decoded."""
        return map(self.group, range(first, self.summary.group_count))

    def extents(self, first: int, end: int) -> Iterator[tuple[int, int, int, int, int]]:
        """Number, topic id, first offset, messages, payload bytes of ``first … end - 1``."""
        found = self._directory
        ends = found.message_ends[first:end].tolist()
        before = found.message_ends[first - 1] if first else 0
        return zip(
            range(first, end),
            found.topic_ids[first:end].tolist(),
            found.first_offsets[first:end].tolist(),
            map(sub, ends, chain((before,), ends)),
            found.payload_bytes[first:end].tolist(),
            strict=False,
        )

    def find(self, topic_id: int, offset: int = 0) -> int:
        """Number of the topic's first group that ends after an offset; -1: there is none."""
        found = self._directory
        ids = found.topic_ids
        number = bisect_left(ids, topic_id)
        if number == len(ids) or ids[number] != topic_id:
            return -1
        end = number + 1
        if end < len(ids) and ids[end] == topic_id:  # several groups
            end = bisect_right(ids, topic_id, end)
            number = max(bisect_right(found.first_offsets, offset, number, end) - 1, number)
        ends = found.message_ends
        count = ends[number] - (ends[number - 1] if number else 0)
        if found.first_offsets[number] + count <= offset:
            number += 1
        return number if number < end else -1

    def opened(self, number: int) -> tuple[Entry, int]:
        """The part that holds a group, decoded, and the number of the group in it."""
        firsts = self._directory.first_groups
        part = bisect_right(firsts, number) - 1
        return self._part(part), number - firsts[part]

    def part_end(self, number: int) -> int:
        """The group after the last one of the part that holds a group."""
        firsts = self._directory.first_groups
        part = bisect_right(firsts, number)
        return int(firsts[part]) if part < len(firsts) else self.summary.group_count

    def located(self, sequence: int) -> tuple[int, Message] | None:
        """Topic id and message of a sequence; None if it is not in this block."""
        position = sequence - self.summary.base_sequence
        positions, runs = self._order()
        place = bisect_right(positions, position) - 1
        if place < 0:
            return None
        run, firsts = runs[place], self._directory.first_runs
        part = bisect_right(firsts, run) - 1
        entry = self._part(part)
        run -= firsts[part]
        if run >= len(entry.run_positions) or entry.run_positions[run] != positions[place]:
            raise damaged(self.summary.number, f"the order does not fit part {part}")
        beyond = position - positions[place] - entry.run_bounds[run + 1] + entry.run_bounds[run]
        return entry.in_run(run, position) if beyond < 0 else None

    def entries(self) -> Iterator[Entry]:
        """All parts, one after the other, past the cache."""
        return map(self._decoded, range(self.part_count))

    def sound_entries(self) -> Iterator[Entry]:
        """The same without parts that are damaged."""
        for part in range(self.part_count):
            with suppress(StorageDamaged):
                yield self._decoded(part)

    def verify(self) -> Iterator[StorageDamaged]:
        """Decode everything; what is wrong, part by part."""
        try:
            yield from self._faults_of_directory()
            positions, runs = self._read_order()
        except StorageDamaged as error:
            yield error
            return
        found: list[int] = []
        is_whole = True
        for part in range(self.part_count):
            try:
                found += self._decoded(part).run_positions
            except StorageDamaged as error:
                is_whole = False
                yield error
        if is_whole and (
            sorted(runs) != list(range(len(found)))
            or [found[run] for run in runs] != positions.tolist()
            or sorted(set(found)) != positions.tolist()
        ):
            yield damaged(self.summary.number, "the order does not fit the parts")

    def checksum_faults(self) -> Iterator[StorageDamaged]:
        """Verify the checksums alone, without decoding: much faster than ``verify``."""
        number = self.summary.number
        try:
            directory = self._directory
        except StorageDamaged as error:
            yield error
            return
        extents = [(f"part {part}", directory.extent(part)) for part in range(self.part_count)]
        for what, extent in (*extents, ("the order", self._footer.order)):
            try:
                check_extent(self._buffer, extent, number, what)
            except StorageDamaged as error:
                yield error

    def _faults_of_directory(self) -> Iterator[StorageDamaged]:
        number, before = self.summary.number, (-1, 0)
        for group in self.groups():
            if (group.topic_id, group.first_offset) < before:
                yield damaged(number, f"the groups do not ascend at number {group.number}")
            before = group.topic_id, group.next_offset

    def _read_directory(self) -> Directory:
        summary, parts = self.summary, self.part_count
        content = read_extent(self._buffer, self._footer.directory, summary.number, "the directory")
        found = split_directory(content, summary.group_count, parts)
        at = HEADER_BYTES
        for part in range(parts):
            extent = found.extent(part)
            if extent.start != at:
                raise damaged(summary.number, f"part {part} does not follow the one before it")
            at = extent.end
        if (
            at != self._footer.directory.start
            or not _counts_up(found.first_groups.tolist(), summary.group_count)
            or not _counts_up(found.first_runs.tolist(), self._footer.run_count)
            or (found.message_ends[-1] if parts else 0) != summary.count
            or not ascends(found.message_ends.tolist())
        ):
            raise damaged(summary.number, "the directory does not fit the footer")
        return found

    def _order(self) -> tuple[memoryview, memoryview]:
        summary = self.summary
        key = summary.number, summary.checksum, _ORDER
        cached = self._cache.get(key)
        if cached is None:
            cached = self._read_order()
            self._cache.put(key, cached, self._footer.order.raw_bytes)
        assert isinstance(cached, tuple)
        return cached

    def _read_order(self) -> tuple[memoryview, memoryview]:
        content = read_extent(self._buffer, self._footer.order, self.summary.number, "the order")
        half = 4 * self._footer.run_count
        return from_planes(content[:half]), from_planes(content[half:])

    def _part(self, part: int) -> Entry:
        summary = self.summary
        key = summary.number, summary.checksum, part
        cached = self._cache.get(key)
        if cached is None:
            cached = self._decoded(part)
            self._cache.put(key, cached, len(cached.buffer))
        assert isinstance(cached, Entry)
        return cached

    def _decoded(self, part: int) -> Entry:
        summary, directory = self.summary, self._directory
        what = f"part {part}"
        raw = read_extent(self._buffer, directory.extent(part), summary.number, what)
        try:
            entry = decode(raw, verify=False)  # the stored bytes were verified
        except StorageError as error:
            raise damaged(summary.number, f"{what}: {error.message}") from error
        fault = fault_in(entry, summary.end_sequence - summary.base_sequence)
        if not fault and not self._is_listed(entry, part):
            fault = "it does not fit the directory"
        if fault:
            raise damaged(summary.number, f"{what}: {fault}")
        return entry

    def _is_listed(self, entry: Entry, part: int) -> bool:
        """Whether a part holds what the directory says."""
        found, summary = self._directory, self.summary
        first, run = found.first_groups[part], found.first_runs[part]
        is_last = part + 1 == self.part_count
        end = summary.group_count if is_last else found.first_groups[part + 1]
        run_end = self._footer.run_count if is_last else found.first_runs[part + 1]
        before = found.message_ends[first - 1] if first else 0
        ends = [count - before for count in found.message_ends[first:end]]
        return (
            entry.index == summary.last_index
            and entry.base_sequence == summary.base_sequence
            and len(entry.run_positions) == run_end - run
            and entry.column(sections.TOPIC_IDS) == found.topic_ids[first:end]
            and entry.column(sections.FIRST_OFFSETS) == found.first_offsets[first:end]
            and entry.column(sections.GROUP_MESSAGES).tolist() == ends
        )


def _counts_up(firsts: list[int], number: int) -> bool:
    """Whether these are the first of some successive things, none of which is empty."""
    if not firsts:
        return not number
    ends = (*firsts[1:], number)
    return firsts[0] == 0 and all(a < b for a, b in zip(firsts, ends, strict=True))
