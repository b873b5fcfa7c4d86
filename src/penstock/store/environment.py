"""LMDB as the store needs it: databases by name, a map that grows, our exceptions.

**Growth.** The map doubles before a write could fill it. Resizing is only allowed while this
process has no open transaction, so readers pass a gate that the writer can shut.

**Errors.** A write either commits or changes nothing. A full disk raises StorageFull, and the same
environment works again as soon as there is room. When the disk takes only part of a write, LMDB
reports an input/output error; asking the file system for the space tells a full disk from a broken
one.

**Flushes.** LMDB writes the pages of a commit, flushes them, then writes the meta page that makes
them valid. That page needs a flush of its own, unless the transaction is written down elsewhere
(write_ahead.py).

**Panic.** If that last write fails, LMDB refuses everything from then on, reads included, until
the environment is opened again. If it failed for lack of space, the commit has changed nothing (the
number of the last transaction confirms it), and we open it again at once. Otherwise the process
must end.
"""

import errno
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import perf_counter
from typing import NoReturn, TypeAlias, TypeVar

import lmdb

from penstock.errors import StorageBroken, StorageDamaged, StorageError, StorageFull
from penstock.store.directory import DATA_NAME

DATABASES = ("journal", "index", "topics", "rows", "live", "deleted", "meta", "blocks", "ahead")

READERS_MAX = 126
ROOM_FRACTION = 0.7  # the map grows when more than this fraction would be in use
# pages a commit may copy beyond its own content: the path to each leaf it touches
WRITE_SLACK_BYTES = 256 * 1024
UNSEEN_BYTES_MAX = 64 * WRITE_SLACK_BYTES  # written before the map is looked at again

_FULL_CODES = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)
_FULL = tuple(os.strerror(code) for code in _FULL_CODES)
_SHORT_WRITE = os.strerror(errno.EIO)
_DAMAGED = (
    lmdb.CorruptedError,
    lmdb.InvalidError,
    lmdb.PageNotFoundError,
    lmdb.VersionMismatchError,
)

Transaction: TypeAlias = "lmdb.Transaction[memoryview]"
T = TypeVar("T")


