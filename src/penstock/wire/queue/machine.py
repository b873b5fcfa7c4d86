"""What both ends of a connection share: chunks in, complete frames out.

A frame is the length of a body, u32 big-endian, and the body, which the two ends interpret
(``_take``). Exceeding the limit is a violation. A frame that is larger than an end wants to buffer
is skipped as it comes (``_pass_over``).
"""

from abc import abstractmethod
from struct import Struct
from typing import Final, Generic

from penstock.limits import MIB
from penstock.obs.reasons import DisconnectReason
from penstock.wire.frame_machine import EventT, FrameMachine
from penstock.wire.violation import Violation

LENGTH: Final = Struct(">I")

BODY_BYTES_MAX: Final = 64 * MIB  # largest body of the protocol, inclusive


class QueueMachine(FrameMachine[EventT | Violation], Generic[EventT]):
    """The shared part of both ends. The limits do not include the length prefix."""

    __slots__ = ("_kept_bytes_max", "frame_bytes_max")

    def __init__(
        self, frame_bytes_max: int = BODY_BYTES_MAX, kept_bytes_max: int = BODY_BYTES_MAX
    ) -> None:
        super().__init__()
        self.frame_bytes_max = frame_bytes_max
        self._kept_bytes_max = min(kept_bytes_max, frame_bytes_max)

    def _read(self, data: bytes, position: int, events: list[EventT | Violation]) -> int:
        start = position + LENGTH.size
        if start > len(data):
            self._needed = LENGTH.size
            return position
        (length,) = LENGTH.unpack_from(data, position)
        if length > self.frame_bytes_max:
            detail = f"frame of {length} bytes exceeds the limit of {self.frame_bytes_max}"
            self._end(events, DisconnectReason.PACKET_TOO_LARGE, detail)
            return position
        if length > self._kept_bytes_max:
            return self._let_pass(data, position, length, events)
        if start + length > len(data):
            self._needed = LENGTH.size + length
            return position
        return self._take(data, position, start + length, events)

    def _let_pass(
        self, data: bytes, position: int, length: int, events: list[EventT | Violation]
    ) -> int:
        start = position + LENGTH.size
        if start == len(data):
            self._needed = LENGTH.size + 1
            return position
        self._pass_over(data[start], events)
        end = min(start + length, len(data))
        self._skipping = start + length - end
        return end

    def _pass_over(self, first_byte: int, events: list[EventT | Violation]) -> None:
        """Report a frame that is too large to be buffered."""

    def _end(self, events: list[EventT | Violation], reason: DisconnectReason, detail: str) -> None:
        self._closed = True
        events.append(Violation(reason, detail))

    @abstractmethod
    def _take(self, data: bytes, position: int, end: int, events: list[EventT | Violation]) -> int:
        """Report the complete frame at ``position``; return where to continue."""
