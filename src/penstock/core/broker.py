"""The broker's state and its one verb: apply a command, collect the effects.

Pure and deterministic: no clock, no socket, no disk. The state follows from all commands, in order,
so the same journal gives the same state anywhere: after a restart, on a replica, in a test.

Two kinds of session share all code. A **durable** one (MQTT: clean session 0) is in the journal. A
**live** one lasts as long as its connection; its commands are applied in the same order but never
written. A live session with a will is recorded too, so that the will is published even if the
broker crashes first. In a cluster it is always recorded, as all nodes must know who has which
client id; but only its own node knows what it subscribes to and is sent.

QoS 0 messages do not pass here on their way to subscribers: doors route them at once. They only
come here to be retained.
"""

from collections.abc import Callable, Iterator
from itertools import compress, islice
from typing import get_args

from penstock.core.access_changes import AccessChanges
from penstock.core.commands import (
    AccessChanged,
    Acknowledged,
    Authored,
    Closed,
    Command,
    DeliveriesLost,
    Drained,
    Erased,
    Expired,
    Forgotten,
    Identified,
    KeysStored,
    KeyStored,
    Leased,
    Offered,
    Progressed,
    Published,
    PublishedBy,
    Received,
    Released,
    Repeated,
    Resumed,
    SessionOpened,
    Subscribed,
    TopicConfigured,
    TopicGone,
    Trimmed,
    Unsubscribed,
    WillSent,
)
from penstock.core.completion import Completion, Refusable
from penstock.core.delivery import DELIVER_DUP, DELIVER_PUBREL, DELIVER_RETAIN, Delivery
from penstock.core.effects import (
    Accepted,
    Effects,
    Ended,
    Erasing,
    FollowUp,
    GroupChanged,
    IdentityTaken,
    OpenedForNobody,
    Outcome,
    PageTurned,
    PortionSent,
    SessionDenied,
    SubscribeAnswer,
    TakenOver,
    TopicEnded,
    Unkept,
    UnsubscribeAnswer,
)
from penstock.core.groups import STIRRING, GroupCommand, Groups
from penstock.core.live import LiveSubscriber
from penstock.core.owners import OWNED_BY_ANOTHER, Owners, is_foreign
from penstock.core.producers import Producers
from penstock.core.retained import Retained, RetainedMessage
from penstock.core.retained_delivery import RetainedDelivery
from penstock.core.routes import Routes
from penstock.core.session import (
    AWAIT_PUBCOMP,
    PACKET_ID_MAX,
    PUBACK,
    PUBCOMP,
    PUBREC,
    PUBREL,
    Publisher,
    Session,
    SessionClient,
)
from penstock.core.session_queues import SessionQueues
from penstock.core.shares import is_shared
from penstock.core.sinks import SinkCommand, Sinks
from penstock.core.subscribers import Subscribers
from penstock.core.subscription_options import brings_retained, is_refusal
from penstock.core.topics import Topics
from penstock.limits import INFLIGHT_MAX, QUEUE_MESSAGES_MAX, RETAINED_MAX, ROUTES_CACHED_MAX
from penstock.obs.counters import Counters
from penstock.obs.reasons import DropReason
from penstock.trust.book import AccessBook
from penstock.trust.keys import KeyRing

PORTION = 64  # queued messages sent to a client at a time, unless it acknowledges more

_OfSession = Subscribed | Unsubscribed | Received


