"""Requests that are answered from the disk, one after the other.

Their responses can be large, so a connection has one of them in memory at most: the next is begun
when the client has read most of the one before.
"""

from collections import deque
from collections.abc import Callable
from typing import TypeVar

from penstock.doors.queue.replies import Slot
from penstock.errors import StorageError
from penstock.obs.reasons import DisconnectReason
from penstock.reading.readers import JournalReaders

Result = TypeVar("Result")


class DiskReads:
    """The disk reads of one connection; ``is_full``: its client has much to read."""

    __slots__ = ("_is_full", "_is_running", "_readers", "_waiting")

    def __init__(self, readers: JournalReaders, is_full: Callable[[], bool]) -> None:
        self._readers = readers
        self._is_full = is_full
        self._is_running = False
        self._waiting: deque[Callable[[], None]] = deque()

    def run(
        self,
        slot: Slot,
        job: Callable[[], Result],
        frames: Callable[[Result], bytes | None],
        *,
        is_search: bool = False,
    ) -> None:
        """Run a job off the loop; answer with the ``frames`` of its result, unless that is None."""

        def done(result: Result) -> None:
            self._is_running = False
            made = frames(result)
            if made is not None:
                slot.answer(made)
            self.go_on()

        def failed(error: StorageError) -> None:
            self._is_running = False
            slot.refused(DisconnectReason.STORAGE_FAILED, error.message)
            self.go_on()

        self._waiting.append(lambda: self._readers.run(job, done, failed, is_search=is_search))
        self.go_on()

    def go_on(self) -> None:
        if not self._is_running and self._waiting and not self._is_full():
            self._is_running = True
            self._waiting.popleft()()

    def clear(self) -> None:
        self._waiting.clear()
