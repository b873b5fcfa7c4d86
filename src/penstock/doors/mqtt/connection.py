"""The MQTT door: one object per connection, between its machine and the broker.

Bytes come in, the machine makes events of them, and each event becomes a command in the line (or,
for QoS 0, goes straight to whoever subscribed). Effects come back and leave as packets. Nothing
here decides what MQTT means: the codec does, or the core.

CONNECT takes its turn in the line like any command. Until it is answered, what the client sent
behind it is held and nothing more is read.
"""

import asyncio
import secrets

from msgspec.structs import replace

from penstock.access.admission import CAPTURED, Refusal, TopicRoute
from penstock.access.envelopes import OpenedEnvelopes
from penstock.core.commands import (
    Acknowledged,
    DeliveriesLost,
    Drained,
    Received,
    Released,
    Repeated,
    SessionOpened,
    Subscribed,
    Unsubscribed,
    WillMessage,
)
from penstock.core.delivery import Delivery
from penstock.core.effects import Effects
from penstock.core.live import Live
from penstock.core.retained_delivery import SUBSCRIBE_FAILED
from penstock.core.routes import UNKNOWN_POLICY
from penstock.core.session import PUBACK, PUBCOMP, PUBREC, PUBREL, Session
from penstock.delivery.fanout import Targets
from penstock.doors.mqtt.outbox import MqttOutbox
from penstock.doors.mqtt.parts import MqttParts
from penstock.doors.mqtt.pending_filters import PendingFilters
from penstock.doors.mqtt.publish_runs import continues, is_next, joined
from penstock.doors.mqtt.retained_pages import RetainedPages
from penstock.doors.mqtt.shared_filters import MqttShares
from penstock.doors.mqtt.shared_subscriptions import SHARED_QOS_MAX, is_shared, parse_share
from penstock.limits import KEEP_ALIVE_FACTOR, KEEP_ALIVE_S_MAX
from penstock.model.message import Extras
from penstock.model.topic import filter_fault
from penstock.net.connection import CHECK_INTERVAL_S, SIGNED_AT_ONCE, Connection
from penstock.net.connections import peer_of
from penstock.obs.log import printable
from penstock.obs.reasons import DisconnectReason
from penstock.wire.mqtt import encode
from penstock.wire.mqtt.events import (
    Connect,
    ConnectRefused,
    Disconnect,
    Event,
    MqttAcks,
    MqttPublishRun,
    MqttSubscribe,
    MqttUnsubscribe,
    PingReq,
    Publish,
)
from penstock.wire.mqtt.server import MqttServerMachine
from penstock.wire.violation import Violation

CONNACK_ACCEPTED, CONNACK_IDENTIFIER_REJECTED, CONNACK_UNAVAILABLE = 0, 2, 3

_NOT_OPENED = {
    DisconnectReason.STORAGE_FULL,
    DisconnectReason.STORAGE_FAILED,
    DisconnectReason.NO_QUORUM,
    DisconnectReason.LEADERSHIP_LOST,
    DisconnectReason.INTERNAL_ERROR,
}
"""Why a CONNECT may leave the line without its session; the standard has a code for that."""

_HANDLERS: dict[type, str] = {
    Connect: "_on_connect",
    ConnectRefused: "_on_connect_refused",
    MqttAcks: "_on_acks",
    MqttSubscribe: "_on_subscribe",
    MqttUnsubscribe: "_on_unsubscribe",
    PingReq: "_on_ping",
    Disconnect: "_on_disconnect",
    Violation: "_on_violation",
}
"""Which method takes which event; the two kinds of PUBLISH have a way of their own."""


