"""A scan's way through blocks and tail: part by part, all wanted topics of a part at once.

A topic's messages lie in many blocks. Reading topic by topic would decode each part once for every
topic in it; so a scan walks the blocks from the oldest to the newest and each from its first topic
to its last, and every part is decoded once. Groups of neighbouring topics leave together, as they
are in the part. Then it walks the entries that are in no block yet in the same way.

The walk takes a group only if it continues what the scan has of its topic. A topic with a gap there
(messages of it were deleted, or are in an index of an earlier version, or a block is damaged) is
left where it is: the scan reads it afterwards, by itself.

Blocks are rewritten while we walk. The place is kept as a sequence, so the walk goes on in the
block that has that sequence now, and passes over what it has had.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, Protocol, TypeAlias

from penstock.errors import StorageDamaged
from penstock.store import entry as sections
from penstock.store.blocks.block import Block
from penstock.store.deletions import Ranges
from penstock.store.entry import Entry
from penstock.store.raw_scan import ScanGathering
from penstock.store.scan import Extent, Scan, ScanTopic
from penstock.store.slices import GroupRange

View: TypeAlias = Callable[[bytes], tuple[Extent, Ranges] | None]
Intact: TypeAlias = Callable[[int, bytes, int], bool]
SPARSE: Final = 8  # groups per wanted topic beyond which topics are looked up one by one


class Topics(NamedTuple):
    """How a walk looks at topics; ``is_intact``: nothing from an offset on is gone. Any thread."""

    view: View
    is_intact: Intact


class _Group(NamedTuple):
    """A wanted group of a block."""

    number: int
    topic: ScanTopic
    first: int
    end: int
    bytes: int


class _Piece(Protocol):
    """What has groups: a block, or an entry."""

    def opened(self, number: int) -> tuple[Entry, int]:
        """The entry or part that holds a group, and the number of the group in it."""

    def part_end(self, number: int) -> int:
        """The group after the last one that is in the same entry or part."""


class _TailPiece:
    """An entry that is in no block."""

    def __init__(self, entry: Entry) -> None:
        self._entry = entry

    def opened(self, number: int) -> tuple[Entry, int]:
        return self._entry, number

    def part_end(self, _number: int) -> int:
        return int(self._entry.group_count)


class Walk:
    """The state of one scan's walk."""

    def __init__(self, scan: Scan, view: View) -> None:
        for topic in scan.topics:
            if not (topic.incarnation and topic.end):
                seen = view(topic.name)
                topic.begin(seen[0] if seen else None)
        topics = [topic for topic in scan.topics if not topic.is_done]
        self._topics = {topic.incarnation: topic for topic in topics}
        self._ids = sorted(self._topics)
        self.is_over = not topics or len(self._topics) < len(topics)  # or a topic is there twice
        self._sequence = -1  # where the walk is; -1: it has not begun
        self._block: Block | None = None
        self._groups: list[_Group] = []  # of that block
        self._place = 0  # groups before it are read
        self.is_through_blocks = self.is_over
        self.entry_index = 0  # entries of the tail up to this one are read

    def read_blocks(
        self, blocks: Sequence[Block], topics: Topics, gathering: ScanGathering
    ) -> bool:
        """Read on in the blocks; False if the answer is full before their end."""
        if self.is_through_blocks:
            return True
        if self._sequence < 0:
            self._sequence = self._begin(blocks)
        for block in blocks:
            if block.summary.end_sequence <= self._sequence:
                continue
            if not self._read_block(block, topics, gathering):
                return False
            self._sequence = block.summary.end_sequence
        self.is_through_blocks = True
        self._block, self._groups, self._place = None, [], 0
        return True

    def skip_tail(self) -> None:
        """Leave the tail to whoever reads topic by topic: its entries have few topics each."""
        self.is_over = True

    def read_tail(self, entries: Iterable[Entry], topics: Topics, gathering: ScanGathering) -> bool:
        """Read on in the entries after ``entry_index``; False if the answer is full before."""
        for entry in entries:
            self._groups = self._wanted_in(entry)
            if not self._read_groups(_TailPiece(entry), topics, gathering):
                return False
            self.entry_index, self._place = entry.index, 0
        self.is_over = True
        return True

    def _wanted_in(self, entry: Entry) -> list[_Group]:
        topics, ids = self._topics, entry.column(sections.TOPIC_IDS).tolist()
        places = [number for number, topic_id in enumerate(ids) if topic_id in topics]
        ends, bounds = entry.column(sections.GROUP_MESSAGES), entry.bounds
        firsts, groups = entry.column(sections.FIRST_OFFSETS), []
        for number in places:
            start, end = (ends[number - 1] if number else 0), ends[number]
            first, size = firsts[number], bounds[end] - bounds[start]
            groups.append(_Group(number, topics[ids[number]], first, first + end - start, size))
        return groups

    def _begin(self, blocks: Sequence[Block]) -> int:
        """The sequence with which the first block begins that has something wanted."""
        first = len(blocks)
        for topic in self._topics.values():
            for place in range(len(blocks) - 1, -1, -1):
                has, is_beyond = _has(blocks[place], topic)
                if has:
                    first = min(first, place)
                if is_beyond or not first:
                    break
            if not first:
                break
        return blocks[first].summary.base_sequence if first < len(blocks) else 1 << 63

    def _read_block(self, block: Block, topics: Topics, gathering: ScanGathering) -> bool:
        """Read on in a block; False if the answer is full."""
        try:
            if self._block is None or self._block.summary != block.summary:
                self._groups, self._place = self._wanted(block), 0
                self._block = block
            return self._read_groups(block, topics, gathering)
        except StorageDamaged:
            return True  # its topics have a gap then, and whoever reads them reports it

    def _read_groups(self, piece: _Piece, topics: Topics, gathering: ScanGathering) -> bool:
        while self._place < len(self._groups):
            end = self._stretch(piece, topics.is_intact, gathering)
            if end > self._place:
                self._take_stretch(piece, end, gathering)
            elif _read_group(piece, self._groups[self._place], topics.view, gathering):
                self._place += 1
            else:
                return False
        return True

    def _stretch(self, piece: _Piece, is_intact: Intact, gathering: ScanGathering) -> int:
        """The end of the groups from here on that follow each other in a part, whole, and fit."""
        groups, place = self._groups, self._place
        if gathering.is_full:
            return place
        number = groups[place].number
        part_end = piece.part_end(number)
        count, size = gathering.count_left, gathering.bytes_left
        weighs = gathering.weighs_payloads
        while place < len(groups):
            group, topic, first, end, group_bytes = groups[place]
            count -= end - first
            size -= group_bytes * weighs
            if (
                topic.next != first
                or end > topic.end
                or group != number
                or number >= part_end
                or count < 0
                or size < 0
                or topic.is_done
                or not is_intact(topic.incarnation, topic.name, first)
            ):
                break
            place += 1
            number += 1
        return place

    def _take_stretch(self, piece: _Piece, end: int, gathering: ScanGathering) -> None:
        groups = self._groups[self._place : end]
        entry, first = piece.opened(groups[0].number)
        gathering.take_groups(entry, first, [group.topic.number for group in groups])
        for _, topic, _, next_offset, _ in groups:
            topic.next = next_offset
            topic.is_done = next_offset >= topic.end
        self._place = end

    def _wanted(self, block: Block) -> list[_Group]:
        ids, topics = block.topic_ids, self._topics
        first, last = bisect_left(ids, self._ids[0]), bisect_left(ids, self._ids[-1] + 1)
        if last - first <= SPARSE * len(self._ids):
            found = block.extents(first, last)
            return [
                _Group(number, topics[topic_id], offset, offset + count, size)
                for number, topic_id, offset, count, size in found
                if topic_id in topics
            ]
        groups = []
        for topic_id in self._ids:
            first = bisect_left(ids, topic_id, first)
            while first < last and ids[first] == topic_id:
                [(_, _, offset, count, size)] = block.extents(first, first + 1)
                groups.append(_Group(first, topics[topic_id], offset, offset + count, size))
                first += 1
        return groups


