"""Frames of the binary protocol, and the texts that say what an ERROR means.

``Frames`` reads into one buffer of fixed size. A frame that is larger than the buffer is skipped
and told, so that the stream stays in step: the broker's limits are far beyond a microcontroller's.

All numbers are big-endian. A frame is a header of 16 bytes, a topic, a payload and, if it is
signed, a trailer that the header does not count. Each module has its own constants for the numbers
of commands: a name with an underscore costs nothing at run time, an imported one 40 bytes.
"""

from struct import pack, unpack_from

try:
    from micropython import const
except ImportError:
    from penstock._cpython import const

_HEAD = const(">BBQHI")
_SIGNED_MESSAGE = const(0x11)
_SIGNED_MESSAGE_2 = const(0x13)


class ClientError(Exception):
    """What this package raises, save for OSError and asyncio's TimeoutError."""


class RefusedError(ClientError):
    """The broker refused a request for good; the arguments are its text, and a code or ""."""

    def __str__(self) -> str:
        return self.args[0]


class TakenOverError(ClientError):
    """Another connection uses this client id; coming back would take it away again."""


class ClosedError(ClientError):
    """``close`` was called."""


class FullError(ClientError):
    """As many publishes as ``offline`` allows have no answer yet."""


def frame(command: int, sequence: int, topic: bytes = b"", payload: bytes = b"") -> bytes:
    return pack(_HEAD, 1, command, sequence, len(topic), len(payload)) + topic + payload


def readable(data: bytes) -> str:
    """Return text; what is not UTF-8, such as a letter that was cut in two, as Python writes it."""
    try:
        return str(data, "utf-8")
    except UnicodeError:
        return repr(data)


class Frames:
    """The frames of one connection after the other, in a buffer that never grows."""

    def __init__(self, size: int) -> None:
        self._view = memoryview(bytearray(size))

    def reset(self, reader: object) -> None:
        """Begin with a new connection."""
        self._reader = reader
        self._at = self._next = self._end = self._skip = 0

    def poll(self) -> bool:
        """Go to the next frame; false if more has to be read first."""
        self._at = at = self._next
        have = self._end - at
        if self._skip or have < 16:
            return False
        version, self.command, self.sequence, topic, self.size = unpack_from(_HEAD, self._view, at)
        if version != 1:
            raise ClientError("the answer is not in the binary protocol")
        trailer = 0
        if self.command == _SIGNED_MESSAGE:
            trailer = 68
        elif self.command == _SIGNED_MESSAGE_2:
            trailer = 84
        whole = 16 + topic + self.size + trailer
        room = len(self._view)
        self.is_whole = whole <= room
        if have < (whole if self.is_whole else min(16 + topic, room)):
            return False
        if have < whole:
            self._skip = whole - have
            whole = have
        self._next = at + whole
        self._topic = min(at + 16 + topic, self._next)  # where it ends
        return True

    @property
    def topic(self) -> bytes:
        return bytes(self._view[self._at + 16 : self._topic])

    @property
    def payload(self) -> bytes:
        return bytes(self._view[self._topic : self._topic + self.size])

    @property
    def trailer(self) -> bytes:
        return bytes(self._view[self._topic + self.size : self._next])

    async def fill(self) -> None:
        """Read what there is; EOFError at the end of the connection."""
        view = self._view
        rest = self._end - self._at
        if rest and self._at:
            view[:rest] = view[self._at : self._end]
        self._at = self._next = 0
        self._end = rest
        room = view[: self._skip] if self._skip else view[rest:]
        if hasattr(self._reader, "readinto"):
            count = await self._reader.readinto(room)
            if count is None:  # TLS had a record without data
                return
        else:
            data = await self._reader.read(len(room))
            count = len(data)
            room[:count] = data
        if not count:
            raise EOFError
        if self._skip:  # there is no rest
            self._skip -= count
        else:
            self._end += count


# ── What an ERROR means ───────────────────────────────────────────────────────────────────────

_ANSWER = const(0)  # a refusal of the oldest request
_AGAIN = const(1)  # the same, to be signed and sent again
_NOTICE = const(2)  # the connection goes on
_FAREWELL = const(3)  # the broker closes the connection: come back
_FINAL = const(4)  # the same: stay away


def meaning(text: str) -> int:
    """Say what the text of an ERROR asks for."""
    start = text.startswith
    if start("Another connection uses") or start("Not authorized: this client id"):
        return _FINAL
    if start("The broker") or start("No quorum") or start("Too few nodes") or start("Another node"):
        return _FAREWELL
    if start("The right to") or text.endswith("by retention unread"):
        return _NOTICE
    return _AGAIN if start("Signature") or start("Too many signed") else _ANSWER
