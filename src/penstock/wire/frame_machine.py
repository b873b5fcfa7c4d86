"""What machines of protocols with length-prefixed frames share: the buffer and the main loop.

An incomplete frame is kept in a ``bytearray`` that grows with what has arrived, never with what was
announced. The needed length is remembered, so small pieces are not examined one by one.
"""

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

EventT = TypeVar("EventT")


class FrameMachine(ABC, Generic[EventT]):
    """Chunks in, events out."""

    __slots__ = ("_closed", "_needed", "_skipping", "_tail")

    def __init__(self) -> None:
        self._closed = False
        self._skipping = 0  # bytes to come of a frame that is skipped
        self._tail: bytearray | None = None
        self._needed = 0

    @property
    def closed(self) -> bool:
        """Whether there was a violation; ``receive`` then returns nothing."""
        return self._closed

    @property
    def pending_bytes(self) -> int:
        return 0 if self._tail is None else len(self._tail)

    def receive(self, data: bytes) -> list[EventT]:
        """Read a chunk; return the events of the frames that it completes. Never raises."""
        if self._closed:
            return []
        if self._skipping:
            skipped = min(self._skipping, len(data))
            self._skipping -= skipped
            data = data[skipped:]
        if self._tail is not None:
            if len(self._tail) + len(data) < self._needed:
                self._tail += data
                return []
            data = b"".join((self._tail, data))
            self._tail = None
        events: list[EventT] = []
        position, following = -1, 0
        while position < following < len(data) and not self._closed:
            position = following
            following = self._read(data, position, events)
        if following < len(data) and not self._closed:
            self._tail = bytearray(memoryview(data)[following:])
        return events

    @abstractmethod
    def _read(self, data: bytes, position: int, events: list[EventT]) -> int:
        """Read frames; return where the next begins. If incomplete, set ``_needed``."""
