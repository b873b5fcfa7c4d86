"""The broker in the process of a test: in a thread of its own, or in the caller's event loop.

While no broker runs there is no thread, and after a failed start or the end of the ``with`` block
no temporary directory. Settings are checked in the constructor, before there is anything to clean.
"""

import asyncio
import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Coroutine, Iterable, Mapping
from pathlib import Path
from typing import ParamSpec, Self, TypeVar

import msgspec

from penstock.admin.metrics import render
from penstock.server import Server
from penstock.testing.access import change_access, user_with_rules
from penstock.testing.clock import VirtualClock
from penstock.testing.quiet import Quiet
from penstock.testing.settings import HOST, settings
from penstock.trust.book import Change

__all__ = ["AsyncBroker", "Broker"]

P = ParamSpec("P")
T = TypeVar("T")

ANSWER_S_MAX = 60  # for the broker's thread; beyond it, something hangs


def _not_running() -> RuntimeError:
    return RuntimeError("the broker is not running: use it as a context manager or call start()")


class AsyncBroker:
    """A broker in the running event loop: ``async with AsyncBroker() as broker``.

    Keywords are the sections and options of the configuration, written as in its file:
    ``AsyncBroker(limits={"session_expiry_s": "1h"})``; errors in them raise ``ConfigError``.
    ``data`` is the data directory, a temporary one by default. ``log_level`` (short for
    ``log={"level": …}``) is "warning" by default; it has no effect if structlog is configured.
    ``users`` are names and their secrets, with the role ``client``; see also ``add_user``.
    """

    def __init__(
        self,
        *,
        data: str | Path | None = None,
        port: int = 0,
        log_level: str | None = None,
        users: Mapping[str, str] | None = None,
        **options: object,
    ) -> None:
        if log_level is not None:
            options["log.level"] = log_level
        self._config = settings(options, data, port)
        self._is_temporary = data is None
        self._remove_directory: Callable[[], object] | None = None
        self._port = port
        self._server: Server | None = None
        self._quiet = Quiet()
        self._users = dict(users or {})
        self.host = HOST
        self.clock = VirtualClock()

    @property
    def port(self) -> int:
        """The port for every protocol; known after the start, and kept over restarts."""
        if not self._port:
            raise _not_running()
        return self._port

    @property
    def server(self) -> Server:
        if self._server is None:
            raise _not_running()
        return self._server

    @property
    def is_running(self) -> bool:
        return self._server is not None

    async def start(self) -> None:
        if self.is_running:
            raise RuntimeError("the broker is running already")
        try:
            await self._start()
            for name, secret in self._users.items():
                await self.add_user(name, secret)
        except BaseException:
            if self._server is not None:
                await self.stop()
            self.remove_data()
            raise

    async def _start(self) -> None:
        self._have_directory()
        server = Server(self._config, clock=self.clock)
        self._quiet.begin(self._config.log)
        try:
            await server.start()
        except BaseException:
            self._quiet.end()
            raise
        self._server = server
        self._keep_addresses(server)
        self.clock.drive(lambda: None, server.turn)

    def _have_directory(self) -> None:
        """Make the temporary directory; it is removed with this object at the latest."""
        if self._is_temporary and self._remove_directory is None:
            directory = tempfile.mkdtemp(prefix="penstock-test-")
            self._config = msgspec.structs.replace(self._config, data=directory)
            self._remove_directory = weakref.finalize(
                self, shutil.rmtree, directory, ignore_errors=True
            )

    def _keep_addresses(self, server: Server) -> None:
        self._port = server.addresses[0].port
        addresses = tuple(str(address) for address in server.addresses)
        plain = len(addresses) - len(self._config.listeners)
        listeners = tuple(
            msgspec.structs.replace(options, address=address)
            for options, address in zip(self._config.listeners, addresses[plain:], strict=True)
        )
        self._config = msgspec.structs.replace(
            self._config, listen=addresses[:plain], http_listen=(), listeners=listeners
        )

    async def stop(self, *, kill: bool = False) -> None:
        """Stop; with ``kill`` drop everything in memory, as kill -9 would."""
        server, self._server = self.server, None
        self.clock.drive(lambda: None, lambda: None)
        try:
            await (server.abandon() if kill else server.stop())
        finally:
            self._quiet.end()

    async def restart(self, *, kill: bool = False) -> None:
        await self.stop(kill=kill)
        await self._start()

    async def metrics(self) -> dict[str, float]:
        """The broker's metrics, as /metrics gives them: sample name with labels → value."""
        lines = render(self.server.view).decode().splitlines()
        pairs = (line.rsplit(" ", 1) for line in lines if line and not line.startswith("#"))
        return {name: float(value) for name, value in pairs}

    async def add_user(
        self,
        name: str,
        secret: str = "",
        *,
        roles: Iterable[str] = ("client",),
        rules: Iterable[str] = (),
    ) -> None:
        """Add or replace a user; returns when that is in force.

        ``rules``, as in ``"allow publish plant/#"``, replace ``roles`` by a role of their own.
        """
        await change_access(self.server, *user_with_rules(name, secret, roles, rules))

    async def change_access(self, *changes: Change) -> None:
        """Change users, roles, tokens and bans, all or none (``penstock.trust.book.put``)."""
        await change_access(self.server, *changes)

    def remove_data(self) -> None:
        if self._remove_directory is not None:
            self._remove_directory()
            self._remove_directory = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_error: object) -> None:
        try:
            if self.is_running:
                await self.stop()
        finally:
            self.remove_data()


