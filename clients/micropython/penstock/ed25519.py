"""Ed25519 signatures in Python, for firmware that has none: a second or less on an ESP32.

``SigningKey`` is a *signer*: something with a ``key_id``, a ``version`` (1 or 2) and a method
``sign(parts)`` that returns the signature of the parts together, or a coroutine that does. Whatever
else has these three plugs in, such as a module in C.

The base point is multiplied by a comb: the scalar is written in 4 rows of 64 bits, each row in two
halves, and 32 steps of one doubling and two additions of points from ``comb`` read it by columns.
The work does not depend on the secret, but the time of big integers does: whoever can measure it to
the microsecond, a thousand times, may learn something. Use a signer in C where that matters.

It yields to other tasks every 20 ms.
"""

import asyncio

from penstock.comb import TABLE
from penstock.sha512 import sha512

try:
    from time import ticks_diff, ticks_ms
except ImportError:
    from penstock._cpython import ticks_diff, ticks_ms

P = (1 << 255) - 19
L = (1 << 252) + 27742317777372353535851937790883648493
_YIELD_MS = 20


class Pauses:
    """``await pauses()`` yields if the last time is 20 ms ago."""

    def __init__(self) -> None:
        self._since = ticks_ms()

    async def __call__(self) -> None:
        if ticks_diff(ticks_ms(), self._since) >= _YIELD_MS:
            await asyncio.sleep(0)
            self._since = ticks_ms()


class SigningKey:
    """The secret key of a device: a seed of 32 bytes, or 64 that begin with it."""

    def __init__(self, key_id: int, secret: bytes, version: int = 2) -> None:
        if len(secret) not in (32, 64) or version not in (1, 2):
            raise ValueError("a signing key is 32 or 64 bytes, for version 1 or 2")
        self.key_id = key_id
        self.version = version
        self._seed = bytes(secret[:32])
        self._scalar = 0  # made of the seed by the first signature

    @classmethod
    def load(cls, path: str, version: int = 2) -> "SigningKey":
        """Read a ``*.key.json`` of ``penstock keys new``."""
        from json import load  # noqa: PLC0415 - only here

        with open(path) as file:
            content = load(file)
        return cls(content["key_id"], bytes.fromhex(content["secret_key"]), version)

    async def _expand(self, pauses: Pauses) -> None:
        digest = await sha512((self._seed,), pauses)
        scalar = int.from_bytes(digest[:32], "little")
        scalar = scalar & ((1 << 254) - 8) | 1 << 254
        self.public_key = encode(await base_times(scalar, pauses))
        self._prefix = digest[32:]
        self._scalar = scalar

    async def sign(self, parts: tuple) -> bytes:
        """Return the 64 bytes that prove the parts, one after the other."""
        pauses = Pauses()
        if not self._scalar:
            await self._expand(pauses)
        r = number(await sha512((self._prefix,) + parts, pauses)) % L
        point = encode(await base_times(r, pauses))
        k = number(await sha512((point, self.public_key) + parts, pauses)) % L
        return point + ((r + k * self._scalar) % L).to_bytes(32, "little")


def number(data: bytes) -> int:
    return int.from_bytes(data, "little")


async def base_times(scalar: int, pauses: Pauses) -> tuple:
    """Return a multiple of the base point: X, Y, Z with x = X/Z and y = Y/Z."""
    x, y, z = 0, 1, 1
    for column in range(31, -1, -1):
        a = x * x % P  # double
        b = y * y % P
        h = a + b
        e = h - (x + y) * (x + y)
        g = a - b
        f = 2 * z * z + g
        x, y, z, t = e * f % P, g * h % P, f * g % P, e * h % P
        for half in (0, 32):
            bits = scalar >> (column + half)
            index = bits & 1 | (bits >> 63) & 2 | (bits >> 126) & 4 | (bits >> 189) & 8
            at = 96 * index + 48 * half
            a = (y - x) * number(TABLE[at + 32 : at + 64])
            b = (y + x) * number(TABLE[at : at + 32])
            c = t * number(TABLE[at + 64 : at + 96])
            d = 2 * z
            e, f, g, h = (b - a) % P, (d - c) % P, (d + c) % P, (b + a) % P
            x, y, z = e * f % P, g * h % P, f * g % P
            if not half:
                t = e * h % P
        await pauses()
    return x, y, z


def encode(point: tuple) -> bytes:
    """Return the 32 bytes of a point."""
    x, y, z = point
    inverse = pow(z, P - 2, P)
    return (y * inverse % P | (x * inverse % P & 1) << 255).to_bytes(32, "little")
