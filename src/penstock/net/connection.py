"""What the connections of all protocols have in common: reading, writing, deadlines, the end.

A protocol's door derives from ``Connection`` and says what its events mean (``handle``), how long
it may be silent (``deadline``) and what must happen when it ends (``let_go``). Bytes come in, the
protocol's sans-IO machine makes events of them, and what is to leave gathers in the outbox.

A connection ends once, with one reason, which is counted and, unless it is nobody's fault, logged.
"""

import asyncio
from typing import Any

from penstock.model.principal import ANYONE
from penstock.net.connections import Connections, peer_of
from penstock.net.incomplete import WORTH_COUNTING
from penstock.net.outbox import Outbox
from penstock.net.turns import TURN_S
from penstock.obs.log import get_logger, printable
from penstock.obs.reasons import DisconnectReason

ASK_INTERVAL_S = 30.0
"""Longest time between two looks at a connection's deadline; dead ones are forgotten by then."""

SIGNED_AT_ONCE = 64
"""Signatures verified before others have a turn: some 5 ms of work."""

CLOSE_TIMEOUT_S = 5.0
"""How long a closed connection may take to read its last bytes."""

_log = get_logger("net")

_ORDINARY = {
    DisconnectReason.CLIENT_DISCONNECT,
    DisconnectReason.CONNECTION_LOST,
    DisconnectReason.SESSION_TAKEN_OVER,
    DisconnectReason.SERVER_SHUTDOWN,
    DisconnectReason.UNACCEPTABLE_PROTOCOL,
}
"""Ends that are nobody's fault, or have a line of their own: not worth another one."""


