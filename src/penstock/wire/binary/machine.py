"""What both ends of a connection have in common: bytes come in pieces, frames come out whole.

The protocol has no handshake and no states but open and closed, so a machine is two tables and a
buffer. The tables say who reads which command: a fast path, for the commands that come in runs
(``fast_paths``), or a decoder, which makes one frame into one event or none. A command in neither
table is a violation: whether a trailer follows its payload, only those who know it can tell.

``receive`` goes over a chunk once. ``_extent`` alone decides about faults, limits and missing
bytes, and does so in this order, so that the outcome does not depend on how the stream was cut:

1. the version, as soon as one byte is there;
2. with a whole header, the command, the length of the topic, and the size of the whole frame: what
   breaks a limit is refused before anything is kept for it;
3. whether the frame is complete.

A machine ends at the first fault rather than wait for bytes that make sense, for there is nothing
in a stream of frames by which one could find the next one.

**Memory.** A machine between frames holds no buffer. An incomplete frame is kept in a ``bytearray``
that grows with what has arrived, never with what was announced. Since the length needed is
remembered, a frame that trickles in is looked at three times at most and copied once.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import ClassVar

from penstock.obs.reasons import DisconnectReason
from penstock.wire.binary.events import Event
from penstock.wire.binary.fast_paths import FastPath
from penstock.wire.binary.frame import (
    HEADER,
    TRAILER_BYTES,
    VERSION,
    Frame,
    FrameLimits,
    frame_at,
)
from penstock.wire.violation import Violation

Decoder = Callable[[Frame], Event | None]
"""One whole frame to what it means; None for a frame that means nothing."""


class BinaryMachine:
    """The shared part; see the module. Make one of the two ends instead."""

    __slots__ = ("_closed", "_limits", "_needed", "_tail")

    _fast_paths: ClassVar[Mapping[int, FastPath]] = MappingProxyType({})
    _decoders: ClassVar[Mapping[int, Decoder]] = MappingProxyType({})

    def __init__(self, frame_bytes_max: int, topic_bytes_max: int) -> None:
        self._limits = FrameLimits(frame_bytes_max, topic_bytes_max)
        self._closed = False
        self._tail: bytearray | None = None
        self._needed = 0

    @property
    def closed(self) -> bool:
        """Whether the conversation is over; ``receive`` then returns nothing, for ever."""
        return self._closed

    @property
    def pending_bytes(self) -> int:
        """Bytes held of a frame that is not complete yet."""
        return 0 if self._tail is None else len(self._tail)

    def receive(self, data: bytes) -> list[Event]:
        """Take what a socket gave, report the frames that it completes. Never raises."""
        if self._closed:
            return []
        if self._tail is not None:
            if len(self._tail) + len(data) < self._needed:
                self._tail += data
                return []
            data = b"".join((self._tail, data))
            self._tail = None
        events: list[Event] = []
        position, following = -1, 0
        while position < following < len(data):
            position = following
            following = self._read(data, position, events)
        if following < len(data) and not self._closed:
            self._tail = bytearray(memoryview(data)[following:])
        return events

    def _read(self, data: bytes, position: int, events: list[Event]) -> int:
        """Read a frame, and what its fast path takes along; return where the next begins.

        That is ``position`` itself if the frame is incomplete, or if it broke the protocol.
        """
        extent = self._extent(data, position)
        if isinstance(extent, Violation):
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
        """Return how many bytes it takes to read on: a header, and once it is there, its frame."""
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


def _wrong_version(version: int) -> Violation:
    detail = f"a frame of version {version}, where {VERSION} is spoken"
    error = "Unsupported protocol version — connection closed"
    return Violation(DisconnectReason.MALFORMED_PACKET, detail, error.encode())


def _wrong_command(command: int) -> Violation:
    detail = f"command {command:#04x} may not come from this side"
    return Violation(DisconnectReason.PROTOCOL_VIOLATION, detail, b"Unknown command")


def _topic_too_long(topic_len: int, topic_bytes_max: int) -> Violation:
    detail = f"a topic of {topic_len} bytes, where {topic_bytes_max} are allowed"
    error = "Topic too long — connection closed"
    return Violation(DisconnectReason.TOPIC_INVALID, detail, error.encode())


def _frame_too_large(frame_bytes: int, frame_bytes_max: int) -> Violation:
    detail = f"a frame of {frame_bytes} bytes, where {frame_bytes_max} are allowed"
    error = "Message too large — connection closed"  # this text, to the letter, is the protocol's
    return Violation(DisconnectReason.PACKET_TOO_LARGE, detail, error.encode())
