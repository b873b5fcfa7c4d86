"""One client of the binary protocol: its requests, their order, the end.

Behind a SUBSCRIBE that is still sending history other requests are held, and so they are while the
journal is asked for the offsets of acknowledged messages. Acknowledgements are handled even then: a
client may have to acknowledge before it reads on. While a login is judged, everything is held.
"""

import asyncio

from penstock.core.delivery import Delivery
from penstock.core.live import Live
from penstock.core.session import PUBACK
from penstock.doors.binary.login import STRANGER_REQUESTS_MAX, BinaryLogin
from penstock.doors.binary.parts import BinaryParts
from penstock.doors.binary.publishing import BinaryPublishing
from penstock.doors.binary.replies import OrderedReplies
from penstock.doors.binary.subscriptions import BinarySubscriptions
from penstock.doors.binary.terms import BinaryTerms
from penstock.net.connection import Connection
from penstock.net.origin import Origin
from penstock.net.outbox import Outbox
from penstock.net.turns import TURN_S
from penstock.obs.reasons import DisconnectReason
from penstock.trust.principal import Principal
from penstock.wire.binary import encode
from penstock.wire.binary.errors import ErrorCode, Fault, code_of_text, fault
from penstock.wire.binary.events import (
    BinaryAcks,
    BinaryAuth,
    BinaryHello,
    BinaryPublishRun,
    BinarySubscribe,
    BinaryUnsubscribe,
    Event,
    Malformed,
    Ping,
    SignedPublish,
    Unknown,
)
from penstock.wire.binary.frame import PublishFlag
from penstock.wire.binary.server import BinaryServerMachine
from penstock.wire.violation import Violation

HELD_MAX = 1_024  # requests held, or replies that wait for the disk, before reading pauses
ACKS_AT_ONCE = 1_024  # acknowledgements handled between two looks at the clock: 10 µs each at worst

_LAST_ERRORS = {
    DisconnectReason.SESSION_TAKEN_OVER: ErrorCode.TAKEN_OVER,
    DisconnectReason.STORAGE_FULL: ErrorCode.DISK_FULL,
    DisconnectReason.STORAGE_FAILED: ErrorCode.DISK_FAILED,
    DisconnectReason.NO_QUORUM: ErrorCode.NO_QUORUM,
    DisconnectReason.LEADERSHIP_LOST: ErrorCode.LEADERSHIP_LOST,
    DisconnectReason.SERVER_SHUTDOWN: ErrorCode.STOPPING,
    DisconnectReason.INTERNAL_ERROR: ErrorCode.INTERNAL,
}
"""Errors that are sent before the connection ends."""


