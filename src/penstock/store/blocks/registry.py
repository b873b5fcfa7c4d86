"""The blocks of a store: which there are, and where a message is among them.

Each block is an immutable file (files.py), registered by a row in the database ``blocks``
under the sequence with which it begins. The list of blocks is replaced as a whole, so a reader
keeps the one it began with; a removed file stays readable for those who have it open.

Blocks ascend by sequence and do not overlap, so a message is found by bisection. A topic may be in
any of them: each has a directory sorted by topic id, and asking it takes about a microsecond. Which
blocks have a topic is remembered until the list changes.
"""

import struct
from bisect import bisect_right
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from operator import attrgetter
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from penstock.errors import StorageBroken, StorageDamaged, StorageError
from penstock.model.message import Message
from penstock.obs.log import get_logger
from penstock.store.blocks.block import Block, BlockGroup, BlockSummary
from penstock.store.blocks.files import BlockFiles
from penstock.store.blocks.fold import Fold
from penstock.store.blocks.format import ZSTD
from penstock.store.entry import Entry
from penstock.store.environment import Environment, Transaction
from penstock.store.slices import GroupRange, part_bytes

TOPICS_REMEMBERED_MAX = 65_536  # topics of which is remembered in which blocks they are
PLACES_REMEMBERED_MAX = 1 << 22  # the same, times the blocks that each may be in: 32 MB

ALL_ENTRIES = range(1 << 62)
NO_CUTS: Mapping[int, int] = MappingProxyType({})

_KEY = struct.Struct(">Q")

_log = get_logger("store")


class BlockRow(msgspec.Struct, frozen=True, array_like=True):
    """A block as the database knows it; ``dead`` messages in it were removed since."""

    summary: BlockSummary
    dead_messages: int = 0
    dead_bytes: int = 0

    def without(self, messages: int, size: int) -> "BlockRow":
        """The row after more messages were removed."""
        return BlockRow(self.summary, self.dead_messages + messages, self.dead_bytes + size)

    @property
    def is_dead(self) -> bool:
        return self.dead_messages >= self.summary.count


class OpenBlock(NamedTuple):
    """A block with its row."""

    row: BlockRow
    block: Block

    @property
    def base_sequence(self) -> int:
        return self.row.summary.base_sequence


class BlockPlace(NamedTuple):
    """One topic's group in a block."""

    block: Block
    group: BlockGroup


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(BlockRow).decode


class Damage:
    """What was found damaged. It is reported once, and costs the messages there alone."""

    def __init__(self) -> None:
        self.found: dict[str, None] = {}

    def report(self, error: StorageDamaged) -> None:
        if error.message not in self.found:
            self.found[error.message] = None
            _log.error("block_damaged", error=error.message, advice=error.advice)


class BlockList:
    """The blocks at one moment, oldest first. Any thread."""

    def __init__(self, damage: Damage, blocks: tuple[OpenBlock, ...] = ()) -> None:
        self.damage = damage
        self.blocks = blocks
        self._bases = [block.base_sequence for block in blocks]
        self._found: dict[int, tuple[Block, ...]] = {}
        places_max = PLACES_REMEMBERED_MAX // max(len(blocks), 1)
        self._topics_max = min(TOPICS_REMEMBERED_MAX, max(places_max, 1))

    @property
    def file_bytes(self) -> int:
        return sum(block.row.summary.file_bytes for block in self.blocks)

    @property
    def messages(self) -> int:
        return sum(block.row.summary.count - block.row.dead_messages for block in self.blocks)

    def located(self, sequence: int) -> tuple[int, Message] | None:
        """Topic id and message of a sequence; None if no block has it."""
        place = bisect_right(self._bases, sequence) - 1
        if place < 0:
            return None
        block = self.blocks[place].block
        if sequence >= block.summary.end_sequence:
            return None
        try:
            return block.located(sequence)
        except StorageDamaged as error:
            self.damage.report(error)
            return None

    def reaching(self, sequence: int) -> Block | None:
        """The first block that ends after a sequence."""
        place = max(bisect_right(self._bases, sequence) - 1, 0)
        for each in self.blocks[place : place + 2]:
            if each.block.summary.end_sequence > sequence:
                return each.block
        return None

    def places(
        self, topic_id: int, offset: int, entries: range = ALL_ENTRIES
    ) -> Iterator[BlockPlace]:
        """A topic's groups that end after ``offset``, of blocks that begin with these entries."""
        for block in self.with_topic(topic_id):
            if block.summary.first_index not in entries:
                continue
            number = block.find(topic_id, offset)
            while 0 <= number < block.summary.group_count:
                group = block.group(number)
                if group.topic_id != topic_id:
                    break
                yield BlockPlace(block, group)
                number += 1

    def with_topic(self, topic_id: int) -> tuple[Block, ...]:
        found = self._found.get(topic_id)
        if found is None:
            if len(self._found) >= self._topics_max:
                self._found.clear()
            blocks = (each.block for each in self.blocks)
            found = tuple([block for block in blocks if self._has(block, topic_id)])
            self._found[topic_id] = found
        return found

    def _has(self, block: Block, topic_id: int) -> bool:
        try:
            return block.find(topic_id) >= 0
        except StorageDamaged as error:
            self.damage.report(error)
            return False

    def opened(self, place: BlockPlace) -> tuple[Entry, int] | None:
        """The part that holds a group; None if it is damaged."""
        try:
            return place.block.opened(place.group.number)
        except StorageDamaged as error:
            self.damage.report(error)
            return None


