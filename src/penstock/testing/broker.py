"""The in-process broker: in a thread of its own, or in the caller's loop."""

import asyncio
import shutil
import tempfile
import threading
import urllib.request
from collections.abc import Coroutine
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import msgspec

from penstock.config.schema import Config
from penstock.server import Server
from penstock.testing.clock import VirtualClock

__all__ = ["AsyncBroker", "Broker"]

T = TypeVar("T")

MAP_BYTES = 64 << 20
"""Address space of a test's store: small enough to start at once, and it grows."""


def _config(options: dict[str, Any], data: Path, port: int) -> Config:
    """Sections as dictionaries, as in the configuration file; listening on one port only."""
    journal = {"map_bytes_initial": MAP_BYTES, **options.pop("journal", {})}
    plain = {
        "data": str(data),
        "listen": [f"127.0.0.1:{port}"],
        "http_listen": [],
        "sys": {"interval_s": 0},
        "journal": journal,
        **options,
    }
    return msgspec.convert(plain, Config)


class AsyncBroker:
    """A broker in the running loop: ``async with AsyncBroker() as broker``.

    Keywords are the sections of the configuration: ``AsyncBroker(limits={"clients_max": 2})``.
    ``data`` keeps the journal in a directory of yours; else it is a temporary one.
    """

    def __init__(self, *, data: str | Path | None = None, port: int = 0, **options: Any) -> None:
        self._temporary = data is None
        self._data = Path(data) if data else Path(tempfile.mkdtemp(prefix="penstock-test-"))
        self._options = options
        self.clock = VirtualClock()
        self.host = "127.0.0.1"
        self.port = port
        self.server: Server

    async def start(self) -> None:
        """Start listening; the port is known afterwards, and stays the same over restarts."""
        config = _config(dict(self._options), self._data, self.port)
        self.server = Server(config, clock=self.clock)
        await self.server.start()
        self.port = self.server.addresses[0].port
        self.clock.drive(lambda: None, self.server.turn)

    async def stop(self, *, kill: bool = False) -> None:
        """Stop in order; ``kill``: drop everything in memory at once, as kill -9 would."""
        self.clock.drive(lambda: None, lambda: None)
        await (self.server.abandon() if kill else self.server.stop())

    async def restart(self, *, kill: bool = False) -> None:
        """Stop and start again on the same data and port."""
        await self.stop(kill=kill)
        await self.start()

    def remove_data(self) -> None:
        """Delete the temporary directory; one of the caller's own is left alone."""
        if self._temporary:
            shutil.rmtree(self._data, ignore_errors=True)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()
        self.remove_data()


class Broker:
    """A broker in a thread of its own: ``with Broker() as broker``; see ``AsyncBroker``."""

    def __init__(self, *, data: str | Path | None = None, port: int = 0, **options: Any) -> None:
        self._inner = AsyncBroker(data=data, port=port, **options)
        self._loop = _new_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    @property
    def host(self) -> str:
        """The address it listens on."""
        return self._inner.host

    @property
    def port(self) -> int:
        """The port it listens on: every protocol."""
        return self._inner.port

    @property
    def clock(self) -> VirtualClock:
        """Its clock."""
        return self._inner.clock

    @property
    def server(self) -> Server:
        """The broker itself; look, but touch only from its own thread (``call``)."""
        return self._inner.server

    def start(self) -> None:
        """Start the thread and the broker."""
        self._thread.start()
        self._run(self._start())

    async def _start(self) -> None:
        await self._inner.start()
        self._drive_clock()

    def _drive_clock(self) -> None:
        """``advance`` is called in the test's thread; the broker lives in the loop's."""
        self.clock.drive(
            lambda: self._run(self.server.hub.pipeline.drain()),
            lambda: self.call(self.server.turn),
        )

    def stop(self, *, kill: bool = False) -> None:
        """Stop the broker and its thread."""
        self._run(self._inner.stop(kill=kill))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def restart(self, *, kill: bool = False) -> None:
        """Stop and start again on the same data and port; ``kill``: as kill -9 would."""

        async def restart() -> None:
            await self._inner.restart(kill=kill)
            self._drive_clock()

        self._run(restart())

    def call(self, function: Any, *arguments: Any) -> Any:
        """Call something in the broker's thread and wait for its result."""

        async def call() -> Any:
            return function(*arguments)

        return self._run(call())

    def metrics(self) -> dict[str, float]:
        """The broker's metrics, as /metrics gives them: sample name with labels → value."""
        url = f"http://{self.host}:{self.port}/metrics"
        with urllib.request.urlopen(url, timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        pairs = (line.rsplit(" ", 1) for line in lines if line and not line.startswith("#"))
        return {name: float(value) for name, value in pairs}

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(timeout=60)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
        self._inner.remove_data()


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop  # noqa: PLC0415 - optional
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop
