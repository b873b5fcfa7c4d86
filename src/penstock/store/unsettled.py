"""Commits that are written down ahead, and that LMDB gets later, many in one transaction.

A transaction of LMDB writes five pages or more for one small entry. To write the entry down in a
slot (write_ahead.py) takes one page and the same flush. So a small commit is its record, and what
is not in LMDB yet is **unsettled**: in memory, and in the slot of the next transaction.

Nobody sees a difference. Whoever begins to read settles first, and so does every other write
transaction: there is none between a record and its entry. So each snapshot has all that was
committed before it was taken, and whoever works between commits finds nothing unsettled. A start
finds the records; to repeat them and to settle is the same code.

Where there is a reader for every few commits, settling would only be a flush more: then commits go
to LMDB directly for a while. And none waits here that a full disk might refuse later: there must be
room in pages that the file has already.
"""

import threading
from collections.abc import Callable
from time import perf_counter
from typing import TypeVar

from penstock.errors import StorageError
from penstock.store.environment import Environment, Transaction
from penstock.store.write_ahead import Record, WriteAhead

T = TypeVar("T")

WORTH_RECORDS = 4  # settled in one transaction; fewer cost more than they save
DIRECT_COMMITS = 32  # after it was not worth it, or the file had no room
PATH_PAGES = 8  # that a transaction writes besides what is added

_nothing: Callable[[Transaction], None] = lambda _transaction: None  # noqa: E731


class Unsettled:
    """The records since the last transaction. Any thread may settle; one at a time commits."""

    def __init__(
        self,
        environment: Environment,
        ahead: WriteAhead,
        put: Callable[[Record, Transaction], None],
    ) -> None:
        self._environment = environment
        self._ahead = ahead
        self._put = put
        self._lock = threading.RLock()
        self._records: list[Record] = []
        self._transaction_id = 0  # the one that will have them
        self._bytes = 0  # of entries and rows
        self._room = 0  # bytes that LMDB may still write without a longer file
        self._direct = 0  # commits that are to go to LMDB directly
        environment.settle = self.settle

    def commit(self, record: Record) -> float | None:
        """Commit by a record; return how long that took. None: it has to be a transaction."""
        if self._environment.has_ended:
            return None  # a transaction tells why
        if self._direct:
            self._direct -= 1
            return None
        with self._lock:
            if not self._records:
                self._begin()
            size = len(record.entry) + len(record.rows) * self._environment.page_bytes
            if 2 * size > self._room:
                if not self._records:
                    self._direct = DIRECT_COMMITS  # until then the file is longer
                return None
            started = perf_counter()
            # the transaction that settles a full slot has a record there as well, and one flush
            if not self._ahead.note(self._transaction_id, record, leaves_room=True):
                return None
            self._ahead.flush()
            self._records.append(record)
            self._room -= 2 * size
            self._bytes += size
            self._environment.is_unsettled = True
            return perf_counter() - started

    def _begin(self) -> None:
        environment = self._environment
        self._transaction_id = environment.last_transaction + 1
        self._room = environment.spare_bytes - PATH_PAGES * environment.page_bytes
        self._bytes = 0

    def settle(self) -> None:
        """Let LMDB have what is unsettled."""
        with self._lock:
            if self._records:
                if len(self._records) < WORTH_RECORDS:
                    self._direct = DIRECT_COMMITS
                self.write(0, _nothing, lambda _result, number: number == self._transaction_id)

    def write(
        self, size: int, job: Callable[[Transaction], T], note: Callable[[T, int], bool]
    ) -> tuple[T, float]:
        """``Environment.write`` in one transaction with what is unsettled, which comes first."""
        with self._lock:
            if not self._records:
                return self._environment.write_directly(size, job, note)
            records = self._records

            def both(transaction: Transaction) -> T:
                for record in records:
                    self._put(record, transaction)
                return job(transaction)

            done = self._environment.write_directly(size + self._bytes, both, note)
            self._records = []
            self._environment.is_unsettled = False
            return done

    def close(self) -> None:
        """Settle if possible; a start does it otherwise."""
        try:
            self.settle()
        except StorageError:
            self._records = []
            self._environment.is_unsettled = False
