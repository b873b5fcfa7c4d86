"""The record in ``meta`` of how far everything derived from the journal has come."""

import struct
from zlib import crc32

import msgspec

from penstock.errors import StorageDamaged
from penstock.store.environment import Environment, Transaction

MARKS_KEY = b"marks"

_MARKS = struct.Struct("<IIQQQQQQQQ")
_LAYOUTS = {
    layout.size: layout
    for layout in (
        struct.Struct("<IIQQQQQ"),  # without ``compacted``: written before there were clusters
        struct.Struct("<IIQQQQQQ"),  # without ``converted`` and ``indexed``: before blocks
        _MARKS,
    )
}


class Marks(msgspec.Struct, frozen=True, gc=False):
    """Progress of the derived parts. Each field only grows."""

    # as of the last complete round; later ids follow from the entries after it
    next_topic_id: int = 1
    flushed_index: int = 0
    # blocks and topic rows contain all entries up to ``flushed_index``; the sequence after it
    flushed_sequence: int = 1
    checkpoint: int = 0  # rows contain all entries up to this one; replay begins after it
    swept: int = 0  # entries up to this one were checked for having nothing to keep
    removed_messages: int = 0  # removed by retention, ever
    compacted: int = 0  # the log may have gaps up to this entry, and has none after it
    # Entries after ``converted`` up to ``indexed`` are in the index on disk of an earlier version,
    # and not in blocks yet.
    converted: int = 0
    indexed: int = 0


class StorePosition:
    """Where the journal ends, and how far what is derived has come; the writer changes it."""

    __slots__ = ("marks", "next_index", "next_sequence")

    def __init__(self, marks: Marks) -> None:
        self.marks = marks
        self.next_index = marks.flushed_index + 1
        self.next_sequence = marks.flushed_sequence


def pack_marks(marks: Marks) -> bytes:
    topic_id, *numbers = msgspec.structs.astuple(marks)
    content = _MARKS.pack(0, topic_id, *numbers)
    return struct.pack("<I", crc32(content)) + content[4:]


def unpack_marks(record: bytes | memoryview) -> Marks:
    """The inverse of ``pack_marks``; raises StorageDamaged."""
    layout = _LAYOUTS.get(len(record))
    if layout is not None:
        checksum, *numbers = layout.unpack(record)
        if crc32(record[4:], crc32(bytes(4))) == checksum:
            return _completed(Marks(*numbers), len(numbers))
    raise StorageDamaged(
        "the record of marks in the database is damaged or missing",
        "Restore the data directory from a backup.",
    )


_BEFORE_CLUSTERS = 6  # numbers in the marks of the versions without clusters
_BEFORE_BLOCKS = 7


def _completed(marks: Marks, numbers: int) -> Marks:
    """What an earlier version did not write follows from how it worked."""
    if numbers <= _BEFORE_CLUSTERS:  # retention could leave gaps up to the checkpoint
        gaps = min(marks.checkpoint, marks.flushed_index)
        marks = msgspec.structs.replace(marks, compacted=gaps)
    if numbers <= _BEFORE_BLOCKS:
        marks = msgspec.structs.replace(marks, indexed=marks.flushed_index)
    return marks


def get_marks(environment: Environment, transaction: Transaction) -> Marks:
    """Raises StorageDamaged."""
    return unpack_marks(transaction.get(MARKS_KEY, db=environment["meta"]) or b"")


def put_marks(environment: Environment, transaction: Transaction, marks: Marks) -> None:
    transaction.put(MARKS_KEY, pack_marks(marks), db=environment["meta"])