class _Gate:
    """Many readers, or one writer that resizes the map."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside = 0
        self._shut = False

    def enter(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: not self._shut)
            self._inside += 1

    def leave(self) -> None:
        with self._changed:
            self._inside -= 1
            self._changed.notify_all()

    @contextmanager
    def shut(self) -> Iterator[None]:
        with self._changed:
            self._shut = True
            self._changed.wait_for(lambda: not self._inside)
        try:
            yield
        finally:
            with self._changed:
                self._shut = False
                self._changed.notify_all()


# how far ahead the file is extended: a hundred small commits, a millisecond of work
RUNWAY_BYTES = 1 << 20
_ZEROS = bytes(1 << 14)


def _zeros(size: int) -> list[bytes]:
    """So many, as pieces that are one object: they are no memory that the process keeps."""
    whole, rest = divmod(size, len(_ZEROS))
    return [*[_ZEROS] * whole, _ZEROS[:rest]]


class Environment:
    """An open LMDB environment with the store's databases."""

    def __init__(self, path: Path, map_bytes: int, *, readonly: bool = False) -> None:
        self._gate = _Gate()
        self._path = path
        self.data_path = path / DATA_NAME
        self._readonly = readonly
        try:
            self._open(max(map_bytes, _file_bytes(path) * 2))
        except lmdb.Error as error:
            raise storage_error(error) from error
        self.page_bytes: int = self._lmdb.stat()["psize"]
        self.runway_bytes = RUNWAY_BYTES // 4  # until the total is known, which may be small
        self._file_end = 0  # size of the file when last looked at
        self._prepared_end = 0  # of the pages in use when ``prepare`` was called last
        self._last_commit = 0  # number of the last transaction, as the next one found it
        self._unseen = 0  # bytes that may be written before the map is looked at again
        self._ended: StorageBroken | None = None  # why nothing is written any more
        # Whether there are commits that no transaction has yet, and how to give them one; see
        # unsettled.py. Each snapshot and each other transaction comes after them.
        self.is_unsettled = False
        self.settle: Callable[[], None] = lambda: None

    def _open(self, map_bytes: int) -> None:
        self._lmdb = lmdb.open(
            str(self._path),
            map_size=map_bytes,
            max_dbs=len(DATABASES),
            max_readers=READERS_MAX,
            sync=True,
            metasync=False,  # see ``_attempt``
            readonly=self._readonly,
        )
        self._check_length(self._path)
        self._lmdb.reader_check()
        self._databases = dict(self._open_databases())

    def _open_databases(self) -> Iterator[tuple[str, "lmdb._Database"]]:
        for name in DATABASES:
            try:
                yield name, self._lmdb.open_db(name.encode(), create=not self._readonly)
            except lmdb.NotFoundError:  # only read, and an earlier version wrote it
                continue

    def _check_length(self, path: Path) -> None:
        """Refuse a truncated file: touching a page beyond its end raises SIGBUS."""
        expected = (self._lmdb.info()["last_pgno"] + 1) * self._lmdb.stat()["psize"]
        if expected > _file_bytes(path):
            self._lmdb.close()
            raise StorageDamaged(
                f"{path} is damaged: data.mdb has {_file_bytes(path)} bytes, not {expected}",
                "Restore the data directory from a backup.",
            )

    def __contains__(self, name: str) -> bool:
        return name in self._databases

    def __getitem__(self, name: str) -> "lmdb._Database":
        return self._databases[name]

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        """A snapshot; copy what should outlive it."""
        if self.is_unsettled:
            self.settle()
        self._gate.enter()
        try:
            with self._lmdb.begin(buffers=True) as transaction:
                yield transaction
        except lmdb.Error as error:
            raise storage_error(error) from error
        finally:
            self._gate.leave()

    def write(
        self,
        bytes_expected: int,
        job: Callable[[Transaction], T],
        note: Callable[[T, int], bool] | None = None,
    ) -> tuple[T, float]:
        """Run ``job`` in a write transaction; return its result and the duration of the commit.

        Writer thread only. ``job`` may run twice (if the map was too small), so it may change
        nothing but the transaction. ``note`` gets its result and the number of the transaction,
        and says whether one flush is enough, because it wrote them down (write_ahead.py).
        """
        if self.is_unsettled:
            self.settle()
        return self.write_directly(bytes_expected, job, note)

    def write_directly(
        self,
        bytes_expected: int,
        job: Callable[[Transaction], T],
        note: Callable[[T, int], bool] | None,
    ) -> tuple[T, float]:
        """The same while there are unsettled commits."""
        if self._ended is not None:
            raise self._ended
        try:
            self._make_room(bytes_expected + WRITE_SLACK_BYTES)
            try:
                return self._attempt(job, note)
            except lmdb.MapFullError:
                self._grow(self.map_bytes * 2)
                return self._attempt(job, note)
        except lmdb.Error as error:
            failure = self._failure(error, bytes_expected)
            if isinstance(failure, StorageBroken):
                self._ended = failure
            raise failure from error

    def _failure(self, error: lmdb.Error, bytes_expected: int) -> StorageError:
        """What a failed write means. If LMDB is in panic, the environment is opened again."""
        failure = storage_error(error)
        if _SHORT_WRITE in str(error):
            failure = (_broken if self._has_room(bytes_expected) else _full)(str(error))
        if not self._is_in_panic():
            return failure
        if isinstance(failure, StorageFull) and self._reopen():
            return failure
        return _broken(str(error))

    def _is_in_panic(self) -> bool:
        try:
            self._lmdb.begin().abort()
        except lmdb.Error as error:
            return isinstance(error, lmdb.PanicError)
        return False

    def _reopen(self) -> bool:
        """Whether the environment is usable again, and without the transaction that failed."""
        with self._gate.shut():
            map_bytes = self.map_bytes
            self._lmdb.close()
            try:
                self._open(map_bytes)
            except (lmdb.Error, StorageError):
                return False
        return bool(self._lmdb.info()["last_txnid"] == self._last_commit)

    def _has_room(self, bytes_expected: int) -> bool:
        """Ask the file system to extend the file as the failed write would have; undo it."""
        file = os.open(self.data_path, os.O_RDWR)
        size = os.fstat(file).st_size
        try:
            os.posix_fallocate(file, size, bytes_expected + WRITE_SLACK_BYTES)
        except OSError as error:
            return error.errno not in _FULL_CODES
        finally:
            os.ftruncate(file, size)
            os.close(file)
        return True

    def _attempt(
        self, job: Callable[[Transaction], T], note: Callable[[T, int], bool] | None
    ) -> tuple[T, float]:
        """LMDB flushes the pages of the transaction, but not the meta page that makes it count."""
        transaction = self._lmdb.begin(write=True, buffers=True)
        number = transaction.id()
        self._last_commit = number - 1
        try:
            result = job(transaction)
            started = perf_counter()
            is_noted = note is not None and note(result, number)
            transaction.commit()
        except BaseException:
            transaction.abort()
            raise
        if not is_noted:
            self._flush()
        return result, perf_counter() - started

    def _flush(self) -> None:
        """Make the last transaction durable. It counts already, so a failure cannot be undone."""
        try:
            self._lmdb.sync(True)
        except lmdb.Error as error:
            self.end(str(error))

    @property
    def has_ended(self) -> bool:
        return self._ended is not None

    def end(self, why: str) -> NoReturn:
        """Write nothing any more: what is durable is not known."""
        self._ended = _broken(why)
        raise self._ended

    def prepare(self) -> None:
        """Extend the file between commits: a commit that only overwrites is flushed faster.

        Not while commits are larger than what would be added: that would be written twice, and one
        flush more, for a small part of the next one.
        """
        try:
            end = self.end_bytes
            grown, self._prepared_end = end - (self._prepared_end or end), end
            if grown < self.runway_bytes and self._file_end - end < self.runway_bytes // 4:
                self._lengthen(end)
        except OSError:  # the next commit reports a full disk
            self._file_end = 1 << 62

    def _lengthen(self, end: int) -> None:
        file = os.open(self.data_path, os.O_RDWR)
        try:
            size = os.fstat(file).st_size
            start = max(size, end + -end % self.page_bytes)
            if size - end < self.runway_bytes // 4:
                os.pwritev(file, _zeros(self.runway_bytes), start)
                os.fdatasync(file)
            self._file_end = os.fstat(file).st_size
        finally:
            os.close(file)

    def copy(self, file: int) -> None:
        """Write a compacted copy, as of one moment. The map cannot grow meanwhile."""
        if self.is_unsettled:
            self.settle()
        self._gate.enter()
        try:
            self._lmdb.copyfd(file, compact=True)
        except lmdb.Error as error:
            raise storage_error(error) from error
        finally:
            self._gate.leave()

    def forget_dead_readers(self) -> None:
        """Release the pages of processes that were killed while they read."""
        self._gate.enter()
        try:
            self._lmdb.reader_check()
        except lmdb.Error as error:
            raise storage_error(error) from error
        finally:
            self._gate.leave()

    @property
    def last_transaction(self) -> int:
        """The number of the last transaction."""
        return int(self._lmdb.info()["last_txnid"])

    @property
    def spare_bytes(self) -> int:
        """What the file has beyond the last page that was ever in use."""
        return _file_bytes(self._path) - self.end_bytes

    @property
    def map_bytes(self) -> int:
        return int(self._lmdb.info()["map_size"])

    @property
    def end_bytes(self) -> int:
        """End of the last page that was ever in use."""
        return int((self._lmdb.info()["last_pgno"] + 1) * self.page_bytes)

    def used_bytes(self, transaction: Transaction, names: Iterable[str] = DATABASES) -> int:
        """Bytes in pages that are in use, of some databases."""
        pages = 0
        for name in names:
            if name not in self._databases:
                continue
            stat = transaction.stat(self._databases[name])
            pages += stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"]
        return pages * self.page_bytes

    def close(self) -> None:
        with self._gate.shut():
            if not self._readonly and self._ended is None:
                with suppress(lmdb.Error):  # what must be durable is written down
                    self._lmdb.sync(True)
            self._lmdb.close()

    def _make_room(self, bytes_expected: int) -> None:
        """Grow the map if need be; to look costs as much as a small write to the file."""
        self._unseen -= bytes_expected
        if self._unseen >= 0:
            return
        info = self._lmdb.info()
        wanted = (info["last_pgno"] + 1) * self.page_bytes + bytes_expected
        if wanted > info["map_size"] * ROOM_FRACTION:
            self._grow(max(info["map_size"] * 2, int(wanted / ROOM_FRACTION)))
        self._unseen = min(int(self.map_bytes * ROOM_FRACTION) - wanted, UNSEEN_BYTES_MAX)

    def _grow(self, map_bytes: int) -> None:
        self._unseen = 0
        with self._gate.shut():
            self._lmdb.set_mapsize(map_bytes + -map_bytes % self.page_bytes)


def storage_error(error: lmdb.Error) -> StorageError:
    text = str(error)
    if any(reason in text for reason in _FULL):
        return _full(text)
    if isinstance(error, _DAMAGED):
        return StorageDamaged(
            f"the database is damaged ({text})", "Restore the data directory from a backup."
        )
    return StorageError(
        f"the database failed ({text})",
        "Check the disk and the kernel's log, then restart the broker.",
    )


def _broken(text: str) -> StorageBroken:
    return StorageBroken(
        f"the disk failed while it was written to ({text})",
        "Check the disk and the kernel's log. What was acknowledged before is on disk.",
    )


def _full(text: str) -> StorageFull:
    return StorageFull(
        f"the disk of the data directory is full ({text})",
        "Make room, or lower the retention limits; the broker tries again by itself.",
    )


def _file_bytes(path: Path) -> int:
    data = path / DATA_NAME
    return data.stat().st_size if data.exists() else 0
