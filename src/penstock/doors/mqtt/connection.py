"""One MQTT client's connection, between its machine and the broker.

Each packet becomes a command in the pipeline, or, for QoS 0, goes straight to the subscribers.
Effects come back and leave as packets. The codec and the core decide what MQTT means.

CONNECT is a command like any other, once the client is known. Until it is answered, what the client
sent behind it is held and nothing more is read.

A broker may have very many connections, most of them idle: what a connection needs for publishing
and for subscribing it has once it does so.
"""

import asyncio
import secrets
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from penstock import kernel
from penstock.access.admission import Refusal
from penstock.access.logins import LoginRefusal
from penstock.core.commands import (
    Acknowledged,
    DeliveriesLost,
    Drained,
    Released,
    SessionOpened,
    WillMessage,
)
from penstock.core.delivery import DELIVER_HISTORY, DELIVER_OWN, Delivery
from penstock.core.effects import Effects
from penstock.core.live import Live
from penstock.core.owners import is_foreign
from penstock.core.session import (
    PACKET_ID_MAX,
    PUBACK,
    PUBCOMP,
    PUBCOMP_UNKNOWN,
    PUBREC,
    PUBREC_REFUSED,
    PUBREL,
    Session,
)
from penstock.core.subscription_options import Marks
from penstock.doors.mqtt.authentication import SCRAM, SIZED_PROOF, MqttAuthentication
from penstock.doors.mqtt.exchanges import UNKNOWN_ID
from penstock.doors.mqtt.explanations import SENTENCES, end_words, goodbye, refused_connect
from penstock.doors.mqtt.login import (
    CONNACK_BAD_CREDENTIALS,
    CONNACK_NOT_AUTHORIZED,
    CONNACK_UNAVAILABLE,
    LOGIN_REQUIRED,
    NOT_OPENED,
    credentials_of,
    refused_login,
    session_roles,
)
from penstock.doors.mqtt.message_checks import unfit, unsupported, will_message
from penstock.doors.mqtt.outbox import MqttOutbox
from penstock.doors.mqtt.parts import MqttParts
from penstock.doors.mqtt.publishing import MqttPublishing
from penstock.doors.mqtt.reason_codes import CODES
from penstock.doors.mqtt.replay_requests import history_marks
from penstock.doors.mqtt.replays import MqttReplays
from penstock.doors.mqtt.retained_pages import RetainedPages
from penstock.doors.mqtt.subscribing import MqttSubscribing
from penstock.doors.mqtt.terms import STRANGER_TERMS, terms_of, welcome
from penstock.limits import KEEP_ALIVE_FACTOR
from penstock.net.connection import CHECK_INTERVAL_S, Connection
from penstock.net.origin import Origin
from penstock.obs.log import get_logger
from penstock.obs.printable import printable
from penstock.obs.reasons import DisconnectReason, DropReason
from penstock.trust.principal import STRANGER, Principal
from penstock.wire.mqtt import encode
from penstock.wire.mqtt.decode import LEVEL_5
from penstock.wire.mqtt.events import (
    Auth,
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
    Will,
)
from penstock.wire.mqtt.frames import PublishFrames
from penstock.wire.mqtt.properties import NONE, Properties
from penstock.wire.mqtt.reason_codes import FAILURE
from penstock.wire.mqtt.server import FramedServerMachine
from penstock.wire.violation import Violation

if TYPE_CHECKING or kernel.is_compiled:
    from penstock.kernel.publishes import receive

CONNACK_IDENTIFIER_REJECTED = 2
SAID_CHARACTERS_MAX = 100  # of a client's reason string, in the log

_log = get_logger("mqtt")


