"""One flush for a small commit: what it wrote is kept beside it, in the same flush.

LMDB flushes twice per commit: first the pages, then the meta page that makes them valid. Without
the second flush (``metasync=False``) the database stays intact, but a loss of power may undo the
last transaction: its meta page becomes durable with the flush of the next one. So a small
transaction is also written down as a **redo record**, before LMDB's flush of the pages, into the
same file: that flush makes both durable. If the meta page was lost, a start finds the record of
exactly the next transaction and repeats it.

A record lies in the unused part of a meta page. There are two, and LMDB uses them in turn; the
record of a transaction goes to the page whose turn it is. So the last durable record is never
overwritten before the meta page of its transaction is durable: the next record goes to the other
page, and the flush for that one includes this meta page.

What does not fit is flushed twice, as LMDB does it. The same goes for transactions that used a
cursor or anything else that could have written without being noticed.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias
from zlib import crc32

import msgspec

if TYPE_CHECKING:
    import lmdb

    Transaction: TypeAlias = "lmdb.Transaction[memoryview]"

MAGIC = b"PSRD"
RECORD_AT = 512
"""Where a record begins in its page: LMDB's part of a meta page is smaller, and a disk writes
sectors of this size whole, so that writing one part cannot damage the other."""

RECORDS = 2
HEADER_BYTES = 12  # magic, size and checksum of the body

Operation = tuple[str, bytes, bytes | None]
"""Database, key, value; no value: the key was deleted."""


class _Body(msgspec.Struct, array_like=True):
    transaction: int
    operations: list[Operation]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Body).decode


class Redo:
    """The two records of a database file."""

    def __init__(self, path: Path, page_bytes: int) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        self._page_bytes = page_bytes
        self.bytes_max = page_bytes - RECORD_AT - HEADER_BYTES

    def put(self, transaction: int, operations: list[Operation]) -> bool:
        """Write the record of a transaction that is about to be committed; whether it could."""
        body = _encode(_Body(transaction, operations))
        if len(body) > self.bytes_max:
            return False
        record = b"".join((MAGIC, _u32(len(body)), _u32(crc32(body)), body))
        try:
            return os.pwrite(self._file, record, self._place(transaction)) == len(record)
        except OSError:  # if this lasts, the commit reports it
            return False

    def clear(self, transaction: int) -> None:
        """The transaction was not committed, and must not be repeated."""
        with suppress(OSError):  # a disk that fails now has failed the commit as well
            os.pwrite(self._file, bytes(len(MAGIC)), self._place(transaction))

    def missing(self, last: int) -> list[Operation] | None:
        """What the transaction after ``last`` wrote, if its record is there."""
        page = os.pread(self._file, self._page_bytes - RECORD_AT, self._place(last + 1))
        size = int.from_bytes(page[4:8], "little")
        body = page[HEADER_BYTES : HEADER_BYTES + size]
        if page[:HEADER_BYTES] != b"".join((MAGIC, _u32(len(body)), _u32(crc32(body)))):
            return None
        found = _decode(body)
        return found.operations if found.transaction == last + 1 else None

    def close(self) -> None:
        """Close the file, once: its number may belong to another by the second time."""
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)

    def _place(self, transaction: int) -> int:
        return (transaction & 1) * self._page_bytes + RECORD_AT


def _u32(number: int) -> bytes:
    return number.to_bytes(4, "little")


class RecordedTransaction:
    """A write transaction that notes what is written, as long as it is little."""

    __slots__ = ("_names", "_room", "_transaction", "get", "is_recorded", "operations", "stat")

    def __init__(
        self, transaction: "Transaction", names: "dict[lmdb._Database, str]", bytes_max: int
    ) -> None:
        self._transaction = transaction
        self._names = names
        self._room = bytes_max
        self.operations: list[Operation] = []
        self.is_recorded = True
        self.get = transaction.get
        self.stat = transaction.stat

    def put(self, key: bytes, value: bytes, *, db: "lmdb._Database", append: bool = False) -> bool:
        if self.is_recorded:
            self._note(db, key, value)
        return self._transaction.put(key, value, append=append, db=db)

    def delete(self, key: bytes, *, db: "lmdb._Database") -> bool:
        if self.is_recorded:
            self._note(db, key, None)
        return self._transaction.delete(key, db=db)

    def __getattr__(self, name: str) -> object:
        """Anything else may write, too."""
        self.is_recorded = False
        return getattr(self._transaction, name)

    def _note(self, db: "lmdb._Database", key: bytes, value: bytes | None) -> None:
        self._room -= len(key) + len(value or b"")
        if self._room < 0:
            self.is_recorded = False
        else:
            self.operations.append((self._names[db], key, value))
