"""Reads the fields of one packet, within its bounds; what is wrong raises ``PacketError``."""

from typing import Final

from penstock.errors import RemoteProtocolError
from penstock.obs.reasons import DisconnectReason

VARINT_BYTES_MAX: Final = 4


class PacketError(RemoteProtocolError):
    """A malformed or forbidden packet. The machine turns it into a ``Violation``."""

    def __init__(
        self, message: str, reason: DisconnectReason = DisconnectReason.MALFORMED_PACKET
    ) -> None:
        super().__init__(message)
        self.reason = reason


def forbidden(message: str) -> PacketError:
    """A packet that can be read, and breaks a rule of the protocol."""
    return PacketError(message, DisconnectReason.PROTOCOL_VIOLATION)


def is_text(field: bytes) -> bool:
    """Strict UTF-8 without U+0000 [MQTT-1.5.3-1]; a byte order mark is valid [MQTT-1.5.3-3]."""
    try:
        field.decode()
    except UnicodeDecodeError:
        return False
    return b"\0" not in field  # [MQTT-1.5.3-2]


class PacketReader:
    """Reads one packet from front to back and never past its end.

    ``version`` is the protocol level of the connection: 4 for MQTT 3.1.1, 5 for MQTT 5.0.
    """

    __slots__ = ("_position", "frame", "version")

    def __init__(self, frame: bytes, position: int, version: int = 4) -> None:
        self.frame = frame
        self._position = position
        self.version = version

    @property
    def at_end(self) -> bool:
        return self._position == len(self.frame)

    def take(self, count: int) -> bytes:
        start, end = self._position, self._position + count
        if end > len(self.frame):
            raise PacketError("the packet ends inside a field")
        self._position = end
        return self.frame[start:end]

    def rest(self) -> bytes:
        return self.take(len(self.frame) - self._position)

    def byte(self) -> int:
        return self.take(1)[0]

    def uint16(self) -> int:
        return int.from_bytes(self.take(2), "big")

    def uint32(self) -> int:
        return int.from_bytes(self.take(4), "big")

    def varint(self) -> int:
        """A variable byte integer, in its shortest form."""
        value = 0
        for number in range(VARINT_BYTES_MAX):
            byte = self.byte()
            value |= (byte & 0x7F) << 7 * number
            if byte < 0x80:
                if number and not byte:
                    raise PacketError("a variable byte integer that is longer than needed")
                return value
        raise PacketError("a variable byte integer of more than four bytes")

    def binary(self) -> bytes:
        """A field with a two-byte length in front."""
        return self.take(self.uint16())

    def text(self, name: str) -> bytes:
        """A string field, checked but not decoded; ``name`` is for the log."""
        field = self.binary()
        if not is_text(field):
            raise PacketError(f"{name} is not UTF-8, or contains U+0000")
        return field

    def packet_id(self) -> int:
        packet_id = self.uint16()
        if packet_id == 0:
            raise PacketError("packet identifier 0")  # [MQTT-2.3.1-1]
        return packet_id

    def finish(self) -> None:
        if not self.at_end:
            raise PacketError("bytes after the last field of the packet")
