"""The link of the blocking client: a socket, a thread and a clock around ``QueueSession``.

It is for any number of threads. The thread that asks also sends, together with the requests of
others that wait to be sent. One thread of the client reads, wakes the callers whose answers are
here, and reconnects after a loss. It sleeps while nothing is in flight, and does not reconnect
before there is a request.

Two locks. ``_lock`` guards session and socket, and is held briefly. ``_sending`` is held while the
system takes bytes, which may last: reading continues meanwhile, so that two ends that both have
much to send do not block each other. A thread that holds both took ``_sending`` first.

Callers that wait check the clock themselves: they fail calls whose time is over, and shut down a
connection that is silent, which the reading thread then notices.
"""

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from random import random
from time import monotonic, sleep
from typing import TypeVar

from penstock.client.binary.manager import LINGER_S, READ_BYTES
from penstock.client.dial import Connection, dial, lost, unanswered
from penstock.client.errors import ClientError, ConnectionLostError
from penstock.client.queue.heartbeat import LOOK_S
from penstock.client.queue.server_pool import ServerPool
from penstock.client.queue.session import QueueCall, QueueSession
from penstock.client.queue.sockets import (
    broker_silent,
    connect_timeout_s,
    is_mistake,
    keep_watch,
)

T = TypeVar("T")


class BlockingQueueLink:
    """See the module."""

    def __init__(self, pool: ServerPool, session: QueueSession) -> None:
        self._pool = pool
        self._session = session
        self._look_every_s = min(session.timeout_s / 8, LOOK_S)
        self._lock = threading.Lock()
        self._sending = threading.Lock()
        self._wanted = threading.Condition(self._lock)
        self._socket: Connection | None = None
        self._is_silent = False  # the connection was left because the broker does not answer
        self.when_lost: Callable[[ClientError], object] | None = None
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="penstock-queue", daemon=True)

    def open(self) -> None:
        """Connect to one of the addresses, within ``timeout_s``; a mistake is told at once."""
        deadline = monotonic() + self._session.timeout_s
        while True:
            try:
                self._dial()
                break
            except ClientError as error:
                pause_s = self._pool.failed(error, random())  # noqa: S311 - no secret
                if is_mistake(error) or monotonic() + pause_s >= deadline:
                    raise
                sleep(pause_s)
        self._thread.start()

    def close(self) -> None:
        with self._lock:
            self._closed.set()
            self._session.close(_closed())
            self._wanted.notify_all()
            self._shut_down()
        if self._thread.is_alive():
            self._thread.join(LINGER_S)

    # ── Asking ────────────────────────────────────────────────────────────────────────────────

    def begin(self, call: QueueCall[object]) -> None:
        with self._lock:
            if self._closed.is_set():
                raise _closed()
            self._session.ask(call, monotonic())
            if self._socket is None:
                self._wanted.notify_all()
        self._send()

    async def wait(self, call: QueueCall[T]) -> T:
        arrived = threading.Lock()
        arrived.acquire()
        with self._lock:
            if call.is_done:
                return call.result()
            call.when_done = arrived.release
        while not arrived.acquire(timeout=self._look_every_s):
            self._look()
        return call.result()

    async def sleep(self, seconds: float) -> None:
        """Block, but not beyond the end of the client."""
        self._closed.wait(max(0.0, seconds))

    def now(self) -> float:
        return monotonic()

    def _look(self) -> None:
        with self._lock:
            if self._session.tick(monotonic()):
                self._is_silent = True
                self._shut_down()
            has_ping = self._session.has_ping
        if has_ping and not self._sending.locked():  # else bytes are being sent
            self._send()

    # ── Bytes ─────────────────────────────────────────────────────────────────────────────────

    def _send(self) -> None:
        with self._sending:
            with self._lock:
                connection = self._socket
                data = b"" if connection is None else self._session.data_to_send(monotonic())
            if data and connection is not None:
                try:
                    connection.sendall(data)
                except OSError:
                    self._shut_down()

    def _shut_down(self) -> None:
        connection = self._socket
        if connection is not None:
            with suppress(OSError):  # the other end may have been first
                connection.shutdown(socket.SHUT_RDWR)

    # ── The thread ────────────────────────────────────────────────────────────────────────────

    def _run(self) -> None:
        while not self._closed.is_set():
            try:
                self._reconnect()
                self._converse()
            except ClientError as error:
                self._lose(error)
        self._hang_up(_closed())

    def _reconnect(self) -> None:
        with self._wanted:
            self._wanted.wait_for(
                lambda: self._socket or self._closed.is_set() or self._session.is_wanting
            )
            is_there = self._socket is not None or self._closed.is_set()
        if not is_there:
            self._dial()
            self._send()

    def _dial(self) -> None:
        address = self._pool.address
        timeout_s = connect_timeout_s(self._session.timeout_s)
        connection = dial(address.host, address.port, timeout_s, self._pool.tls, self._pool.login())
        keep_watch(connection, self._session.timeout_s)
        with self._lock:
            self._session.connected(monotonic())
            self._is_silent = False
            self._socket = connection

    def _converse(self) -> None:
        connection, has_heard = self._socket, False
        while connection is not None and not self._closed.is_set():
            try:
                data = connection.recv(READ_BYTES)
            except OSError as error:
                raise (lost(error) if has_heard else unanswered(connection, error)) from error
            if not data:
                if self._is_silent:
                    raise broker_silent()
                raise lost() if has_heard else unanswered(connection)
            has_heard = True
            with self._lock:
                self._session.receive(data, monotonic())
            self._pool.succeeded()

    def _lose(self, error: ClientError) -> None:
        self._hang_up(error)
        if self.when_lost is not None and not self._closed.is_set():
            self.when_lost(error)
        self._closed.wait(self._pool.failed(error, random()))  # noqa: S311 - no secret

    def _hang_up(self, error: ClientError) -> None:
        """Close the socket while no thread sends on it: its number may be reused."""
        self._shut_down()
        with self._sending, self._lock:
            if self._socket is not None:
                self._socket.close()
                self._socket = None
            self._session.disconnected(error)


def _closed() -> ConnectionLostError:
    return ConnectionLostError("the client is closed")
