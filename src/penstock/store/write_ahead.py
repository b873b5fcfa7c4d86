"""Makes a commit durable with one flush: by writing down ahead what the transaction has.

LMDB writes the pages of a transaction, flushes them, then writes and flushes the meta page that
makes them count. The second flush doubles the time that a client waits. So the environment is
opened without it: then a crash of the system may undo the last transaction, and that one only,
since each flush takes along the meta page of the transaction before.

What could be undone is written down ahead. The database ``ahead`` has one value whose pages LMDB
never moves: two **slots**. Each has the records of one transaction, one after another, written
straight into the file. Whoever flushes them has committed these entries, whether LMDB has them yet
(``LmdbStore.commit``) or not (unsettled.py). A start commits again what the journal lacks.

The slots take turns by the number of the transaction: while a record is being written over, the
transaction of the other may not count yet. Each record begins on a page of its own, since a disk
may damage what it writes over, and its checksum covers those before it. So a record that is damaged
ends its slot: it was not flushed, and nobody was told that it is stored. A commit that fails erases
its record before anybody is told of that.

What does not fit into a slot, and every other transaction, is flushed twice as ever.
"""

import os
import struct
from collections.abc import Iterator
from typing import NamedTuple
from zlib import crc32

import msgspec

from penstock.errors import StorageBroken, StorageError
from penstock.limits import KIB
from penstock.store.environment import Environment

SLOT_BYTES = 128 * KIB
SLOTS = 2
VALUE_KEY = b"slots"
PLACE_KEY = b"page"  # where the value begins in the file; only a hint
NAME_BYTES = 16
PAGE_HEADER_BYTES = 16  # of LMDB, before the first byte of a large value
SEARCHED_AT_ONCE = 4_096  # pages

_HEADER = struct.Struct("<QII")  # number of the transaction; bytes and checksum of the record


class Record(msgspec.Struct, frozen=True, array_like=True):
    """What a commit wrote."""

    sequence: int
    index: int
    entry: bytes
    rows: list[tuple[str, bytes, bytes | None]]
    checkpoint: int | None


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Record).decode


class _Place(NamedTuple):
    """Where the next record of a transaction goes, and what its checksum begins with."""

    transaction: int
    offset: int
    checksum: int