class Broker:
    """A broker in a thread of its own; the keywords are those of ``AsyncBroker``."""

    def __init__(
        self,
        *,
        data: str | Path | None = None,
        port: int = 0,
        log_level: str | None = None,
        users: Mapping[str, str] | None = None,
        **options: object,
    ) -> None:
        self._inner = AsyncBroker(data=data, port=port, log_level=log_level, users=users, **options)
        self._thread: _LoopThread | None = None

    @property
    def host(self) -> str:
        return self._inner.host

    @property
    def port(self) -> int:
        return self._inner.port

    @property
    def clock(self) -> VirtualClock:
        return self._inner.clock

    @property
    def server(self) -> Server:
        """The broker itself; change it only in its own thread (``call``)."""
        return self._inner.server

    def start(self) -> None:
        if self._thread is None:
            self._thread = _LoopThread()
        self._change(self._inner.start)

    def stop(self, *, kill: bool = False) -> None:
        self._change(lambda: self._inner.stop(kill=kill))

    def restart(self, *, kill: bool = False) -> None:
        self._change(lambda: self._inner.restart(kill=kill))

    def _change(self, begin: Callable[[], Coroutine[object, None, None]]) -> None:
        try:
            self._run(begin)
        finally:
            if self._inner.is_running:
                drain = self.server.parts.pipeline.drain
                self.clock.drive(lambda: self._run(drain), lambda: self.call(self.server.turn))
            elif self._thread is not None:
                self._thread.end()
                self._thread = None

    def call(self, function: Callable[P, T], *arguments: P.args, **keywords: P.kwargs) -> T:
        async def call() -> T:
            return function(*arguments, **keywords)

        return self._run(call)

    def metrics(self) -> dict[str, float]:
        return self._run(self._inner.metrics)

    def add_user(
        self,
        name: str,
        secret: str = "",
        *,
        roles: Iterable[str] = ("client",),
        rules: Iterable[str] = (),
    ) -> None:
        """Add or replace a user; see ``AsyncBroker.add_user``."""
        self._run(lambda: self._inner.add_user(name, secret, roles=roles, rules=rules))

    def change_access(self, *changes: Change) -> None:
        self._run(lambda: self._inner.change_access(*changes))

    def _run(self, begin: Callable[[], Coroutine[object, None, T]]) -> T:
        if self._thread is None:
            raise _not_running()
        return self._thread.run(begin())

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_error: object) -> None:
        try:
            if self._inner.is_running:
                self.stop()
        finally:
            self._inner.remove_data()


class _LoopThread:
    """A thread with an event loop."""

    def __init__(self) -> None:
        self._loop = _new_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="penstock-test-broker", daemon=True
        )
        self._thread.start()

    def run(self, coroutine: Coroutine[object, None, T]) -> T:
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        return future.result(timeout=ANSWER_S_MAX)

    def end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop  # noqa: PLC0415 - optional
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop
