"""MessagePack as values that JSON has, for payloads that anybody may have sent.

What it would make is counted before it is made: an array says how long it is, and each item takes a
byte at least. Bytes become base64 under a name that says so, keys become text, an extension type
its number and its bytes.
"""

import base64
import struct
from collections.abc import Callable
from math import isfinite
from typing import Final

DEPTH_MAX: Final = 32
ITEMS_MAX: Final = 10_000

_FIXED: Final[dict[int, tuple[str, int]]] = {
    0xCA: (">f", 4),
    0xCB: (">d", 8),
    0xCC: (">B", 1),
    0xCD: (">H", 2),
    0xCE: (">I", 4),
    0xCF: (">Q", 8),
    0xD0: (">b", 1),
    0xD1: (">h", 2),
    0xD2: (">i", 4),
    0xD3: (">q", 8),
}
_CONSTANTS: Final = {0xC0: None, 0xC2: False, 0xC3: True}
_LENGTHS: Final = {1: ">B", 2: ">H", 4: ">I"}


class MessagePackError(ValueError):
    """The bytes are not one whole value, or one that is larger than we show."""


def decode(data: bytes) -> object:
    """The value of a payload. Raises MessagePackError."""
    decoder = _Decoder(data)
    value = decoder.value(0)
    if decoder.place != len(data):
        raise MessagePackError(f"{len(data) - decoder.place} bytes follow the value")
    return value


class _Decoder:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self.place = 0
        self._items = 0

    def value(self, depth: int) -> object:
        self._items += 1
        if depth > DEPTH_MAX or self._items > ITEMS_MAX:
            raise MessagePackError("nested too deeply, or too many items")
        kind = self._take(1)[0]
        if kind < 0x80 or kind >= 0xE0:
            return kind if kind < 0x80 else kind - 0x100
        if kind < 0xC0:
            return self._short(kind, depth)
        if kind in _CONSTANTS:
            return _CONSTANTS[kind]
        if kind in _FIXED:
            form, size = _FIXED[kind]
            return _finite(struct.unpack(form, self._take(size))[0])
        return self._long(kind, depth)

    def _short(self, kind: int, depth: int) -> object:
        """Maps, arrays and texts whose length is in the first byte."""
        if kind < 0x90:
            return self._map(kind & 0x0F, depth)
        if kind < 0xA0:
            return self._array(kind & 0x0F, depth)
        return self._text(kind & 0x1F)

    def _long(self, kind: int, depth: int) -> object:
        makers: dict[int, tuple[int, Callable[[int], object]]] = {
            0xC4: (1, self._binary),
            0xC5: (2, self._binary),
            0xC6: (4, self._binary),
            0xC7: (1, self._extension),
            0xC8: (2, self._extension),
            0xC9: (4, self._extension),
            0xD9: (1, self._text),
            0xDA: (2, self._text),
            0xDB: (4, self._text),
            0xDC: (2, lambda count: self._array(count, depth)),
            0xDD: (4, lambda count: self._array(count, depth)),
            0xDE: (2, lambda count: self._map(count, depth)),
            0xDF: (4, lambda count: self._map(count, depth)),
        }
        if 0xD4 <= kind <= 0xD8:
            return self._extension(1 << (kind - 0xD4))
        if kind not in makers:
            raise MessagePackError(f"byte {kind:#x} begins no value")
        size, make = makers[kind]
        return make(int(struct.unpack(_LENGTHS[size], self._take(size))[0]))

    def _take(self, count: int) -> bytes:
        found = self._data[self.place : self.place + count]
        if len(found) < count:
            raise MessagePackError("the value ends early")
        self.place += count
        return found

    def _check(self, count: int) -> None:
        if count > len(self._data) - self.place or self._items + count > ITEMS_MAX:
            raise MessagePackError("more items than there are bytes, or than we show")

    def _array(self, count: int, depth: int) -> list[object]:
        self._check(count)
        return [self.value(depth + 1) for _ in range(count)]

    def _map(self, count: int, depth: int) -> dict[str, object]:
        self._check(2 * count)
        found: dict[str, object] = {}
        for _ in range(count):
            key = self.value(depth + 1)
            found[key if isinstance(key, str) else repr(key)] = self.value(depth + 1)
        return found

    def _text(self, size: int) -> str:
        return self._take(size).decode("utf-8", "backslashreplace")

    def _binary(self, size: int) -> dict[str, object]:
        return {"base64": base64.b64encode(self._take(size)).decode()}

    def _extension(self, size: int) -> dict[str, object]:
        number = struct.unpack(">b", self._take(1))[0]
        return {"extension": number, **self._binary(size)}


def _finite(number: float) -> object:
    return number if isfinite(number) else str(number)
