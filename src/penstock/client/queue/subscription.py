"""A blocking subscription: one thread reads, others handle, whoever is done sends.

The reading thread owns the connection. It comes back for ever, at growing intervals, unless it is
refused for good. In the end it sees the handlers out: those that run are waited for, and their
acknowledgements brought home; what waits for one is left to the broker, which hands it to somebody
else. With ``ack_mode="auto"`` that would be the end of it: then the broker is told first that we
leave, and what it has sent until it hangs up is handled to the last.

Hanging up means to close our direction and to read to the end. To close a socket with unread data
in it would tell the broker to throw away what it has not read yet, acknowledgements for instance.

Acknowledgements leave together: when there is nothing left to handle, or when a quarter of the
prefetch is done, so that the broker always has reason to send more. Once nobody wants more they
wait for the last handler, since each would bring another job that nobody here begins.

**Ctrl-C** ends the wait in the main thread, and the ``with`` block closes the subscription: no
handler is interrupted. They are waited for as long as one lease lasts; a second Ctrl-C ends that
wait, too. Nobody joins the reading thread for this, because up to Python 3.12 a signal that
interrupts ``Thread.join`` leaves the thread marked as ended.

**What is not about one job** (``sys.exit()``, a handler of the wrong kind) ends the subscription:
the job is given back, running handlers finish, and ``wait`` raises it.
"""

import copy
import select
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import Queue
from random import random
from time import monotonic
from types import TracebackType
from typing import Self

from penstock.client.binary.inbox import log
from penstock.client.binary.manager import LINGER_S, READ_BYTES
from penstock.client.dial import dial
from penstock.client.errors import ClientError
from penstock.client.handlers import check_result
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
from penstock.client.queue.sockets import CONNECT_MAX_S, connection_lost, keep_watch
from penstock.client.queue.values import Job