class Connection(asyncio.Protocol):
    """One client's connection. ``machine`` is its codec: ``receive(bytes)`` gives events."""

    ends_by_closing = True
    """Whether closing the socket is how clients of this protocol say goodbye; MQTT has a packet."""

    __slots__ = (
        "_asked_next",
        "_connections",
        "_is_holder",
        "_is_reading_paused",
        "_last_packet_at",
        "_machine",
        "_transport",
        "outbox",
        "principal",
        "reason",
    )

    def __init__(
        self,
        connections: Connections,
        transport: asyncio.Transport,
        machine: Any,
        outbox: Outbox,
        accepted_at: float,
    ) -> None:
        self._connections = connections
        self._transport = transport
        self._machine = machine
        self.outbox = outbox
        self._last_packet_at = accepted_at
        """When the last complete packet came; before the first, when the socket was accepted."""
        self._asked_next = 0.0
        self._is_reading_paused = False
        self._is_holder = False
        """Whether what it has not completed yet is worth counting."""
        self.principal = ANYONE
        self.reason: DisconnectReason | None = None
        """Why the connection was closed; None while it is open."""
        transport.set_protocol(self)
        connections.open.add(self)
        connections.clients.add(self)

    # ── what a protocol says ──────────────────────────────────────────────────────────────────

    @property
    def name(self) -> bytes:
        """Who it is, for the log; empty if it has not said."""
        return b""

    @property
    def peer(self) -> str:
        """Where it is."""
        return peer_of(self._transport)

    @property
    def last_packet_at(self) -> float:
        """When it said something last."""
        return self._last_packet_at

    def handle(self, events: list[Any], now_ms: int) -> None:
        """Act on events."""
        raise NotImplementedError

    def deadline(self) -> tuple[float, DisconnectReason]:
        """Until when something must have come, and why the connection ends if nothing did."""
        raise NotImplementedError

    def is_waiting(self) -> bool:
        """Whether nothing more may be read, as what was read last waits for an answer."""
        return False

    def let_go(self) -> None:
        """The connection ends: give up what was held for it."""

    def topic_deleted(self, topic: bytes) -> None:
        """A topic was deleted: what is remembered by its offsets is void."""

    def leadership_lost(self) -> None:
        """Another node leads from now on: what only the leader does is not done here."""

    # ── from the socket ───────────────────────────────────────────────────────────────────────

    def data_received(self, data: bytes) -> None:
        """Turn a chunk into events and act on each."""
        connections = self._connections
        connections.counters.bytes_in_total += len(data)
        if self.reason is not None:
            return
        connections.flusher.hold()
        events = self._machine.receive(data)  # never raises
        if events:
            self._last_packet_at = connections.monotonic()
            self.handle_safely(events)
        connections.flusher.release(self._last_packet_at)
        held = self._machine.pending_bytes
        if held > WORTH_COUNTING or self._is_holder:
            self._is_holder = held > WORTH_COUNTING
            connections.incomplete.note(self, held)
        if connections.backpressure.is_congested:
            self.pause_reading()
            connections.backpressure.when_drained(self)
        elif events and not self._is_reading_paused and self._was_long():
            self.pause_reading()
            connections.loop.call_soon(self.resume_reading)

    def _was_long(self) -> bool:
        """Whether the packets that came last took so long that others should have a turn.

        Nothing more is read from the client in this one then: the loop would read 32 chunks, if
        they are there.
        """
        return self._connections.monotonic() - self._last_packet_at > TURN_S

    def handle_safely(self, events: list[Any]) -> None:
        """Act on events; a bug of ours ends this connection, and no other."""
        try:
            self.handle(events, self._connections.wall_ms())
        except Exception:  # noqa: BLE001 - see above
            _log.exception("connection_failed", client_id=printable(self.name))
            self.close(DisconnectReason.INTERNAL_ERROR)

    def handle_later(self, events: list[Any] | None) -> None:
        """Act on events that had to wait, then read on."""
        if self.reason is None and events:
            self._connections.flusher.hold()
            self.handle_safely(events)
            self._connections.flusher.release(self._connections.monotonic())
        self.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is gone: by an error, or closed in order, which may be a goodbye."""
        is_goodbye = exc is None and self.ends_by_closing
        reason = DisconnectReason.CLIENT_DISCONNECT if is_goodbye else None
        self.close(reason or DisconnectReason.CONNECTION_LOST, str(exc) if exc else "")
        self.outbox.forget()
        self._connections.open.discard(self)
        self._connections.clients.discard(self)

    def pause_writing(self) -> None:
        """The client reads more slowly than we write."""
        self.outbox.pause()

    def resume_writing(self) -> None:
        """The client has caught up."""
        self.outbox.resume()

    def pause(self) -> None:
        """Take nothing more from this client: the broker is stopping."""
        self.pause_reading()

    def pause_reading(self) -> None:
        """Take nothing more from this client for now."""
        if not self._is_reading_paused and not self._transport.is_closing():
            self._is_reading_paused = True
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """The line has moved on: take more from this client, unless something keeps it waiting."""
        if self.is_waiting() or self._connections.is_stopping or not self._is_reading_paused:
            return
        if (
            self._connections.backpressure.is_congested
        ):  # an answer left, or a commit failed: still no room
            self._connections.backpressure.when_drained(self)
            return
        self._is_reading_paused = False
        self._last_packet_at = self._connections.monotonic()  # its silence was ours
        if not self._transport.is_closing():
            self._transport.resume_reading()

    def send(self, data: bytes) -> None:
        """Send what must arrive."""
        self.outbox.send(data)

    # ── deadlines ─────────────────────────────────────────────────────────────────────────────

    def overdue(self, now: float) -> float | None:
        """Enforce the deadline, if it has come; say when to ask again."""
        if self._asked_next > now:
            return None  # filed anew since; that one will ask
        if self.reason is not None:
            self._transport.abort()
            return None
        if self._is_reading_paused or self.is_waiting():
            return self._ask(
                now + self._connections.limits.connect_timeout_s
            )  # it is we who are slow
        deadline, reason = self.deadline()
        if now < deadline:
            return self._ask(min(deadline, now + ASK_INTERVAL_S))
        self.close(reason)
        return None

    def forgive(self, stalled_s: float) -> None:
        """The broker stood still: silence in that time does not count."""
        self._last_packet_at = min(self._connections.monotonic(), self._last_packet_at + stalled_s)

    def _ask(self, when: float) -> float:
        self._asked_next = when
        return when

    def file(self, when: float) -> None:
        """Have the deadline looked at by then."""
        self._connections.deadlines.add(self, self._ask(when))

    # ── the end ───────────────────────────────────────────────────────────────────────────────

    def close(self, reason: DisconnectReason, detail: str = "") -> None:
        """End the connection, once: count why, let go of what was held, write the last bytes."""
        if self.reason is not None:
            return
        self.reason = reason
        self._connections.counters.disconnects[reason] += 1
        self._report(reason, detail)
        self._connections.incomplete.forget(self)
        self.let_go()
        self.outbox.close()
        self._transport.close()
        self.file(self._connections.clock.monotonic() + CLOSE_TIMEOUT_S)

    def refused(self, reason: DisconnectReason, detail: str = "") -> None:
        """A command of this client was refused: it must connect and send again."""
        self.close(reason, detail)

    def abort(self) -> None:
        """Cut the connection now, whatever it still had to read."""
        self._transport.abort()

    def report_accepted(self, *, session_present: bool) -> None:
        """Log that a client has said who it is, and is welcome."""
        client_id = printable(self.name)
        _log.debug("accepted", client_id=client_id, peer=self.peer, session_present=session_present)

    def _report(self, reason: DisconnectReason, detail: str) -> None:
        values = {
            "reason": reason.value,
            "client_id": printable(self.name),
            "peer": self.peer,
        }
        if reason is DisconnectReason.SESSION_TAKEN_OVER:
            self._connections.takeovers.note(self.name, values["peer"])
        if reason in _ORDINARY:
            _log.debug("disconnected", **values)
        else:
            detail = printable(detail, 160)
            self._connections.complaints.info("disconnected", reason.value, **values, detail=detail)
