"""The link of asyncio clients: streams, a task and a clock around ``ConnectionManager``.

One task per client reads, pings and reconnects while the client is open. Callers wait for the
answer to a request (``answered``) or for any event (``until``). Requests of one iteration of the
event loop leave in one write (``nudge``); acknowledgements wait a little longer for more.

If a subscriber is slower than its broker the task stops reading, and the rest waits at the broker.
It still pings, and then reads a little, to see that the broker is alive. It reads on while a
call waits for an answer, which may stand behind any number of messages.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from math import inf
from random import random

from penstock.client.async_dial import open_streams
from penstock.client.binary.inbox import ARRIVED_MAX
from penstock.client.binary.manager import (
    ACKNOWLEDGE_DELAY_S,
    READ_BYTES,
    ConnectionManager,
)
from penstock.client.binary.session import Request
from penstock.client.errors import (
    ClientError,
    ConnectionLostError,
    LoginFailedError,
    UnreachableError,
)


class AsyncBinaryLink:
    """See the module; for one event loop."""

    def __init__(self, manager: ConnectionManager) -> None:
        self._manager = manager
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._task: asyncio.Task[None] | None = None
        self._waiting: set[asyncio.Future[None]] = set()  # of callers of ``answered``
        self._happened = asyncio.Event()  # set, and replaced, by every event
        self._room = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._failure: Exception | None = ConnectionLostError(
            "the client is not open", "use it in an `async with` statement"
        )
        manager.session.acks.tell(lambda: self.nudge(ACKNOWLEDGE_DELAY_S))

    # ── Beginning and end ─────────────────────────────────────────────────────────────────────

    async def open(self) -> None:
        """Connect, with one attempt for each node: a wrong address is reported at once."""
        for left in reversed(range(len(self._manager.addresses))):
            try:
                await self._dial()
                break
            except UnreachableError:
                if not left:
                    raise
        self._failure = None
        self._task = asyncio.create_task(self._run())

    async def abandon(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        writer = self._streams[1] if self._streams else None
        self._hang_up()
        self._fail(ConnectionLostError("the client is closed"))
        if writer is not None:
            with suppress(OSError):
                await writer.wait_closed()

    # ── Waiting ───────────────────────────────────────────────────────────────────────────────

    def is_open(self) -> bool:
        return self._failure is None

    def is_turn_due(self) -> bool:
        return self._manager.session.acks.is_ample

    async def answered(self, request: Request, timeout_s: float = inf) -> bool:
        self._check()
        if not request.is_done:
            loop = asyncio.get_running_loop()
            future = loop.create_future()

            def finish() -> None:
                if not future.done():
                    future.set_result(None)

            request.when_done = finish
            timer = None if timeout_s == inf else loop.call_later(timeout_s, finish)
            self._waiting.add(future)
            try:
                self.nudge()
                await future
            finally:
                self._waiting.discard(future)
                if timer is not None:
                    timer.cancel()
        return request.is_done

    async def until(self, done: Callable[[], bool], timeout_s: float = inf) -> bool:
        self.nudge()
        with suppress(TimeoutError):
            async with asyncio.timeout(None if timeout_s == inf else timeout_s):
                while not done():
                    self._check()
                    await self._happened.wait()
        return done()

    def nudge(self, delay_s: float = 0.0) -> None:
        """Send soon, and read on if there is room for messages."""
        self._room.set()
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            if self._timer.when() <= loop.time() + delay_s:
                return
            self._timer.cancel()
        self._timer = loop.call_later(delay_s, self._send)

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _announce(self) -> None:
        self._happened.set()
        self._happened = asyncio.Event()

    # ── The task ──────────────────────────────────────────────────────────────────────────────

    async def _run(self) -> None:
        try:
            while True:
                cause: OSError | None = None
                try:
                    await self._converse()
                except OSError as error:
                    cause = error
                await self._reconnect(cause)
        except Exception as error:  # noqa: BLE001 - raised to the callers
            self._hang_up()
            self._fail(error)

    async def _converse(self) -> None:
        """Move bytes both ways until the connection is lost."""
        loop = asyncio.get_running_loop()
        while not self._manager.is_silent(loop.time()):
            self._send()
            data = await self._read()
            if data is None:
                continue
            if not data:
                return
            self._manager.heard(data, loop.time())
            self._announce()

    async def _read(self) -> bytes | None:
        """Wait for bytes; None when it is time to check the clock."""
        assert self._streams is not None
        next_at = self._manager.next_at
        try:
            async with asyncio.timeout_at(None if next_at == inf else next_at) as limit:
                if self._is_listening:
                    return await self._streams[0].read(READ_BYTES)
                self._room.clear()
                await self._room.wait()
        except TimeoutError:
            if not limit.expired():
                raise  # the system's, about the connection
        return None

    @property
    def _is_listening(self) -> bool:
        is_full = len(self._manager.inbox.arrived) >= ARRIVED_MAX
        return not is_full or bool(self._waiting) or self._manager.awaits_sign

    async def _reconnect(self, cause: OSError | ClientError | None) -> None:
        loop = asyncio.get_running_loop()
        self._hang_up()
        while self._streams is None:
            again_at = self._manager.ended(loop.time(), random(), cause)  # noqa: S311 - no secret
            await asyncio.sleep(again_at - loop.time())
            try:
                await self._dial()
            except LoginFailedError:
                raise
            except ClientError as error:
                cause = error

    async def _dial(self) -> None:
        options = self._manager.options
        tls, login = self._manager.tls, self._manager.login()
        host, port = self._manager.next_address()
        self._streams = await open_streams(
            host, port, options.connect_timeout_s, READ_BYTES, tls, login
        )
        self._manager.opened(asyncio.get_running_loop().time())

    def _send(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._streams is not None:
            data = self._manager.turn(asyncio.get_running_loop().time())
            if data:
                self._streams[1].write(data)

    def _hang_up(self) -> None:
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None

    def _fail(self, error: Exception) -> None:
        self._failure = error
        for future in self._waiting:
            if not future.done():
                future.set_exception(error)
        self._announce()