class BinaryConnection(Connection[Event]):
    """One client's connection."""

    protocol_name = "binary"
    handles_while_blocked = True

    __slots__ = (
        "_door",
        "_is_writing_paused",
        "_login",
        "_needs_proof",
        "_publishing",
        "_replies",
        "_stranger_requests",
        "_subscriptions",
        "_wire",
        "client_id",
        "is_identified",
        "terms",
    )

    def __init__(self, door: BinaryParts, transport: asyncio.Transport, origin: Origin) -> None:
        limits = door.connections.limits
        machine = BinaryServerMachine(
            limits.frame_bytes_max,
            stranger_bytes_max=limits.connect_bytes_max,
            topic_bytes_max_2=limits.topic_bytes_max,
        )
        self._wire = machine
        outbox = Outbox(door.connections, transport, self)
        super().__init__(door.connections, transport, machine, outbox, origin)
        self._door = door
        self.become(door.logins.welcome(origin, self.protocol_name))
        if self.principal.is_known:
            machine.trust()
        self._needs_proof = not self.principal.is_known  # by a login or a signed publish
        self._stranger_requests = 0
        self.client_id = b""
        self.terms = BinaryTerms()
        self.number = door.connections.ids.next()
        self.is_identified = False  # whether the cluster knows of its client id
        self._is_writing_paused = False
        self._replies = OrderedReplies(outbox.send, door.pipeline.hurry, self.resume_reading)
        self._publishing = BinaryPublishing(door, self, self._replies)
        self._subscriptions = BinarySubscriptions(door, self, self._replies)
        self._login = BinaryLogin(door, self, self._replies, self._logged_in)
        outbox.when_resumed = self._subscriptions.resume
        door.connections.counters.clients_connected += 1
        self.check_deadline_at(
            origin.accepted_at + min(limits.connect_timeout_s, limits.idle_timeout_s)
        )

    @property
    def name(self) -> bytes:
        return self.client_id or self.terms.client_id

    def deadline(self) -> tuple[float, DisconnectReason]:
        """The connect time-out; then any complete frame of the client keeps it alive."""
        limits = self._connections.limits
        if self._needs_proof and self._has_spoken:
            reason = DisconnectReason.LOGIN_REQUIRED
            return self.origin.accepted_at + limits.connect_timeout_s, reason
        if not self._has_spoken:
            reason = DisconnectReason.CONNECT_TIMEOUT
            return self._last_packet_at + limits.connect_timeout_s, reason
        if self.terms.silence_s:
            reason = DisconnectReason.KEEP_ALIVE_TIMEOUT
            return self._last_packet_at + self.terms.silence_s, reason
        return self._last_packet_at + limits.idle_timeout_s, DisconnectReason.IDLE_TIMEOUT

    def keep_alive_changed(self) -> None:
        self._check_earlier(self.deadline()[0])

    def is_waiting(self) -> bool:
        is_crowded = max(len(self._held), len(self._replies)) > HELD_MAX
        is_busy = self._is_resuming or self._login.is_under_way
        return is_busy or is_crowded or self._subscriptions.acknowledgements.is_crowded

    def handle_some(
        self, events: list[Event], position: int, now_ms: int, _turn_ends_at: float
    ) -> int:
        event = events[position]
        if not self.principal.is_known and not self._may_ask(event):
            return len(events)
        match event:
            case BinaryPublishRun() if event.flags & PublishFlag.NO_REPLY:
                self._publishing.publish_silently(event, now_ms)
            case BinaryPublishRun():
                self._publishing.publish(event, now_ms)
            case SignedPublish():
                return self._publishing.publish_signed(events, position, now_ms)
            case BinaryAcks():
                first, *rest = _pieces(event)
                events[position + 1 : position + 1] = rest
                self._acknowledge(first, now_ms)
            case Ping():
                self._replies.answer(encode.pongs(event.count))
            case BinarySubscribe():
                self._subscriptions.subscribe(event)
            case BinaryUnsubscribe():
                self._subscriptions.unsubscribe(event)
            case BinaryAuth():
                self._login.take(event)
            case BinaryHello():
                self.terms.take(event, self._door, self, self._replies)
            case Malformed():
                error = fault(ErrorCode.MALFORMED, command=event.command, why=event.why)
                self.fail(error, event.sequence)
            case Unknown():
                self.fail(fault(ErrorCode.UNKNOWN_COMMAND), event.sequence)
            case Violation():
                self._on_violation(event)
        return position + 1

    def _may_ask(self, event: Event) -> bool:
        """Whether a stranger may send another request; if not, the connection ends."""
        count = 1
        if isinstance(event, BinaryPublishRun):
            count = len(event.sequences)
        elif isinstance(event, Ping):
            count = event.count
        self._stranger_requests += count
        if self._stranger_requests <= STRANGER_REQUESTS_MAX:
            return True
        reason, text = DisconnectReason.LOGIN_REQUIRED, "many requests before a login"
        self.fail_last(fault(ErrorCode.LOGIN_REQUIRED), _sequence_of(event), reason, text)
        return False

    def proved(self) -> None:
        self._needs_proof = False
        self._stranger_requests = 0

    def hold(self, events: list[Event]) -> None:
        """Handle acknowledgements even now, as far as time allows; hold the rest."""
        if self._login.is_under_way:
            super().hold(events)
            return
        monotonic, now_ms = self._connections.monotonic, self._connections.wall_ms()
        turn_ends_at = monotonic() + TURN_S
        held: list[Event] = []
        for event in events:
            if not isinstance(event, BinaryAcks):
                held.append(event)
                continue
            for piece in _pieces(event):
                if self._is_resuming or monotonic() > turn_ends_at:
                    held.append(piece)
                    self.resume_soon()
                else:
                    self._acknowledge(piece, now_ms)
        super().hold(held)

    def _acknowledge(self, event: BinaryAcks, now_ms: int) -> None:
        if self.client_id:
            self._subscriptions.acknowledgements.take(event.sequences, now_ms)

    def _logged_in(self, principal: Principal) -> None:
        if principal.user != self.principal.user:
            self._subscriptions.start_over()
            self.terms.start_over()
        self.become(principal)
        self.proved()

    def principal_changed(self) -> None:
        self._subscriptions.judge_again()

    def fail(self, error: Fault, sequence: int) -> None:
        self._connections.counters.refused_total += 1
        self._replies.answer(self.terms.error(error, sequence))

    def fail_last(self, error: Fault, sequence: int, reason: DisconnectReason, detail: str) -> None:
        self._replies.answer_last(
            self.terms.error(error, sequence), lambda: self.close(reason, detail)
        )

    def tell(self, error: Fault) -> None:
        """Send an error that answers no request."""
        self.send(self.terms.error(error, 0))

    def _on_violation(self, event: Violation) -> None:
        text = event.error.decode()
        code = code_of_text(text)
        assert code is not None, text
        self.fail_last(Fault(code, text), self._wire.faulty_sequence, event.reason, event.detail)

    def acknowledge(self, kind: int, packet_ids: list[int]) -> None:
        assert kind == PUBACK
        if self.reason is None:
            self._replies.published(packet_ids)

    def forward(self, live: Live) -> None:
        """Send live messages of topics that the journal does not keep; the feed has the rest."""
        for run in live.runs:
            if not self._door.admission.route(run.topic).policy:
                frames = self._subscriptions.frames.live(run.topic, run.payloads)
                self.outbox.send_live(len(run.payloads), frames)

    def deliver(self, deliveries: list[Delivery]) -> None:
        """Committed messages come from the feed."""

    def is_full(self) -> bool:
        """Cursors wait, filters drop; also if the transport alone is full, by one large message."""
        return self._is_writing_paused or self.outbox.is_full()

    def pause_writing(self) -> None:
        self._is_writing_paused = True
        super().pause_writing()

    def resume_writing(self) -> None:
        self._is_writing_paused = False
        super().resume_writing()

    def topic_deleted(self, topic: bytes) -> None:
        self._subscriptions.topic_deleted(topic)

    def close(self, reason: DisconnectReason, detail: str = "") -> None:
        if self.reason is None and reason in _LAST_ERRORS:
            self.tell(fault(_LAST_ERRORS[reason]))
        super().close(reason, detail)

    def let_go(self) -> None:
        self._connections.counters.clients_connected -= 1
        self._subscriptions.leave_all()
        self._held = ()
        self._replies.clear()


def _sequence_of(event: Event) -> int:
    """The sequence of a request, the first one of several; 0 where there is none."""
    if isinstance(event, BinaryPublishRun):
        return event.sequences[0]
    if isinstance(
        event,
        BinaryAuth
        | BinaryHello
        | BinarySubscribe
        | BinaryUnsubscribe
        | Malformed
        | SignedPublish
        | Unknown,
    ):
        return event.sequence
    return 0


def _pieces(acks: BinaryAcks) -> list[BinaryAcks]:
    sequences = acks.sequences
    if len(sequences) <= ACKS_AT_ONCE:
        return [acks]
    starts = range(0, len(sequences), ACKS_AT_ONCE)
    return [BinaryAcks(sequences[start : start + ACKS_AT_ONCE]) for start in starts]
