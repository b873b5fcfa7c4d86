"""What clients and time do to sessions: connecting, leaving, subscribing, QoS 2, wills.

**Clean start and lifetime are two things.** A CONNECT either continues the session that is there or
forgets it; how long a session outlasts its connection is its expiry. One with an expiry is
**durable**, that is journaled, from its beginning. If its client comes back with expiry 0, it stays
journaled and ends with that connection.

**Ends are decided at CONNECT as well**: a session whose time has passed is gone though nobody came
by to sweep it (``SessionOpened.now_ms``).

**Wills.** A connection that ends without a goodbye leaves its will in the session, with the time at
which it is due: the earliest of its delay and the session's end. If the client continues its
session before, it is forgotten; if the session ends, it is due at once. The effect ``WillLeft``
tells the node that leads, which publishes it (``node.wills``). The will outlives the session, and
even moves to the client's next one, as long as it is not published.
"""

from itertools import compress
from typing import NamedTuple

from penstock.core.commands import (
    Acknowledged,
    Closed,
    DeliveriesLost,
    Drained,
    Expired,
    Offered,
    Received,
    Released,
    Repeated,
    SessionOpened,
    Subscribed,
    Unsubscribed,
    WillSent,
)
from penstock.core.completion import Completion
from penstock.core.effects import (
    Accepted,
    Effects,
    Ended,
    FollowUp,
    OpenedForNobody,
    Outcome,
    SessionDenied,
    SubscribeAnswer,
    TakenOver,
    Unkept,
    UnsubscribeAnswer,
    WillLeft,
)
from penstock.core.live import LiveSubscriber
from penstock.core.owners import OWNED_BY_ANOTHER, is_foreign
from penstock.core.pending_will import PendingWill
from penstock.core.replay_delivery import ReplayDelivery
from penstock.core.retained_delivery import RetainedDelivery
from penstock.core.routes import Routes
from penstock.core.session import (
    PACKET_ID_MAX,
    PUBCOMP,
    PUBCOMP_UNKNOWN,
    PUBREC,
    Session,
    SessionClient,
)
from penstock.core.session_deliveries import PORTION, SessionDeliveries
from penstock.core.session_table import SessionTable
from penstock.core.shares import is_shared
from penstock.core.subscription_options import brings_retained, is_refusal

_OfSession = Subscribed | Unsubscribed | Received


class _Before(NamedTuple):
    """What a CONNECT finds: the session to continue, and wills of earlier connections."""

    session: Session | None
    wills: tuple[PendingWill, ...] = ()


