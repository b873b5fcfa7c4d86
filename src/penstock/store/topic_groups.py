"""A topic's groups, wherever they are: in blocks, in the index of an earlier version, in the tail.

A group is a sequence of messages of one topic in one place: an entry of the tail, or a part of a
block, which has the same form. Groups ascend by offset over all places. What is folded while a
reader looks may be found in two places; the offset after the last group tells.
"""

from collections.abc import Callable, Iterator
from typing import TypeAlias

from penstock.store.blocks.block import Block, BlockGroup
from penstock.store.blocks.registry import ALL_ENTRIES, BlockList, BlockPlace
from penstock.store.entry import Entry
from penstock.store.index import Reference, references_from
from penstock.store.journal import JournalCursor
from penstock.store.slices import GroupRange, part_bytes

Opened: TypeAlias = tuple[Entry, int]  # an entry, or part of a block, and the number of the group


class StoredGroup:
    """One group: what is known without opening it, and how to open it."""

    __slots__ = (
        "_open",
        "base_sequence",
        "block",
        "bytes",
        "first_offset",
        "last_sequence",
        "next_offset",
        "time_ms",
    )

    def __init__(
        self,
        group: Reference | BlockGroup,
        open_group: Callable[[], Opened | None],
        block: Block | None = None,
    ) -> None:
        self.first_offset = group.first_offset
        self.next_offset = group.next_offset
        self.bytes = group.bytes
        self.block = block
        # its sequences are among these, of which a block has more
        if isinstance(group, BlockGroup):
            assert block is not None
            self.time_ms = group.newest_ms
            self.base_sequence = block.summary.base_sequence
            self.last_sequence = block.summary.end_sequence - 1
        else:
            self.time_ms = group.time_ms
            self.base_sequence, self.last_sequence = group.base_sequence, group.last_sequence
        self._open = open_group

    def opened(self) -> Opened | None:
        """Where its messages are; None if it was removed since."""
        return self._open()

    def part(self, first: int, end: int) -> GroupRange | None:
        """The part of this group within an offset range, which must not be empty."""
        opened = self._open()
        if opened is None:
            return None
        return GroupRange(*opened, max(first, self.first_offset), min(end, self.next_offset))

    def bytes_within(self, first: int, end: int) -> int:
        """Payload bytes within an offset range. Writer thread: a group may not go meanwhile."""
        if first <= self.first_offset and self.next_offset <= end:
            return self.bytes
        part = self.part(first, end)
        if part is None:  # damaged, as only the writer removes: about so many
            return self.bytes * (end - first) // (self.next_offset - self.first_offset)
        return part_bytes(part)


class TopicGroups:
    """The groups of one topic in one snapshot; ``rows`` are its references in the tail."""

    def __init__(
        self,
        topic_id: int,
        journal: JournalCursor,
        rows: list[bytes],
        blocks: Callable[[], BlockList],
        indexed: Callable[[int, int], Iterator[Reference]],
        zone_end: int,
    ) -> None:
        self._topic_id = topic_id
        self._journal = journal
        self._rows = rows
        self._blocks = blocks
        self._list = blocks()
        self._indexed = indexed
        self._zone_end = zone_end  # entry after the zone of references on disk; 0: there is none

    def within(self, first: int, end: int) -> Iterator[StoredGroup]:
        for found in self.following(first):
            if found.first_offset >= end:
                return
            yield found

    def following(self, offset: int) -> Iterator[StoredGroup]:
        """Groups that end after ``offset``, ascending."""
        for found in self._places(offset):
            if found.next_offset > offset:
                yield found
                offset = found.next_offset

    def _places(self, offset: int) -> Iterator[StoredGroup]:
        topic_id, zone_end = self._topic_id, self._zone_end
        if zone_end:
            before = range(zone_end)
            yield from map(self._in_block, self._list.places(topic_id, offset, before))
            yield from map(self._in_entry, self._indexed(topic_id, offset))
        after = ALL_ENTRIES[zone_end:]
        yield from map(self._in_block, self._list.places(topic_id, offset, after))
        for row in self._rows:
            yield from map(self._in_entry, references_from(row, offset))

    def _in_block(self, place: BlockPlace) -> StoredGroup:
        return StoredGroup(place.group, lambda: self._list.opened(place), place.block)

    def _in_entry(self, found: Reference) -> StoredGroup:
        return StoredGroup(found, lambda: self._open_entry(found))

    def _open_entry(self, found: Reference) -> Opened | None:
        entry = self._journal.at(found.base_sequence, found.entry_index)
        if entry is not None:
            return entry, found.group
        blocks = self._blocks()
        for place in blocks.places(self._topic_id, found.first_offset):
            if place.group.first_offset <= found.first_offset:  # folded meanwhile
                return blocks.opened(place)
        return None
