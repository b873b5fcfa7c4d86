"""The one thread that writes: batches and jobs (retention), in the order of submission.

``done`` is called on this thread, exactly once per batch, even after a failure, because clients
wait for the answer.

LMDB lets any thread write, but one at a time. So while this thread has nothing to do, the thread
that submits may commit a batch itself (``commit_here``), which spares two hand-offs between
threads: they cost more than a small commit does. Whoever submits decides when that is wise.
"""

import threading
from collections.abc import Callable
from queue import SimpleQueue

import structlog

from penstock.errors import StorageError
from penstock.limits import KIB
from penstock.store.batch import Batch
from penstock.store.store import Commit, Store
from penstock.store.wake_ups import wake_soon

_log = structlog.get_logger(__name__)


PREPARE_AFTER = 64
"""Commits after which the writer thread prepares the next ones: it extends the file, folds.

To look whether there is anything to do costs a third of a small commit; to wake the thread for it,
while the loop commits, as much as a commit."""

PREPARE_BYTES = 64 * KIB  # of payload, after which it does so earlier


NICENESS = 3
"""By how much the thread is nicer than the event loop, which gets twice its time on a busy core:
what is delivered comes before what is captured. Who waits for a commit waits for the disk."""


class Writer:
    """Commits what is submitted, by one thread. ``close`` finishes what was submitted before it."""

    def __init__(self, store: Store, done: Callable[[Batch, Commit | StorageError], None]) -> None:
        self._store = store
        self._done = done
        self._work: SimpleQueue[Batch | Callable[[], None] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="penstock-writer", daemon=True)
        self._closed = False
        self._submitted = 0  # counted by the submitting thread
        self._finished = 0  # counted by the writer thread
        # commits since the last ``prepare`` and their payload, counted by the thread that made them
        self._unprepared = self._unprepared_bytes = 0

    def start(self) -> None:
        self._thread.start()

    def submit(self, batch: Batch) -> None:
        """Commit a batch, which belongs to the writer from now on."""
        self._put(batch)

    def run(self, job: Callable[[], None]) -> None:
        """Call ``job`` between commits, which wait for it."""
        self._put(job)

    @property
    def is_idle(self) -> bool:
        """Whether the writer thread has nothing to do, and begins nothing unless it is told to."""
        return self._submitted == self._finished and not self._closed

    def commit_here(self, batch: Batch) -> Commit | StorageError:
        """Commit a batch on this thread, the one that submits. Only while ``is_idle``."""
        assert self.is_idle, "one thread writes at a time"
        outcome = self._commit(batch, self._store.commit_small)
        if self._must_prepare(batch):
            self._put(self._store.prepare)
        return outcome

    def _must_prepare(self, batch: Batch) -> bool:
        self._unprepared += 1
        self._unprepared_bytes += batch.payload_bytes
        is_early = self._unprepared < PREPARE_AFTER and self._unprepared_bytes <= PREPARE_BYTES
        if is_early and self._store.has_room:
            return False
        self._unprepared = self._unprepared_bytes = 0
        return True

    def _put(self, work: Batch | Callable[[], None]) -> None:
        assert not self._closed
        self._submitted += 1
        self._work.put(work)

    def close(self) -> None:
        """Finish everything submitted so far, and end the thread."""
        if not self._closed:
            self._closed = True
            self._work.put(None)
            self._thread.join()

    def _run(self) -> None:
        wake_soon(NICENESS)
        while (work := self._work.get()) is not None:
            if isinstance(work, Batch):
                self._done(work, self._commit(work, self._store.commit))
                if self._must_prepare(work):
                    self._call(self._store.prepare)
            else:
                self._call(work)
            self._finished += 1

    def _commit(self, batch: Batch, commit: Callable[[Batch], Commit]) -> Commit | StorageError:
        try:
            return commit(batch)
        except StorageError as error:
            return error
        except Exception as error:  # noqa: BLE001 - a bug, but those who wait must be answered
            _log.exception("commit_failed")
            return StorageError(f"internal error during a commit: {error!r}", "Please report it.")

    def _call(self, job: Callable[[], None]) -> None:
        try:
            job()
        except Exception:  # noqa: BLE001 - the next commit must not suffer for it
            _log.exception("writer_job_failed")
