"""A blocking subscription: one thread reads, others handle jobs and send results.

Acknowledgements leave together: when there is nothing left to handle, or when a quarter of the
prefetch is done, so that the broker always has room to send more. After ``close`` they wait for the
last handler, since each would bring another job that is not handled here.

**Ctrl-C** ends the wait in the main thread, and the ``with`` block closes the subscription: no
handler is interrupted. ``close`` then waits for as long as one lease lasts; a second Ctrl-C ends
that wait, too. The reading thread is not joined: up to Python 3.12 a signal that interrupts
``Thread.join`` leaves the thread marked as ended.
"""

import select
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Queue
from time import monotonic
from typing import Self

from penstock.client.binary.manager import READ_BYTES
from penstock.client.dial import Connection, dial, lost
from penstock.client.handlers import check_result
from penstock.client.queue.push import PushSession
from penstock.client.queue.push_loop import PushLoop
from penstock.client.queue.reports import OnError
from penstock.client.queue.server_pool import ServerPool
from penstock.client.queue.sockets import CONNECT_MAX_S, keep_watch
from penstock.client.queue.values import Job
from penstock.client.sync import run


class Subscription(PushLoop):
    """Hands jobs to a handler until it is closed; made by ``QueueClient.subscribe``."""

    def __init__(
        self,
        pool: ServerPool,
        session: PushSession,
        handler: Callable[[Job], object],
        concurrency: int,
        on_error: OnError | None,
    ) -> None:
        super().__init__(pool, session, on_error, monotonic)
        self._handler = handler
        self._ample = max(1, concurrency // 4)  # results that need not wait for others
        self._jobs: Queue[Job | None] = Queue(0 if session.settles else concurrency)
        self._socket: Connection | None = None
        self._poll = select.poll()
        self._ended = threading.Event()
        self._wake, self._waker = socket.socketpair()
        self._workers = [
            threading.Thread(target=self._work, name=f"penstock-handler-{number}", daemon=True)
            for number in range(concurrency)
        ]
        reader = threading.Thread(target=self._run, name="penstock-push", daemon=True)
        for thread in (*self._workers, reader):  # the reader may end at once, and joins the others
            thread.start()

    def close(self) -> None:
        """Take no more jobs; return when running handlers are done and the broker was told.

        A handler may call it: then it returns at once, and the rest follows.
        """
        run(self._close(None))

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until it is closed; return False after ``timeout_s``.

        Raises the error if the broker refused the subscription for good, and what a handler raised
        to end the program, such as ``SystemExit``.
        """
        return run(self._wait(timeout_s))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        run(self._exit(error))

    # ── The reading thread ────────────────────────────────────────────────────────────────────

    def _run(self) -> None:
        try:
            run(self._stay_connected())
        except BaseException as error:  # noqa: BLE001 - on_error's, or a fault: wait() raises it
            self._abort(error)
        try:
            run(self._finish())
            self._wake.close()
            self._waker.close()
        finally:
            self._ended.set()

    async def _dial(self) -> None:
        address = self._pool.address
        connection = dial(
            address.host, address.port, CONNECT_MAX_S, self._pool.tls, self._pool.login()
        )
        keep_watch(connection, 2 * CONNECT_MAX_S)
        self._poll = select.poll()
        self._poll.register(connection, select.POLLIN)
        self._poll.register(self._wake, select.POLLIN)
        with self._lock:
            self._socket = connection

    async def _receive(self, timeout_s: float) -> bytes | None:
        if self._socket is None:
            raise lost()
        ready = dict(self._poll.poll(timeout_s * 1000))
        if self._wake.fileno() in ready:
            self._wake.recv(READ_BYTES)
            return None
        if not ready:
            return None
        try:
            return self._socket.recv(READ_BYTES)
        except OSError as error:
            raise lost(error) from error

    def _send(self) -> None:
        with self._lock:
            data = self._session.data_to_send() if self._socket is not None else b""
            if data and self._socket is not None:  # a closed direction refuses even nothing
                try:
                    self._socket.sendall(data)
                except OSError:
                    with suppress(OSError):
                        self._socket.shutdown(socket.SHUT_RDWR)

    def _half_close(self) -> None:
        with self._lock, suppress(OSError):
            if self._socket is not None:
                self._socket.shutdown(socket.SHUT_WR)

    def _hang_up(self) -> None:
        with self._lock:
            if self._socket is not None:
                self._socket.close()
                self._socket = None

    async def _pause(self, seconds: float) -> None:
        poll = select.poll()
        poll.register(self._wake, select.POLLIN)
        poll.poll(seconds * 1000)

    def _interrupt(self) -> None:
        with suppress(OSError):  # closed already
            self._waker.send(b"!")

    async def _wait_ended(self, timeout_s: float | None) -> bool:
        return self._ended.wait(timeout_s)

    # ── Handlers ──────────────────────────────────────────────────────────────────────────────

    def _is_handler(self) -> bool:
        return threading.current_thread() in self._workers

    async def _hand_out(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            self._jobs.put(job)

    async def _drain_handlers(self) -> None:
        for _ in self._workers:
            self._jobs.put(None)
        for worker in self._workers:
            worker.join()

    async def _call_handler(self, job: Job) -> None:
        check_result(self._handler(job))

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            if self._closing and self._session.settles:
                continue  # the broker delivers it to another consumer
            try:
                run(self._handle(job))
                if not self._closing and self._is_time_to_send():
                    self._send()
            except BaseException as error:  # noqa: BLE001 - wait() raises it; the thread goes on
                self._abort(error)

    def _is_time_to_send(self) -> bool:
        return self._jobs.empty() or self._session.unsent >= self._ample
