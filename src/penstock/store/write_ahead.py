"""Makes a commit durable with one flush instead of two.

LMDB writes the pages of a transaction, flushes them, then writes and flushes the meta page that
makes them count. The second flush doubles the time that a client waits. So the environment is
opened without it: then a crash of the system may undo the last transaction, and that one only,
since each flush takes along the meta page of the transaction before.

What could be undone is written down ahead. The database ``ahead`` has one value whose pages LMDB
never moves: two **slots**. Before an entry is committed, a record of it is written into one of
them, straight into the file; the flush of the transaction's pages makes both durable. A start
compares: a record whose transaction is the one after the last that counts is committed again.

The slots take turns by the number of the transaction: while a record is being written over, the
transaction of the other may not count yet. A record that is damaged was not flushed, so nobody was
told that it is stored. A commit that fails erases its record before anybody is told of that.

What does not fit into a slot, and every other transaction, is flushed twice as ever.
"""

import os
import struct
from zlib import crc32

import msgspec

from penstock.errors import StorageBroken, StorageError
from penstock.limits import KIB
from penstock.store.environment import Environment

SLOT_BYTES = 32 * KIB
SLOTS = 2
VALUE_KEY = b"slots"
PLACE_KEY = b"page"  # where the value begins in the file; only a hint
NAME_BYTES = 16
PAGE_HEADER_BYTES = 16  # of LMDB, before the first byte of a large value
SEARCHED_AT_ONCE = 4_096  # pages

_HEADER = struct.Struct("<QII")  # number of the transaction; bytes and checksum of the record


class Record(msgspec.Struct, frozen=True, array_like=True):
    """What a transaction wrote."""

    sequence: int
    index: int
    entry: bytes
    rows: list[tuple[str, bytes, bytes | None]]
    checkpoint: int | None


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Record).decode


class WriteAhead:
    """The slots of one environment. Writer thread only."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._noted: int | None = None  # the transaction under way, once it is written down
        self._file = os.open(environment.data_path, os.O_RDWR | os.O_CLOEXEC)
        try:
            self._name, self._start = self._found() or self._made()
        except BaseException:
            os.close(self._file)
            raise

    def close(self) -> None:
        os.close(self._file)

    # ── Where the slots are ───────────────────────────────────────────────────────────────────

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

    def note(self, transaction_id: int, record: Record) -> bool:
        """Write down what a transaction commits; whether it fits. Its flush makes this durable."""
        if len(record.entry) > SLOT_BYTES:
            return False  # before it is encoded: large entries would be copied for nothing
        content = _encode(record)
        if len(content) > SLOT_BYTES - _HEADER.size:
            return False
        checksum = crc32(content, crc32(self._name, transaction_id & 0xFFFFFFFF))
        header = _HEADER.pack(transaction_id, len(content), checksum)
        slot = self._start + transaction_id % SLOTS * SLOT_BYTES  # as ``_slot``, without the call
        try:
            os.pwrite(self._file, header + content, slot)
        except OSError:
            # Not for lack of space, which the slots have; the commit meets it, too. Nothing was
            # written, so there is nothing to erase, which a disk that takes nothing would refuse.
            return False
        self._noted = transaction_id
        return True

    def committed(self) -> None:
        self._noted = None

    def erase(self, failure: StorageError) -> None:
        """Forget the record of a transaction that failed, durably: its clients are refused."""
        if self._noted is None:
            return
        try:
            os.pwrite(self._file, bytes(_HEADER.size), self._slot(self._noted))
            os.fdatasync(self._file)
        except OSError as error:
            if not isinstance(failure, StorageBroken):
                self._environment.end(str(error))

    def _slot(self, transaction_id: int) -> int:
        return self._start + transaction_id % SLOTS * SLOT_BYTES

    def lost(self, last: int) -> Record | None:
        """What the transaction after ``last``, the last one that counts, has committed."""
        data = os.pread(self._file, SLOT_BYTES, self._slot(last + 1))
        number, length, checksum = _HEADER.unpack_from(data)
        content = data[_HEADER.size : _HEADER.size + length]
        known = crc32(content, crc32(self._name, number & 0xFFFFFFFF))
        if number != last + 1 or len(content) != length or known != checksum:
            return None
        return _decode(content)
