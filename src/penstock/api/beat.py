"""The beat of everything that is live: once a second, for all streams together."""

import asyncio

from penstock.clock import Clock, SystemClock


class Beat:
    """Wakes whoever waits; nobody waiting costs nothing."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock = clock or SystemClock()
        self.is_closing = False
        self._waiting: list[asyncio.Future[None]] = []

    def wait(self) -> asyncio.Future[None]:
        """Return what is done at the next beat; cancel it if you go before."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        return future

    def strike(self) -> None:
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    def close(self) -> None:
        """The broker stops: streams say so, and end."""
        self.is_closing = True
        self.strike()
