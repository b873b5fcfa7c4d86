"""A subscription for a loop: one task reads, one task per job handles.

What was said of ``subscription`` holds here. Acknowledgements of one turn of the loop leave at its
end in one write.
"""

import asyncio
import copy
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import random
from types import TracebackType
from typing import Self

from penstock.client.dial import unreachable
from penstock.client.edge.course import LINGER_S, READ_BYTES
from penstock.client.errors import ClientError
from penstock.client.queue.lines import CONNECT_MAX_S, connection_lost, keep_alive
from penstock.client.queue.push import PushSession
from penstock.client.queue.reports import (
    OnError,
    is_final,
    reason_of,
    report_failure,
    report_trouble,
)
from penstock.client.queue.route import Route
from penstock.client.queue.values import Job

__all__ = ["AsyncSubscription"]


class AsyncSubscription:
    """Awaits a handler with jobs until it is closed; made by ``AsyncQueueClient.subscribe``."""

    def __init__(
        self,
        route: Route,
        session: PushSession,
        handler: Callable[[Job], Awaitable[object]],
        concurrency: int,
        on_error: OnError | None,
    ) -> None:
        self._route = route
        self._session = session
        self._handler = handler
        self._on_error = on_error
        self._end: ClientError | None = None
        """What the broker refused for good."""
        self._loop = asyncio.get_running_loop()
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._room = asyncio.Semaphore(concurrency)
        self._arrived: deque[Job] = deque()
        self._handling: set[asyncio.Task[None]] = set()
        self._is_sending = False
        self._reading = self._loop.create_task(self._read_on())
        self._main = self._loop.create_task(self._run())

    # ── For the application ───────────────────────────────────────────────────────────────────

    async def close(self) -> None:
        """Take no more jobs; returns when running handlers are done and the broker was told.

        Called by a handler it returns at once, and the rest follows.
        """
        self._reading.cancel()
        if asyncio.current_task() not in self._handling:
            await asyncio.wait([self._main])

    async def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until somebody closes it; false after ``timeout_s``.

        If the broker refused the subscription for good, that error is raised.
        """
        done, _ = await asyncio.wait([self._main], timeout=timeout_s)
        if done and self._end is not None:
            raise copy.copy(self._end)  # each caller raises, and so changes, one of its own
        return bool(done)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    # ── Reading ───────────────────────────────────────────────────────────────────────────────

    async def _run(self) -> None:
        await asyncio.wait([self._reading])
        if self._session.settles:
            await self._see_handlers_out()  # whose acknowledgements left in the turn they ended
            await self._read_to_the_end()
        else:
            await self._read_to_the_end()
            await self._hand_out()
            await self._see_handlers_out()
        self._hang_up()

    async def _see_handlers_out(self) -> None:
        if self._handling:
            await asyncio.wait(self._handling)

    async def _read_on(self) -> None:
        while True:
            try:
                await self._converse()
            except ClientError as error:
                self._hang_up()
                report_trouble(self._on_error, error)
                if is_final(error):
                    self._end = error
                    return
                await asyncio.sleep(self._route.failed(error, random()))  # noqa: S311 - no secret

    async def _converse(self) -> None:
        """Read until the connection is over."""
        reader, writer = self._streams = await self._dial()
        keep_alive(writer.get_extra_info("socket"))
        self._session.connected()
        self._send()
        while True:
            await self._read(reader)
            await self._hand_out()
            self._session.check()

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            data = await reader.read(READ_BYTES)
        except OSError as error:
            raise connection_lost() from error
        if not data:
            raise connection_lost()
        jobs = self._session.receive(data)
        if jobs:
            self._route.succeeded()
        self._arrived += jobs

    async def _dial(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        address = self._route.address
        try:
            async with asyncio.timeout(CONNECT_MAX_S):
                return await asyncio.open_connection(address.host, address.port, limit=READ_BYTES)
        except OSError as error:
            raise unreachable(error, address.host, address.port, CONNECT_MAX_S) from error

    async def _hand_out(self) -> None:
        """Wait for room, which slows the broker down."""
        while self._arrived:
            await self._room.acquire()
            task = self._loop.create_task(self._handle(self._arrived.popleft()))
            self._handling.add(task)
            task.add_done_callback(self._handling.discard)

    async def _read_to_the_end(self) -> None:
        """Close our direction; wait until the broker has read what we sent and closes in turn."""
        if self._streams is not None:
            reader, writer = self._streams
            with suppress(OSError, ClientError):
                writer.write_eof()
                async with asyncio.timeout(LINGER_S):
                    while True:
                        await self._read(reader)

    def _hang_up(self) -> None:
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None

    # ── Handling ──────────────────────────────────────────────────────────────────────────────

    async def _handle(self, job: Job) -> None:
        try:
            await self._handler(job)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is about this job
            self._session.failed(job, reason_of(error))
            is_given_back = self._session.settles
            report_failure(self._on_error, error, job, is_given_back=is_given_back)
        else:
            self._session.succeeded(job)
        finally:
            self._room.release()
        if not self._is_sending:
            self._is_sending = True
            self._loop.call_soon(self._send)

    def _send(self) -> None:
        self._is_sending = False
        data = self._session.data_to_send() if self._streams is not None else b""
        if data and self._streams is not None:  # even of nothing a closed direction complains
            self._streams[1].write(data)