class MqttConnection(Connection[Event]):
    """One client's connection."""

    ends_by_closing = False

    __slots__ = (
        "_clean",
        "_client_id",
        "_door",
        "_is_connecting",
        "_is_draining",
        "_is_opening",
        "_keep_alive_s",
        "_pages",
        "_pending_filters",
        "_session",
        "_shares",
        "_will",
        "forward",
        "number",
    )

    outbox: MqttOutbox

    def __init__(self, door: MqttParts, transport: asyncio.Transport, accepted_at: float) -> None:
        limits = door.connections.limits
        machine = MqttServerMachine(limits.packet_bytes_max, limits.connect_bytes_max)
        outbox = MqttOutbox(door, transport, self._lose, self.close, self._on_idle)
        super().__init__(door.connections, transport, machine, outbox, accepted_at)
        self._door = door
        self._session: Session | None = None
        self._client_id = b""
        self._clean = True
        self.number = 0
        self._will: WillMessage | None = None
        self._keep_alive_s = 0
        self._is_connecting = False  # whether its CONNECT is not answered yet
        self._is_draining = False
        """Whether more of what waits is about to be sent."""
        self._is_opening = False
        """Whether its CONNECT stands in the line to the disk."""
        self._pages: RetainedPages | None = None
        """Retained messages on their way to its subscriptions, if there ever were any."""
        self._shares = MqttShares(door, self)
        self._pending_filters = PendingFilters()
        self.forward = outbox.forward
        self.check_deadline_at(accepted_at + limits.connect_timeout_s)

    @property
    def name(self) -> bytes:
        """Its client id."""
        return self._client_id

    # ── from the socket ───────────────────────────────────────────────────────────────────────

    def handle_some(
        self, events: list[Event], position: int, now_ms: int, turn_ends_at: float
    ) -> int:
        event = events[position]
        kind = type(event)
        if kind is MqttPublishRun:
            return self._on_publish_runs(events, position, now_ms, turn_ends_at)
        if kind is Publish:
            return self._on_publish(events, position + 1, now_ms)
        getattr(self, _HANDLERS[kind])(event)
        if kind is MqttSubscribe:
            self.end_turn()  # it can bring many retained messages
        return position + 1

    def is_waiting(self) -> bool:
        return self._is_connecting or bool(self._held)

    # ── connecting ────────────────────────────────────────────────────────────────────────────

    def _on_connect(self, event: Connect) -> None:
        limits = self._connections.limits
        if len(event.client_id) > limits.client_id_bytes_max:  # [MQTT-3.1.3-9]
            reason = DisconnectReason.IDENTIFIER_REJECTED
            detail = f"a client id of {len(event.client_id)} bytes"
            self._on_connect_refused(ConnectRefused(CONNACK_IDENTIFIER_REJECTED, reason, detail))
            return
        if not event.clean_session and not self._may_have_session(event.client_id):
            detail = f"{limits.sessions_max} sessions exist"
            reason = DisconnectReason.TOO_MANY_SESSIONS
            self._on_connect_refused(ConnectRefused(CONNACK_UNAVAILABLE, reason, detail))
            return
        self._client_id = event.client_id or b"penstock-" + secrets.token_hex(8).encode()
        self._clean = event.clean_session
        self.number = self._connections.ids.next()
        self._keep_alive_s = _effective_keep_alive(event.keep_alive, limits.keep_alive_s_max)
        will = event.will
        if will is not None:
            if not self._may_leave_will(will.topic):
                return
            self._will = WillMessage(will.topic, will.payload, will.qos, will.retain)
        self._is_connecting = True
        self.block_input()
        self._door.connect_queue.join(self)
        if self._is_connecting:
            self.pause_reading()

    def open(self) -> None:
        """It is this client's turn to have its session."""
        door, client_id = self._door, self._client_id
        heir_of = self._take_over(door.broker.sessions.get(client_id))
        is_clustered = door.cluster.is_clustered
        opened = SessionOpened(
            client_id, self.number, self._clean, self._will, is_clustered, heir_of, is_paced=True
        )
        self._is_opening = True
        door.pipeline.submit(opened, self, durable=self._is_recorded or is_clustered)

    def _may_have_session(self, client_id: bytes) -> bool:
        """Whether a persistent session is there for this id, or there is room for one more."""
        sessions = self._door.broker.sessions
        return client_id in sessions or len(sessions) < self._connections.limits.sessions_max

    @property
    def _is_recorded(self) -> bool:
        """Whether connecting changes something durable: its own session, or one it replaces."""
        if not self._clean or self._will is not None:
            return True
        session = self._door.broker.sessions.get(self._client_id)
        return session is not None and session.recorded

    def _take_over(self, session: Session | None) -> int:
        """Close the connection that has this client id now, its will before our CONNECT.

        If another node has the connection, it closes it in time, but may be dead: its will is left
        to us. Returns the number of that connection.
        """
        if session is not None and session.client is not None:
            session.client.close(DisconnectReason.SESSION_TAKEN_OVER)  # [MQTT-3.1.4-2]
        elif session is not None and session.connected:
            return self._door.session_ends.inherit(session)
        return 0

    def drop_will(self) -> None:
        """Somebody else has published its will."""
        self._will = None

    def accept(self, session: Session, *, session_present: bool) -> None:
        """Answer CONNACK, then act on what came behind CONNECT [MQTT-3.2.0-1]."""
        self._opened()
        self._session = session
        if self.reason is not None:
            self._leave(session)  # it left while it stood in the line
            return
        self._connections.counters.clients_connected += 1
        self.report_accepted(session_present=session_present)
        self.send(encode.connack(session_present, CONNACK_ACCEPTED))
        self._shares.take_up((session.subscriptions or {}).items())
        if self._keep_alive_s:
            self.check_deadline_at(min(self.deadline()[0], self._last_packet_at + CHECK_INTERVAL_S))
        self.unblock_input()

    def _opened(self) -> None:
        self._is_connecting = self._is_opening = False
        self._door.connect_queue.leave(self)

    def _on_connect_refused(self, event: ConnectRefused) -> None:
        if event.reason is DisconnectReason.UNACCEPTABLE_PROTOCOL:
            self._client_id = event.client_id
            key, shown = (event.client_id, event.detail), printable(event.client_id)
            peer = peer_of(self._transport)
            self._door.refused_versions.note(key, client_id=shown, peer=peer, detail=event.detail)
        self.send(encode.connack(session_present=False, return_code=event.return_code))
        self.close(event.reason, event.detail)

    # ── publishing ────────────────────────────────────────────────────────────────────────────

    def _on_publish_runs(
        self, events: list[Event], position: int, now_ms: int, turn_ends_at: float
    ) -> int:
        """QoS 0: to the subscribers at once, raw frames reused; captured in the background.

        The hottest loop beside the codec's, so it takes all such events in a row and does what it
        can once for all of them; only where it meets a new topic it asks for the time. Returns the
        position of the first event that it did not take.
        """
        door, start = self._door, position
        monotonic = self._connections.monotonic
        cached = door.broker.routes.cached
        capture = door.pipeline.begin_capture()
        received = 0
        targets: Targets = ()
        stretch: list[MqttPublishRun] = []
        while position < len(events) and type(event := events[position]) is MqttPublishRun:
            topic, payloads = event.topic, event.payloads
            route = cached.get(topic)
            policy = route.policy if route is not None else UNKNOWN_POLICY
            if policy == UNKNOWN_POLICY and position > start and monotonic() > turn_ends_at:
                break
            position += 1
            if route is None or policy == UNKNOWN_POLICY:
                route = self._admit(topic)
                if route is None:
                    break
                policy = route.policy
            if policy > CAPTURED:
                if len(payloads) > SIGNED_AT_ONCE:
                    rest = replace(event, payloads=payloads[SIGNED_AT_ONCE:])
                    events.insert(position, rest)
                self._on_signed_runs(topic, payloads[:SIGNED_AT_ONCE], now_ms)
                break
            received += len(payloads)
            if stretch and route.targets == targets and is_next(stretch[-1], event):
                stretch.append(event)
            else:
                if stretch:
                    door.fanout.forward(targets, joined(stretch))
                targets = route.targets
                stretch = [event] if targets else []
            if policy:
                capture(topic, payloads, now_ms, 0)
            else:
                door.cluster.broadcast(topic, payloads)
        if stretch:
            door.fanout.forward(targets, joined(stretch))
        self._connections.counters.messages_in_total[0] += received
        door.pipeline.end_capture()
        return position

    def _on_publish(self, events: list[Event], position: int, now_ms: int) -> int:
        """Put a PUBLISH, and those like it right behind it, in the line; return what is next."""
        first = events[position - 1]
        assert isinstance(first, Publish)
        door, topic, qos = self._door, first.topic, first.qos
        route = self._admit(topic)
        if route is None:
            return position
        is_guarded = route.policy > CAPTURED
        run = [first]
        most = SIGNED_AT_ONCE if is_guarded else len(events)
        last = min(len(events), position + most - 1)
        while position < last:
            event = events[position]
            if type(event) is not Publish or not continues(first, event):
                break
            run.append(event)
            position += 1
        if is_guarded:
            self._on_signed(run, now_ms)
            return position
        if qos == 2:
            run = self._fresh(run)
        elif not qos:
            # To be retained too, but live subscribers get it with RETAIN 0 [MQTT-3.3.1-9].
            door.fanout.forward(route.targets, Live.of(topic, [first.payload]))
        if run:
            self._publish(topic, [event.payload for event in run], run, now_ms)
        return position

    def _publish(
        self,
        topic: bytes,
        payloads: list[bytes],
        run: list[Publish],
        now_ms: int,
        extras: list[Extras | None] | None = None,
    ) -> None:
        """Put what was published in the line: to ``topic``, which an envelope may have named."""
        door, first = self._door, run[0]
        self._connections.counters.messages_in_total[first.qos] += len(run)
        packet_ids = [event.packet_id for event in run] if first.qos else None
        if first.qos == 2 and packet_ids and (session := self._session) is not None:
            received = Received(self._client_id, packet_ids, session.origin, self.number)
            door.pipeline.receive(received, self, record=session.durable)
        door.pipeline.publish(
            topic,
            payloads,
            now_ms,
            qos=first.qos,
            retain=first.retain
            and bool(payloads)
            and door.admission.may_retain(topic, payloads[-1]),
            packet_ids=packet_ids,
            client=self if first.qos else None,
            extras=extras,
        )

    # ── signed publishes ──────────────────────────────────────────────────────────────────────

    def _on_signed(self, run: list[Publish], now_ms: int) -> None:
        """Publishes to a topic that demands signatures, or envelopes with signed messages."""
        qos = run[0].qos
        if qos == 2:
            run = self._fresh(run)
        if not run:
            return
        found = self._open(run[0].topic, [event.payload for event in run], now_ms)
        if found.payloads and not qos:
            targets = self._door.admission.route(found.topic).targets
            self._door.fanout.forward(targets, Live.of(found.topic, found.payloads))
        if found.taken:
            self._publish(found.topic, found.payloads, run[: found.taken], now_ms, found.extras)
        if found.refused is not None:
            self.close(*found.refused)

    def _on_signed_runs(self, topic: bytes, envelopes: list[bytes], now_ms: int) -> None:
        """The same of QoS 0, not to be retained."""
        door = self._door
        found = self._open(topic, envelopes, now_ms)
        topic, payloads = found.topic, found.payloads
        if payloads:
            self._connections.counters.messages_in_total[0] += len(payloads)
            door.fanout.forward(door.admission.route(topic).targets, Live.of(topic, payloads))
            door.pipeline.publish(topic, payloads, now_ms, qos=0, retain=False, extras=found.extras)
        if found.refused is not None:
            self.close(*found.refused)

    def _open(self, topic: bytes, payloads: list[bytes], now_ms: int) -> OpenedEnvelopes:
        """What the envelopes hold; nothing, and why, if they are none."""
        door = self._door
        route = door.admission.admit_unsigned(
            self.principal, topic, len(payloads), could_sign=True, has_envelopes=True
        )
        if isinstance(route, Refusal):
            return OpenedEnvelopes(topic, [], [], 0, route)
        return door.envelopes.open(self.principal, topic, payloads, now_ms)

    def _fresh(self, run: list[Publish]) -> list[Publish]:
        """QoS 2 messages without repetitions: those whose id is not released yet."""
        session = self._session
        assert session is not None
        fresh: dict[int, Publish] = {}
        for event in run:
            if event.packet_id not in fresh and not self._is_repeated(session, event.packet_id):
                fresh[event.packet_id] = event
        return list(fresh.values())

    def _is_repeated(self, session: Session, packet_id: int) -> bool:
        """A QoS 2 id that is not released: acknowledge, do not deliver again [MQTT-4.3.3-2]."""
        if session.has_received(packet_id):
            self.acknowledge(PUBREC, [packet_id])
            return True
        if (self._client_id, packet_id) in self._door.pipeline.receiving:
            # Its first copy is on the way to the disk: wait for what becomes of that one.
            self._door.pipeline.submit(Repeated(self._client_id, [packet_id]), self, durable=False)
            return True
        return False

    def _admit(self, topic: bytes) -> TopicRoute | None:
        """The route of a topic; None if nobody may publish to it and the connection was closed."""
        route = self._door.admission.admit(self.principal, topic)
        if isinstance(route, Refusal):
            self.close(*route)
            return None
        return route

    def _may_leave_will(self, topic: bytes) -> bool:
        """Whether a will may be left for ``topic``: nobody signs it when the time comes."""
        route = self._door.admission.admit_unsigned(self.principal, topic, could_sign=True)
        if isinstance(route, Refusal):
            self.close(*route)
        return self.reason is None

    def _on_acks(self, event: MqttAcks) -> None:
        session = self._session
        assert session is not None
        kind, packet_ids = event.kind, event.packet_ids
        door = self._door
        if kind == PUBREL:
            self._on_release(session, packet_ids)
            return
        packet_ids = self._shares.settle(kind, packet_ids)
        if not packet_ids:
            return
        wrong = session.fault_of(kind, packet_ids)
        if wrong:
            detail = f"acknowledgement {kind} does not fit the state of packet {wrong}"
            self.close(DisconnectReason.PROTOCOL_VIOLATION, detail)
        elif session.durable:
            command = Acknowledged(self._client_id, kind, packet_ids, self.number)
            door.pipeline.submit(command, self, durable=True)
        else:
            effects = Effects()
            door.broker.acknowledge(session, kind, packet_ids, effects)
            door.effects.execute(effects)

    def _on_release(self, session: Session, packet_ids: list[int]) -> None:
        """PUBREL: the ids are free again, durably so before PUBCOMP says it [MQTT-4.3.3-2]."""
        if session.durable:
            command = Released(self._client_id, packet_ids, self.number)
            self._door.pipeline.submit(command, self, durable=True)
        else:
            session.release(packet_ids)
            self.acknowledge(PUBCOMP, packet_ids)

    # ── subscribing ───────────────────────────────────────────────────────────────────────────

    def _on_subscribe(self, event: MqttSubscribe) -> None:
        session = self._session
        assert session is not None
        known = session.subscriptions or {}
        before = len(known) + self._pending_filters.beside(known)
        new: set[bytes] = set()
        requests = []
        for topic_filter, qos in event.requests:
            if not self._is_filter(topic_filter):
                return
            if topic_filter not in known:
                new.add(topic_filter)
            granted = self._grant(topic_filter, qos, before + len(new))
            if granted == SUBSCRIBE_FAILED:
                new.discard(topic_filter)
            requests.append((topic_filter, granted))
        self._shares.note(event.packet_id, requests)
        self._pending_filters.add(event.packet_id, new)
        command = Subscribed(self._client_id, event.packet_id, requests, session.origin)
        self._door.pipeline.submit(command, self, durable=session.durable)

    def _is_filter(self, topic_filter: bytes) -> bool:
        """Whether a filter is well-formed, whatever its size; if not, the connection was closed."""
        fault = filter_fault(topic_filter, bytes_max=65_535, levels_max=65_536)
        if fault:
            detail = f"filter {printable(topic_filter)}: {fault}"
            self.close(DisconnectReason.TOPIC_INVALID, detail)
        return not fault

    def _grant(self, topic_filter: bytes, qos: int, count: int) -> int:
        """The QoS of a subscription, or that it fails; ``count``: with it there are so many."""
        if not self._is_affordable(topic_filter, count):
            return SUBSCRIBE_FAILED
        if not is_shared(topic_filter):
            return qos
        return min(qos, SHARED_QOS_MAX) if parse_share(topic_filter) else SUBSCRIBE_FAILED

    def _is_affordable(self, topic_filter: bytes, count: int) -> bool:
        limits = self._connections.limits
        return count <= limits.subscriptions_max and not filter_fault(
            topic_filter, limits.topic_bytes_max, limits.topic_levels_max
        )

    def _on_unsubscribe(self, event: MqttUnsubscribe) -> None:
        session = self._session
        assert session is not None
        if not all(map(self._is_filter, event.filters)):
            return
        self._shares.note(event.packet_id, [(name, None) for name in event.filters])
        origin = session.origin
        command = Unsubscribed(self._client_id, event.packet_id, event.filters, origin)
        self._door.pipeline.submit(command, self, durable=session.durable)

    def subscribed(self, packet_id: int, return_codes: list[int]) -> None:
        """Answer SUBACK [MQTT-3.8.4-1]."""
        self._pending_filters.answered(packet_id)
        self.send(encode.suback(packet_id, return_codes))
        self._shares.answered(packet_id)

    def unsubscribed(self, packet_id: int) -> None:
        """Answer UNSUBACK [MQTT-3.10.4-4]."""
        self.send(encode.unsuback(packet_id))
        self._shares.answered(packet_id)

    # ── shared subscriptions ──────────────────────────────────────────────────────────────────

    def may_take(self) -> bool:
        """Whether the client reads fast enough to be given shared messages."""
        return not self.outbox.is_full()

    def is_id_taken(self, packet_id: int) -> bool:
        """Whether its session has a packet id in flight."""
        session = self._session
        return session is not None and packet_id in (session.inflight or ())

    def resume_writing(self) -> None:
        """The client has caught up: there may be room for shared messages, too."""
        super().resume_writing()
        self._shares.ask()

    # ── what waits ────────────────────────────────────────────────────────────────────────────

    def _on_idle(self) -> None:
        """The client has read what it was sent."""
        self.drain_more(is_drained=False)
        self.offer_more()

    def drain_more(self, *, is_drained: bool = True) -> None:
        """Send the next of what waited in the session, if the client reads."""
        self._is_draining = self._is_draining and not is_drained
        session = self._session
        if session is None or not session.queue or self._is_draining or self.reason is not None:
            return
        if self.outbox.is_idle() and session.is_window_open(self._door.broker.inflight_max):
            self._is_draining = True
            drained = Drained(self._client_id, self.number)
            self._door.pipeline.submit(drained, self, durable=session.durable)

    def offer_more(self, *, is_page_done: bool = False) -> None:
        """There may be retained messages to send, and room for them."""
        session = self._session
        if session is not None and session.offers:
            if self._pages is None:
                self._pages = RetainedPages(self._door, self, session)
            self._pages.go_on(is_page_done=is_page_done)

    # ── the rest of what clients say ──────────────────────────────────────────────────────────

    def _on_ping(self, _event: PingReq) -> None:
        self.send(encode.PINGRESP)  # [MQTT-3.12.4-1]

    def _on_disconnect(self, _event: Disconnect) -> None:
        self.close(DisconnectReason.CLIENT_DISCONNECT)  # and no will [MQTT-3.14.4-3]

    def _on_violation(self, event: Violation) -> None:
        self.close(event.reason, event.detail)

    # ── what leaves ───────────────────────────────────────────────────────────────────────────

    def deliver(self, deliveries: list[Delivery]) -> None:
        """Send messages."""
        if self.reason is None:
            self.outbox.deliver(deliveries)

    def acknowledge(self, kind: int, packet_ids: list[int]) -> None:
        """Send acknowledgements, one write for all."""
        if self.reason is None:
            self.outbox.send(encode.acks(kind, packet_ids))

    def _lose(self, packet_ids: list[int]) -> None:
        """Messages unacked to the client are no longer in the journal."""
        packet_ids = self._shares.settle(PUBACK, packet_ids)
        if self._session is not None and packet_ids:
            command = DeliveriesLost(self._client_id, self.number, packet_ids)
            self._door.pipeline.submit(command, None, durable=self._session.durable)

    # ── the end ───────────────────────────────────────────────────────────────────────────────

    def deadline(self) -> tuple[float, DisconnectReason]:
        """The connect time-out, then the keep-alive [MQTT-3.1.2-24]."""
        base = self._last_packet_at
        if self._session is None:
            timeout_s = self._connections.limits.connect_timeout_s
            return base + timeout_s, DisconnectReason.CONNECT_TIMEOUT
        if not self._keep_alive_s:
            return float("inf"), DisconnectReason.KEEP_ALIVE_TIMEOUT
        deadline = base + self._keep_alive_s * KEEP_ALIVE_FACTOR
        return deadline, DisconnectReason.KEEP_ALIVE_TIMEOUT

    def close(self, reason: DisconnectReason, detail: str = "") -> None:
        """End the connection, once; a CONNECT that is still to be answered is refused."""
        if self._is_connecting and reason in _NOT_OPENED:
            self._opened()
            self.send(encode.connack(session_present=False, return_code=CONNACK_UNAVAILABLE))
        super().close(reason, detail)

    def let_go(self) -> None:
        """Publish the will where it is due, and let go of the session."""
        self._shares.leave_all()
        if not self._is_opening:
            self._door.connect_queue.leave(self)
        if self._session is not None:
            self._connections.counters.clients_connected -= 1
            self._leave(self._session)

    def _leave(self, session: Session) -> None:
        is_will_due = self.reason is not DisconnectReason.CLIENT_DISCONNECT
        self._door.session_ends.close_session(
            self._client_id,
            self.number,
            self._will if is_will_due else None,
            durable=session.recorded,
        )
        self._session = None


def _effective_keep_alive(asked_s: int, maximum_s: int) -> int:
    """What to enforce: the client's word, unless the operator caps it (0 is for ever)."""
    if maximum_s >= KEEP_ALIVE_S_MAX:
        return asked_s
    return min(asked_s or maximum_s, maximum_s)
