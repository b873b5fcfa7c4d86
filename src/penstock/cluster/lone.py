"""The log of a broker that has nobody to ask: the thread that writes."""

import asyncio
from collections.abc import Callable

from penstock.cluster.line import Line
from penstock.errors import StorageError
from penstock.obs.log import get_logger
from penstock.store.batch import Batch
from penstock.store.store import Commit, Store
from penstock.store.writer import Writer

__all__ = ["LoneLog"]

_log = get_logger("log")


class LoneLog:
    """See ``Log``."""

    term = 1

    def __init__(self, store: Store) -> None:
        self._loop = asyncio.get_running_loop()
        self._writer = Writer(store, self._done_on_writer)
        self._line: Line

    def begin(self, line: Line) -> None:
        """See ``Log``."""
        self._line = line
        self._writer.start()

    def submit(self, batch: Batch) -> None:
        """See ``Log``."""
        self._writer.submit(batch)

    def run_on_writer(self, job: Callable[[], None]) -> None:
        """See ``Log``."""
        self._writer.run(job)

    def close(self) -> None:
        """See ``Log``."""
        self._writer.close()

    def _done_on_writer(self, batch: Batch, outcome: Commit | StorageError) -> None:
        """On the writer thread: hand the outcome to the loop, which may be gone by now."""
        try:
            self._loop.call_soon_threadsafe(self._done, batch, outcome)
        except RuntimeError:
            _log.warning("commit_after_stop", count=batch.count)

    def _done(self, batch: Batch, outcome: Commit | StorageError) -> None:
        if isinstance(outcome, StorageError):
            self._line.refused(batch, outcome)
        else:
            self._line.committed(batch, outcome)
