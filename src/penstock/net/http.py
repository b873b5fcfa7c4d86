"""The HTTP door: uvicorn's HTTP/1.1 protocol, without its server, with bounds around it.

* **Head**: at most ``head_bytes_max``, else 400.
* **Body**: one larger than ``body_bytes_max``, or of unknown size, gets 413, and the connection is
  closed.
* **Time**: one timer per connection, restarted by every complete answer. A client that does not
  finish a request, or does not read its answer, within ``request_timeout_s`` is cut off. An idle
  connection is closed after ``keep_alive_s``.
* **Number**: requests on more than ``connections_max`` connections at once get 503.
* **Streams** are answers without end, in a lane of their own: :mod:`penstock.net.http_streams`.

A request that asks for a WebSocket is the ``entrance``'s: it leaves this door, or is refused.

The first reason for the end of a connection is given to ``on_close``.
"""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from email.utils import formatdate
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from penstock.limits import CONNECT_TIMEOUT_S, KIB
from penstock.net.http_refusals import refusal_body
from penstock.net.http_streams import (
    STREAM,
    STREAM_SILENCE_S,
    STREAMS_MAX,
    StreamWatch,
    end_if_unacknowledged,
)
from penstock.net.origin import Origin
from penstock.net.stalls import STALL_S
from penstock.net.websocket_entrance import UpgradeRefused, UpgradeRequest, WebSocketEntrance
from penstock.obs.log import get_logger
from penstock.obs.printable import printable
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
OnClose = Callable[[asyncio.Transport, DisconnectReason, Origin, str], None]
_log = get_logger("http")

# uvicorn warns about each bad request, which anybody can cause, and reports errors of the
# application, which ``_HttpConnection`` does itself. This logger discards everything.
_silence = logging.Logger("penstock.net.http", logging.CRITICAL + 1)  # noqa: LOG001


