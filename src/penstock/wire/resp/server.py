"""The broker's end of a RESP connection: bytes of a client in, commands out.

A command is an array of bulk strings (``*2 $4 PING $2 hi``, each length and string on a line), or a
line typed by hand (``inline``); there is no nesting. The plain path reads a command argument by
argument, and alone decides about missing bytes and limits. There are two fast paths: ``_read_run``
reads commands that only differ from the last one in the last argument, ``wire.resp.columns`` those
that share name and number of arguments with it. The compiled reader (``kernel.resp``) does the
same in one pass; it takes a whole command that is plainly right, and leaves all else to the plain
path. Numbers and line ends must be exact, so a wrong length is noticed at once.

**Limits.** Every announced number is checked before a byte of what it announces is kept. While
``is_trusted`` is False (until AUTH) tighter limits apply. Commands after AUTH may be in the same
chunk, which is read before AUTH is processed. So a command that is too large *for an
unauthenticated client*, with others before it in the chunk, is postponed and not refused: **after
authenticating a client, call** ``receive(b"")``, which checks it again.

**Memory.** Of an incomplete command the complete arguments and the bytes of the incomplete one are
held: what has arrived, never what was announced. An incomplete argument is examined again only when
it is complete. Of a chunk that completes a command only the bytes of this command are joined to
what was held.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from penstock import kernel
from penstock.limits import KIB, MIB
from penstock.obs.reasons import DisconnectReason
from penstock.wire.resp.columns import COLUMNAR, read_columns
from penstock.wire.resp.events import Event, RespColumns, RespCommand
from penstock.wire.resp.inline import split
from penstock.wire.violation import Violation

# data, position, most arguments, most bytes of one and of all, whether columns are wanted
ReadCommand = Callable[
    [bytes, int, int, int, int, bool], tuple[RespColumns | list[bytes] | None, int, int]
]
_read_command: ReadCommand | None = None
if kernel.is_compiled:
    from penstock.kernel.resp import read_command as _read_command

ARGUMENTS_MAX: Final = 10_000
BULK_BYTES_MAX: Final = 16 * MIB
INLINE_BYTES_MAX: Final = 64 * KIB
COMMAND_BYTES_MAX: Final = 16 * MIB + 64 * KIB

STRANGER_ARGUMENTS_MAX: Final = 10  # as in Redis: HELLO with AUTH and SETNAME has seven
STRANGER_BYTES_MAX: Final = 16 * KIB  # as in Redis: one argument; here also an inline command

# from the sign of an array or bulk string to the line end; 64 bits need 23
NUMBER_LINE_BYTES_MAX: Final = 32

COLUMNAR_ARGUMENTS_MAX: Final = 64  # commands with more are read one by one
JOINED_BYTES_MAX: Final = KIB  # of a chunk, which are sooner copied than read for themselves

CRLF: Final = b"\r\n"
ARRAY: Final = ord("*")
SMALL_BULKS: Final = {b"$%d" % length: length for length in range(1_024)}
# first lines of nearly all bulk strings and commands: a lookup is faster than parsing
SMALL_ARRAYS: Final = {b"*%d" % count: count for count in range(64)}


class Allowed(msgspec.Struct, frozen=True, gc=False):
    """Limits of a command; ``adjective`` is what Redis calls a number beyond them."""

    arguments: int
    bulk_bytes: int
    inline_bytes: int
    adjective: str

    def for_strangers(self) -> "Allowed":
        return Allowed(
            min(self.arguments, STRANGER_ARGUMENTS_MAX),
            min(self.bulk_bytes, STRANGER_BYTES_MAX),
            min(self.inline_bytes, STRANGER_BYTES_MAX),
            "unauthenticated",
        )


class RespProtocolError(Exception):
    """A protocol error in Redis's words; ``for_strangers``: only unauthenticated clients get it."""

    def __init__(
        self,
        error: str,
        reason: DisconnectReason = DisconnectReason.MALFORMED_PACKET,
        detail: str = "",
        *,
        for_strangers: bool = False,
    ) -> None:
        super().__init__(error)
        self.violation = Violation(
            reason, detail or error, f"-ERR Protocol error: {error}".encode("latin-1")
        )
        self.for_strangers = for_strangers


