"""The link of the asyncio client: a transport, a task and a clock around ``QueueSession``.

Requests of one iteration of the event loop leave in one write. The transport delivers answers. A
task exists only while there is no connection and a request, and the clock runs only while an answer
is due.
"""

import asyncio
from contextlib import suppress
from random import random
from typing import TypeVar, cast

from penstock.client.async_dial import open_transport
from penstock.client.dial import lost
from penstock.client.errors import ClientError, ConnectionLostError
from penstock.client.queue.heartbeat import LOOK_S
from penstock.client.queue.server_pool import ServerPool
from penstock.client.queue.session import QueueCall, QueueSession
from penstock.client.queue.sockets import (
    broker_silent,
    connect_timeout_s,
    is_mistake,
    keep_alive,
)

T = TypeVar("T")


class AsyncQueueLink(asyncio.Protocol):
    """See the module; for one event loop."""

    def __init__(self, pool: ServerPool, session: QueueSession) -> None:
        self._pool = pool
        self._session = session
        self._transport: asyncio.Transport | None = None
        self._is_open = False
        self._is_sending = False
        self._pause_s = 0.0  # before the next attempt to connect
        self._leaving_error: ClientError | None = None  # why we leave the connection, if we do
        self._task: asyncio.Task[None] | None = None
        self._clock: asyncio.TimerHandle | None = None

    async def open(self) -> None:
        """Connect to one of the addresses, within ``timeout_s``; a mistake is told at once."""
        loop = self._loop = asyncio.get_running_loop()
        deadline = loop.time() + self._session.timeout_s
        self._is_open = True
        while True:
            try:
                return await self._dial()
            except ClientError as error:
                self._fail(error)
                if is_mistake(error) or loop.time() + self._pause_s >= deadline:
                    self._is_open = False
                    raise
                await asyncio.sleep(self._pause_s)

    async def close(self) -> None:
        self._is_open = False
        self._session.close(_closed())
        if self._clock is not None:
            self._clock.cancel()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        if self._transport is not None:
            self._transport.abort()
            self._transport = None
            await asyncio.sleep(0)  # the transport closes its socket in the next turn

    # ── Asking ────────────────────────────────────────────────────────────────────────────────

    def begin(self, call: QueueCall[object]) -> None:
        if not self._is_open:
            raise _closed()
        self._session.ask(call, self._loop.time())
        if not self._is_sending:
            self._is_sending = True
            self._loop.call_soon(self._send)

    async def wait(self, call: QueueCall[T]) -> T:
        if not call.is_done:
            future = self._loop.create_future()
            call.when_done = lambda: None if future.done() else future.set_result(None)
            await future
        return call.result()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    def _look(self) -> None:
        """Fail calls whose time is over; check again while an answer is due."""
        self._clock = None
        is_dead = self._session.tick(self._loop.time())
        if is_dead and self._transport is not None:
            self._leaving_error = self._leaving_error or broker_silent()
            self._transport.abort()
        elif self._transport is not None and self._session.has_ping:
            self._transport.write(self._session.data_to_send(self._loop.time()))
        self._start_clock()

    def _start_clock(self) -> None:
        if self._clock is None and not self._session.is_idle:
            pause_s = min(self._session.timeout_s / 8, LOOK_S)
            self._clock = self._loop.call_later(pause_s, self._look)

    # ── Bytes ─────────────────────────────────────────────────────────────────────────────────

    def _send(self) -> None:
        self._is_sending = False
        self._start_clock()
        if self._transport is not None:
            self._transport.write(self._session.data_to_send(self._loop.time()))
        else:
            self._want_connection()

    def data_received(self, data: bytes) -> None:
        try:
            self._session.receive(data, self._loop.time())
        except ClientError as error:
            self._leaving_error = error
            if self._transport is not None:
                self._transport.abort()
        else:
            self._pool.succeeded()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        with suppress(OSError):
            keep_alive(transport.get_extra_info("socket"))
        self._transport = cast("asyncio.Transport", transport)  # those of uvloop do not derive
        self._session.connected(self._loop.time())
        self._send()

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        cause = lost(error if isinstance(error, OSError) else None)
        leaving, self._leaving_error = self._leaving_error, None
        self._fail(leaving or cause)
        if self._session.is_wanting:
            self._want_connection()

    def _fail(self, error: ClientError) -> None:
        self._session.disconnected(error)
        self._pause_s = self._pool.failed(error, random())  # noqa: S311 - no secret

    def _want_connection(self) -> None:
        if self._is_open and self._task is None:
            self._task = self._loop.create_task(self._reconnect())

    async def _reconnect(self) -> None:
        try:
            while self._transport is None and self._session.is_wanting:
                await asyncio.sleep(self._pause_s)
                try:
                    await self._dial()
                except ClientError as error:
                    self._fail(error)
        finally:
            self._task = None

    async def _dial(self) -> None:
        address = self._pool.address
        timeout_s = connect_timeout_s(self._session.timeout_s)
        await open_transport(
            lambda: self, address.host, address.port, timeout_s, self._pool.tls, self._pool.login()
        )


def _closed() -> ConnectionLostError:
    return ConnectionLostError("the client is not open", "use it in an `async with` statement")
