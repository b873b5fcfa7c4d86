"""The base of every protocol's connection: reading, writing, deadlines, the end.

A protocol implements ``handle_some`` (what its events mean), ``deadline`` (how long it may be
silent) and ``let_go`` (what to release at the end). Output gathers in the outbox.

**Events are handled in order, in slices.** After ``TURN_S`` the rest of a chunk is held for the
next turn of the loop, so that other clients are served. A request that must be finished before the
next begins calls ``block_input``; what follows is held until ``unblock_input``. ``handle_some`` may
also return without progress; ``resume_soon`` tries again. While events are held, nothing more is
read.

**Who it is.** A door calls ``become`` once it knows. The connection ends when the credentials
expire, and pauses reading while its user has used up a quota (``net.meter``).
"""

import asyncio
import socket
import ssl
from math import inf
from typing import ClassVar, Generic, Protocol, TypeVar

from penstock.net.connection_state import ConnectionState
from penstock.net.connections import Connections
from penstock.net.incomplete import WORTH_COUNTING
from penstock.net.meter import Meter
from penstock.net.origin import Origin
from penstock.net.outbox import Outbox
from penstock.net.tcp_info import tcp_bytes
from penstock.net.turns import CHUNK_S, TURN_S
from penstock.obs.log import get_logger
from penstock.obs.printable import on_one_line, printable
from penstock.obs.reasons import DisconnectReason
from penstock.trust.principal import ANYONE, Principal

CHECK_INTERVAL_S = 30.0  # longest time between two checks of a deadline
SIGNED_AT_ONCE = 64  # signatures verified before other clients are served: some 5 ms
CLOSE_TIMEOUT_S = 5.0  # how long a closed connection may take to read its last bytes
DETAIL_CHARACTERS_MAX = 160  # of why a connection ended: a sentence, and what it quotes
TCP_KEEP_ALIVE_S = 300  # silence after which TCP probes the peer, as in Redis
_log = get_logger("net")

_ORDINARY = {
    DisconnectReason.CLIENT_DISCONNECT,
    DisconnectReason.CONNECTION_LOST,
    DisconnectReason.SESSION_TAKEN_OVER,
    DisconnectReason.SERVER_SHUTDOWN,
    DisconnectReason.UNACCEPTABLE_PROTOCOL,
}
"""Reasons that are logged at debug level only, or elsewhere."""

Event = TypeVar("Event")


class Machine(Protocol[Event]):
    """The codec of a protocol, without input or output of its own."""

    @property
    def pending_bytes(self) -> int: ...  # bytes of an event that is not complete yet
    def receive(self, data: bytes) -> list[Event]: ...  # decode a chunk; never raises


