"""Frames in any cut, to the payload bytes they carry and what their control frames say.

A read brings one or many frames, and parts of frames. ``receive`` returns the payload of all of
them as one piece, so that MQTT's machine is called once per read, and an event per control frame
that matters. Some clients send a packet as five frames, so a frame must cost little: payloads are
gathered masked, their masks beside them, and unmasked together, as two large numbers. Large ones
are unmasked by themselves.

Nothing is kept but an incomplete head or control frame, 138 bytes at most. Payload is passed on as
it comes, however long its frame; whoever reads it bounds it.

The payload of everything before a Close or a fault is returned with that event, which is the last:
the machine is closed then and ignores what follows.
"""

from struct import Struct
from typing import ClassVar, NamedTuple, TypeAlias

from penstock.wire.websocket.frames import (
    CONTROL_BYTES_MAX,
    CloseCode,
    Opcode,
    repeated,
    unmask_large,
    xor,
)

EMPTY_FRAMES_MAX = 1000  # in a row; they are lawful, but say nothing
LARGE_BYTES = 4096  # from which on a part is unmasked by itself
_LENGTH_16 = Struct("!H")
_LENGTH_64 = Struct("!Q")
_LENGTH_64_MAX = 2**63 - 1  # its highest bit must be 0
_FIN, _RESERVED, _OPCODE, _MASKED, _LENGTH = 0x80, 0x70, 0x0F, 0x80, 0x7F
_IS_CONTROL = 0x08
_SMALL_BINARY = 0x82  # FIN, binary: what nearly every frame begins with


class Ping(NamedTuple):
    """Answer with a pong that has the same data. Only the last ping of a read is reported."""

    data: bytes


class Closed(NamedTuple):
    """The peer's Close frame; ``NO_STATUS`` if it had no code. Answer with a Close."""

    code: int
    reason: str


class Fault(NamedTuple):
    """The peer broke the protocol: send a Close with this code; ``detail`` is for the log."""

    code: CloseCode
    detail: str


Event: TypeAlias = Ping | Closed | Fault


class _Broken(Exception):  # noqa: N818 - carries the fault to ``receive``
    def __init__(self, detail: str, code: CloseCode = CloseCode.PROTOCOL_ERROR) -> None:
        super().__init__(detail)
        self.fault = Fault(code, detail)