class Blocks:
    """The list of blocks; any thread may read ``current``, the writer thread replaces it."""

    def __init__(self, files: BlockFiles, codec: int = ZSTD) -> None:
        self.files = files
        self._codec = codec
        self.damage = Damage()
        # where blocks begin that could not be opened: their rows keep these sequences
        self.unopened: list[int] = []
        self.current = BlockList(self.damage)
        self._last_number = 0  # numbers are not reused: readers may still have a removed block

    def load(self, environment: Environment, transaction: Transaction) -> None:
        """Open all registered blocks, and remove files that are not; raises a StorageError."""
        rows = list(block_rows(environment, transaction))
        self.files.clean({row.summary.number for row in rows})
        self._last_number = max((row.summary.number for row in rows), default=0)
        self._replace(list(self._opened(rows)))

    def _opened(self, rows: Iterable[BlockRow]) -> Iterator[OpenBlock]:
        """Blocks that can be opened; the others keep their rows, and are as if empty."""
        for row in rows:
            try:
                yield OpenBlock(row, self.files.open(row.summary))
            except StorageDamaged as error:
                self.unopened.append(row.summary.base_sequence)
                self.damage.report(error)

    def fold(
        self,
        sequences: tuple[int, int],
        entries: tuple[int, int],
        cuts: Mapping[int, int] = NO_CUTS,
        dropped: Iterable[int] = (),
    ) -> Fold:
        """A new block: its first sequence and the one after its last; first and last entry."""
        self._last_number += 1
        return Fold(
            number=self._last_number,
            base_sequence=sequences[0],
            end_sequence=sequences[1],
            first_index=entries[0],
            last_index=entries[1],
            cuts=dict(cuts),
            dropped=frozenset(dropped),
            codec=self._codec,
        )

    @contextmanager
    def unless_registered(self, number: int) -> Iterator[None]:
        """Remove the file of a new block if it cannot be registered: the next fold makes another.

        Not after a failed flush: then nobody knows whether it is registered, and the process ends.
        """
        try:
            yield
        except StorageBroken:
            raise
        except StorageError:
            self._unlink(number)
            raise

    def put(self, environment: Environment, transaction: Transaction, row: BlockRow) -> None:
        key = _KEY.pack(row.summary.base_sequence)
        transaction.put(key, _encode(row), db=environment["blocks"])

    def delete(self, environment: Environment, transaction: Transaction, row: BlockRow) -> None:
        transaction.delete(_KEY.pack(row.summary.base_sequence), db=environment["blocks"])

    def replace(self, fresh: Iterable[OpenBlock], gone: Container[int] = ()) -> None:
        """Follow a transaction that put and deleted rows; ``gone`` are numbers of removed blocks.

        A block that is there already gets its row anew; files of removed ones are unlinked.
        """
        blocks = {each.row.summary.number: each for each in self.current.blocks}
        blocks |= {each.row.summary.number: each for each in fresh}
        kept = [each for number, each in blocks.items() if number not in gone]
        self._replace(sorted(kept, key=attrgetter("base_sequence")))
        for number in blocks:
            if number in gone:
                self._unlink(number)

    def _unlink(self, number: int) -> None:
        """Remove a file that no row lists. If that fails, nothing is wrong but the space it takes.

        The next start tries again.
        """
        try:
            self.files.remove(number)
        except StorageError as error:
            _log.warning("block_not_removed", block=number, error=error.message)

    def _replace(self, blocks: list[OpenBlock]) -> None:
        numbers = [block.row.summary.number for block in blocks]
        self._last_number = max(self._last_number, *numbers, 0)
        self.current = BlockList(self.damage, tuple(blocks))


def dead_in(block: Block, topic_id: int, end: int, first: int = 0) -> tuple[int, int]:
    """Messages and payload bytes of a topic in a block, from an offset on, below another."""
    messages = size = 0
    number = block.find(topic_id, first)
    while 0 <= number < block.summary.group_count:
        group = block.group(number)
        start, stop = max(first, group.first_offset), min(end, group.next_offset)
        if group.topic_id != topic_id or start >= stop:
            break
        if stop - start == group.message_count:
            size += group.bytes
        else:
            size += part_bytes(GroupRange(*block.opened(number), start, stop))
        messages += stop - start
        number += 1
    return messages, size


def block_rows(environment: Environment, transaction: Transaction) -> Iterator[BlockRow]:
    if "blocks" not in environment:
        return
    cursor = transaction.cursor(environment["blocks"])
    for value in cursor.iternext(keys=False, values=True):
        yield _decode(value)


def listed_blocks(path: Path) -> list[BlockSummary]:
    """The blocks of a store that nobody writes to, such as a copy."""
    environment = Environment(path, map_bytes=0, readonly=True)
    try:
        with environment.reading() as transaction:
            return [row.summary for row in block_rows(environment, transaction)]
    finally:
        environment.close()