class HttpDoor:
    """Serves ``app`` on transports that the listener accepted."""

    def __init__(
        self,
        app: Application,
        on_close: OnClose = lambda _transport, _reason, _origin, _detail: None,
        *,
        entrance: WebSocketEntrance | None = None,
        head_bytes_max: int = HEAD_BYTES_MAX,
        body_bytes_max: int = BODY_BYTES_MAX,
        connections_max: int = CONNECTIONS_MAX,
        request_timeout_s: float = CONNECT_TIMEOUT_S,
        keep_alive_s: float = KEEP_ALIVE_S,
        streams_max: int = STREAMS_MAX,
        stream_silence_s: float = STREAM_SILENCE_S,
    ) -> None:
        assert keep_alive_s <= request_timeout_s, "the timer would cut idle connections first"
        self.on_close = on_close
        self.entrance = entrance
        self.body_bytes_max = body_bytes_max
        self.connections_max = connections_max
        self.request_timeout_s = request_timeout_s
        self.keep_alive_s = keep_alive_s
        self.streams_max = streams_max
        self.stream_silence_s = stream_silence_s
        self.streams: set[_HttpConnection] = set()
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
        connections = [c for c in self.state.connections if isinstance(c, _HttpConnection)]
        return [*connections, *self.streams]


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
        self._detail = ""
        self._timer = self._start_timer()
        self._stream: StreamWatch | None = None
        self._task: asyncio.Task[None] | None = None  # of a stream

    def end(self, reason: DisconnectReason, detail: str = "") -> None:
        """Note why the connection is about to end; the first reason stands."""
        if self._reason is None:
            self._reason, self._detail = reason, detail

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Uvicorn's asks for the socket, for which uvloop makes an object that stays.

        A WebSocket would keep it for good.
        """
        self.connections.add(self)
        self.transport = transport
        self.flow = FlowControl(transport)
        name = transport.get_extra_info("sockname")
        self.server = (str(name[0]), int(name[1])) if isinstance(name, tuple) else None
        self.scheme = "https" if self._origin.is_encrypted else "http"

    def data_received(self, data: bytes) -> None:
        self.server_state.default_headers = [
            (b"date", formatdate(usegmt=True).encode()),
            (b"server", b"penstock"),
        ]
        super().data_received(data)

    def eof_received(self) -> bool:  # type: ignore[override]  # uvicorn never keeps it open
        """Keep a half-closed connection until the answer is sent, as shell pipes need it."""
        if self._idle() or self._stream is not None:  # a stream is over when its reader says so
            return False
        self.cycle.keep_alive = False
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        self._leave_lane()
        self._unset_keepalive_if_required()
        orderly = exc is None and (self._stream is not None or (self._answered and self._idle()))
        super().connection_lost(exc)
        if self._origin.visitor is not None:  # it never logs in, so it was a stranger all along
            self._origin.visitor.left()
        ended = DisconnectReason.CLIENT_DISCONNECT if orderly else DisconnectReason.CONNECTION_LOST
        self._door.on_close(self.transport, self._reason or ended, self._origin, self._detail)

    def on_response_complete(self) -> None:
        self._answered = True
        if not self.transport.is_closing():
            self._timer.cancel()
            self._timer = self._start_timer()
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        self.end(DisconnectReason.MALFORMED_PACKET)
        super().send_400_response(msg)

    # ── WebSocket ─────────────────────────────────────────────────────────────────────────────

    def _should_upgrade(self) -> bool:
        """Uvicorn's takes the last header of a name alone, and no list of tokens."""
        return self._door.entrance is not None and self._upgrade_request().is_upgrade

    def _upgrade_request(self) -> UpgradeRequest:
        scope = self.scope
        headers = [
            (name.decode("latin-1"), value.decode("latin-1")) for name, value in self.headers
        ]
        return UpgradeRequest(scope["method"], scope["http_version"], scope["path"], headers)

    def handle_websocket_upgrade(self, event: h11.Request) -> None:  # noqa: ARG002 - in the scope
        entrance = self._door.entrance
        assert entrance is not None
        verdict = entrance.judge(self._upgrade_request(), self._origin)
        if isinstance(verdict, str) and self.transport.get_write_buffer_size():
            # Nobody would know that the client has yet to read an earlier answer.
            error = "an earlier answer was not read"
            reason = DisconnectReason.UPGRADE_REFUSED
            verdict = UpgradeRefused(400, reason, error, "use a connection of its own")
        if isinstance(verdict, UpgradeRefused):
            self._refuse_upgrade(verdict)
        else:
            self._let_go(entrance, verdict)

    def _refuse_upgrade(self, refused: UpgradeRefused) -> None:
        self.end(refused.reason, refused.error)
        body = json.dumps({"error": refused.error, "advice": refused.advice}).encode() + b"\n"
        headers = [
            *self.server_state.default_headers,
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(body)),
            (b"connection", b"close"),
            *([(b"sec-websocket-version", b"13")] if refused.status == 426 else []),
        ]
        send, write = self.conn.send, self.transport.write
        write(send(h11.Response(status_code=refused.status, headers=headers)) or b"")
        write(send(h11.Data(data=body)) or b"")
        write(send(h11.EndOfMessage()) or b"")
        self.transport.close()

    def _let_go(self, entrance: WebSocketEntrance, key: str) -> None:
        """Hand over the socket, and drop what refers to this object, for it is not needed again."""
        data, _ = self.conn.trailing_data
        self._timer.cancel()
        self._unset_keepalive_if_required()
        self.connections.discard(self)
        self.flow.resume_reading()
        del self.app
        entrance.enter(self.transport, key, data, self._origin, is_fresh=not self._answered)

    # ── streams ───────────────────────────────────────────────────────────────────────────────

    def begin_stream(self) -> bool:
        """Let this answer go on without end; False: there are too many. It leaves the door."""
        door = self._door
        if len(door.streams) >= door.streams_max:
            return False
        door.streams.add(self)
        self.connections.discard(self)
        self._task = asyncio.current_task()
        if self._task is not None:
            self.tasks.discard(self._task)  # which count as well; this object refers to it
        self._timer.cancel()
        silence_s = door.stream_silence_s
        self._stream = StreamWatch(self.loop, self.transport, silence_s, self._stalled)
        end_if_unacknowledged(self.transport, silence_s)
        return True

    def _stalled(self) -> None:
        self.end(DisconnectReason.STREAM_STALLED)
        self.transport.abort()

    def _leave_lane(self) -> None:
        if self._stream is not None:
            self._stream.cancel()
            self._door.streams.discard(self)

    # ── the end ───────────────────────────────────────────────────────────────────────────────

    def timeout_keep_alive_handler(self) -> None:
        timer = self.timeout_keep_alive_task
        if timer is not None and self._is_late(timer):
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )
            return
        self.end(self._reason_of_silence())
        super().timeout_keep_alive_handler()

    def shutdown(self) -> None:
        self.end(DisconnectReason.SERVER_SHUTDOWN)
        super().shutdown()
        if self._stream is not None:
            self.transport.close()

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._door.connections > self._door.connections_max:
            await _refuse(scope, send, 503, "too many connections", "try again later")
            return
        if _body_bytes_announced(scope) > self._door.body_bytes_max:
            self.end(DisconnectReason.PACKET_TOO_LARGE)
            advice = f"send at most {self._door.body_bytes_max:,} bytes, with Content-Length"
            await _refuse(scope, send, 413, "Request body too large", advice)
            return
        scope[ORIGIN] = self._origin
        scope[STREAM] = self.begin_stream

        async def send_counted(message: MutableMapping[str, Any]) -> None:
            await send(message)
            if self._stream is not None:
                self._stream.wrote(len(message.get("body", b"")))

        try:
            await self.config.loaded_app(scope, receive, send_counted)
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
        self.end(self._reason_of_silence())
        self.transport.abort()

    def _reason_of_silence(self) -> DisconnectReason:
        if not self._answered:
            return DisconnectReason.CONNECT_TIMEOUT
        has_begun = self.conn.trailing_data[0]  # half a request
        is_read = not self.transport.get_write_buffer_size()
        if self._idle() and is_read and not has_begun:
            return DisconnectReason.HTTP_IDLE
        return DisconnectReason.KEEP_ALIVE_TIMEOUT


def _body_bytes_announced(scope: Scope) -> float:
    headers = dict(scope["headers"])
    if b"transfer-encoding" in headers:
        return float("inf")
    return int(headers.get(b"content-length", 0))  # h11 has checked that it is a number


async def _refuse(scope: Scope, send: Send, status: int, error: str, advice: str) -> None:
    media_type, body = refusal_body(scope["path"], status, error, advice)
    headers = [
        (b"content-type", media_type),
        (b"content-length", b"%d" % len(body)),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