class RespServerMachine:
    """Bytes from a client in, events out."""

    __slots__ = (
        "_allowed",
        "_arguments",
        "_command_bytes_max",
        "_is_closed",
        "_missing",
        "_needed",
        "_room",
        "_tail",
        "_trusted",
    )

    def __init__(
        self,
        *,
        arguments_max: int = ARGUMENTS_MAX,
        bulk_bytes_max: int = BULK_BYTES_MAX,
        inline_bytes_max: int = INLINE_BYTES_MAX,
        command_bytes_max: int = COMMAND_BYTES_MAX,
    ) -> None:
        self._trusted = Allowed(arguments_max, bulk_bytes_max, inline_bytes_max, "invalid")
        self._allowed = self._trusted
        self._command_bytes_max = command_bytes_max
        self._is_closed = False
        self._arguments: list[bytes] = []  # complete ones of the current command
        self._missing = 0  # arguments still to come; 0 between commands
        self._room = 0  # bytes they may have together
        self._tail: bytearray | None = None
        self._needed = 0  # length of ``_tail`` at which to examine it again; 0: when a line ends

    @property
    def is_trusted(self) -> bool:
        """Whether the client is authenticated, or need not be; set by the caller."""
        return self._allowed is self._trusted

    @is_trusted.setter
    def is_trusted(self, is_trusted: bool) -> None:
        self._allowed = self._trusted if is_trusted else self._trusted.for_strangers()

    @property
    def closed(self) -> bool:
        """Whether there was a violation; ``receive`` then returns nothing."""
        return self._is_closed

    @property
    def pending_bytes(self) -> int:
        return len(self._tail or b"") + sum(map(len, self._arguments))

    def receive(self, data: bytes) -> list[Event]:
        """Read a chunk; return the commands that it completes. Never raises."""
        if self._is_closed:
            return []
        events: list[Event] = []
        position = 0
        if self._tail is not None:
            if self._is_too_little(data, len(self._tail)):
                self._tail += data
                return events
            data, position = self._complete(self._tail, data, events)
        position = self._scan(data, position, events)
        if position < len(data) and not self._is_closed:
            self._tail = bytearray(data[position:])
        return events

    def _complete(self, tail: bytearray, data: bytes, events: list[Event]) -> tuple[bytes, int]:
        """Read what was held, with as much of a chunk as it needs; return what to read then."""
        self._tail = None
        taken = self._needed - len(tail)
        if not 0 < taken < len(data) - JOINED_BYTES_MAX:
            return b"".join((tail, data)), 0
        held = b"".join((tail, data[:taken]))
        position = self._scan(held, 0, events)
        if self._is_closed or position == len(held):
            return data, len(data) if self._is_closed else taken
        return held[position:] + data[taken:], 0

    def _is_too_little(self, data: bytes, held: int) -> bool:
        if self._needed:
            return held + len(data) < self._needed
        return b"\n" not in data and held + len(data) <= self._allowed.inline_bytes

    def _scan(self, data: bytes, following: int, events: list[Event]) -> int:
        """Read commands from ``following`` on; return where an incomplete one begins."""
        position = -1
        try:
            while position < following < len(data):
                position = following
                if self._missing or data[position] == ARRAY:
                    following = self._read_array(data, position, events)
                    if self._missing:
                        break
                else:
                    following = self._read_inline(data, position, events)
        except RespProtocolError as fault:
            self._arguments, self._missing = [], 0
            if fault.for_strangers and events:
                self._needed = 1
                return position  # a command's first byte, since another ended in this chunk
            self._is_closed = True
            events.append(fault.violation)
        return following

    def _read_inline(self, data: bytes, position: int, events: list[Event]) -> int:
        """Read one line; return where the next begins, or ``position`` if it is incomplete."""
        bytes_max = self._allowed.inline_bytes
        end = data.find(b"\n", position, position + bytes_max + 1)
        if end < 0:
            if len(data) - position > bytes_max:
                detail = f"line exceeds the limit of {bytes_max} bytes"
                raise self._excess("too big inline request", detail)
            self._needed = 0
            return position
        arguments = split(data[position:end])
        if arguments is None:
            raise RespProtocolError("unbalanced quotes in request")
        if arguments:
            if len(arguments) > self._allowed.arguments:
                raise self._array_excess(len(arguments))
            events.append(RespCommand(arguments, []))
        return end + 1

    def _read_array(self, data: bytes, position: int, events: list[Event]) -> int:
        """Read a command, or the rest of one; return the position of the first unused byte."""
        start, is_whole = position, not self._missing
        if is_whole:
            if _read_command is not None:
                allowed = self._allowed
                found, end, needed = _read_command(
                    data,
                    position,
                    allowed.arguments,
                    allowed.bulk_bytes,
                    self._command_bytes_max,
                    allowed is self._trusted,
                )
                if found is not None:
                    return self._take(found, data, start, end, events)
                if needed:
                    self._needed = needed
                    return position
            position = self._read_count(data, position)
        position = self._read_arguments(data, position)
        if self._missing or not self._arguments:
            return position
        arguments, self._arguments = self._arguments, []
        command = RespCommand(arguments, [])
        events.append(command)
        if is_whole and len(arguments) > 1 and position < len(data):
            position = self._read_run(data, start, position, command)
            is_columnar = _read_command is None and arguments[0] in COLUMNAR
            if is_columnar and position < len(data):
                position = self._read_columns(data, position, command, events)
        return position

    def _take(
        self,
        found: RespColumns | list[bytes],
        data: bytes,
        start: int,
        position: int,
        events: list[Event],
    ) -> int:
        """Take what the compiled reader found; return where it ends, with those that follow it."""
        if not isinstance(found, list):
            events.append(found)
            return position
        command = RespCommand(found, [])
        events.append(command)
        if len(found) > 1 and position < len(data):
            self._room = self._command_bytes_max - sum(map(len, found))
            return self._read_run(data, start, position, command)
        return position

    def _read_columns(
        self, data: bytes, position: int, command: RespCommand, events: list[Event]
    ) -> int:
        """Read what follows ``command`` and is like it, except for strangers, who have limits."""
        name, count = command.args[0], len(command.args)
        if count > COLUMNAR_ARGUMENTS_MAX or not self.is_trusted:
            return position
        bytes_max = min(self._allowed.bulk_bytes, self._command_bytes_max - len(name))
        found, position = read_columns(data, position, name, count, bytes_max)
        if found is not None:
            events.append(found)
        return position

    def _read_count(self, data: bytes, position: int) -> int:
        end = data.find(CRLF, position, position + NUMBER_LINE_BYTES_MAX)
        if end < 0:
            self._await_line(data, position, "too big mbulk count string")
            return position
        line = data[position:end]
        count = SMALL_ARRAYS[line] if line in SMALL_ARRAYS else _array_length(line)
        if count > self._allowed.arguments:
            raise self._array_excess(count)
        self._missing = max(count, 0)
        self._room = self._command_bytes_max
        return end + 2

    def _read_arguments(self, data: bytes, position: int) -> int:
        """Read missing arguments, as far as there are bytes; return the position after them."""
        append, find, startswith = self._arguments.append, data.find, data.startswith
        missing, room, bytes_max = self._missing, self._room, self._allowed.bulk_bytes
        size = len(data)
        while missing and position < size:
            end = find(CRLF, position, position + NUMBER_LINE_BYTES_MAX)
            if end < 0:
                self._await_line(data, position, "too big bulk count string")
                break
            line = data[position:end]
            length = SMALL_BULKS[line] if line in SMALL_BULKS else _bulk_length(line)
            if length > bytes_max or length > room:
                raise self._bulk_excess(length, min(bytes_max, room))
            stop = end + 2 + length
            if not startswith(CRLF, stop):
                if stop + 2 <= size:
                    raise RespProtocolError("a bulk string is longer than announced")
                self._needed = stop + 2 - position
                break
            append(data[end + 2 : stop])
            room -= length
            position = stop + 2
            missing -= 1
        self._missing, self._room = missing, room
        return position

    def _read_run(self, data: bytes, start: int, position: int, command: RespCommand) -> int:
        last_bytes = len(command.args[-1])
        prefix = data[start : data.rindex(b"$", start, position - 2 - last_bytes) + 1]
        find, startswith, more = data.find, data.startswith, command.more
        if not startswith(prefix, position):
            return position
        bytes_max = min(self._allowed.bulk_bytes, self._room + last_bytes)
        stride = position - start
        while startswith(prefix, position):
            digits = position + len(prefix)
            end = find(CRLF, digits, digits + NUMBER_LINE_BYTES_MAX - 1)
            if end < 0:
                break
            line = data[digits - 1 : end]
            length = SMALL_BULKS[line] if line in SMALL_BULKS else _bulk_length(line)
            stop = end + 2 + length
            if length > bytes_max or not startswith(CRLF, stop):
                break
            more.append(data[end + 2 : stop])
            if stop + 2 - position == stride:  # twice the same size: expect more of it
                joint = CRLF + data[position : end + 2]
                stop, before = _uniform_stop(data, joint, stop, stride), stop
                more += [data[at - length : at] for at in range(before + stride, stop + 1, stride)]
            else:
                stride = stop + 2 - position
            position = stop + 2
        return position

    def _array_excess(self, count: int) -> RespProtocolError:
        detail = f"{count} arguments exceed the limit of {self._allowed.arguments}"
        return self._excess(f"{self._allowed.adjective} multibulk length", detail)

    def _bulk_excess(self, length: int, bytes_max: int) -> RespProtocolError:
        detail = f"argument of {length} bytes exceeds the limit of {bytes_max}"
        return self._excess(f"{self._allowed.adjective} bulk length", detail)

    def _excess(self, error: str, detail: str) -> RespProtocolError:
        reason = DisconnectReason.PACKET_TOO_LARGE
        return RespProtocolError(error, reason, detail, for_strangers=not self.is_trusted)

    def _await_line(self, data: bytes, position: int, error: str) -> None:
        """Wait for one more byte of a line with a number, if it may still become valid."""
        held = len(data) - position
        if held >= NUMBER_LINE_BYTES_MAX:
            raise RespProtocolError(error)
        self._needed = held + 1


def _number(text: bytes) -> int | None:
    """An integer in its shortest form, the only one that Redis accepts."""
    try:
        number = int(text)
    except ValueError:
        return None
    return number if b"%d" % number == text else None


def _array_length(line: bytes) -> int:
    count = _number(line[1:])
    if count is None:
        raise RespProtocolError("invalid multibulk length")
    return count


def _bulk_length(line: bytes) -> int:
    if not line.startswith(b"$"):
        sign = line[:1].decode("latin-1") or " "  # an empty line: CR, which Redis shows as a blank
        raise RespProtocolError(f"expected '$', got '{sign}'")
    length = _number(line[1:])
    if length is None or length < 0:
        raise RespProtocolError("invalid bulk length")
    return length


def _uniform_stop(data: bytes, joint: bytes, stop: int, stride: int) -> int:
    """End of the last argument of commands of ``stride`` bytes, which ``joint`` separates."""
    startswith = data.startswith
    while startswith(joint, stop):
        stop += stride
    return stop if startswith(CRLF, stop) else stop - stride
