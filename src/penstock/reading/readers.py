"""Threads that read the journal, so that the event loop never waits for the disk.

Two of them read messages. At most ``READS_MAX`` reads are under way or read and not delivered, for
the threads are faster than the loop and what they have read takes memory. A third thread runs
searches, which may take long, so that reads of messages do not wait for them.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

from penstock.errors import StorageError
from penstock.model.message import Message
from penstock.obs.counters import Counters
from penstock.obs.log import ThrottledLogger, get_logger
from penstock.store.store import Store

READERS = 2

READS_MAX = 2 * READERS

SEARCHERS = 1

READ_AT_ONCE = 8  # messages read before their bytes are counted

Result = TypeVar("Result")

_log = get_logger("reading")


class Commits(Protocol):
    """The part of the commit pipeline that a reader may have to wait for."""

    def when_committed(self, callback: Callable[[], None]) -> None: ...


class JournalReaders:
    """Runs reads of the store off the loop and delivers their results on it."""

    def __init__(
        self, store: Store, commits: Commits, counters: Counters, throttled_log: ThrottledLogger
    ) -> None:
        self.store = store
        self._commits = commits
        self._counters = counters
        self._throttled_log = throttled_log
        self.loop = asyncio.get_running_loop()
        self._waiting: deque[Callable[[], None]] = deque()
        self._running = 0
        self._is_closed = False
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="penstock-read")
        self._searchers = ThreadPoolExecutor(SEARCHERS, thread_name_prefix="penstock-search")

    def read(
        self,
        sequences: list[int],
        deliver: Callable[[dict[int, Message | None]], None],
        fail: Callable[[StorageError], None],
        bytes_max: float = float("inf"),
    ) -> None:
        """Read messages by sequence; ``deliver`` gets None for those that are gone.

        Stops after ``bytes_max`` bytes, but not before the first message.
        """
        wanted = sorted(set(sequences))
        if wanted[-1] >= self.store.next_sequence:
            # Applied before it was committed (durability "interval"): wait for the disk.
            self._commits.when_committed(lambda: self.read(wanted, deliver, fail, bytes_max))
            return
        self.run(lambda: _read_some(self.store, wanted, bytes_max), deliver, fail)

    def run(
        self,
        job: Callable[[], Result],
        deliver: Callable[[Result], None],
        fail: Callable[[StorageError], None],
        *,
        is_search: bool = False,
    ) -> None:
        """Run a job that reads the store; ``is_search``: it may scan much to find little."""

        def done(future: "asyncio.Future[Result]") -> None:
            if future.cancelled() or self._is_closed:
                return
            error = future.exception()
            if error is None:
                deliver(future.result())
            elif isinstance(error, StorageError):
                self._report_unreadable(error)
                fail(error)
            else:
                _log.error("read_failed", exc_info=error)
                fail(StorageError(f"internal error while reading the journal: {error!r}"))

        if is_search:
            self.loop.run_in_executor(self._searchers, job).add_done_callback(done)
            return

        def begin() -> None:
            self.loop.run_in_executor(self._readers, job).add_done_callback(read)

        def read(future: "asyncio.Future[Result]") -> None:
            self._running -= 1
            if not self._is_closed:
                self._begin_reads()
            done(future)

        self._waiting.append(begin)
        self._begin_reads()

    def _begin_reads(self) -> None:
        while self._waiting and self._running < READS_MAX:
            self._running += 1
            self._waiting.popleft()()

    def _report_unreadable(self, error: StorageError) -> None:
        self._counters.read_failures_total += 1
        values = {"error": error.message, "advice": "penstock store verify shows the extent"}
        self._throttled_log.log(logging.ERROR, "journal_unreadable", error.message, **values)

    def close(self) -> None:
        """Stop the threads after their current jobs; pending results are not delivered."""
        self._is_closed = True
        self._readers.shutdown()
        self._searchers.shutdown(cancel_futures=True)


def _read_some(store: Store, sequences: list[int], bytes_max: float) -> dict[int, Message | None]:
    found: dict[int, Message | None] = {}
    for first in range(0, len(sequences), READ_AT_ONCE):
        some = sequences[first : first + READ_AT_ONCE]
        messages = store.read(some)
        found.update(zip(some, messages, strict=True))
        bytes_max -= sum([len(message.payload) for message in messages if message is not None])
        if bytes_max <= 0:
            break
    return found