class MqttConnection(Connection[Event]):
    """One client's connection."""

    protocol_name = "mqtt"
    ends_by_closing = False

    __slots__ = (
        "_authentication",
        "_door",
        "_expiry_s",
        "_is_connecting",
        "_is_draining",
        "_is_named_by_us",
        "_is_opening",
        "_pages",
        "_publishing",
        "_replays",
        "_subscribing",
        "_will",
        "client_id",
        "session",
        "terms",
        "wants_no_own",
    )

    outbox: MqttOutbox
    _machine: FramedServerMachine

    def __init__(self, door: MqttParts, transport: asyncio.Transport, origin: Origin) -> None:
        limits = door.connections.limits
        machine = FramedServerMachine(limits.packet_bytes_max, limits.connect_bytes_max)
        outbox = MqttOutbox(door, transport, self)
        super().__init__(door.connections, transport, machine, outbox, origin)
        self._door = door
        self.session: Session | None = None
        self.client_id = b""
        self.wants_no_own = False  # messages, for some subscription that it has or asks for
        self.terms = STRANGER_TERMS
        self._authentication: MqttAuthentication | None = None  # None: no method in CONNECT
        self._will: WillMessage | None = None
        self._expiry_s = -1  # session expiry that DISCONNECT asks for; -1: none
        self._is_connecting = False  # CONNECT is not answered yet
        self._is_named_by_us = False  # the client had no id
        self._is_opening = False  # CONNECT is in the pipeline
        self._is_draining = False  # a command that sends queued messages is in the pipeline
        self._pages: RetainedPages | None = None
        self._replays: MqttReplays | None = None
        self._publishing: MqttPublishing | None = None
        self._subscribing: MqttSubscribing | None = None
        self.check_deadline_at(origin.accepted_at + limits.connect_timeout_s)

    @property
    def name(self) -> bytes:
        return self.client_id

    def is_waiting(self) -> bool:
        return self._is_connecting or bool(self._held)

    if kernel.is_compiled:
        data_received = receive
        take_long_way = Connection.data_received

    def handle_some(
        self, events: list[Event], position: int, now_ms: int, turn_ends_at: float
    ) -> int:
        event = events[position]
        if type(event) is PublishFrames or type(event) is MqttPublishRun:
            publishing = self._publishing or self._begin_publishing()
            return publishing.publish_live(events, position, now_ms, turn_ends_at)
        position += 1
        if type(event) is Publish:
            publishing = self._publishing or self._begin_publishing()
            return publishing.publish(event, events, position, now_ms)
        if type(event) is MqttAcks:
            self._on_acks(event)
        else:
            self._on_other(event)
        return position

    def _begin_publishing(self) -> MqttPublishing:
        self._publishing = MqttPublishing(self._door, self)
        return self._publishing

    def _begin_subscribing(self) -> MqttSubscribing:
        self._subscribing = MqttSubscribing(self._door, self)
        return self._subscribing

    def _on_other(self, event: Event) -> None:
        match event:
            case PingReq():
                self.send(encode.PINGRESP)  # [MQTT-3.12.4-1]
            case MqttSubscribe():
                (self._subscribing or self._begin_subscribing()).subscribe(event)
                self.end_turn()  # it can bring many retained messages
            case MqttUnsubscribe():
                (self._subscribing or self._begin_subscribing()).unsubscribe(event)
            case Connect():
                self._on_connect(event)
            case ConnectRefused():
                self._refuse_connect(event)
            case Disconnect():
                self._on_disconnect(event)
            case Auth():
                self._on_auth(event)
            case Violation():
                self.close(event.reason, event.detail)

    # ── connecting ────────────────────────────────────────────────────────────────────────────

    def _on_connect(self, event: Connect) -> None:
        limits = self._connections.limits
        self.terms = terms_of(event, limits)
        size, size_max = len(event.client_id), limits.client_id_bytes_max
        if size > size_max:  # [MQTT-3.1.3-9]
            reason = DisconnectReason.IDENTIFIER_REJECTED
            detail = f"the client id has {size} bytes, {size_max} are allowed"
            self._refuse_connect(ConnectRefused(CONNACK_IDENTIFIER_REJECTED, reason, detail))
            return
        self.client_id = event.client_id or b"penstock-" + secrets.token_hex(8).encode()
        self._is_named_by_us = not event.client_id
        method = event.properties.authentication_method
        proof = NONE if method is None else SIZED_PROOF
        if self.terms.has_size_limit and not self._connack(session_present=False, proof=proof):
            text = f"CONNACK has no room in the {self.terms.packet_bytes_max} bytes of the client"
            self.close(DisconnectReason.PACKET_TOO_LARGE, text)
            return
        self.number = self._connections.ids.next()
        if method is None:
            self._connect(partial(self._log_in, event))
        else:
            self._authenticate(event, method)

    def _connect(self, go_on: Callable[[], None]) -> None:
        """Go on, and read nothing more until CONNACK is sent."""
        self._is_connecting = True
        self.block_input()
        go_on()
        if self._is_connecting:
            self.pause_reading()

    def _authenticate(self, event: Connect, method: bytes) -> None:
        """Let the client prove who it is; until then it is a stranger, who has little time."""
        logins = self._door.logins
        if method != SCRAM or not logins.takes_scram:  # [MQTT5-4.12.0-1]
            reason = DisconnectReason.AUTHENTICATION_METHOD
            detail = f"the authentication method {printable(method)} is not supported here"
            self._refuse_connect(ConnectRefused(CONNACK_BAD_CREDENTIALS, reason, detail))
            return
        self.become(STRANGER)
        self._authentication = MqttAuthentication(logins, self, self.terms.packet_bytes_max)
        done = partial(self._authenticated, event)
        self._authentication.begin(event.properties.authentication_data, done)

    def _authenticated(self, event: Connect, result: Principal | LoginRefusal) -> None:
        if self._machine.closed and not isinstance(result, LoginRefusal):
            return  # more was sent behind the proof: too early [MQTT5-3.1.2-30]; it comes next
        self._machine.authenticated()
        self._connect(partial(self._logged_in, event, result))

    def _on_auth(self, event: Auth) -> None:
        if self._authentication is None:  # [MQTT5-4.12.0-7]
            detail = "AUTH without a method in CONNECT"
            self.close(DisconnectReason.PROTOCOL_VIOLATION, detail)
        else:
            self._authentication.take(event)

    def _log_in(self, event: Connect) -> None:
        logins, origin = self._door.logins, self.origin
        is_named = bool(origin.certificate or origin.listener_user)
        credentials = credentials_of(event, self.client_id, is_named=is_named)
        if credentials is None or self._door.broker.access.is_open:
            welcome = logins.welcome(origin, self.protocol_name, self.client_id)
            self._logged_in(event, welcome)
        else:
            done = partial(self._logged_in, event)
            logins.log_in(origin, self.protocol_name, credentials, done)

    def _logged_in(self, event: Connect, result: Principal | LoginRefusal) -> None:
        """Go on with CONNECT, now that it is known who sent it."""
        if self.reason is not None:
            return
        if isinstance(result, LoginRefusal):
            self._refuse_connect(refused_login(result))
            return
        if not result.is_known:
            self._refuse_connect(LOGIN_REQUIRED)
            return
        self.become(result)
        if self.terms.is_lasting and (refused := self._session_refusal(event.client_id)):
            self._refuse_connect(refused)
            return
        if event.will is not None:
            if not self._may_leave_will(event.will):
                return
            self._will = will_message(event.will)
        self._door.connect_queue.join(self)

    def _session_refusal(self, client_id: bytes) -> ConnectRefused | None:
        """Why there may not be one more session."""
        sessions, count_max = self._door.broker.sessions, self._connections.limits.sessions_max
        if client_id in sessions:
            return None
        if len(sessions) >= count_max:
            detail = f"{count_max} sessions exist"
            reason = DisconnectReason.TOO_MANY_SESSIONS
            return ConnectRefused(CONNACK_UNAVAILABLE, reason, detail)
        if self.meter is None:
            return None
        user = self.principal.user
        others = sum(session.durable and session.user == user for session in sessions.values())
        fault = self.meter.admit_session(others)
        return (
            ConnectRefused(CONNACK_NOT_AUTHORIZED, DisconnectReason.QUOTA, fault) if fault else None
        )

    def _may_leave_will(self, will: Will) -> bool:
        """Whether a will may be left; it is not signed. If not, the connection was closed."""
        settings, properties = self._door.settings, will.properties
        refusal = unsupported(will, settings)
        if refusal is None and properties is not None:
            refusal = unfit(properties, [will.payload], settings)
        if refusal is None:
            admit = self._door.admission.admit_unsigned
            route = admit(self.principal, will.topic, could_sign=True)
            refusal = route if isinstance(route, Refusal) else None
        if refusal is not None:
            if refusal.reason is DisconnectReason.NOT_AUTHORIZED:
                self._refuse_connect(ConnectRefused(CONNACK_NOT_AUTHORIZED, *refusal))
            self.close(*refusal)
        return self.reason is None

    def open(self) -> None:
        door, client_id, terms = self._door, self.client_id, self.terms
        self._take_over(door.broker.sessions.get(client_id))
        is_clustered = door.cluster.is_clustered
        opened = SessionOpened(
            client_id,
            self.number,
            terms.clean_start,
            self._will,
            is_clustered,
            is_paced=True,
            user=self.principal.user,
            roles=session_roles(self.principal, self.origin),
            via=self.principal.via if self.principal.via in {"jwt", "key"} else "",
            version=terms.version,
            expiry_s=terms.expiry_s,
            receive_maximum=terms.receive_maximum,
            now_ms=door.session_ends.now_ms(),
        )
        self._is_opening = True
        door.pipeline.submit(opened, self, durable=is_clustered or self._is_recorded)

    @property
    def _is_recorded(self) -> bool:
        """Whether connecting changes something durable: its own session, or one it replaces."""
        if self.terms.is_lasting or self._will is not None:
            return True
        session = self._door.broker.sessions.get(self.client_id)
        return session is not None and session.recorded

    def _take_over(self, session: Session | None) -> None:
        """Close the connection with this client id first [MQTT-3.1.4-2], if it is at this node."""
        if session is None or session.client is None:
            return
        if not is_foreign(session.user, self.principal.user):  # else the command will be void
            session.client.close(DisconnectReason.SESSION_TAKEN_OVER)

    def accept(self, session: Session, *, session_present: bool) -> None:
        """Answer CONNACK, then handle what came behind CONNECT [MQTT-3.2.0-1]."""
        self._opened()
        self.session = session
        if self.reason is not None:
            self._leave(session)  # closed while the command was in the pipeline
            return
        self._connections.counters.clients_connected += 1
        self.report_accepted(session_present=session_present)
        self._welcome(session_present=session_present)
        if session.subscriptions:
            self._begin_subscribing().resume(session.subscriptions)
        if self.terms.keep_alive_s:
            self.check_deadline_at(min(self.deadline()[0], self._last_packet_at + CHECK_INTERVAL_S))
        self.unblock_input()

    def _welcome(self, *, session_present: bool) -> None:
        terms = self.terms
        if terms.is_5:
            self._machine.alias_max = self._door.settings.topic_alias_maximum
            self.outbox.speak_5(terms)
        proof = NONE if self._authentication is None else self._authentication.accepted()
        self.send(self._connack(session_present=session_present, proof=proof))

    def _connack(self, *, session_present: bool, proof: Properties = NONE) -> bytes:
        return welcome(
            self.terms,
            self._connections.limits,
            self._door.settings,
            session_present=session_present,
            assigned_id=self.client_id if self._is_named_by_us else b"",
            proof=proof,
        )

    @property
    def is_5(self) -> bool:
        return self._machine.version >= LEVEL_5

    def _opened(self) -> None:
        self._is_connecting = self._is_opening = False
        self._door.connect_queue.leave(self)

    def _refuse_connect(self, event: ConnectRefused) -> None:
        if event.reason is DisconnectReason.UNACCEPTABLE_PROTOCOL:
            self.client_id = event.client_id
            self._door.refused_versions.note(
                (event.client_id, event.detail),
                client_id=printable(event.client_id),
                peer=self.peer,
                detail=event.detail,
            )
        if not self.is_5:  # which tells the code when it closes
            properties = NONE if event.version >= LEVEL_5 else None
            self.send(encode.connack(False, event.return_code, properties))
        self.close(event.reason, event.detail)

    # ── acknowledgements ──────────────────────────────────────────────────────────────────────

    def _on_acks(self, event: MqttAcks) -> None:
        session = self.session
        assert session is not None
        kind, packet_ids = event.kind, event.packet_ids
        if self.outbox.is_5:
            self._free_quota(event)
        if event.properties.reason_string is not None:
            self._note_said(f"packet type {kind}", event.properties.reason_string)
        if kind == PUBREL:
            self._on_release(session, packet_ids)
        elif kind == PUBREC and event.codes is not None:
            codes = dict(zip(packet_ids, event.codes, strict=True))
            self._on_answers(PUBREC_REFUSED, [one for one in codes if codes[one] >= FAILURE])
            self._on_answers(PUBREC, [one for one in codes if codes[one] < FAILURE])
        else:
            self._on_answers(kind, packet_ids)

    def _on_answers(self, kind: int, packet_ids: list[int]) -> None:
        """Answers to deliveries. A message that the client refuses is delivered, too."""
        session, door = self.session, self._door
        if self._subscribing is not None:
            packet_ids = self._subscribing.settle(kind, packet_ids)
        if not packet_ids or session is None:
            return
        wrong = session.fault_of(kind, packet_ids)
        if wrong:
            detail = f"acknowledgement {kind} does not fit the state of packet {wrong}"
            self.close(DisconnectReason.PROTOCOL_VIOLATION, detail)
        elif session.durable:
            command = Acknowledged(self.client_id, kind, packet_ids, self.number)
            door.pipeline.submit(command, self, durable=True)
        else:
            effects = Effects()
            door.broker.acknowledge(session, kind, packet_ids, effects)
            door.effects.execute(effects)

    def _free_quota(self, event: MqttAcks) -> None:
        """A refusing PUBREC ends a delivery, any other does not [MQTT5-4.9.0-2]."""
        was_used_up = not self.outbox.quota
        if event.kind in {PUBACK, PUBCOMP}:
            self.outbox.acknowledged(len(event.packet_ids))
        elif event.kind == PUBREC and event.codes is not None:
            self.outbox.acknowledged(sum(code >= FAILURE for code in event.codes))
        if was_used_up and self.outbox.quota and self._subscribing is not None:
            self._subscribing.ask_for_more()

    def _on_release(self, session: Session, packet_ids: list[int]) -> None:
        """PUBREL: free the ids, durably, before PUBCOMP [MQTT-4.3.3-2]."""
        if session.durable:
            command = Released(self.client_id, packet_ids, self.number)
            self._door.pipeline.submit(command, self, durable=True)
        else:
            unknown = session.release(packet_ids)
            if unknown:
                self.acknowledge(PUBCOMP_UNKNOWN, unknown)
                packet_ids = [one for one in packet_ids if one not in unknown]
            if packet_ids:
                self.acknowledge(PUBCOMP, packet_ids)

    def acknowledge(self, kind: int, packet_ids: list[int]) -> None:
        if self.reason is None:
            exchanges = (self._publishing or self._begin_publishing()).exchanges
            if exchanges is None:
                self.outbox.send(encode.acks(kind & ~UNKNOWN_ID, packet_ids))
            else:
                self.outbox.send(exchanges.answer(kind, packet_ids))

    def publish_refused(self, qos: int, packet_ids: list[int], reason: DisconnectReason) -> None:
        if self.reason is None and self._publishing is not None:
            self._publishing.refuse_begun(qos, packet_ids, reason)

    def subscribed(self, packet_id: int, return_codes: list[int]) -> None:
        if self._subscribing is not None:
            self._subscribing.subscribed(packet_id, return_codes)

    def unsubscribed(self, packet_id: int, existed: list[bool]) -> None:
        if self._subscribing is not None:
            self._subscribing.unsubscribed(packet_id, existed)

    # ── deliveries ────────────────────────────────────────────────────────────────────────────

    def forward(self, live: Live) -> None:
        outbox = self.outbox
        frames = live.mqtt_5 if outbox.is_5 else live.mqtt
        if frames is None or len(frames) > outbox.frames_bytes_max:
            outbox.forward(live)
        else:
            outbox.send_live(live.count, frames)

    def forward_marked(self, live: Live, marks: Marks) -> None:
        self.outbox.forward_marked(live, marks)

    def deliver(self, deliveries: list[Delivery]) -> None:
        if self.reason is None:
            self.outbox.deliver(deliveries)

    def deliver_shared(self, deliveries: list[Delivery], marks: Marks) -> None:
        if self.reason is None:  # not the marks of the session
            self.outbox.deliver(deliveries, marks)

    def share_room(self) -> int:
        return 0 if self.outbox.is_full() else self.outbox.quota

    def is_in_use(self, packet_id: int) -> bool:
        """Whether an id of an MQTT 5 client belongs to a message that is not finished."""
        publishing, session = self._publishing, self.session
        if not self.is_5 or session is None:
            return False
        exchanges = publishing.exchanges if publishing is not None else None
        return packet_id in (exchanges or ()) or session.has_received(packet_id)

    def is_id_taken(self, packet_id: int) -> bool:
        session = self.session
        return session is not None and packet_id in (session.inflight or ())

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._subscribing is not None:
            self._subscribing.ask_for_more()

    def on_idle(self) -> None:
        self.drain_more(is_drained=False)
        self.offer_more()
        self.replay_more()

    def drain_more(self, *, is_drained: bool = True) -> None:
        self._is_draining = self._is_draining and not is_drained
        session = self.session
        if session is None or not session.queue or self._is_draining or self.reason is not None:
            return
        if self.outbox.is_idle() and session.is_window_open():
            self._is_draining = True
            drained = Drained(self.client_id, self.number)
            self._door.pipeline.submit(drained, self, durable=session.durable)

    def offer_more(self, *, is_page_done: bool = False) -> None:
        session = self.session
        if session is not None and session.offers:
            if self._pages is None:
                self._pages = RetainedPages(self._door, self, session)
            self._pages.go_on(is_page_done=is_page_done)

    def replay_more(self, *, is_page_done: bool = False) -> None:
        session = self.session
        if session is not None and (session.replays or self._replays is not None):
            if self._replays is None:
                self._replays = MqttReplays(self._door, self, session)
            self._replays.go_on(is_page_done=is_page_done)

    def may_receive(self, topic: bytes) -> bool:
        may_receive, session = self._door.broker.routes.may_receive, self.session
        return may_receive is None or session is None or may_receive(session, topic)

    def principal_changed(self) -> None:
        if self._subscribing is not None:
            self._subscribing.judge_again()

    def marks_of(self, topic: bytes, flags: int, packet_id: int) -> Marks | None:
        session, routes = self.session, self._door.broker.routes
        if session is None or not session.has_marks:
            return None
        if packet_id > PACKET_ID_MAX:
            return None if self._subscribing is None else self._subscribing.marks_of(packet_id)
        if flags & DELIVER_HISTORY or session.replays:
            marks = history_marks(session, topic, flags)
            if marks is not None:
                return marks
        route = routes.cached.get(topic) or routes.resolve(topic)
        marks = None if route.marked is None else route.marked.get(session)
        return marks.own if marks is not None and flags & DELIVER_OWN else marks

    def lose(self, packet_ids: list[int], reason: DropReason) -> None:
        own = packet_ids
        if self._subscribing is not None:
            own = self._subscribing.settle(PUBACK, packet_ids)
        self._connections.counters.dropped(reason, len(packet_ids) - len(own), self.client_id)
        if self.session is not None and own:
            command = DeliveriesLost.because(reason, self.client_id, self.number, own)
            self._door.pipeline.submit(command, None, durable=self.session.durable)

    # ── the end ───────────────────────────────────────────────────────────────────────────────

    def deadline(self) -> tuple[float, DisconnectReason]:
        """The connect time-out, then the keep-alive [MQTT-3.1.2-24]."""
        if self.session is None:
            timeout_s: float = self._connections.limits.connect_timeout_s
            return self._last_packet_at + timeout_s, DisconnectReason.CONNECT_TIMEOUT
        timeout_s = self.terms.keep_alive_s * KEEP_ALIVE_FACTOR or float("inf")
        return self._last_packet_at + timeout_s, DisconnectReason.KEEP_ALIVE_TIMEOUT

    @property
    def is_accepted(self) -> bool:
        return self.session is not None

    def end_detail(self, reason: DisconnectReason, detail: str) -> str:
        silent_s, will = self._connections.monotonic() - self._last_packet_at, self._will
        return end_words(reason, detail, silent_s, self.terms, will if self.session else None)

    def close(self, reason: DisconnectReason, detail: str = "") -> None:
        return_code = self._refused_opening(reason)
        if self.reason is None and self.is_5:
            self._tell(reason, detail)
        elif self.reason is None and return_code:
            self.send(encode.connack(session_present=False, return_code=return_code))
        super().close(reason, detail)

    def _refused_opening(self, reason: DisconnectReason) -> int:
        """The code of a 3.1.1 CONNACK if the session could not be opened for this reason, else 0.

        The client may be gone by then.
        """
        if self._is_opening and reason is DisconnectReason.NOT_AUTHORIZED:
            self._opened()  # the client id is another user's
            return CONNACK_NOT_AUTHORIZED
        if self._is_connecting and reason in NOT_OPENED:
            self._opened()
            return CONNACK_UNAVAILABLE
        return 0

    def _tell(self, reason: DisconnectReason, detail: str) -> None:
        """Say why, as the last packet of an MQTT 5 connection."""
        codes, detail = CODES[reason], detail or SENTENCES.get(reason, "")
        if self.session is None:
            if codes.connack is not None:
                self.send(refused_connect(self.terms, codes.connack, detail))
        elif codes.disconnect is not None:
            reference = self._door.server_reference(reason)
            self.outbox.take_live()  # nothing follows the DISCONNECT
            self.send(goodbye(self.terms, codes.disconnect, detail, reference))

    def _on_disconnect(self, event: Disconnect) -> None:
        """The client leaves; only code 0 spares the will [MQTT-3.14.4-3]."""
        expiry_s, said = event.properties.session_expiry, event.properties.reason_string
        if expiry_s and not self.terms.expiry_s:
            detail = "DISCONNECT gives a session expiry to a session that has none"
            self.close(DisconnectReason.PROTOCOL_VIOLATION, detail)
            return
        if expiry_s is not None:
            self._expiry_s = min(expiry_s, self._connections.limits.session_expiry_s)
        if event.code:
            words = f": {printable(said, SAID_CHARACTERS_MAX)}" if said else ""
            detail = f"reason code {event.code:#04x}{words}"
            self.close(DisconnectReason.CLIENT_ENDED, detail)
        else:
            if said is not None:
                self._note_said("DISCONNECT", said)
            self.close(DisconnectReason.CLIENT_DISCONNECT)

    def _note_said(self, where: str, said: bytes) -> None:
        client_id, text = printable(self.client_id), printable(said, SAID_CHARACTERS_MAX)
        _log.debug("client_said", client_id=client_id, packet=where, text=text)

    def let_go(self) -> None:
        if self._subscribing is not None:
            self._subscribing.leave_all()
        if self._replays is not None:
            self._replays.close()
        if not self._is_opening:
            self._door.connect_queue.leave(self)
        if self.session is not None:
            self._connections.counters.clients_connected -= 1
            self._leave(self.session)

    def _leave(self, session: Session) -> None:
        is_will_due = self.reason is not DisconnectReason.CLIENT_DISCONNECT
        self._door.session_ends.close_session(
            session, self.number, is_will_due=is_will_due, expiry_s=self._expiry_s
        )
        self.session = None
