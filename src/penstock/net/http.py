"""The HTTP door: uvicorn's HTTP/1.1 protocol, without its server, with bounds around it.

* **Head**: at most ``head_bytes_max``, else 400.
* **Body**: one larger than ``body_bytes_max``, or of unknown size, gets 413, and the connection is
  closed.
* **Time**: one timer per connection, restarted by every complete answer. A client that does not
  finish a request, or does not read its answer, within ``request_timeout_s`` is cut off. An idle
  connection is closed after ``keep_alive_s``.
* **Number**: requests on more than ``connections_max`` connections at once get 503.

The first reason for the end of a connection is given to ``on_close``.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from email.utils import formatdate
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from penstock.limits import CONNECT_TIMEOUT_S, KIB
from penstock.net.origin import Origin
from penstock.net.stalls import STALL_S
from penstock.obs.log import get_logger, printable
from penstock.obs.reasons import DisconnectReason

HEAD_BYTES_MAX = 16 * KIB  # request line and headers; browsers with many cookies need 8 KiB
BODY_BYTES_MAX = 64 * KIB
CONNECTIONS_MAX = 64  # a few scrapers, probes and people
ORIGIN = "penstock.origin"  # key of a request's scope
KEEP_ALIVE_S = 5.0  # idle time between two requests of one connection
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]  # an ASGI 3 application
OnClose = Callable[[asyncio.Transport, DisconnectReason, Origin], None]
_log = get_logger("http")

# uvicorn warns about each bad request, which anybody can cause, and reports errors of the
# application, which ``_HttpConnection`` does itself. This logger discards everything.
_silence = logging.Logger("penstock.net.http", logging.CRITICAL + 1)  # noqa: LOG001


class HttpDoor:
    """Serves ``app`` on transports that the listener accepted."""

    def __init__(
        self,
        app: Application,
        on_close: OnClose = lambda _transport, _reason, _origin: None,
        *,
        head_bytes_max: int = HEAD_BYTES_MAX,
        body_bytes_max: int = BODY_BYTES_MAX,
        connections_max: int = CONNECTIONS_MAX,
        request_timeout_s: float = CONNECT_TIMEOUT_S,
        keep_alive_s: float = KEEP_ALIVE_S,
    ) -> None:
        assert keep_alive_s <= request_timeout_s, "the timer would cut idle connections first"
        self.on_close = on_close
        self.body_bytes_max = body_bytes_max
        self.request_timeout_s = request_timeout_s
        self.keep_alive_s = keep_alive_s
        self.state = ServerState()
        self.config = uvicorn.Config(
            app,
            http=_HttpConnection,
            loop="none",
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            h11_max_incomplete_event_size=head_bytes_max,
            limit_concurrency=connections_max + 1,  # uvicorn refuses *at* its limit
        )
        self.config.load()

    @property
    def connections(self) -> int:
        return len(self.state.connections)

    def accept(self, transport: asyncio.Transport, data: bytes, origin: Origin) -> None:
        """The application finds the origin in its scope, under ``ORIGIN``."""
        connection = _HttpConnection(self, origin)
        transport.set_protocol(connection)
        connection.connection_made(transport)
        connection.client = (origin.host, origin.port) if origin.host else None
        if data:
            connection.data_received(data)

    def close_all(self) -> None:
        for connection in self._open():
            connection.shutdown()

    def abort_all(self) -> None:
        for connection in self._open():
            connection.end(DisconnectReason.SERVER_SHUTDOWN)
            connection.transport.abort()

    def _open(self) -> "list[_HttpConnection]":
        return [c for c in self.state.connections if isinstance(c, _HttpConnection)]


class _HttpConnection(H11Protocol):
    """uvicorn's protocol, bounded in time and size."""

    def __init__(self, door: HttpDoor, origin: Origin) -> None:
        super().__init__(door.config, door.state, {}, asyncio.get_running_loop())
        self._origin = origin
        self.logger = _silence
        self.access_log = False
        self.app = self._serve
        self.timeout_keep_alive = door.keep_alive_s  # type: ignore[assignment]  # any number does
        self._door = door
        self._answered = False
        self._reason: DisconnectReason | None = None
        self._timer = self._start_timer()

    def end(self, reason: DisconnectReason) -> None:
        """Note why the connection is about to end; the first reason stands."""
        self._reason = self._reason or reason

    def data_received(self, data: bytes) -> None:
        self.server_state.default_headers = [
            (b"date", formatdate(usegmt=True).encode()),
            (b"server", b"penstock"),
        ]
        super().data_received(data)

    def eof_received(self) -> bool:  # type: ignore[override]  # uvicorn never keeps it open
        """Keep a half-closed connection until the answer is sent, as shell pipes need it."""
        if self._idle():
            return False
        self.cycle.keep_alive = False
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        self._unset_keepalive_if_required()
        orderly = exc is None and self._answered and self._idle()
        super().connection_lost(exc)
        if self._origin.visitor is not None:  # it never logs in, so it was a stranger all along
            self._origin.visitor.left()
        ended = DisconnectReason.CLIENT_DISCONNECT if orderly else DisconnectReason.CONNECTION_LOST
        self._door.on_close(self.transport, self._reason or ended, self._origin)

    def on_response_complete(self) -> None:
        self._answered = True
        if not self.transport.is_closing():
            self._timer.cancel()
            self._timer = self._start_timer()
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        self.end(DisconnectReason.MALFORMED_PACKET)
        super().send_400_response(msg)

    def timeout_keep_alive_handler(self) -> None:
        timer = self.timeout_keep_alive_task
        if timer is not None and self._is_late(timer):
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )
            return
        self.end(DisconnectReason.KEEP_ALIVE_TIMEOUT)
        super().timeout_keep_alive_handler()

    def shutdown(self) -> None:
        self.end(DisconnectReason.SERVER_SHUTDOWN)
        super().shutdown()

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        if _body_bytes_announced(scope) > self._door.body_bytes_max:
            self.end(DisconnectReason.PACKET_TOO_LARGE)
            await _send_too_large(send)
            return
        scope[ORIGIN] = self._origin
        try:
            await self.config.loaded_app(scope, receive, send)
        except Exception:
            self.end(DisconnectReason.INTERNAL_ERROR)
            _log.exception("http_request_failed", path=printable(scope["path"]))
            raise  # uvicorn answers 500, or closes if an answer had begun

    def _idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _start_timer(self) -> asyncio.TimerHandle:
        return self.loop.call_later(self._door.request_timeout_s, self._out_of_time)

    def _is_late(self, timer: asyncio.TimerHandle) -> bool:
        """Whether the whole broker was stopped: then a request may wait to be read."""
        return self.loop.time() - timer.when() > STALL_S

    def _out_of_time(self) -> None:
        if self._is_late(self._timer):
            self._timer = self._start_timer()
            return
        self.end(
            DisconnectReason.KEEP_ALIVE_TIMEOUT
            if self._answered
            else DisconnectReason.CONNECT_TIMEOUT
        )
        self.transport.abort()


def _body_bytes_announced(scope: Scope) -> float:
    headers = dict(scope["headers"])
    if b"transfer-encoding" in headers:
        return float("inf")
    return int(headers.get(b"content-length", 0))  # h11 has checked that it is a number


async def _send_too_large(send: Send) -> None:
    body = b'{"error":"Request body too large"}\n'
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": 413, "headers": headers})
    await send({"type": "http.response.body", "body": body})
