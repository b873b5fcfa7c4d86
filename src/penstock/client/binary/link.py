"""The link of blocking clients: a socket and a clock around ``ConnectionManager``.

Everything that waits is one loop, ``until``: send, stop if the wanted state is reached, else sleep
until the socket or the clock is ready. A lost connection is replaced inside that loop, so its
callers never see it. There is no thread, and nothing happens between two calls: after a long pause
the broker closes the connection, and the next call reconnects and resumes.
"""

import select
from collections.abc import Callable
from contextlib import suppress
from math import ceil, inf
from random import random
from time import monotonic, sleep

from penstock.client.binary.manager import ACKNOWLEDGE_DELAY_S, READ_BYTES, ConnectionManager
from penstock.client.binary.session import Request
from penstock.client.dial import Connection, dial
from penstock.client.errors import (
    ClientError,
    ConnectionLostError,
    LoginFailedError,
    UnreachableError,
)


class BlockingBinaryLink:
    """See the module; for one thread."""

    def __init__(self, manager: ConnectionManager) -> None:
        self._manager = manager
        self._socket: Connection | None = None
        self._outgoing = bytearray()
        self._acks = manager.session.acks
        self._acknowledge_at = 0.0  # when acknowledgements need not wait for more
        self._again_at = 0.0  # when to reconnect
        self._failure: ClientError | None = ConnectionLostError(
            "the client is not open", "use it in a `with` statement"
        )

    async def open(self) -> None:
        """Connect, with one attempt for each node: a wrong address is reported at once."""
        for left in reversed(range(len(self._manager.addresses))):
            try:
                self._dial()
                break
            except UnreachableError:
                if not left:
                    raise
        self._failure = None

    async def abandon(self) -> None:
        self._hang_up()
        self._failure = ConnectionLostError("the client is closed")

    def is_open(self) -> bool:
        return self._failure is None

    def is_turn_due(self) -> bool:
        return monotonic() >= self._acknowledge_at or self._acks.is_ample

    async def answered(self, request: Request, timeout_s: float = inf) -> bool:
        return await self.until(lambda: request.is_done, timeout_s)

    async def until(self, done: Callable[[], bool], timeout_s: float = inf) -> bool:
        is_done = self._run_until(done, monotonic() + timeout_s)
        self._acknowledge_at = monotonic() + ACKNOWLEDGE_DELAY_S
        return is_done

    def _run_until(self, done: Callable[[], bool], deadline: float) -> bool:
        while True:
            if self._failure is not None:
                raise self._failure
            self._guarded(self._send)
            if done():
                return True
            if monotonic() >= deadline:
                return False
            if self._socket is None:
                self._reconnect(deadline)
            else:
                self._sleep(self._socket, deadline)
                self._guarded(self._read)

    def _guarded(self, act: Callable[[Connection], None]) -> None:
        """Use the connection, if there is one; note its loss."""
        if self._socket is None:
            return
        try:
            act(self._socket)
        except OSError as error:
            self._lose(error)
        except ClientError as error:
            self._fail(error)

    def _lose(self, cause: OSError | ClientError | None = None) -> None:
        self._hang_up()
        try:
            now = monotonic()
            self._again_at = self._manager.ended(now, random(), cause)  # noqa: S311 - no secret
        except ClientError as error:
            self._fail(error)

    def _fail(self, error: ClientError) -> None:
        self._hang_up()
        self._failure = error
        raise error

    def _hang_up(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _reconnect(self, deadline: float) -> None:
        now = monotonic()
        sleep(max(0.0, min(self._again_at, deadline) - now))
        if self._again_at <= deadline:
            try:
                self._dial()
            except LoginFailedError as error:
                self._fail(error)
            except ClientError as error:
                self._lose(error)

    def _dial(self) -> None:
        options = self._manager.options
        timeout_s, tls = options.connect_timeout_s, self._manager.tls
        login, address = self._manager.login(), self._manager.next_address()
        self._socket = dial(*address, timeout_s, tls, login)
        self._socket.setblocking(False)
        self._outgoing.clear()
        self._manager.opened(monotonic())

    # ── Bytes ─────────────────────────────────────────────────────────────────────────────────

    def _sleep(self, connection: Connection, deadline: float) -> None:
        poll = select.poll()
        poll.register(connection, select.POLLIN | (select.POLLOUT if self._outgoing else 0))
        until = min(deadline, self._manager.next_at)
        poll.poll(None if until == inf else max(0, ceil((until - monotonic()) * 1000)))

    def _send(self, connection: Connection) -> None:
        now = monotonic()
        if self._manager.is_silent(now):
            self._read(connection)  # the caller may have been away, and the answer unread
            if self._manager.is_silent(now):
                raise TimeoutError
        self._outgoing += self._manager.turn(now)
        if self._outgoing:
            try:
                del self._outgoing[: connection.send(self._outgoing)]
            except BlockingIOError:
                return
            except OSError:
                self._read_rest(connection)
                raise

    def _read_rest(self, connection: Connection) -> None:
        """Hear what the broker sent before it closed, which may be the reason not to come back.

        Who works off what has arrived sends acknowledgements and reads nothing meanwhile.
        """
        with suppress(OSError):
            while data := connection.recv(READ_BYTES):
                self._manager.heard(data, monotonic())

    def _read(self, connection: Connection) -> None:
        try:
            data = connection.recv(READ_BYTES)
        except BlockingIOError:
            return
        if not data:
            raise ConnectionResetError
        self._manager.heard(data, monotonic())
