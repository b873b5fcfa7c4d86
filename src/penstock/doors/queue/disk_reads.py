"""DiskReads: requests that are answered from the disk, read by a thread, one after the other.

Their responses can be large, and so a connection has one of them in memory at most: the next is
begun when the client has read most of the one before. A client that asks and does not read waits
for itself, and for nobody else.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from penstock.doors.queue.replies import Slot
from penstock.errors import StorageError
from penstock.obs.reasons import DisconnectReason
from penstock.reading.readers import JournalReaders


class _DiskRead(NamedTuple):
    slot: Slot
    job: Callable[[], Any]
    frames: Callable[[Any], bytes | None]
    is_search: bool


class DiskReads:
    """Those of one connection; ``is_full`` tells whether its client has much to read."""

    __slots__ = ("_is_full", "_is_running", "_readers", "_waiting")

    def __init__(self, readers: JournalReaders, is_full: Callable[[], bool]) -> None:
        self._readers = readers
        self._is_full = is_full
        self._is_running = False
        self._waiting: deque[_DiskRead] = deque()

    def run(
        self,
        slot: Slot,
        job: Callable[[], Any],
        frames: Callable[[Any], bytes | None],
        *,
        is_search: bool = False,
    ) -> None:
        """Answer with the frames, made on the loop, of what the job has found off it.

        None: not yet. Whoever made that of it goes on. ``is_search``: see ``JournalReaders``.
        """
        self._waiting.append(_DiskRead(slot, job, frames, is_search))
        self.go_on()

    def go_on(self) -> None:
        """Begin with the next, if it is time."""
        if not self._is_running and self._waiting and not self._is_full():
            self._is_running = True
            disk_read = self._waiting.popleft()
            self._readers.run(
                disk_read.job,
                lambda found: self._done(disk_read, found),
                lambda error: self._failed(disk_read, error),
                is_search=disk_read.is_search,
            )

    def _done(self, disk_read: _DiskRead, found: Any) -> None:
        self._is_running = False
        frames = disk_read.frames(found)
        if frames is not None:
            disk_read.slot.answer(frames)
        self.go_on()

    def _failed(self, disk_read: _DiskRead, error: StorageError) -> None:
        self._is_running = False
        disk_read.slot.refused(DisconnectReason.STORAGE_FAILED, error.message)
        self.go_on()

    def clear(self) -> None:
        """Nobody waits for anything any more."""
        self._waiting.clear()
