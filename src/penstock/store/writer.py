"""The one thread that writes: batches and jobs (retention), in the order of submission.

``done`` is called on this thread, exactly once per batch, even after a failure, because clients
wait for the answer.
"""

import threading
from collections.abc import Callable
from queue import SimpleQueue

import structlog

from penstock.errors import StorageError
from penstock.store.batch import Batch
from penstock.store.store import Commit, Store

_log = structlog.get_logger(__name__)


class Writer:
    """Commits what is submitted. ``close`` finishes what was submitted before it."""

    def __init__(self, store: Store, done: Callable[[Batch, Commit | StorageError], None]) -> None:
        self._store = store
        self._done = done
        self._work: SimpleQueue[Batch | Callable[[], None] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="penstock-writer", daemon=True)
        self._closed = False

    def start(self) -> None:
        self._thread.start()

    def submit(self, batch: Batch) -> None:
        """Commit a batch, which belongs to the writer from now on."""
        assert not self._closed
        self._work.put(batch)

    def run(self, job: Callable[[], None]) -> None:
        """Call ``job`` between commits, which wait for it."""
        assert not self._closed
        self._work.put(job)

    def close(self) -> None:
        """Finish everything submitted so far, and end the thread."""
        if not self._closed:
            self._closed = True
            self._work.put(None)
            self._thread.join()

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            if isinstance(work, Batch):
                self._done(work, self._commit(work))
                self._call(self._store.prepare)
            else:
                self._call(work)

    def _commit(self, batch: Batch) -> Commit | StorageError:
        try:
            return self._store.commit(batch)
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