class WriteAhead:
    """The slots of one environment. One thread at a time. ``prepare`` comes before ``note``."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._page_bytes = environment.page_bytes
        self._next = _Place(0, 0, 0)
        self._noted: _Place | None = None  # what follows the record that may not count yet
        self._name, self._start = b"", 0
        self._file = os.open(environment.data_path, os.O_RDWR | os.O_CLOEXEC)

    def close(self) -> None:
        os.close(self._file)

    # ── Where the slots are ───────────────────────────────────────────────────────────────────

    def prepare(self) -> None:
        """Find the slots, or make new ones; what was written down before counts by now."""
        self._name, self._start = self._found() or self._made()

    def _found(self) -> tuple[bytes, int] | None:
        """The name of the slots, and where they begin in the file."""
        environment = self._environment
        with environment.reading() as transaction:
            value = transaction.get(VALUE_KEY, db=environment["ahead"])
            place = transaction.get(PLACE_KEY, db=environment["ahead"])
            if value is None or place is None:
                return None
            name, start = bytes(value[:NAME_BYTES]), int.from_bytes(place, "little")
            is_there = len(value) == self._value_bytes
        is_there = is_there and os.pread(self._file, NAME_BYTES, start) == name
        return (name, self._aligned(start)) if is_there else None  # in a copy pages have moved

    def _made(self) -> tuple[bytes, int]:
        environment, name = self._environment, os.urandom(NAME_BYTES)
        value = name.ljust(self._value_bytes, b"\0")
        ahead = environment["ahead"]
        environment.write(len(value), lambda t: t.put(VALUE_KEY, value, db=ahead))
        start = self._search(name)
        place = start.to_bytes(8, "little")
        environment.write(0, lambda t: t.put(PLACE_KEY, place, db=ahead))
        return name, self._aligned(start)

    @property
    def _value_bytes(self) -> int:
        return self._environment.page_bytes + SLOTS * SLOT_BYTES

    def _aligned(self, start: int) -> int:
        """No page has bytes of both slots, since a disk may damage what it writes over."""
        return start + -start % self._environment.page_bytes

    def _search(self, name: bytes) -> int:
        """Find the page that begins with this name. It is new, so rather at the end."""
        page_bytes, end = self._environment.page_bytes, self._environment.end_bytes
        stride = SEARCHED_AT_ONCE * page_bytes
        for low in range(end - end % stride, -1, -stride):
            data = os.pread(self._file, min(stride, end - low), low)
            for at in range(PAGE_HEADER_BYTES, len(data), page_bytes):
                if data.startswith(name, at):
                    return low + at
        raise StorageError("the slots are not in the file", "Please report it.")

    # ── Before and after a transaction ────────────────────────────────────────────────────────

    def note(self, transaction_id: int, record: Record, *, leaves_room: bool = False) -> bool:
        """Write down what a transaction commits; whether it fits. A flush makes this durable.

        ``leaves_room``: it fits only if another one like it fits, too.
        """
        if len(record.entry) > SLOT_BYTES:
            return False  # before it is encoded: large entries would be copied for nothing
        content = _encode(record)
        place = self._next
        if place.transaction != transaction_id:
            seed = crc32(self._name, transaction_id & 0xFFFFFFFF)
            place = self._next = _Place(transaction_id, 0, seed)
        size = _HEADER.size + len(content)
        end = place.offset + size + -size % self._page_bytes
        if end + (end - place.offset) * leaves_room > SLOT_BYTES:
            return False
        checksum = crc32(content, place.checksum)
        data = _HEADER.pack(transaction_id, len(content), checksum) + content
        try:
            if os.pwrite(self._file, data, self._position(place)) < len(data):
                return False
        except OSError:
            # Not for lack of space, which the slots have; the commit meets it, too. Nothing was
            # written, so there is nothing to erase, which a disk that takes nothing would refuse.
            return False
        self._noted = _Place(transaction_id, end, checksum)
        return True

    def flush(self) -> None:
        """Make what is noted durable, without the transaction; it counts from now on."""
        assert self._noted is not None
        try:
            os.fdatasync(self._file)
        except OSError as error:
            self._environment.end(str(error))
        self._next, self._noted = self._noted, None

    def committed(self) -> None:
        self._noted = None

    def erase(self, failure: StorageError) -> None:
        """Forget the record of a commit that failed, durably: its clients are refused."""
        if self._noted is None:
            return
        self._noted = None
        try:
            os.pwrite(self._file, bytes(_HEADER.size), self._position(self._next))
            os.fdatasync(self._file)
        except OSError as error:
            if not isinstance(failure, StorageBroken):
                self._environment.end(str(error))

    def _position(self, place: _Place) -> int:
        return self._start + place.transaction % SLOTS * SLOT_BYTES + place.offset

    # ── After a start ─────────────────────────────────────────────────────────────────────────

    def records(self) -> list[Record]:
        """What is written down, in the order of the commits, also by an earlier version.

        It is read by way of LMDB: in a copy the slots have moved.
        """
        environment = self._environment
        page_bytes = environment.page_bytes
        with environment.reading() as transaction:
            value = bytes(transaction.get(VALUE_KEY, db=environment["ahead"]) or b"")
        slot_bytes, start = len(value) // SLOTS // page_bytes * page_bytes, page_bytes
        start -= PAGE_HEADER_BYTES  # the value begins after the header of its first page
        slots = [value[at : at + slot_bytes] for at in range(start, len(value), slot_bytes or 1)]
        name = value[:NAME_BYTES]
        found = [list(_chain(slot, name, page_bytes)) for slot in slots[:SLOTS]]
        numbered = {chain[0][0]: chain for chain in found if chain}
        return [record for number in sorted(numbered) for _, record in numbered[number]]


def _chain(slot: bytes, name: bytes, page_bytes: int) -> Iterator[tuple[int, Record]]:
    """The records of a slot, with the number of their transaction."""
    first, offset, checksum = None, 0, 0
    while offset + _HEADER.size <= len(slot):
        number, length, known = _HEADER.unpack_from(slot, offset)
        content = slot[offset + _HEADER.size : offset + _HEADER.size + length]
        if first is None:
            first, checksum = number, crc32(name, number & 0xFFFFFFFF)
        checksum = crc32(content, checksum)
        if number != first or len(content) != length or known != checksum:
            return
        yield number, _decode(content)
        offset += _HEADER.size + length
        offset += -offset % page_bytes
