"""What both ends of a connection have in common: bytes come in pieces, frames come out whole.

A frame is the length of a body, u32 big-endian, and the body. The length is judged as soon as its
four bytes are there, before anything is kept for it; beyond the limit there is nothing to go on
with, for nobody will read past so much. What is in a body, the two ends decide (``_take``).

A frame that is larger than the end cares to keep is passed over as it comes: ``_pass_over`` reports
it when its first byte is there, and the rest is let go.

**Memory.** A machine between frames holds no bytes. An incomplete frame is kept in a ``bytearray``
that grows with what has arrived, never with what was announced. Since the length needed is
remembered, a frame that trickles in is looked at three times at most and copied once.
"""

from abc import ABC, abstractmethod
from struct import Struct
from typing import Final, Generic, TypeVar

from penstock.limits import MIB
from penstock.obs.reasons import DisconnectReason
from penstock.wire.violation import Violation

LENGTH: Final = Struct(">I")

BODY_BYTES_MAX: Final = 64 * MIB
"""Largest body, as the protocol has it; a body of exactly this size is allowed."""

Event = TypeVar("Event")


class QueueMachine(ABC, Generic[Event]):
    """The shared part; see the module. Neither bound counts the length itself."""

    __slots__ = ("_closed", "_kept_bytes_max", "_needed", "_passing", "_tail", "frame_bytes_max")

    def __init__(
        self, frame_bytes_max: int = BODY_BYTES_MAX, kept_bytes_max: int = BODY_BYTES_MAX
    ) -> None:
        self.frame_bytes_max = frame_bytes_max
        self._kept_bytes_max = min(kept_bytes_max, frame_bytes_max)
        self._closed = False
        self._passing = 0  # bytes to come of a frame that is passed over
        self._tail: bytearray | None = None
        self._needed = 0

    @property
    def closed(self) -> bool:
        """Whether there was a violation; ``receive`` then returns nothing, for ever."""
        return self._closed

    @property
    def pending_bytes(self) -> int:
        """Bytes held of a frame that is not complete yet."""
        return 0 if self._tail is None else len(self._tail)

    def receive(self, data: bytes) -> list[Event | Violation]:
        """Take what a socket gave, report the frames that it completes. Never raises."""
        if self._closed:
            return []
        if self._passing:
            passed = min(self._passing, len(data))
            self._passing -= passed
            data = data[passed:]
        if self._tail is not None:
            if len(self._tail) + len(data) < self._needed:
                self._tail += data
                return []
            data = b"".join((self._tail, data))
            self._tail = None
        events: list[Event | Violation] = []
        position, following = -1, 0
        while position < following < len(data) and not self._closed:
            position = following
            following = self._read(data, position, events)
        if following < len(data) and not self._closed:
            self._tail = bytearray(memoryview(data)[following:])
        return events

    def _read(self, data: bytes, position: int, events: list[Event | Violation]) -> int:
        """Read a frame, and what may be taken along; return where the next begins.

        That is ``position`` itself if the frame is incomplete, or if it broke the protocol.
        """
        start = position + LENGTH.size
        if start > len(data):
            self._needed = LENGTH.size
            return position
        (length,) = LENGTH.unpack_from(data, position)
        if length > self.frame_bytes_max:
            detail = f"a frame of {length} bytes, where {self.frame_bytes_max} are allowed"
            self._end(events, DisconnectReason.PACKET_TOO_LARGE, detail)
            return position
        if length > self._kept_bytes_max:
            return self._let_pass(data, position, length, events)
        if start + length > len(data):
            self._needed = LENGTH.size + length
            return position
        return self._take(data, position, start + length, events)

    def _let_pass(
        self, data: bytes, position: int, length: int, events: list[Event | Violation]
    ) -> int:
        start = position + LENGTH.size
        if start == len(data):
            self._needed = LENGTH.size + 1
            return position
        self._pass_over(data[start], events)
        end = min(start + length, len(data))
        self._passing = start + length - end
        return end

    def _pass_over(self, first_byte: int, events: list[Event | Violation]) -> None:
        """Report a frame that is too large to be kept."""

    def _end(self, events: list[Event | Violation], reason: DisconnectReason, detail: str) -> None:
        self._closed = True
        events.append(Violation(reason, detail))

    @abstractmethod
    def _take(self, data: bytes, position: int, end: int, events: list[Event | Violation]) -> int:
        """Report the whole frame at ``position``; return where the next to be read begins."""
