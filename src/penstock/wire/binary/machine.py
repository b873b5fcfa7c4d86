"""What both ends of a connection share: chunks in, complete frames out.

A machine is two tables and a buffer. The tables say what reads a command: a fast path, or a
decoder, which makes one frame into one event or none. A command in neither is a violation, because
it is unknown whether it has a trailer. Only ``_extent`` decides about faults, limits and missing
bytes, in this order, so that the outcome does not depend on how the stream was cut: the version;
with a complete header the command, the topic length and the frame size; whether the frame is
complete. A machine closes at the first fault, because nothing marks where the next frame begins.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import ClassVar

from penstock.obs.reasons import DisconnectReason
from penstock.wire.binary.events import Event
from penstock.wire.binary.fast_paths import FastPath
from penstock.wire.binary.frame import HEADER, TRAILER_BYTES, VERSION, Frame, FrameLimits, frame_at
from penstock.wire.frame_machine import FrameMachine
from penstock.wire.violation import Violation

# one complete frame to its event; None for a frame without meaning
Decoder = Callable[[Frame], Event | None]


class BinaryMachine(FrameMachine[Event]):
    """The shared part of both ends."""

    __slots__ = ("_limits", "faulty_sequence")

    _fast_paths: ClassVar[Mapping[int, FastPath]] = MappingProxyType({})
    _decoders: ClassVar[Mapping[int, Decoder]] = MappingProxyType({})

    def __init__(self, frame_bytes_max: int, topic_bytes_max: int) -> None:
        super().__init__()
        self._limits = FrameLimits(frame_bytes_max, topic_bytes_max)
        self.faulty_sequence = 0  # of the frame that was a violation, if its header was complete

    def _read(self, data: bytes, position: int, events: list[Event]) -> int:
        extent = self._extent(data, position)
        if isinstance(extent, Violation):
            self.faulty_sequence = _sequence_at(data, position)
            events.append(extent)
            self._closed = True
            return position
        if position + extent > len(data):
            self._needed = extent
            return position
        command = data[position + 1]
        fast_path = self._fast_paths.get(command)
        if fast_path is not None:
            return fast_path(data, position, self._limits, events)
        event = self._decoders[command](frame_at(data, position))
        if event is not None:
            events.append(event)
        return position + extent

    def _extent(self, data: bytes, position: int) -> int | Violation:
        """How many bytes are needed to continue: a header, and once that is there, its frame."""
        if data[position] != VERSION:
            return _wrong_version(data[position])
        if len(data) - position < HEADER.size:
            return HEADER.size
        _, command, _, topic_len, payload_len = HEADER.unpack_from(data, position)
        if command not in self._fast_paths and command not in self._decoders:
            return _wrong_command(command)
        if topic_len > self._limits.topic_bytes_max:
            return _topic_too_long(topic_len, self._limits.topic_bytes_max)
        extent: int = HEADER.size + topic_len + payload_len + TRAILER_BYTES.get(command, 0)
        if extent > self._limits.frame_bytes_max:
            return _frame_too_large(extent, self._limits.frame_bytes_max)
        return extent


def _sequence_at(data: bytes, position: int) -> int:
    if data[position] != VERSION or len(data) - position < HEADER.size:
        return 0
    sequence: int = HEADER.unpack_from(data, position)[2]
    return sequence


def _wrong_version(version: int) -> Violation:
    detail = f"unsupported protocol version {version}"
    error = "Unsupported protocol version — connection closed"
    return Violation(DisconnectReason.MALFORMED_PACKET, detail, error.encode())


def _wrong_command(command: int) -> Violation:
    detail = f"command {command:#04x} is not allowed from this peer"
    return Violation(DisconnectReason.PROTOCOL_VIOLATION, detail, b"Unknown command")


def _topic_too_long(topic_len: int, topic_bytes_max: int) -> Violation:
    detail = f"topic of {topic_len} bytes exceeds the limit of {topic_bytes_max}"
    error = "Topic too long — connection closed"
    return Violation(DisconnectReason.TOPIC_INVALID, detail, error.encode())


def _frame_too_large(frame_bytes: int, frame_bytes_max: int) -> Violation:
    detail = f"frame of {frame_bytes} bytes exceeds the limit of {frame_bytes_max}"
    error = "Message too large — connection closed"  # this text, to the letter, is the protocol's
    return Violation(DisconnectReason.PACKET_TOO_LARGE, detail, error.encode())