class Connection(asyncio.Protocol, ConnectionState, Generic[Event]):
    """One client's connection."""

    protocol_name: ClassVar[str]  # as listings of clients show it
    ends_by_closing = True  # whether closing the socket is an orderly end; MQTT has a packet for it
    handles_while_blocked = False  # whether ``hold`` handles some of the events it is given

    __slots__ = ()

    def __init__(
        self,
        connections: Connections,
        transport: asyncio.Transport,
        machine: Machine[Event],
        outbox: Outbox,
        origin: Origin,
    ) -> None:
        self._connections = connections
        self._transport = transport
        self._machine = machine
        self.outbox = outbox
        self._last_packet_at = origin.accepted_at  # of a complete packet, once there is one
        self._has_spoken = False  # whether a complete packet has come
        self._held: list[Event] | tuple[()] = ()  # received, not handled yet
        self._blocks = 0  # requests that must be finished before held events are handled
        self._is_resuming = False  # whether held events are about to be handled
        self._is_turn_over = False
        self._checked_next = 0.0
        self._is_reading_paused = False
        self._is_holder = False  # whether its incomplete packet is counted
        self.number = 0  # unique in the cluster, once the client has said who it is
        self.origin = origin
        self.principal = ANYONE
        self._unknown_since = origin.accepted_at  # a stranger; infinite once it has logged in
        self.meter: Meter | None = None  # what it uses of its user's quotas, if there are any
        self._is_over_quota = False  # whether it may not read until tokens have come
        self.reason: DisconnectReason | None = None  # None while it is open
        transport.set_protocol(self)
        connections.clients[self] = None

    # ── for the protocol to implement ─────────────────────────────────────────────────────────

    @property
    def name(self) -> bytes:
        """The client id, for the log; empty if there is none."""
        return b""

    @property
    def pattern_count(self) -> int:
        return 0

    @property
    def peer(self) -> str:
        return self.origin.peer

    @property
    def last_packet_at(self) -> float:
        return self._last_packet_at

    @property
    def output(self) -> Outbox:
        return self.outbox

    def wire_bytes(self) -> tuple[int, int] | None:
        """Bytes received and sent, as the kernel has counted them; None: it does not tell."""
        return tcp_bytes(self._transport)

    def handle_some(
        self, events: list[Event], position: int, now_ms: int, turn_ends_at: float
    ) -> int:
        """Handle the event at ``position``, and as many after it as is convenient.

        Returns the position of the first event that was not handled. That is ``position`` itself
        if it has to wait; then ``resume_soon`` must be called later.
        """
        raise NotImplementedError

    def deadline(self) -> tuple[float, DisconnectReason]:
        """When the connection ends unless something comes, and the reason for that."""
        raise NotImplementedError

    def is_waiting(self) -> bool:
        return bool(self._held)

    def let_go(self) -> None: ...  # the connection ends: release what was held for it

    def topic_deleted(self, topic: bytes) -> None:
        pass

    def leadership_lost(self) -> None:
        pass

    def principal_changed(self) -> None:
        """The rights are others: end what is not allowed any more."""

    # ── from the socket ───────────────────────────────────────────────────────────────────────

    def data_received(self, data: bytes) -> None:
        connections = self._connections
        connections.counters.bytes_in_total += len(data)
        if self.reason is not None:
            return
        connections.flusher.hold()
        events = self._machine.receive(data)
        if events:
            self._last_packet_at = connections.monotonic()
            self.handle_safely(events)
        connections.flusher.release(self._last_packet_at)
        if self.meter is not None:
            self.meter.bytes_owed += len(data)
            self._pay()
        pending_bytes = self._machine.pending_bytes
        if pending_bytes > WORTH_COUNTING or self._is_holder:
            self._is_holder = pending_bytes > WORTH_COUNTING
            connections.incomplete.note(self, pending_bytes)
        if events or connections.backpressure.is_congested:
            self.give_way()

    def give_way(self) -> None:
        """After input: wait for the disk if it is behind, or for other clients if it took long."""
        connections = self._connections
        if connections.backpressure.is_congested:
            self.pause_reading()
            connections.backpressure.when_drained(self)
        elif not self._is_reading_paused and self._was_long():
            self.pause_reading()
            connections.loop.call_soon(self.resume_reading)

    def _was_long(self) -> bool:
        """Whether others should be served now."""
        connections = self._connections
        spent_s = connections.monotonic() - self._last_packet_at
        return spent_s > CHUNK_S and connections.turns.is_input_over(spent_s)

    def connection_lost(self, exc: Exception | None) -> None:
        reason = DisconnectReason.CONNECTION_LOST
        if exc is None and self.ends_by_closing:
            reason = DisconnectReason.CLIENT_DISCONNECT
        elif isinstance(exc, ssl.SSLError):
            reason = DisconnectReason.TLS_FAILED
        self.close(reason, str(exc) if exc else "")
        self.outbox.forget()
        self._connections.clients.pop(self, None)
        if self.origin.visitor is not None:
            self.origin.visitor.left()

    # ── events, in order and in slices ────────────────────────────────────────────────────────

    def handle_safely(self, events: list[Event]) -> None:
        try:
            if self.meter is None:
                self._handle(events, self._connections.wall_ms())
            else:
                self._handle_metered(events, self.meter)
        except Exception:  # noqa: BLE001 - ends this connection, no other
            self.failed()

    def failed(self) -> None:
        """Close the connection whose input met the exception that is being handled."""
        _log.exception("connection_failed", client_id=printable(self.name))
        self.close(DisconnectReason.INTERNAL_ERROR)

    def _handle(self, events: list[Event], now_ms: int) -> None:
        self._has_spoken = True
        if self._held or self._blocks:
            self.hold(events)
            return
        self._is_turn_over = False
        monotonic = self._connections.monotonic
        turn_ends_at = monotonic() + TURN_S
        position = 0
        while position < len(events) and self.reason is None:
            if position and (self._is_turn_over or monotonic() > turn_ends_at):
                self._put_off(events[position:])
                return
            start = position
            position = self.handle_some(events, position, now_ms, turn_ends_at)
            if self._blocks or position == start:
                self.hold(events[position:])
                return
        if self.is_waiting():
            self.pause_reading()

    def _handle_metered(self, events: list[Event], meter: Meter) -> None:
        """Doors count the messages they accept, so the difference is what was published."""
        received = self._connections.counters.messages_in_total
        before = sum(received)
        self._handle(events, self._connections.wall_ms())
        meter.messages_owed += sum(received) - before

    def end_turn(self) -> None:
        self._is_turn_over = True

    def _put_off(self, events: list[Event]) -> None:
        self._keep(events)
        self.resume_soon()
        self.pause_reading()

    def hold(self, events: list[Event]) -> None:
        self._keep(events)
        if self.is_waiting():
            self.pause_reading()

    def _keep(self, events: list[Event]) -> None:
        if self._held:
            self._held += events
        elif events:
            self._held = events

    def block_input(self) -> None:
        """Hold what follows until ``unblock_input`` was called as often."""
        self._blocks += 1

    def unblock_input(self) -> None:
        self._blocks -= 1
        if not self._blocks and (self._held or self._is_reading_paused):
            self.resume_soon()

    def resume_soon(self) -> None:
        """Handle held events in the next turn; the caller may be in the middle of something."""
        if not self._is_resuming:
            self._is_resuming = True
            self._connections.loop.call_soon(self._resume)

    def _resume(self) -> None:
        self._is_resuming = False
        if self.handles_while_blocked or not self._blocks:
            held, self._held = self._held, ()
            self.handle_later(held or [])

    def handle_later(self, events: list[Event]) -> None:
        if self.reason is None and events:
            self._connections.flusher.hold()
            self.handle_safely(events)
            self._connections.flusher.release(self._connections.monotonic())
            if self.meter is not None:
                self._pay()
        self.resume_reading()

    # ── who it is ─────────────────────────────────────────────────────────────────────────────

    def become(self, principal: Principal) -> None:
        """From now on the connection acts for this principal, and counts for its quotas."""
        if principal.user != self.principal.user:
            self._leave_meter()
        self._judge_stranger(is_known=principal.is_known)
        self.principal = principal
        if principal.user and self.meter is None:
            self.meter = self._connections.meter_of(principal.user)
        if principal.expires_ms:
            self._check_earlier(self._expires_at())

    def _judge_stranger(self, *, is_known: bool) -> None:
        """A stranger has little time and room, and counts for its address."""
        if self.origin.visitor is not None:
            self.origin.visitor.known(is_known=is_known)
        self.outbox.restrict(is_stranger=not is_known)
        if is_known:
            self._unknown_since = inf
            return
        self._unknown_since = min(self._unknown_since, self._connections.monotonic())
        self._check_earlier(self._login_due_at())

    def _login_due_at(self) -> float:
        """When a stranger must have logged in: no other packet extends it."""
        return self._unknown_since + self._connections.limits.connect_timeout_s

    def _expires_at(self) -> float:
        """When the credentials expire, on the monotonic clock."""
        connections = self._connections
        if not self.principal.expires_ms:
            return inf
        left_ms = self.principal.expires_ms - connections.wall_ms()
        return connections.monotonic() + left_ms / 1000

    def _leave_meter(self) -> None:
        meter, self.meter = self.meter, None
        if meter is not None:
            meter.leave()
        if self._is_over_quota:
            self._is_over_quota = False
            self._connections.loop.call_soon(self.resume_reading)

    def _pay(self) -> None:
        """Pay the meter what was used; without enough tokens, read no more until there are."""
        wait_s = self.meter.pay(self._connections.monotonic()) if self.meter is not None else 0.0
        self._is_over_quota = wait_s > 0
        if self._is_over_quota and self.reason is None:
            self.pause_reading()
            self._connections.loop.call_later(wait_s, self._paid_later)

    def _paid_later(self) -> None:
        if self._is_over_quota and self.reason is None:
            self._pay()
            self.resume_reading()

    # ── flow control ──────────────────────────────────────────────────────────────────────────

    def pause_writing(self) -> None:
        self.outbox.pause()

    def resume_writing(self) -> None:
        self.outbox.resume()

    def pause(self) -> None:
        self.pause_reading()

    def pause_reading(self) -> None:
        if not self._is_reading_paused and not self._transport.is_closing():
            self._is_reading_paused = True
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        connections = self._connections
        if self.is_waiting() or connections.is_stopping or not self._is_reading_paused:
            return
        if self._is_over_quota:
            return
        if connections.backpressure.is_congested:
            connections.backpressure.when_drained(self)
            return
        self._is_reading_paused = False
        self._last_packet_at = connections.monotonic()  # the client could not be heard until now
        if not self._transport.is_closing():
            self._transport.resume_reading()

    def send(self, data: bytes) -> None:
        self.outbox.send(data)

    # ── deadlines ─────────────────────────────────────────────────────────────────────────────

    def overdue(self, now: float) -> float | None:
        if self._checked_next > now:
            return None  # another check was scheduled since
        if self.reason is not None:
            self._transport.abort()
            return None
        expires_at = self._expires_at()
        if expires_at <= now:
            self.close(DisconnectReason.CREDENTIALS_REVOKED, "the credentials have expired")
            return None
        if self._is_reading_paused or self.is_waiting():  # the broker is slow, not the client
            again = now + self._connections.limits.connect_timeout_s
            return self._check(min(again, expires_at))
        deadline, reason = self.deadline()
        if not self.principal.is_known and self._login_due_at() < deadline:
            deadline, reason = self._login_due_at(), DisconnectReason.CONNECT_TIMEOUT
        if now < deadline:
            return self._check(min(deadline, now + CHECK_INTERVAL_S, expires_at))
        self.close(reason)
        return None

    def forgive(self, stalled_s: float) -> None:
        self._last_packet_at = min(self._connections.monotonic(), self._last_packet_at + stalled_s)
        self._unknown_since += stalled_s

    def _check(self, when: float) -> float:
        self._checked_next = when
        return when

    def check_deadline_at(self, when: float) -> None:
        self._connections.deadlines.add(self, self._check(when))

    def _check_earlier(self, when: float) -> None:
        if when < self._checked_next:
            self.check_deadline_at(when)

    # ── the end ───────────────────────────────────────────────────────────────────────────────

    def close(self, reason: DisconnectReason, detail: str = "") -> None:
        """End the connection, once: count the reason, let go, write the last bytes."""
        if self.reason is not None:
            return
        self.reason = reason
        self._count_end(reason, detail)
        self._report(reason, detail)
        self._connections.incomplete.forget(self)
        self._leave_meter()
        self.let_go()
        self.outbox.close()
        self._transport.close()
        self.check_deadline_at(self._connections.clock.monotonic() + CLOSE_TIMEOUT_S)

    def _count_end(self, reason: DisconnectReason, detail: str) -> None:
        counters, user = self._connections.counters, self.principal.user
        count = counters.ended if self.is_accepted else counters.refused
        count(reason, self.name, user=user, peer=self.peer, detail=self.end_detail(reason, detail))

    @property
    def is_accepted(self) -> bool:
        """Whether the broker has taken it for a client: its end is no refusal."""
        return self._has_spoken and self.principal.is_known

    def end_detail(self, reason: DisconnectReason, detail: str) -> str:  # noqa: ARG002 - for doors
        """What is recorded of the end, besides its reason."""
        return detail

    def refused(self, reason: DisconnectReason, detail: str = "") -> None:
        self.close(reason, detail)

    def publish_refused(
        self,
        qos: int,  # noqa: ARG002 - for those who can say which
        packet_ids: list[int],  # noqa: ARG002 - as above
        reason: DisconnectReason,
    ) -> None:
        """Messages of the client were not stored."""
        self.close(reason)

    def abort(self) -> None:
        self._transport.abort()

    def report_accepted(self, *, session_present: bool) -> None:
        client_id = printable(self.name)
        self._connections.counters.connected(
            self.name, user=self.principal.user, peer=self.peer, detail=self.protocol_name
        )
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
            detail = on_one_line(detail, DETAIL_CHARACTERS_MAX)
            self._connections.throttled_log.info(
                "disconnected", reason.value, **values, detail=detail
            )


def enable_tcp_keep_alive(transport: asyncio.Transport) -> None:
    opened = transport.get_extra_info("socket")
    if opened is not None:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, TCP_KEEP_ALIVE_S)