class Broker:
    """Sessions, subscriptions and retained messages, and what commands do to them."""

    def __init__(
        self,
        counters: Counters,
        *,
        inflight_max: int = INFLIGHT_MAX,
        queue_messages_max: int = QUEUE_MESSAGES_MAX,
        queue_drops_oldest: bool = True,
        retained_max: int = RETAINED_MAX,
        routes_cached_max: int = ROUTES_CACHED_MAX,
    ) -> None:
        self.counters = counters
        self.inflight_max = inflight_max
        self.queues = SessionQueues(
            counters, inflight_max, queue_messages_max, drops_oldest=queue_drops_oldest
        )
        self.routes: Routes[Session | LiveSubscriber] = Routes(cached_max=routes_cached_max)
        self.retained = Retained(count_max=retained_max)
        self.subscribers = Subscribers()
        self.groups = Groups()
        self.topics = Topics()
        self.producers = Producers()
        self.sinks = Sinks()
        self.keys = KeyRing()
        self.access = AccessBook()
        self.owners = Owners(self.access, self.keys, self.retained)
        self.sessions: dict[bytes, Session] = {}
        # durable sessions without a connection, the longest away first
        self.away: dict[bytes, Session] = {}
        self.dirty: dict[bytes, None] = {}  # client ids whose row on disk is outdated
        self.index = 0  # of the journal entry whose commands are being applied
        self._base_sequence = 0
        self._last_sequence = 0  # the highest that was applied
        # who published the next messages, and how many of them; see ``PublishedBy``
        self._publisher, self._published_left = b"", 0
        self._recovering = False
        self.retained_delivery = RetainedDelivery(
            self.retained, self.routes, self.owners, inflight_max, self._offer
        )
        self._access_changes = self._make_access_changes()
        self._handlers: dict[type, Callable[..., None]] = {
            SessionOpened: self._opened,
            Closed: self._closed,
            Expired: self._expired,
            WillSent: self._will_sent,
            PublishedBy: self._published_by,
            Subscribed: self._subscribed,
            Unsubscribed: self._unsubscribed,
            Offered: self._offered,
            Drained: self._drained,
            Acknowledged: self._acknowledged,
            Received: self._received,
            Released: self._released,
            DeliveriesLost: self._lost,
            Repeated: self._repeated,
            Published: self._published,
            Progressed: self._progressed,
            Forgotten: self._forgotten,
            KeyStored: self._access_changes.keys_stored,
            KeysStored: self._access_changes.keys_stored,
            AccessChanged: self._access_changes.changed,
            Authored: self._authored,
            TopicConfigured: self._topic_configured,
            TopicGone: self._topic_gone,
            Identified: self._identified,
            Resumed: self._resumed,
            Trimmed: self._erasing,
            Erased: self._erasing,
            **dict.fromkeys(get_args(GroupCommand), self._group_changed),
            **dict.fromkeys(get_args(SinkCommand), self._sink_changed),
        }

    def _make_access_changes(self) -> AccessChanges:
        return AccessChanges(
            book=self.access,
            keys=self.keys,
            owners=self.owners,
            routes=self.routes,
            owned=(self.subscribers, self.sinks),
            end_sessions=self._end_sessions,
            moment=lambda: (self.index, self._recovering),
        )

    # ── applying ──────────────────────────────────────────────────────────────────────────────

    def begin(self, index: int, base_sequence: int) -> None:
        """Set the journal entry to which the following commands belong."""
        self.index = index
        self._base_sequence = base_sequence
        self._last_sequence = max(self._last_sequence, base_sequence - 1)

    def apply(self, command: Command, waiter: Refusable | None, effects: Effects) -> None:
        self._handlers[type(command)](command, waiter, effects)

    def _opened(
        self, command: SessionOpened, client: SessionClient | None, effects: Effects
    ) -> None:
        session = self.sessions.get(command.client_id)
        if session is not None and self._is_contained(session):
            return
        if session is not None and is_foreign(session.user, command.user):
            if client is not None:
                effects.controls.append(SessionDenied(client, OWNED_BY_ANOTHER))
            return
        if session is not None and session.client is not None:
            is_will_due = command.heir_of != session.connection
            effects.controls.append(TakenOver(session.client, is_will_due))
        if session is not None and (command.clean or not session.durable):
            self._discard(session)  # [MQTT-3.1.2-6]
            session = None
        present = session is not None
        if session is None:
            session = Session(command.client_id, durable=not command.clean)
            session.origin = command.connection
            self.sessions[command.client_id] = session
        self.away.pop(command.client_id, None)
        session.resume_offers(self._last_sequence)
        session.connected = True
        session.connection = command.connection
        session.client = client
        session.will = command.will
        session.everywhere = command.everywhere
        self._own(session, command)
        self._touch(session)
        if client is None and not self._recovering:
            opened = OpenedForNobody(command.client_id, command.connection)
            effects.controls.append(opened)
        if client is not None:
            # Session present only if there was one to be resumed [MQTT-3.2.2-1] to [MQTT-3.2.2-3].
            effects.controls.append(Accepted(client, session, present))
        self._resume(session, effects, PORTION if command.is_paced else PACKET_ID_MAX)
        if client is not None and session.offers:
            effects.controls.append(PageTurned(client))

    def _own(self, session: Session, command: SessionOpened) -> None:
        before = session.user, session.roles, session.via
        session.user, session.roles, session.via = command.user, command.roles, command.via
        if before != (command.user, command.roles, command.via):
            for topic_filter in session.subscriptions or () if self.routes.may_receive else ():
                self.routes.forget(topic_filter)

    def _end_sessions(self, user: str) -> None:
        for session in [s for s in self.sessions.values() if s.user == user]:
            if not self._is_contained(session):
                self._discard(session)

    def _resume(self, session: Session, effects: Effects, portion: int) -> None:
        """Repeat unfinished deliveries in order, then send queued messages [MQTT-4.4.0-1]."""
        client = session.client
        if client is not None:
            for packet_id, sequence, state, retain in session.unfinished():
                flags = DELIVER_PUBREL if state == AWAIT_PUBCOMP else state | DELIVER_DUP
                flags |= DELIVER_RETAIN if retain else 0
                effects.deliver(client, (b"", None, flags, packet_id, sequence, None))
                self.counters.redelivered_total += 1
        self._drain(session, effects, portion)

    def _drain(self, session: Session, effects: Effects, portion: int) -> None:
        """Send queued messages, as far as the window allows, one portion at most.

        The next portion follows when the client has read it (``Drained``), or acknowledges. If
        thousands of clients came back at once, each with a thousand queued messages, sending all of
        them would block the loop.
        """
        if not session.queue or not session.connected:
            return
        waiting = islice(session.dequeue(self.inflight_max), portion)
        for packet_id, sequence, qos, retain in waiting:
            self.queues.count -= 1
            if session.client is not None:
                flags = qos | (DELIVER_RETAIN if retain else 0)
                effects.deliver(session.client, (b"", None, flags, packet_id, sequence, None))
        is_open = session.is_window_open(self.inflight_max)
        if session.queue and is_open and session.client is not None:
            effects.controls.append(PortionSent(session.client))

    def _drained(self, command: Drained, _client: SessionClient | None, effects: Effects) -> None:
        session = self.sessions.get(command.client_id)
        if session is None or session.connection != command.connection:
            return
        if not self._is_contained(session):
            self._drain(session, effects, 4 * PORTION)
            self._touch(session)

    def _closed(self, command: Closed, _client: SessionClient | None, effects: Effects) -> None:
        session = self.sessions.get(command.client_id)
        if session is None or session.connection != command.connection:
            return  # a newer connection has the session
        if self._is_contained(session):
            return
        if session.client is not None:  # nearly always closed by now; else it was not our word
            effects.controls.append(Ended(session.client))
        if not session.durable:
            self._discard(session)
            return
        session.overtaken = None  # the next offer searches again
        session.connected = False
        session.client = None
        session.will = None
        session.away_since_ms = command.now_ms
        self.away[session.client_id] = session
        self._touch(session)

    def _expired(self, command: Expired, _client: SessionClient | None, _effects: Effects) -> None:
        session = self.sessions.get(command.client_id)
        if session is None or session.connected or session.connection != command.connection:
            return
        if self._is_contained(session):
            return
        self.counters.drops[DropReason.SESSION_EXPIRED] += session.queue_count
        self._discard(session)

    def _will_sent(
        self, command: WillSent, _client: SessionClient | None, _effects: Effects
    ) -> None:
        session = self.sessions.get(command.client_id)
        if session is None or session.connected or session.connection != command.connection:
            return
        if not self._is_contained(session):
            session.will = None
            self._touch(session)

    def _published_by(
        self, command: PublishedBy, _client: Publisher | None, _effects: Effects
    ) -> None:
        self._publisher, self._published_left = command.client_id, command.count

    def _discard(self, session: Session) -> None:
        del self.sessions[session.client_id]
        self.away.pop(session.client_id, None)
        self.routes.remove_subscriber(session, session.subscriptions or ())
        self.retained_delivery.sessions.discard(session)
        self.queues.count -= session.queue_count
        if session.recorded:
            self.dirty[session.client_id] = None
        session.connected = False
        session.client = None
        session.subscriptions = session.queue = session.inflight = session.received = None
        session.offers = session.overtaken = None

    def _meant(self, command: _OfSession) -> Session | None:
        """The session of a command; None if it is gone or contains the command already."""
        session = self.sessions.get(command.client_id)
        if session is None or self._is_contained(session):
            return None
        return session if command.origin in {0, session.origin} else None

    def _subscribed(
        self, command: Subscribed, client: SessionClient | None, effects: Effects
    ) -> None:
        session = self._meant(command)
        if session is None:
            return
        offered = []
        for topic_filter, options in command.requests:
            if is_refusal(options):
                continue
            is_new = session.subscribe(topic_filter, options)
            if is_new and command.now_ms and is_shared(topic_filter):
                session.note_share(topic_filter, command.now_ms)
            self.routes.subscribe(topic_filter, session, options)
            if brings_retained(options, is_new=is_new):
                offered.append((topic_filter, options))
        self.retained_delivery.begin(session, offered, self._last_sequence)
        self._touch(session)
        if client is None or session.client is not client:
            return
        answer = self.retained_delivery.first_page(session, command)
        if session.durable:
            effects.controls.append(FollowUp(client, answer))
        else:
            self._offered(answer, client, effects)

    def _offered(self, command: Offered, client: SessionClient | None, effects: Effects) -> None:
        session = self.sessions.get(command.client_id)
        if session is None or session.connection != command.connection or not session.connected:
            return  # the next connection gets its own pages
        if self._is_contained(session):
            return
        if client is not None and command.return_codes:
            answer = SubscribeAnswer(client, command.packet_id, command.return_codes)
            effects.controls.append(answer)
        self.retained_delivery.turn(session, command, effects)
        self._touch(session)
        if client is not None and session.offers:
            effects.controls.append(PageTurned(client, is_done=True))

    def _unsubscribed(
        self, command: Unsubscribed, client: SessionClient | None, effects: Effects
    ) -> None:
        session = self._meant(command)
        if session is None:
            return
        existed = [session.unsubscribe(topic_filter) for topic_filter in command.filters]
        for topic_filter in compress(command.filters, existed):
            self.routes.unsubscribe(topic_filter, session)
        session.withdraw_offers(command.filters)
        self.retained_delivery.note(session)
        self._touch(session)
        if client is not None:
            # Answered even if nothing matched [MQTT-3.10.4-5].
            effects.controls.append(UnsubscribeAnswer(client, command.packet_id, existed))

    def _acknowledged(
        self, command: Acknowledged, _client: SessionClient | None, effects: Effects
    ) -> None:
        session = self._current(command)
        if session is not None:
            self.acknowledge(session, command.kind, command.packet_ids, effects)

    def _current(self, command: Acknowledged | Released) -> Session | None:
        """The session if it has that connection; None if a newer one, which repeats it, has it.

        None also if its row contains the command already.
        """
        session = self.sessions.get(command.client_id)
        if session is None or command.connection not in {0, session.connection}:
            return None
        return None if self._is_contained(session) else session

    def acknowledge(
        self, session: Session, kind: int, packet_ids: list[int], effects: Effects
    ) -> None:
        """Advance deliveries. Called directly for live sessions, which are not journaled."""
        for packet_id in packet_ids:
            session.acknowledge(kind, packet_id)
        if kind == PUBREC and session.client is not None:
            # Also for an id we do not know: the client must be able to finish.
            effects.ack(session.client, PUBREL, packet_ids)
        if session.durable:
            self.dirty[session.client_id] = None
        if session.queue:
            self._drain(session, effects, max(PORTION, 2 * len(packet_ids)))
        if session.offers and session.client is not None:
            effects.controls.append(PageTurned(session.client))

    def _received(
        self, command: Received, _client: SessionClient | None, _effects: Effects
    ) -> None:
        session = self._meant(command)
        if session is None:
            return
        session.receive(command.packet_ids)
        self._touch(session)

    def _released(self, command: Released, client: SessionClient | None, effects: Effects) -> None:
        session = self._current(command)
        if session is not None:
            session.release(command.packet_ids)
            self._touch(session)
        if client is not None:
            effects.ack(client, PUBCOMP, command.packet_ids)

    def _repeated(self, command: Repeated, client: SessionClient | None, effects: Effects) -> None:
        session = self.sessions.get(command.client_id)
        if session is None or client is None or session.client is not client:
            return
        known = [number for number in command.packet_ids if session.has_received(number)]
        effects.ack(client, PUBREC, known)
        if len(known) < len(command.packet_ids):
            effects.controls.append(Unkept(client))

    def _lost(
        self, command: DeliveriesLost, _client: SessionClient | None, effects: Effects
    ) -> None:
        session = self.sessions.get(command.client_id)
        if session is None or session.connection != command.connection:
            return
        if self._is_contained(session):
            return
        reason = DropReason.NOT_AUTHORIZED if command.is_denied else DropReason.RETENTION
        for packet_id in command.packet_ids:
            if session.inflight and session.inflight.pop(packet_id, None) is not None:
                self.counters.drops[reason] += 1
        self._touch(session)
        self._drain(session, effects, max(PORTION, 2 * len(command.packet_ids)))

    def _published(self, command: Published, client: Publisher | None, effects: Effects) -> None:
        sequence = self._base_sequence + command.position
        if command.retain:
            # Back to back to one topic: the last one is what stays.
            self._retain(command, sequence + len(command.payloads) - 1)
        self._last_sequence = max(self._last_sequence, sequence + len(command.payloads) - 1)
        if not command.qos:
            return
        routes = self.routes
        route = routes.cached.get(command.topic) or routes.resolve(command.topic)
        for session, granted in route.targets if command.payloads else ():
            # The lower of the two QoS [MQTT-3.8.4-6].
            qos = min(granted, command.qos)
            if qos and isinstance(session, Session):
                self._offer_run(session, command, sequence, qos, effects)
            elif session.client is not None:
                for payload in command.payloads:
                    effects.deliver(session.client, (command.topic, payload, 0, 0, 0, None))
        if client is not None:
            effects.ack(client, PUBACK if command.qos == 1 else PUBREC, command.packet_ids)

    def _retain(self, command: Published, sequence: int) -> None:
        """Retain or clear a topic's message [MQTT-3.3.1-5], [MQTT-3.3.1-10], [MQTT-3.3.1-11]."""
        payload = command.payloads[-1]
        message = RetainedMessage(command.topic, payload, command.qos, command.time_ms, sequence)
        self.retained.set(message)
        if self.retained_delivery.sessions:
            self.retained_delivery.overtaken(command.topic, self._is_contained)

    def _authored(self, command: Authored, _client: Publisher | None, _effects: Effects) -> None:
        self.retained.attribute(command.topic, self._last_sequence, command.user)

    def _offer_run(
        self, session: Session, command: Published, sequence: int, qos: int, effects: Effects
    ) -> None:
        """Deliver messages with consecutive sequences, all at once if possible."""
        topic, payloads = command.topic, command.payloads
        if self._recovering or not session.has_room(self.inflight_max, len(payloads)):
            for number, payload in enumerate(payloads):
                self._offer(session, (topic, payload, qos, 0, sequence + number, None), effects)
            return
        packet_ids = session.begin_run(sequence, qos, len(payloads))
        if session.client is not None:
            deliveries: list[Delivery] = [
                (topic, payload, qos, packet_id, sequence + number, None)
                for number, (payload, packet_id) in enumerate(
                    zip(payloads, packet_ids, strict=True)
                )
            ]
            effects.deliver_run(session.client, deliveries)
        if session.durable:
            self.dirty[session.client_id] = None

    def _offer(self, session: Session, delivery: Delivery, effects: Effects) -> None:
        """Send a QoS 1 or 2 message to a session if it has room, else queue it."""
        if self._is_contained(session):
            return
        topic, payload, flags, _, sequence, extras = delivery
        if session.has_room(self.inflight_max):
            retain = bool(flags & DELIVER_RETAIN)
            packet_id = session.begin(sequence, flags & 3, retain=retain)
            if session.client is not None:
                effects.deliver(
                    session.client, (topic, payload, flags, packet_id, sequence, extras)
                )
        else:
            self.queues.add(session, sequence, flags)
        if session.durable:
            self.dirty[session.client_id] = None

    # ── durable subscribers, groups, keys ──────────────────────────────────────────────────────

    def _progressed(
        self, command: Progressed, waiter: Completion[object] | None, effects: Effects
    ) -> None:
        given_up = self.subscribers.progressed(command, self.index, recovering=self._recovering)
        self.counters.drops[DropReason.ACKNOWLEDGEMENT_HOLES] += given_up
        if waiter is not None:
            effects.controls.append(Outcome(waiter, given_up))

    def _forgotten(
        self, command: Forgotten, _waiter: Completion[object] | None, _effects: Effects
    ) -> None:
        self.subscribers.forgotten(command, self.index, recovering=self._recovering)

    def _group_changed(
        self, command: GroupCommand, waiter: Completion[object] | None, effects: Effects
    ) -> None:
        value = self.groups.apply(command, self.index, recovering=self._recovering)
        if isinstance(command, Leased) and value is not None:
            self.counters.drops[DropReason.EXPIRED] += len(command.expired)
        if waiter is not None:
            effects.controls.append(Outcome(waiter, value))
        elif isinstance(command, STIRRING) and not self._recovering:
            workers = command.workers if isinstance(command, Leased) else ()
            effects.controls.append(GroupChanged(command.topic, command.group, workers))

    def _resumed(
        self, command: Resumed, waiter: Completion[object] | None, effects: Effects
    ) -> None:
        self.groups.resume(command.now_ms, self.index, recovering=self._recovering)
        if waiter is not None:
            effects.controls.append(Outcome(waiter, None))

    def _topic_configured(
        self, command: TopicConfigured, waiter: Completion[object] | None, effects: Effects
    ) -> None:
        is_new = self.topics.configure(command, self.index, recovering=self._recovering)
        if waiter is not None:
            effects.controls.append(Outcome(waiter, is_new))
        elif not self._recovering:
            effects.controls.append(GroupChanged(command.topic, None))

    def _topic_gone(
        self, command: TopicGone, waiter: Completion[object] | None, effects: Effects
    ) -> None:
        """Forget everything kept by offsets of this topic, which start over at 0."""
        is_recovering = self._recovering
        known = self.topics.forget(command, self.index, recovering=is_recovering)
        self.groups.forget_topic(command.topic, self.index, recovering=is_recovering)
        self.subscribers.forget_topic(command.topic, self.index, recovering=is_recovering)
        self.producers.forget_topic(command.topic)
        if waiter is not None:
            effects.controls.append(Outcome(waiter, known))
        elif not is_recovering:
            effects.controls.append(TopicEnded(command.topic))

    def _identified(
        self, command: Identified, waiter: Completion[object] | None, effects: Effects
    ) -> None:
        recovering = self._recovering
        is_own = self.subscribers.identified(command, self.index, recovering=recovering)
        if waiter is not None:
            effects.controls.append(Outcome(waiter, "" if is_own else OWNED_BY_ANOTHER))
        if is_own and not recovering:
            taken = IdentityTaken(command.client_id, command.connection)
            effects.controls.append(taken)

    def _erasing(
        self, command: Trimmed | Erased, waiter: Completion[object] | None, effects: Effects
    ) -> None:
        """The store deletes them; after a crash the server repeats it."""
        if not self._recovering:
            effects.controls.append(Erasing(command, waiter))

    def _sink_changed(
        self, command: SinkCommand, waiter: Completion[object] | None, effects: Effects
    ) -> None:
        value = self.sinks.apply(command, self.index, recovering=self._recovering)
        if waiter is not None:
            effects.controls.append(Outcome(waiter, value))

    # ── checkpoint and recovery ───────────────────────────────────────────────────────────────

    def _touch(self, session: Session) -> None:
        if session.recorded:
            self.dirty[session.client_id] = None

    def _is_contained(self, session: Session) -> bool:
        """Whether the row this session was loaded from already contains the current entry."""
        return self._recovering and session.applied >= self.index

    def session_row(self, client_id: bytes) -> bytes | None:
        """The checkpoint row of a session; None: it has none."""
        session = self.sessions.get(client_id)
        if session is None or not session.recorded:
            return None
        return session.to_row(self.index)

    def begin_recovery(self) -> None:
        """From now on, loaded rows may already contain what is applied."""
        self._recovering = True
        self._access_changes.refresh()

    def load_session(self, row: bytes) -> None:
        session = Session.from_row(row)
        self.sessions[session.client_id] = session
        self.queues.count += session.queue_count
        self.retained_delivery.note(session)
        for topic_filter, options in (session.subscriptions or {}).items():
            self.routes.subscribe(topic_filter, session, options)

    def settle_recovery(self) -> None:
        """After the last replayed entry: order the sessions that are away by how long they are."""
        self._recovering = False
        self.subscribers.settle()
        away = [s for s in self.sessions.values() if s.durable and not s.connected]
        away.sort(key=lambda session: session.away_since_ms)
        self.away = {session.client_id: session for session in away}

    def orphans(self) -> Iterator[Session]:
        return (s for s in list(self.sessions.values()) if s.connected and s.client is None)

    def oldest_needed(self) -> int | None:
        """The lowest sequence that some durable session still needs."""
        needed = (s.oldest_needed() for s in self.sessions.values() if s.durable)
        return min((sequence for sequence in needed if sequence is not None), default=None)