def walk_of(scan: Scan, view: View) -> Walk:
    """The walk of a scan, which begins with the first step."""
    if not isinstance(scan.walk, Walk):
        scan.walk = Walk(scan, view)
    assert isinstance(scan.walk, Walk)
    return scan.walk


def _has(block: Block, topic: ScanTopic) -> tuple[bool, bool]:
    """Whether a block has something wanted of a topic; and whether no older one can have more."""
    try:
        ids = block.topic_ids
    except StorageDamaged:
        return False, False
    number = bisect_left(ids, topic.incarnation)
    if number == len(ids) or ids[number] != topic.incarnation:
        return False, False
    is_beyond = block.group(number).first_offset <= topic.next
    return block.find(topic.incarnation, topic.next) >= 0, is_beyond


def _read_group(piece: _Piece, group: _Group, view: View, gathering: ScanGathering) -> bool:
    """Read what is wanted of a group, if it continues its topic; False if it did not fit."""
    number, topic, first, end, _ = group
    if topic.is_done or end <= topic.next:
        return True
    seen = view(topic.name)
    if not topic.begin(seen[0] if seen else None):
        return True
    assert seen is not None
    info, deleted = seen
    if info.first_offset > topic.next:
        gathering.note_removed(topic, topic.next, info.first_offset)
        topic.reached(info.first_offset, info)
    start, last = topic.span(info, deleted)
    if topic.is_done or not first <= start < end:
        return True  # all of it is gone, or there is a gap
    if deleted.count and next(deleted.within(start, end), None):
        return True
    entry, in_part = piece.opened(number)
    span = GroupRange(entry, in_part, start, min(end, last))
    reached, is_whole = gathering.take(span, topic.number)
    if reached:
        topic.reached(reached, info)
    return is_whole
