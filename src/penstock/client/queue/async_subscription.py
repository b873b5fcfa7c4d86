"""A subscription for a loop: one task reads, one task per job handles.

What was said of ``subscription`` holds here. Acknowledgements of one turn of the loop leave at its
end in one write. Ctrl-C cancels the task that waits, not the handlers: ``asyncio.run`` cancels
these only after the ``async with`` block has been left.
"""

import asyncio
import copy
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import random
from types import TracebackType
from typing import Self

from penstock.client.binary.inbox import log
from penstock.client.binary.manager import LINGER_S, READ_BYTES
from penstock.client.dial import unreachable
from penstock.client.errors import ClientError
from penstock.client.handlers import as_awaitable
from penstock.client.queue.heartbeat import LOOK_S
from penstock.client.queue.push import PushSession
from penstock.client.queue.reports import (
    OnError,
    is_fatal,
    is_final,
    reason_of,
    report_end,
    report_failure,
    report_trouble,
)
from penstock.client.queue.server_pool import ServerPool
from penstock.client.queue.sockets import CONNECT_MAX_S, connection_lost, keep_alive
from penstock.client.queue.values import Job


class AsyncSubscription:
    """Awaits a handler with jobs until it is closed; made by ``AsyncQueueClient.subscribe``."""

    def __init__(
        self,
        pool: ServerPool,
        session: PushSession,
        handler: Callable[[Job], Awaitable[object]],
        concurrency: int,
        on_error: OnError | None,
    ) -> None:
        self._pool = pool
        self._session = session
        self._handler = handler
        self._on_error = on_error
        self._end: BaseException | None = None
        """What the broker refused for good, or what a handler raised that is no ``Exception``."""
        self._loop = asyncio.get_running_loop()
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._room = asyncio.Semaphore(concurrency)
        self._arrived: deque[Job] = deque()
        self._handling: set[asyncio.Task[None]] = set()
        self._is_sending = False
        self._has_left = False
        """Whether our direction is closed before the last handler has ended."""
        self._reading = self._loop.create_task(self._read_on())
        self._main = self._loop.create_task(self._run())

    # ── For the application ───────────────────────────────────────────────────────────────────

    async def close(self) -> None:
        """Take no more jobs; returns when running handlers are done and the broker was told.

        Called by a handler it returns at once, and the rest follows.
        """
        await self._see_out(None)

    async def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until somebody closes it; false after ``timeout_s``.

        If the broker refused the subscription for good, that error is raised, and so is what a
        handler raised to end the program, such as ``SystemExit``.
        """
        done, _ = await asyncio.wait([self._main], timeout=timeout_s)
        if done and isinstance(self._end, ClientError):
            raise copy.copy(self._end)  # each caller raises, and so changes, one of its own
        if done and self._end is not None:
            raise self._end
        return bool(done)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        is_interrupt = error is not None and not isinstance(error, Exception)
        await self._see_out(self._session.visibility_s if is_interrupt else None)

    async def _see_out(self, timeout_s: float | None) -> None:
        """Take no more jobs, and wait for those that run."""
        self._reading.cancel()
        if asyncio.current_task() in self._handling:
            return
        try:
            done, _ = await asyncio.wait([self._main], timeout=timeout_s)
            if not done:
                log.warning("handlers still run after %g s, and are left behind", timeout_s)
        finally:
            if not self._main.done():  # the time is over, or the wait was cancelled
                self._leave_behind()

    def _leave_behind(self) -> None:
        """Tell what is done, and that we leave: the broker hands what still runs to others."""
        self._send()
        if self._streams is not None:
            with suppress(OSError):
                self._streams[1].write_eof()
            self._has_left = True

    def _abort(self, error: BaseException) -> None:
        """End because of this."""
        if self._end is None:
            self._end = error
        report_end(error)
        self._reading.cancel()

    # ── Reading ───────────────────────────────────────────────────────────────────────────────

    async def _run(self) -> None:
        await asyncio.wait([self._reading])
        if self._session.settles:
            await self._see_handlers_out()
            self._send()
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
        try:
            await self._stay()
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - on_error's, or a fault: wait() raises it
            self._abort(error)

    async def _stay(self) -> None:
        while True:
            try:
                await self._converse()
            except ClientError as error:
                self._hang_up()
                report_trouble(self._on_error, error)
                if is_final(error):
                    self._end = error
                    return
                await asyncio.sleep(self._pool.failed(error, random()))  # noqa: S311 - no secret

    async def _converse(self) -> None:
        """Read until the connection is over."""
        reader, writer = self._streams = await self._dial()
        keep_alive(writer.get_extra_info("socket"))
        self._session.connected(self._loop.time())
        self._send()
        while True:
            await self._read_or_look(reader)
            await self._hand_out()
            self._session.check()

    async def _read_or_look(self, reader: asyncio.StreamReader) -> None:
        """Read; if there is nothing for a while, look whether the broker is there."""
        try:
            async with asyncio.timeout(LOOK_S):
                await self._read(reader)
        except TimeoutError:
            self._session.tick(self._loop.time())
            self._send()

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            data = await reader.read(READ_BYTES)
        except OSError as error:
            raise connection_lost() from error
        if not data:
            raise connection_lost()
        jobs = self._session.receive(data, self._loop.time())
        if jobs:
            self._pool.succeeded()
        self._arrived += jobs

    async def _dial(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        address = self._pool.address
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
            await self._try(job)
        except asyncio.CancelledError:
            raise  # of this task, by whoever ends the loop
        except BaseException as error:  # noqa: BLE001 - wait() raises it
            self._abort(error)
        finally:
            self._room.release()
        if not self._is_sending and not self._reading.done():
            self._is_sending = True
            self._loop.call_soon(self._send)

    async def _try(self, job: Job) -> None:
        try:
            await self._call(job)
        except Exception as error:
            self._session.failed(job, reason_of(error))
            if is_fatal(error):
                raise
            is_given_back = self._session.settles
            report_failure(self._on_error, error, job, is_given_back=is_given_back)
        except BaseException as error:
            self._session.failed(job, reason_of(error))
            raise
        else:
            self._session.succeeded(job)

    async def _call(self, job: Job) -> None:
        try:
            await as_awaitable(self._handler(job))
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise RuntimeError("the handler was cancelled") from error

    def _send(self) -> None:
        self._is_sending = False
        if self._has_left:
            return
        data = self._session.data_to_send() if self._streams is not None else b""
        if data and self._streams is not None:  # even of nothing a closed direction complains
            self._streams[1].write(data)
