"""A link with a delay: ``python -m benchmarks.delay MS PORT:TARGET …``.

Each port relays to its target, and holds what it passes on for ``MS`` milliseconds, in each
direction; a round trip takes twice as long. It prints a line when it listens, and ends with its
standard input. Connections are otherwise as fast as this machine.
"""

import asyncio
import sys
from typing import Self

HOST = "127.0.0.1"


class Way(asyncio.Protocol):
    """One end of a relayed connection; it passes on to ``other`` what it receives, later."""

    def __init__(self, delay_s: float) -> None:
        self._delay_s = delay_s
        self._loop = asyncio.get_running_loop()
        self._early: list[bytes] = []
        self.other: Self | None = None
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See ``asyncio.Protocol``."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def joined(self, other: Self) -> None:
        """Pass on to the other end from now on, beginning with what came before."""
        self.other = other
        early, self._early = self._early, []
        for data in early:
            self.data_received(data)

    def data_received(self, data: bytes) -> None:
        """See ``asyncio.Protocol``."""
        if self.other is None:
            self._early.append(data)
        else:  # timers of equal delay fire in their order
            self._loop.call_later(self._delay_s, self.other.transport.write, data)

    def connection_lost(self, _error: Exception | None) -> None:
        """See ``asyncio.Protocol``."""
        if self.other is not None:
            self._loop.call_later(self._delay_s, self.other.transport.close)


class Entry(Way):
    """The end at which a connection comes in: it opens the one to the target."""

    def __init__(self, delay_s: float, target: int) -> None:
        super().__init__(delay_s)
        self._target = target
        self._opening: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See ``asyncio.Protocol``."""
        super().connection_made(transport)
        self._opening = self._loop.create_task(self._open())

    async def _open(self) -> None:
        try:
            _, way = await self._loop.create_connection(
                lambda: Way(self._delay_s), HOST, self._target
            )
        except OSError:
            self.transport.abort()
            return
        way.joined(self)
        self.joined(way)


async def relay(delay_s: float, pairs: list[tuple[int, int]]) -> None:
    """Relay until standard input ends."""
    loop = asyncio.get_running_loop()
    for port, target in pairs:
        await loop.create_server(lambda to=target: Entry(delay_s, to), HOST, port)
    print("listening", flush=True)
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    delay_ms, *told = sys.argv[1:]
    found = [tuple(map(int, pair.split(":"))) for pair in told]
    asyncio.run(relay(float(delay_ms) / 1000, [(port, target) for port, target in found]))
