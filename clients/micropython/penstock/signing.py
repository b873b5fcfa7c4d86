"""What signs publishes: the fields that a signature covers, and the time in them.

The broker accepts a signature for minutes, and each once. So a publish is signed when it is sent,
and again when it is sent again. Without the time of day nothing is signed with version 2.
"""

from struct import pack
from time import gmtime

from penstock.wire import ClientError

try:
    from asyncio import sleep_ms
    from time import ticks_diff, ticks_ms

    from micropython import const
except ImportError:
    from penstock._cpython import const, sleep_ms, ticks_diff, ticks_ms

_SIGNED_PUBLISH = const(0x10)
_SIGNED_PUBLISH_2 = const(0x12)
_AGAIN_MS = const(500)  # until the next attempt: the broker may have asked for less


class ClockError(ClientError):
    """The time of day is not known, and a signature of version 2 needs it."""


class Signer:
    """See the module."""

    def __init__(self, client: object, key: object) -> None:
        self._client = client
        self.key = key

    def prepare(self, request: object, version: int | None) -> None:
        """Make a publish a signed one; ClockError now rather than when it is sent."""
        request.version = version = version or self.key.version
        request.command = _SIGNED_PUBLISH_2 if version == 2 else _SIGNED_PUBLISH
        if version == 2 and not self._client._trust_time:
            self._now()

    async def sign(self, parts: tuple) -> bytes:
        signature = self.key.sign(parts)
        return await signature if hasattr(signature, "send") else signature

    async def trailer(self, request: object) -> bytes:
        """Return the trailer of a publish, made now."""
        if request.attempts:
            await sleep_ms(_AGAIN_MS)
        topic, payload = request.topic, request.payload
        tail = pack(">I", self.key.key_id)
        if request.version == 1:
            return await self.sign((topic, payload)) + tail
        stamp = pack(">Q", self._now()) + self._client._random(8)
        head = b"penstock-signature-2" + tail + stamp + pack(">HI", len(topic), len(payload))
        return await self.sign((head, topic, payload)) + tail + stamp

    def _now(self) -> int:
        """Milliseconds since 1970; ClockError if they are not known."""
        now = (self._client._clock or clock_ms)()
        if now >= 1735689600000:  # 2025: a clock that was set
            return now
        told = self._client._told
        if not told or not self._client._trust_time:
            raise ClockError("set the clock first, or pass clock= or trust_time=True")
        return told[0] + ticks_diff(ticks_ms(), told[1])


def clock_ms() -> int:
    """Milliseconds since 1970, wherever the epoch of this port is."""
    from time import time_ns  # noqa: PLC0415 - not all ports have it

    return time_ns() // 1000000 + (0 if gmtime(0)[0] == 1970 else 946684800000)
