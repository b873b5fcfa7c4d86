"""Requests that are answered from the disk, one after the other.

Their responses can be large, so a connection has one of them in memory at most: the next is begun
when the client has read most of the one before. Rights may be lost until then, so whoever reads
messages passes ``refusal``, which is asked when the read begins.
"""

from collections import deque
from collections.abc import Callable
from typing import TypeVar

from penstock.doors.queue.replies import Slot
from penstock.errors import StorageError
from penstock.obs.reasons import DisconnectReason
from penstock.reading.readers import JournalReaders
from penstock.wire.queue.faults import Fault

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
        refusal: Callable[[], Fault | None] = lambda: None,
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

        def begin() -> None:
            if not slot.is_refused(refusal()):
                self._is_running = True
                self._readers.run(job, done, failed, is_search=is_search)

        self._waiting.append(begin)
        self.go_on()

    def go_on(self) -> None:
        while not self._is_running and self._waiting and not self._is_full():
            self._waiting.popleft()()

    def clear(self) -> None:
        self._waiting.clear()