class Subscription:
    """Hands jobs to a handler until it is closed; made by ``QueueClient.subscribe``."""

    def __init__(
        self,
        pool: ServerPool,
        session: PushSession,
        handler: Callable[[Job], object],
        concurrency: int,
        on_error: OnError | None,
    ) -> None:
        self._pool = pool
        self._session = session
        self._handler = handler
        self._on_error = on_error
        self._end: BaseException | None = None
        """What the broker refused for good, or what a handler raised that is no ``Exception``."""
        self._ended = threading.Event()
        self._ample = max(1, concurrency // 4)
        self._jobs: Queue[Job | None] = Queue(0 if session.settles else concurrency)
        """What waits for a handler: bounded by the prefetch, or else here."""
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._closing = threading.Event()
        self._wake, self._waker = socket.socketpair()
        self._workers = [
            threading.Thread(target=self._work, name=f"penstock-handler-{number}", daemon=True)
            for number in range(concurrency)
        ]
        self._thread = threading.Thread(target=self._run, name="penstock-push", daemon=True)
        for thread in (*self._workers, self._thread):  # the last may end at once, and joins them
            thread.start()

    # ── For the application ───────────────────────────────────────────────────────────────────

    def close(self) -> None:
        """Take no more jobs; returns when running handlers are done and the broker was told.

        Called by a handler it returns at once, and the rest follows.
        """
        self._see_out(None)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until somebody closes it; false after ``timeout_s``.

        If the broker refused the subscription for good, that error is raised, and so is what a
        handler raised to end the program, such as ``SystemExit``.
        """
        if not self._ended.wait(timeout_s):
            return False
        if isinstance(self._end, ClientError):
            raise copy.copy(self._end)  # each caller raises, and so changes, one of its own
        if self._end is not None:
            raise self._end
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        is_interrupt = error is not None and not isinstance(error, Exception)
        self._see_out(self._session.visibility_s if is_interrupt else None)

    def _see_out(self, timeout_s: float | None) -> None:
        """Take no more jobs, and wait for those that run."""
        self._stop()
        if threading.current_thread() in self._workers:
            return
        try:
            if not self._ended.wait(timeout_s):
                log.warning("handlers still run after %g s, and are left behind", timeout_s)
        finally:
            if not self._ended.is_set():  # the time is over, or a second Ctrl-C has come
                self._leave_behind()

    def _leave_behind(self) -> None:
        """Tell what is done, and that we leave: the broker hands what still runs to others."""
        self._send()
        with self._lock, suppress(OSError):
            if self._socket is not None:
                self._socket.shutdown(socket.SHUT_WR)

    def _stop(self) -> None:
        self._closing.set()
        with suppress(OSError):  # closed already
            self._waker.send(b"!")

    def _abort(self, error: BaseException) -> None:
        """End because of this."""
        if self._end is None:
            self._end = error
        report_end(error)
        self._stop()

    # ── Reading ───────────────────────────────────────────────────────────────────────────────

    def _run(self) -> None:
        try:
            self._stay()
        except BaseException as error:  # noqa: BLE001 - on_error's, or a fault: wait() raises it
            self._abort(error)
        try:
            self._finish()
        finally:
            self._ended.set()

    def _stay(self) -> None:
        while not self._closing.is_set():
            try:
                self._converse()
            except ClientError as error:
                self._hang_up()
                report_trouble(self._on_error, error)
                if is_final(error):
                    self._end = error
                    self._closing.set()
                self._closing.wait(self._pool.failed(error, random()))  # noqa: S311 - no secret

    def _converse(self) -> None:
        """Read until the connection is over, or nobody wants more."""
        address = self._pool.address
        connection = dial(address.host, address.port, CONNECT_MAX_S)
        keep_watch(connection, 2 * CONNECT_MAX_S)
        with self._lock:
            self._socket = connection
            self._session.connected(monotonic())
        self._send()
        while self._is_ready(connection):
            self._read(connection)

    def _is_ready(self, connection: socket.socket) -> bool:
        """Wait for the broker, and look whether it is there; false if the application was first."""
        poll = select.poll()
        poll.register(connection, select.POLLIN)
        poll.register(self._wake, select.POLLIN)
        while not (ready := dict(poll.poll(LOOK_S * 1000))):
            with self._lock:
                self._session.tick(monotonic())
            self._send()
        return self._wake.fileno() not in ready

    def _read(self, connection: socket.socket) -> None:
        try:
            data = connection.recv(READ_BYTES)
        except OSError as error:
            raise connection_lost() from error
        if not data:
            raise connection_lost()
        with self._lock:
            jobs = self._session.receive(data, monotonic())
        if jobs:
            self._pool.succeeded()
        for job in jobs:
            self._jobs.put(job)
        self._session.check()

    def _finish(self) -> None:
        if self._session.settles:
            self._dismiss_workers()
            self._send()
            self._read_to_the_end()
        else:
            self._read_to_the_end()
            self._dismiss_workers()
        self._hang_up()
        self._wake.close()
        self._waker.close()

    def _dismiss_workers(self) -> None:
        for _ in self._workers:
            self._jobs.put(None)
        for worker in self._workers:
            worker.join()

    def _read_to_the_end(self) -> None:
        """Close our direction; wait until the broker has read what we sent and closes in turn."""
        connection, deadline = self._socket, monotonic() + LINGER_S
        if connection is not None:
            with suppress(OSError, ClientError):
                connection.shutdown(socket.SHUT_WR)
                connection.settimeout(LINGER_S)
                while monotonic() < deadline:
                    self._read(connection)

    def _hang_up(self) -> None:
        with self._lock:
            if self._socket is not None:
                self._socket.close()
                self._socket = None

    # ── Handling ──────────────────────────────────────────────────────────────────────────────

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            if self._closing.is_set() and self._session.settles:
                continue  # the broker hands it to somebody else
            try:
                self._handle(job)
                if not self._closing.is_set() and self._is_time_to_send():
                    self._send()
            except BaseException as error:  # noqa: BLE001 - wait() raises it; the thread goes on
                self._abort(error)

    def _is_time_to_send(self) -> bool:
        return self._jobs.empty() or self._session.unsent >= self._ample

    def _handle(self, job: Job) -> None:
        try:
            check_result(self._handler(job))
        except Exception as error:
            self._give_back(job, error)
            if is_fatal(error):
                raise
            is_given_back = self._session.settles
            report_failure(self._on_error, error, job, is_given_back=is_given_back)
        except BaseException as error:
            self._give_back(job, error)
            raise
        else:
            with self._lock:
                self._session.succeeded(job)

    def _give_back(self, job: Job, error: BaseException) -> None:
        with self._lock:
            self._session.failed(job, reason_of(error))

    def _send(self) -> None:
        """Send what there is; if that fails, the reading thread finds that it is over."""
        with self._lock:
            data = self._session.data_to_send() if self._socket is not None else b""
            if data and self._socket is not None:  # even of nothing a closed direction complains
                try:
                    self._socket.sendall(data)
                except OSError:
                    with suppress(OSError):
                        self._socket.shutdown(socket.SHUT_RDWR)
