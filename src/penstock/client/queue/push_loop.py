"""The life of a subscription, once for threads and tasks: connect, read, hand out, settle, finish.

It reconnects for ever, at growing intervals, unless the broker refuses it for good. When it closes,
running handlers finish and their acknowledgements are sent; jobs that wait for a handler are left
to the broker, which delivers them to others. With ``ack_mode="auto"`` they would be lost: then the
broker is first told that we leave, and every job that it has sent until it closes is handled.

To leave is to close our direction and to read to the end. Closing a socket with unread data would
make the broker drop what it has not read yet, such as acknowledgements.

An error that is not about one job (``sys.exit()``, a handler of the wrong kind) ends the
subscription: the job is given back, running handlers finish, and ``wait`` raises the error.

Methods are coroutines. For threads the hooks block and never suspend (``sync``).
"""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from random import random
from threading import Lock

from penstock.client.binary.inbox import log
from penstock.client.binary.manager import LINGER_S
from penstock.client.dial import lost
from penstock.client.errors import ClientError
from penstock.client.queue.heartbeat import LOOK_S
from penstock.client.queue.push import PushSession
from penstock.client.queue.reports import (
    OnError,
    delay_of,
    is_fatal,
    is_final,
    reason_of,
    report_end,
    report_failure,
    report_trouble,
)
from penstock.client.queue.server_pool import ServerPool
from penstock.client.queue.values import DeadLetter, Job


class PushLoop(ABC):
    """See the module; subclasses bring the connection, the clock and the handlers."""

    def __init__(
        self,
        pool: ServerPool,
        session: PushSession,
        on_error: OnError | None,
        now: Callable[[], float],
    ) -> None:
        self._pool = pool
        self._session = session
        self._on_error = on_error
        self._lock = Lock()  # guards the session and the connection, for threads
        self._now = now
        self._closing = False
        self._end: BaseException | None = None  # why it ended, if it was not closed

    # ── Ending ────────────────────────────────────────────────────────────────────────────────

    async def _wait(self, timeout_s: float | None) -> bool:
        if not await self._wait_ended(timeout_s):
            return False
        if isinstance(self._end, ClientError):
            raise copy.copy(self._end)  # raising changes an exception: each caller gets its own
        if self._end is not None:
            raise self._end
        return True

    async def _exit(self, error: BaseException | None) -> None:
        is_interrupt = error is not None and not isinstance(error, Exception)
        await self._close(self._session.visibility_s if is_interrupt else None)

    async def _close(self, timeout_s: float | None) -> None:
        self._stop()
        if self._is_handler():
            return
        has_ended = False
        try:
            has_ended = await self._wait_ended(timeout_s)
            if not has_ended:
                log.warning("handlers still run after %g s, and are left behind", timeout_s)
        finally:
            if not has_ended:  # the time is over, or the wait was interrupted
                self._send()
                self._half_close()  # the broker delivers what still runs to others

    def _stop(self) -> None:
        self._closing = True
        self._interrupt()

    def _abort(self, error: BaseException) -> None:
        if self._end is None:
            self._end = error
        report_end(error)
        self._stop()

    async def _finish(self) -> None:
        if self._session.settles:
            await self._drain_handlers()
            self._send()
            await self._read_to_the_end()
        else:
            await self._read_to_the_end()
            await self._drain_handlers()
        self._hang_up()

    async def _read_to_the_end(self) -> None:
        """Close our direction, and read until the broker closes its own in turn."""
        jobs: list[Job] = []
        deadline = self._now() + LINGER_S
        with suppress(OSError, ClientError):
            self._half_close()
            while self._now() < deadline:
                data = await self._receive(LINGER_S)
                jobs += [] if data is None else self._decoded(data)
        if not self._session.settles:
            await self._hand_out(jobs)

    # ── Reading ───────────────────────────────────────────────────────────────────────────────

    async def _stay_connected(self) -> None:
        while not self._closing:
            try:
                await self._converse()
            except ClientError as error:
                self._hang_up()
                report_trouble(self._on_error, error)
                if is_final(error):
                    self._end = error
                    self._stop()
                    return
                await self._pause(self._pool.failed(error, random()))  # noqa: S311 - no secret

    async def _converse(self) -> None:
        await self._dial()
        with self._lock:
            self._session.connected(self._now())
        self._send()
        while not self._closing:
            data = await self._receive(LOOK_S)
            if data is not None:
                await self._hand_out(self._decoded(data))
                self._session.check()
            elif not self._closing:
                with self._lock:
                    self._session.tick(self._now())
                self._send()

    def _decoded(self, data: bytes) -> list[Job]:
        if not data:
            raise lost()
        with self._lock:
            jobs = self._session.receive(data, self._now())
        if jobs:
            self._pool.succeeded()
        return jobs

    async def _handle(self, job: Job) -> None:
        """Call the handler and note the result; raise what ends the subscription."""
        try:
            await self._call_handler(job)
        except BaseException as error:
            with self._lock:
                is_final = isinstance(error, DeadLetter)
                self._session.failed(job, reason_of(error), delay_of(error), is_final=is_final)
            if not isinstance(error, Exception) or is_fatal(error):
                raise
            is_given_back = self._session.settles
            report_failure(self._on_error, error, job, is_given_back=is_given_back)
        else:
            with self._lock:
                self._session.succeeded(job)

    # ── For subclasses ────────────────────────────────────────────────────────────────────────

    @abstractmethod
    async def _dial(self) -> None:
        """Open a connection to the address of the pool."""

    @abstractmethod
    async def _receive(self, timeout_s: float) -> bytes | None:
        """Read; None after the time, or when interrupted."""

    @abstractmethod
    def _send(self) -> None:
        """Send what the session has; if that fails, the reader notices."""

    @abstractmethod
    def _half_close(self) -> None:
        """Close our direction of the connection, if there is one."""

    @abstractmethod
    def _hang_up(self) -> None:
        """Close the connection, if there is one."""

    @abstractmethod
    async def _pause(self, seconds: float) -> None:
        """Sleep until interrupted."""

    @abstractmethod
    def _interrupt(self) -> None:
        """Wake the reader: the subscription closes."""

    @abstractmethod
    async def _wait_ended(self, timeout_s: float | None) -> bool:
        """Wait for the end; false after the time."""

    @abstractmethod
    def _is_handler(self) -> bool:
        """Whether a handler of this subscription is calling."""

    @abstractmethod
    async def _hand_out(self, jobs: Sequence[Job]) -> None:
        """Give jobs to handlers; waiting for room slows the broker down."""

    @abstractmethod
    async def _drain_handlers(self) -> None:
        """Wait until no handler runs."""

    @abstractmethod
    async def _call_handler(self, job: Job) -> None: ...
