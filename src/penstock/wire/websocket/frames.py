"""Frames to bytes. A server's frames are plain; a client's are masked, with a mask it is given."""

from enum import IntEnum
from struct import Struct
from typing import Final

CONTROL_BYTES_MAX: Final = 125  # payload of a control frame
_LENGTH_16: Final = Struct("!BBH")
_LENGTH_64: Final = Struct("!BBQ")
_FIN: Final = 0x80
_MASKED: Final = 0x80


class Opcode(IntEnum):
    """The lower four bits of the first byte; the others are reserved."""

    CONTINUATION = 0
    TEXT = 1
    BINARY = 2
    CLOSE = 8
    PING = 9
    PONG = 10


class CloseCode(IntEnum):
    """Why a connection ends, in a Close frame; ``NO_STATUS`` stands for a frame without a code."""

    NORMAL = 1000
    GOING_AWAY = 1001
    PROTOCOL_ERROR = 1002
    UNSUPPORTED_DATA = 1003
    NO_STATUS = 1005  # never on the wire
    INVALID_DATA = 1007
    POLICY_VIOLATION = 1008
    TOO_BIG = 1009
    INTERNAL_ERROR = 1011
    TRY_AGAIN_LATER = 1013


def binary_frame(payload: bytes) -> bytes:
    return head(Opcode.BINARY, len(payload)) + payload


def ping_frame(data: bytes = b"") -> bytes:
    return head(Opcode.PING, len(data)) + data


def pong_frame(data: bytes) -> bytes:
    return head(Opcode.PONG, len(data)) + data


def close_payload(code: int, reason: str = "") -> bytes:
    """The payload of a Close frame: the code, and as much of the reason as fits."""
    text = reason.encode()[: CONTROL_BYTES_MAX - 2].decode(errors="ignore")
    return code.to_bytes(2, "big") + text.encode()


def close_frame(code: int, reason: str = "") -> bytes:
    payload = close_payload(code, reason)
    return head(Opcode.CLOSE, len(payload)) + payload


def masked_frame(opcode: int, payload: bytes, mask: bytes) -> bytes:
    """A client's frame. The mask is four random bytes, which nobody can foresee."""
    first = head(opcode, len(payload))
    first = bytes((first[0], first[1] | _MASKED)) + first[2:]
    return b"".join((first, mask, xor(payload, repeated(mask, len(payload)))))


def head(opcode: int, length: int) -> bytes:
    """The head of an unmasked frame that is a whole message, its length as short as can be."""
    if length < 126:
        return bytes((_FIN | opcode, length))
    if length < 0x1_0000:
        return _LENGTH_16.pack(_FIN | opcode, 126, length)
    return _LENGTH_64.pack(_FIN | opcode, 127, length)


def repeated(mask: bytes, length: int) -> bytes:
    return (mask * ((length + 3) >> 2))[:length]


_XORED: Final = [bytes(byte ^ key for byte in range(256)) for key in range(256)]


def unmask_large(data: bytes, mask: bytes) -> bytes:
    """The same as ``xor`` with the mask repeated; from some kilobytes on in two thirds the time."""
    plain = bytearray(len(data))
    for at in range(4):
        plain[at::4] = data[at::4].translate(_XORED[mask[at]])
    return bytes(plain)


def xor(data: bytes, masks: bytes) -> bytes:
    """Both as one number each: there is no loop over bytes."""
    number = int.from_bytes(data, "little") ^ int.from_bytes(masks, "little")
    return number.to_bytes(len(data), "little")