class WebSocketMachine:
    """The shared part of both ends."""

    __slots__ = ("_closed", "_empty", "_is_fragmented", "_left", "_mask", "_tail")

    _mask_bit: ClassVar[int]  # of the second byte: whether the peer must mask

    def __init__(self) -> None:
        self._closed = False
        self._tail = b""  # an incomplete head or control frame
        self._left = 0  # payload bytes of a data frame that are yet to come
        self._mask = b""  # of that frame, turned to where its next byte begins
        self._is_fragmented = False  # whether a continuation must follow
        self._empty = 0  # frames without payload, in a row

    @property
    def closed(self) -> bool:
        """Whether there was a Close or a fault; ``receive`` then returns nothing."""
        return self._closed

    def receive(self, data: bytes) -> tuple[bytes, list[Event]]:
        """Read a chunk; return the payload in it, and what control frames say. Never raises."""
        if self._closed:
            return b"", []
        if self._tail:
            data, self._tail = self._tail + data, b""
        parts: list[bytes] = []
        masks: list[bytes] = []
        events: list[Event] = []
        try:
            self._read(data, parts, masks, events)
        except _Broken as broken:
            self._closed = True
            events.append(broken.fault)
        return _unmask(parts, masks), events

    def _read(
        self, data: bytes, parts: list[bytes], masks: list[bytes], events: list[Event]
    ) -> None:
        position, size = 0, len(data)
        if self._left:
            position = self._take(data, 0, parts, masks)
        second_byte = self._mask_bit
        while position < size and not self._closed:
            # The frequent frame: a whole message, masked, below 126 bytes, and all of it is here.
            if data[position] == _SMALL_BINARY and size - position > 6 and second_byte:
                length = data[position + 1] - second_byte
                end = position + 6 + length
                if 0 < length < 126 and end <= size and not self._is_fragmented:
                    parts.append(data[position + 6 : end])
                    masks.append((data[position + 2 : position + 6] * 32)[:length])
                    self._empty = 0
                    position = end
                    continue
            following = self._read_frame(data, position, parts, masks, events)
            if following == position:
                self._tail = data[position:]
                return
            position = following

    def _read_frame(
        self,
        data: bytes,
        position: int,
        parts: list[bytes],
        masks: list[bytes],
        events: list[Event],
    ) -> int:
        """Read a frame; return where what follows begins, or ``position`` if bytes are missing."""
        if len(data) - position < 2:
            self._check_first(data[position])
            return position
        first, second = data[position], data[position + 1]
        self._check_first(first)
        body = self._body(data, position, first, second)
        if not body:
            return position
        start, length = body
        mask = data[start - 4 : start] if self._mask_bit else b""
        if first & _IS_CONTROL:
            end = start + length
            if end > len(data):
                return position
            payload = data[start:end]
            self._on_control(first & _OPCODE, _unmask([payload], [mask * 32]), events)
            return end
        self._is_fragmented = not first & _FIN
        self._count_empty(length)
        self._left, self._mask = length, mask
        return self._take(data, start, parts, masks)

    def _check_first(self, first: int) -> None:
        """Check the first byte alone: a fault in it is told at once."""
        opcode = first & _OPCODE
        if first & _RESERVED:
            raise _Broken("a reserved bit is set, and no extension was agreed on")
        if opcode & _IS_CONTROL:
            if opcode > Opcode.PONG:
                raise _Broken(f"opcode {opcode} is reserved")
            if not first & _FIN:
                raise _Broken("a control frame is fragmented")
        elif opcode > Opcode.BINARY:
            raise _Broken(f"opcode {opcode} is reserved")
        elif (opcode == Opcode.CONTINUATION) is not self._is_fragmented:
            raise _Broken(
                "a new message inside a fragmented one"
                if opcode
                else "a continuation without a beginning"
            )
        elif opcode == Opcode.TEXT:
            raise _Broken("text; MQTT is binary", CloseCode.UNSUPPORTED_DATA)

    def _body(self, data: bytes, position: int, first: int, second: int) -> tuple[int, int] | None:
        """Where the payload begins and how long it is; None if the head is incomplete."""
        if second & _MASKED != self._mask_bit:
            raise _Broken("a frame without a mask" if self._mask_bit else "a frame with a mask")
        length, start = second & _LENGTH, position + 2
        if first & _IS_CONTROL and length > CONTROL_BYTES_MAX:
            raise _Broken(f"a control frame of more than {CONTROL_BYTES_MAX} bytes")
        if length >= 126:
            form, least = (_LENGTH_16, 126) if length == 126 else (_LENGTH_64, 0x1_0000)
            if len(data) < start + form.size:
                return None
            (length,) = form.unpack_from(data, start)
            if not least <= length <= _LENGTH_64_MAX:
                raise _Broken(f"a length of {length} in {form.size} bytes")
            start += form.size
        start += 4 if self._mask_bit else 0
        return None if len(data) < start else (start, length)

    def _take(self, data: bytes, start: int, parts: list[bytes], masks: list[bytes]) -> int:
        """Take what is here of a data frame's payload."""
        part = data[start : start + self._left]
        length = len(part)
        if length:
            self._left -= length
            mask = self._mask
            if length >= LARGE_BYTES and mask:
                _unmask_last(parts, masks)
                parts.append(unmask_large(part, mask))
            else:
                parts.append(part)
                if mask:
                    masks.append(repeated(mask, length))
            turned = length & 3
            self._mask = mask[turned:] + mask[:turned] if self._left else b""
        return start + length

    def _count_empty(self, length: int) -> None:
        self._empty = 0 if length else self._empty + 1
        if self._empty > EMPTY_FRAMES_MAX:
            detail = f"more than {EMPTY_FRAMES_MAX} empty frames in a row"
            raise _Broken(detail, CloseCode.POLICY_VIOLATION)

    def _on_control(self, opcode: int, payload: bytes, events: list[Event]) -> None:
        if opcode == Opcode.PING:
            if events:
                events.clear()  # a ping too: nothing follows another event
            events.append(Ping(payload))
        elif opcode == Opcode.CLOSE:
            events.append(_closed(payload))
            self._closed = True


def _unmask(parts: list[bytes], masks: list[bytes]) -> bytes:
    """The payload: the last parts are masked, as many as there are masks."""
    if masks:
        _unmask_last(parts, masks)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _unmask_last(parts: list[bytes], masks: list[bytes]) -> None:
    if masks:
        first = len(parts) - len(masks)
        data = b"".join(parts[first:]) if len(masks) > 1 else parts[first]
        parts[first:] = [xor(data, b"".join(masks)[: len(data)])]
        masks.clear()


def _closed(payload: bytes) -> Closed:
    if not payload:
        return Closed(CloseCode.NO_STATUS, "")
    if len(payload) == 1:
        raise _Broken("half a close code")
    try:
        reason = payload[2:].decode()
    except UnicodeDecodeError:
        raise _Broken("a close reason that is not UTF-8", CloseCode.INVALID_DATA) from None
    code = int.from_bytes(payload[:2], "big")
    if not (1000 <= code <= 1003 or 1007 <= code <= 1014 or 3000 <= code <= 4999):
        raise _Broken(f"close code {code}")
    return Closed(code, reason)


class WebSocketServerMachine(WebSocketMachine):
    """Bytes of a client in: every frame must be masked."""

    __slots__ = ()
    _mask_bit = _MASKED


class WebSocketClientMachine(WebSocketMachine):
    """Bytes of a server in: no frame may be masked."""

    __slots__ = ()
    _mask_bit = 0
