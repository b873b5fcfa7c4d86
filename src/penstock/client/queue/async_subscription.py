"""A subscription for an event loop: one task reads, one task per job handles.

The acknowledgements of one iteration of the loop leave in one write. Ctrl-C cancels the task that
waits, not the handlers: ``asyncio.run`` cancels these only after the ``async with`` block was left.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Self

from penstock.client.async_dial import open_streams
from penstock.client.binary.manager import READ_BYTES
from penstock.client.dial import lost
from penstock.client.handlers import as_awaitable
from penstock.client.queue.push import PushSession
from penstock.client.queue.push_loop import PushLoop
from penstock.client.queue.reports import OnError
from penstock.client.queue.server_pool import ServerPool
from penstock.client.queue.sockets import CONNECT_MAX_S, keep_alive
from penstock.client.queue.values import Job


class AsyncSubscription(PushLoop):
    """Awaits a handler with jobs until it is closed; made by ``AsyncQueueClient.subscribe``."""

    def __init__(
        self,
        pool: ServerPool,
        session: PushSession,
        handler: Callable[[Job], Awaitable[object]],
        concurrency: int,
        on_error: OnError | None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        super().__init__(pool, session, on_error, self._loop.time)
        self._handler = handler
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._room = asyncio.Semaphore(concurrency)
        self._arrived: deque[Job] = deque()
        self._handling: set[asyncio.Task[None]] = set()
        self._is_sending = False
        self._has_left = False  # our direction is closed
        self._reading = self._loop.create_task(self._read())
        self._main = self._loop.create_task(self._run())

    async def close(self) -> None:
        """Take no more jobs; return when running handlers are done and the broker was told.

        A handler may call it: then it returns at once, and the rest follows.
        """
        await self._close(None)

    async def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until it is closed; return False after ``timeout_s``.

        Raises the error if the broker refused the subscription for good, and what a handler raised
        to end the program, such as ``SystemExit``.
        """
        return await self._wait(timeout_s)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        await self._exit(error)

    # ── Reading ───────────────────────────────────────────────────────────────────────────────

    async def _run(self) -> None:
        await asyncio.wait([self._reading])
        await self._finish()

    async def _read(self) -> None:
        try:
            await self._stay_connected()
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - on_error's, or a fault: wait() raises it
            self._abort(error)

    async def _dial(self) -> None:
        address = self._pool.address
        self._streams = await open_streams(
            *(address.host, address.port, CONNECT_MAX_S, READ_BYTES),
            self._pool.tls,
            self._pool.login(),
        )
        keep_alive(self._streams[1].get_extra_info("socket"))

    async def _receive(self, timeout_s: float) -> bytes | None:
        if self._streams is None:
            raise lost()
        try:
            async with asyncio.timeout(timeout_s) as limit:
                return await self._streams[0].read(READ_BYTES)
        except OSError as error:
            if limit.expired():
                return None
            raise lost(error) from error  # by the system, with a time-out of its own perhaps

    def _send(self) -> None:
        self._is_sending = False
        if self._has_left:
            return
        data = self._session.data_to_send() if self._streams is not None else b""
        if data and self._streams is not None:  # a closed direction refuses even nothing
            self._streams[1].write(data)

    def _half_close(self) -> None:
        if self._streams is not None:
            with suppress(OSError):
                self._streams[1].write_eof()
            self._has_left = True

    def _hang_up(self) -> None:
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None

    async def _pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def _interrupt(self) -> None:
        self._reading.cancel()

    async def _wait_ended(self, timeout_s: float | None) -> bool:
        done, _ = await asyncio.wait([self._main], timeout=timeout_s)
        return bool(done)

    # ── Handlers ──────────────────────────────────────────────────────────────────────────────

    def _is_handler(self) -> bool:
        return asyncio.current_task() in self._handling

    async def _hand_out(self, jobs: Sequence[Job]) -> None:
        self._arrived += jobs
        while self._arrived:  # also those of a call that was cancelled
            await self._room.acquire()
            task = self._loop.create_task(self._work(self._arrived.popleft()))
            self._handling.add(task)
            task.add_done_callback(self._handling.discard)

    async def _drain_handlers(self) -> None:
        if self._handling:
            await asyncio.wait(self._handling)

    async def _work(self, job: Job) -> None:
        try:
            await self._handle(job)
        except asyncio.CancelledError:
            raise  # of this task, when the loop ends
        except BaseException as error:  # noqa: BLE001 - wait() raises it
            self._abort(error)
        finally:
            self._room.release()
        if not self._is_sending and not self._closing:
            self._is_sending = True
            self._loop.call_soon(self._send)

    async def _call_handler(self, job: Job) -> None:
        try:
            await as_awaitable(self._handler(job))
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise RuntimeError("the handler was cancelled") from error