class SessionCommands:
    """Applies the commands of sessions."""

    def __init__(
        self,
        sessions: SessionTable,
        deliveries: SessionDeliveries,
        retained_delivery: RetainedDelivery,
        replay_delivery: ReplayDelivery,
        routes: Routes[Session | LiveSubscriber],
    ) -> None:
        self._sessions = sessions
        self._position = sessions.position
        self._deliveries = deliveries
        self._retained_delivery = retained_delivery
        self._replay_delivery = replay_delivery
        self._routes = routes

    # ── connecting ────────────────────────────────────────────────────────────────────────────

    def opened(
        self, command: SessionOpened, client: SessionClient | None, effects: Effects
    ) -> None:
        session = self._sessions.by_id.get(command.client_id)
        if session is not None and self._sessions.is_contained(session):
            return
        if session is not None and not session.is_over and is_foreign(session.user, command.user):
            if client is not None:
                effects.controls.append(SessionDenied(client, OWNED_BY_ANOTHER))
            return
        if session is not None and session.client is not None:
            effects.controls.append(TakenOver(session.client))
        before = self._before(session, command, effects) if session is not None else _Before(None)
        session = before.session or self._begin(command)
        session.wills = before.wills
        self._connect(session, command, client)
        if session.wills and not self._position.is_recovering:
            effects.controls.append(WillLeft(command.client_id))
        if client is None and not self._position.is_recovering:
            effects.controls.append(OpenedForNobody(command.client_id, command.connection))
        if client is not None:
            # Session present only if there was one to be resumed [MQTT-3.2.2-1] to [MQTT-3.2.2-3].
            is_present = before.session is not None
            effects.controls.append(Accepted(client, session, is_present))
        portion = PORTION if command.is_paced else PACKET_ID_MAX
        self._deliveries.resume(session, effects, portion)
        effects.ask_for_pages(session)

    def _before(self, session: Session, command: SessionOpened, effects: Effects) -> _Before:
        """What is left of the session that was there [MQTT-3.1.2-4], [MQTT-3.1.2-5]."""
        if command.now_ms and session.connected and command.heir_of != session.connection:
            session.leave_will(command.now_ms + _delay_ms(session))
        if session.has_expired(command.now_ms):
            self._sessions.expired(session, effects)
        elif command.clean or session.ends_with_connection:
            self._sessions.end(session)
        if session.is_over:
            self._sessions.away.pop(session.client_id, None)
            return _Before(None, session.wills)
        due = tuple(one for one in session.wills if one.at_ms <= command.now_ms)
        return _Before(session, due)  # the others were to be published if it did not come back

    def _begin(self, command: SessionOpened) -> Session:
        durable = command.expiry_s > 0 if command.expiry_s >= 0 else not command.clean
        session = Session(command.client_id, durable=durable)
        session.origin = command.connection
        self._sessions.add(session)
        return session

    def _connect(
        self, session: Session, command: SessionOpened, client: SessionClient | None
    ) -> None:
        self._sessions.away.pop(command.client_id, None)
        session.resume_offers(self._position.last_sequence)
        self._sessions.replays.part(session)
        session.connected = True
        session.connection = command.connection
        session.client = client
        session.will = command.will
        session.everywhere = command.everywhere
        session.version = command.version
        session.expiry_s = command.expiry_s
        session.receive_maximum = command.receive_maximum
        self._sessions.limit_window(session)
        self._own(session, command)
        self._sessions.wills.note(session)
        self._sessions.touch(session)

    def _own(self, session: Session, command: SessionOpened) -> None:
        before = session.user, session.roles, session.via
        session.user, session.roles, session.via = command.user, command.roles, command.via
        if before != (command.user, command.roles, command.via):
            for topic_filter in session.subscriptions or () if self._routes.may_receive else ():
                self._routes.forget(topic_filter)

    def drained(self, command: Drained, _client: SessionClient | None, effects: Effects) -> None:
        session = self._connected(command)
        if session is not None:
            self._deliveries.drain(session, effects, 4 * PORTION)
            self._sessions.touch(session)

    def _connected(self, command: Drained | Closed | DeliveriesLost) -> Session | None:
        """The session, if this connection has it; None also if its row contains the command."""
        session = self._sessions.by_id.get(command.client_id)
        if session is None or session.connection != command.connection or not session.connected:
            return None
        return None if self._sessions.is_contained(session) else session

    # ── leaving ───────────────────────────────────────────────────────────────────────────────

    def closed(self, command: Closed, _client: SessionClient | None, effects: Effects) -> None:
        session = self._connected(command)
        if session is None:
            return  # a newer connection has the session, or it was closed before
        if session.client is not None:  # nearly always closed by now; else it was not our word
            effects.controls.append(Ended(session.client))
        if command.expiry_s >= 0:
            session.expiry_s = command.expiry_s
        if command.will_at_ms:
            self._leave_will(session, command, effects)
        if session.ends_with_connection:
            self._sessions.end(session)
        else:
            self._sessions.left(session, command.now_ms)

    def _leave_will(self, session: Session, command: Closed, effects: Effects) -> None:
        """The will is due at the session's end at the latest [MQTT5-3.1.2-8]."""
        at_ms = command.will_at_ms
        if session.ends_with_connection:
            at_ms = 0
        elif session.expiry_s >= 0:
            at_ms = min(at_ms, command.now_ms + session.expiry_s * 1000)
        session.leave_will(at_ms)
        self._sessions.wills.note(session)
        if session.wills and not self._position.is_recovering:
            effects.controls.append(WillLeft(session.client_id))

    def expired(self, command: Expired, _client: SessionClient | None, effects: Effects) -> None:
        session = self._away(command)
        if session is None or session.is_over:
            return
        self._sessions.expired(session, effects)
        if session.wills and not self._position.is_recovering:
            self._sessions.wills.note(session)
            effects.controls.append(WillLeft(session.client_id))

    def _away(self, command: Expired) -> Session | None:
        session = self._sessions.by_id.get(command.client_id)
        if session is None or session.connected or session.connection != command.connection:
            return None
        return None if self._sessions.is_contained(session) else session

    def will_sent(
        self, command: WillSent, waiter: Completion[object] | None, effects: Effects
    ) -> None:
        if waiter is not None:
            effects.controls.append(Outcome(waiter, None))
        session = self._sessions.by_id.get(command.client_id)
        if session is None or self._sessions.is_contained(session):
            return
        self._sessions.dirty[session.client_id] = None
        session.wills = tuple(w for w in session.wills if w.connection != command.connection)
        if session.is_over and not session.wills:
            self._sessions.end(session)
        else:
            self._sessions.wills.note(session)

    def end_all_of(self, user: str) -> None:
        """A user is gone, and with the user all sessions."""
        for session in [s for s in self._sessions.by_id.values() if s.user == user]:
            if not self._sessions.is_contained(session) and not session.is_over:
                self._sessions.end(session)

    # ── subscribing ───────────────────────────────────────────────────────────────────────────

    def _meant(self, command: _OfSession) -> Session | None:
        """The session of a command; None if it is gone or contains the command already."""
        session = self._sessions.by_id.get(command.client_id)
        if session is None or session.is_over or self._sessions.is_contained(session):
            return None
        return session if command.origin in {0, session.origin} else None

    def subscribed(
        self, command: Subscribed, client: SessionClient | None, effects: Effects
    ) -> None:
        session = self._meant(command)
        if session is None:
            return
        offered = []
        for topic_filter, options in command.requests:
            if is_refusal(options):
                continue
            if self._replay_delivery.begin(session, topic_filter, options):
                continue
            is_new = session.subscribe(topic_filter, options)
            if is_new:
                session.note_birth(topic_filter, self._position.last_sequence)
            if is_new and command.now_ms and is_shared(topic_filter):
                session.note_share(topic_filter, command.now_ms)
            self._routes.subscribe(topic_filter, session, options)
            if brings_retained(options, is_new=is_new):
                offered.append((topic_filter, options))
        self._retained_delivery.begin(session, offered, self._position.last_sequence)
        self._sessions.touch(session)
        if client is None or session.client is not client:
            return
        answer = self._retained_delivery.first_page(session, command)
        if session.durable:
            effects.controls.append(FollowUp(client, answer))
        else:
            self.offered(answer, client, effects)

    def offered(self, command: Offered, client: SessionClient | None, effects: Effects) -> None:
        session = self._sessions.by_id.get(command.client_id)
        if session is None or session.connection != command.connection or not session.connected:
            return  # the next connection gets its own pages
        if self._sessions.is_contained(session):
            return
        if client is not None and command.return_codes:
            answer = SubscribeAnswer(client, command.packet_id, command.return_codes)
            effects.controls.append(answer)
        self._retained_delivery.turn(session, command, effects)
        self._sessions.touch(session)
        effects.ask_for_pages(session, is_page_done=True)

    def unsubscribed(
        self, command: Unsubscribed, client: SessionClient | None, effects: Effects
    ) -> None:
        session = self._meant(command)
        if session is None:
            return
        existed = [session.unsubscribe(topic_filter) for topic_filter in command.filters]
        for topic_filter in compress(command.filters, existed):
            self._routes.unsubscribe(topic_filter, session)
        session.withdraw_offers(command.filters)
        self._sessions.replays.withdraw(session, command.filters)
        self._retained_delivery.note(session)
        self._sessions.touch(session)
        if client is not None:
            # Answered even if nothing matched [MQTT-3.10.4-5].
            effects.controls.append(UnsubscribeAnswer(client, command.packet_id, existed))

    # ── acknowledgements and QoS 2 ────────────────────────────────────────────────────────────

    def acknowledged(
        self, command: Acknowledged, _client: SessionClient | None, effects: Effects
    ) -> None:
        session = self._current(command)
        if session is not None:
            self._deliveries.acknowledge(session, command.kind, command.packet_ids, effects)

    def _current(self, command: Acknowledged | Released) -> Session | None:
        """The session if it has that connection; None if a newer one, which repeats it, has it.

        None also if its row contains the command already.
        """
        session = self._sessions.by_id.get(command.client_id)
        if session is None or command.connection not in {0, session.connection}:
            return None
        return None if self._sessions.is_contained(session) else session

    def lost(
        self, command: DeliveriesLost, _client: SessionClient | None, effects: Effects
    ) -> None:
        session = self._sessions.by_id.get(command.client_id)
        if session is None or session.connection != command.connection:
            return
        if not self._sessions.is_contained(session):
            self._deliveries.lost(session, command, effects)

    def received(self, command: Received, _client: SessionClient | None, _effects: Effects) -> None:
        session = self._meant(command)
        if session is None:
            return
        session.receive(command.packet_ids)
        self._sessions.touch(session)

    def released(self, command: Released, client: SessionClient | None, effects: Effects) -> None:
        session = self._current(command)
        unknown: list[int] = []
        if session is not None:
            unknown = session.release(command.packet_ids)
            self._sessions.touch(session)
        if client is not None:
            known = command.packet_ids
            if unknown:
                known = [number for number in known if number not in unknown]
                effects.ack(client, PUBCOMP_UNKNOWN, unknown)
            if known:
                effects.ack(client, PUBCOMP, known)

    def repeated(self, command: Repeated, client: SessionClient | None, effects: Effects) -> None:
        session = self._sessions.by_id.get(command.client_id)
        if session is None or client is None or session.client is not client:
            return
        known = [number for number in command.packet_ids if session.has_received(number)]
        effects.ack(client, PUBREC, known)
        if len(known) < len(command.packet_ids):
            effects.controls.append(Unkept(client))


def _delay_ms(session: Session) -> int:
    """How long a taken-over connection's will waits: none if there is nothing to continue."""
    if session.will is None or session.ends_with_connection:
        return 0
    return session.will.delay_s * 1000
