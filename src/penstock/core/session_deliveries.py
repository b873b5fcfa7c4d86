"""Messages on their way to sessions: routed, put in flight, queued, repeated, acknowledged.

**No local.** The journal does not know who published a message, so ``PublishedBy`` precedes those
of clients that have a subscription with no local. It counts messages of QoS 1 and 2: a batch of
another node may join them with later ones of the same topic, and QoS 0 does not pass here.

**Expiry.** What has expired is not queued and not retained, by the time at which it was published;
whether a queued message has expired when it is sent, the door decides, and journals it
(``DeliveriesLost``). Once a message is in flight, expiry is over for it.
"""

from collections.abc import Iterable
from itertools import islice, repeat

import msgspec

from penstock.core.commands import DeliveriesLost, Published, PublishedBy
from penstock.core.delivery import (
    DELIVER_CONTENT_TYPE_SHIFT,
    DELIVER_DUP,
    DELIVER_ID_SHIFT,
    DELIVER_OWN,
    DELIVER_PUBLISHED_RETAIN,
    DELIVER_PUBREL,
    DELIVER_QOS,
    DELIVER_RETAIN,
    Delivery,
)
from penstock.core.effects import Effects, PortionSent
from penstock.core.live import LiveSubscriber
from penstock.core.replay_delivery import ReplayDelivery
from penstock.core.replay_routes import JoiningSubscription
from penstock.core.retained import Retained, RetainedMessage
from penstock.core.retained_delivery import RetainedDelivery
from penstock.core.routes import Route, Routes
from penstock.core.session import (
    AWAIT_PUBCOMP,
    PUBACK,
    PUBREC,
    PUBREL,
    PUBREL_UNKNOWN,
    Publisher,
    Session,
)
from penstock.core.session_table import SessionTable
from penstock.model.message import CONTENT_TYPE_SHIFT, FLAG_CONTENT_TYPE, FLAG_RETAIN_UNKEPT
from penstock.obs.reasons import DropReason

PORTION = 64  # queued messages sent to a client at a time, unless it acknowledges more

Target = Session | LiveSubscriber


class SessionDeliveries:
    """Puts messages in flight to the sessions of one broker."""

    def __init__(self, sessions: SessionTable, routes: Routes[Target], retained: Retained) -> None:
        self._sessions = sessions
        self._position = sessions.position
        self._counters = sessions.counters
        self._routes = routes
        self._retained = retained
        # set by the broker, as each needs the other
        self.retained_delivery: RetainedDelivery
        self.replay_delivery: ReplayDelivery
        self._now_ms = 0  # when the last message was published

    # ── publishing ────────────────────────────────────────────────────────────────────────────

    def published_by(
        self, command: PublishedBy, _client: Publisher | None, _effects: Effects
    ) -> None:
        position = self._position
        position.publisher, position.published_left = command.client_id, command.count

    def published(self, command: Published, client: Publisher | None, effects: Effects) -> None:
        position = self._position
        sequence = position.base_sequence + command.position
        last = sequence + len(command.payloads) - 1
        self._now_ms = command.time_ms
        if command.retain:
            self._retain(command, last)  # back to back to one topic: the last one is what stays
        if last > position.last_sequence:  # noqa: PLR1730 - a call for every message
            position.last_sequence = last
        if not command.qos:
            return
        routes = self._routes
        route = routes.cached.get(command.topic) or routes.resolve(command.topic)
        if position.published_left:
            self._route_own(route, command, sequence, effects)
        elif route.targets and command.payloads:
            self._route(route.targets, command, sequence, effects)
        if client is not None:
            effects.ack(client, PUBACK if command.qos == 1 else PUBREC, command.packet_ids)

    def _route(
        self,
        targets: Iterable[tuple[Target, int]],
        command: Published,
        sequence: int,
        effects: Effects,
        mark: int = 0,
    ) -> None:
        flags = mark | (_flags(command) if command.retain or command.marks else 0)
        for session, granted in targets:
            # The lower of the two QoS [MQTT-3.8.4-6].
            qos = min(granted, command.qos)
            if qos and isinstance(session, Session):
                self._offer_run(session, command, sequence, qos | flags, effects)
            elif isinstance(session, JoiningSubscription):
                self.replay_delivery.hold(session, command, sequence, flags)
            elif session.client is not None:
                extras = command.extras or repeat(None)
                for payload, extra in zip(command.payloads, extras, strict=False):
                    effects.deliver(session.client, (command.topic, payload, flags, 0, 0, extra))

    def _route_own(
        self, route: Route[Target], command: Published, sequence: int, effects: Effects
    ) -> None:
        """Route messages of which the first are the publisher's that ``PublishedBy`` named."""
        position = self._position
        own_count = min(position.published_left, len(command.payloads))
        position.published_left -= own_count
        own, others = _split(command, own_count)
        publisher = self._sessions.by_id.get(position.publisher)
        marks = (route.marked or {}).get(publisher) if publisher is not None else None
        if marks is None or not marks.has_no_local:
            self._route(route.targets, command, sequence, effects)
            return
        rest = tuple(target for target in route.targets if target[0] is not publisher)
        self._route(rest, own, sequence, effects)
        if marks.own is not None and publisher is not None:
            self._route(((publisher, marks.own.qos),), own, sequence, effects, DELIVER_OWN)
        if others is not None:
            self._route(route.targets, others, sequence + own_count, effects)

    def _retain(self, command: Published, sequence: int) -> None:
        """Retain or clear a topic's message [MQTT-3.3.1-5], [MQTT-3.3.1-10], [MQTT-3.3.1-11].

        One that expires at once replaces another, and is gone.
        """
        payload = command.payloads[-1]
        message = RetainedMessage(command.topic, payload, command.qos, command.time_ms, sequence)
        extras = command.extras[-1] if command.extras else None
        if extras is not None or command.marks:
            expires_ms = extras.expires_ms if extras else 0
            message = msgspec.structs.replace(
                message,
                payload=b"" if 0 < expires_ms <= command.time_ms else payload,
                headers=extras.headers if extras else (),
                expires_ms=expires_ms,
                content_type=(command.marks & FLAG_CONTENT_TYPE) >> CONTENT_TYPE_SHIFT,
            )
        self._retained.set(message)
        if self.retained_delivery.sessions:
            self.retained_delivery.overtaken(command.topic, self._sessions.is_contained)

    def _offer_run(
        self, session: Session, command: Published, sequence: int, flags: int, effects: Effects
    ) -> None:
        """Deliver messages with consecutive sequences, all at once if possible."""
        topic, payloads = command.topic, command.payloads
        count = len(payloads)
        if self._position.is_recovering or flags & DELIVER_OWN or not session.has_room(count):
            self._offer_each(session, command, sequence, flags, effects)
            return
        packet_ids = session.begin_run(sequence, flags & DELIVER_QOS, count)
        if session.client is not None:
            if command.extras is None:
                deliveries: list[Delivery] = [
                    (topic, payload, flags, packet_id, sequence + number, None)
                    for number, (payload, packet_id) in enumerate(
                        zip(payloads, packet_ids, strict=True)
                    )
                ]
            else:
                deliveries = [
                    (topic, payload, flags, packet_id, sequence + number, extras)
                    for number, (payload, packet_id, extras) in enumerate(
                        zip(payloads, packet_ids, command.extras, strict=True)
                    )
                ]
            effects.deliver_run(session.client, deliveries)
        if session.durable:
            self._sessions.dirty[session.client_id] = None

    def _offer_each(
        self, session: Session, command: Published, sequence: int, flags: int, effects: Effects
    ) -> None:
        all_extras = command.extras or repeat(None)
        for payload, extras in zip(command.payloads, all_extras, strict=False):
            self.offer(session, (command.topic, payload, flags, 0, sequence, extras), effects)
            sequence += 1

    def offer(self, session: Session, delivery: Delivery, effects: Effects) -> None:
        """Send a QoS 1 or 2 message to a session if it has room, else queue it."""
        if self._sessions.is_contained(session):
            return
        topic, payload, flags, _, sequence, extras = delivery
        if session.has_room():
            retain = bool(flags & DELIVER_RETAIN)
            packet_id = session.begin(sequence, flags & DELIVER_QOS, retain=retain)
            if flags & DELIVER_OWN:
                session.noted().own[sequence] = True
            elif flags >> DELIVER_ID_SHIFT:
                session.noted().offer_ids[packet_id] = flags >> DELIVER_ID_SHIFT
            if session.client is not None:
                sent = topic, payload, flags, packet_id, sequence, extras
                effects.deliver(session.client, sent)
        else:
            expires_ms = extras.expires_ms if extras is not None else 0
            noted = None if self._position.is_recovering else effects
            self._sessions.queues.add(session, sequence, flags, expires_ms, self._now_ms, noted)
        if session.durable:
            self._sessions.dirty[session.client_id] = None

    # ── resuming and draining ─────────────────────────────────────────────────────────────────

    def resume(self, session: Session, effects: Effects, portion: int) -> None:
        """Repeat unfinished deliveries in order, then send queued messages [MQTT-4.4.0-1]."""
        client = session.client
        if client is not None:
            for packet_id, sequence, state, retain in session.unfinished():
                flags = DELIVER_PUBREL if state == AWAIT_PUBCOMP else state | DELIVER_DUP
                flags |= _noted_flags(session, packet_id, sequence, retain=retain)
                effects.deliver(client, (b"", None, flags, packet_id, sequence, None))
                self._counters.redelivered_total += 1
        self.drain(session, effects, portion)

    def drain(self, session: Session, effects: Effects, portion: int) -> None:
        """Send queued messages, as far as the window allows, one portion at most.

        The next portion follows when the client has read it (``Drained``), or acknowledges. If
        thousands of clients came back at once, each with a thousand queued messages, sending all of
        them would block the loop.
        """
        if not session.queue or not session.connected:
            return
        for packet_id, sequence, qos, retain in islice(session.dequeue(), portion):
            self._sessions.queues.count -= 1
            if session.client is not None:
                flags = qos | _noted_flags(session, packet_id, sequence, retain=retain)
                effects.deliver(session.client, (b"", None, flags, packet_id, sequence, None))
        if session.queue and session.is_window_open() and session.client is not None:
            effects.controls.append(PortionSent(session.client))

    # ── acknowledgements ──────────────────────────────────────────────────────────────────────

    def acknowledge(
        self, session: Session, kind: int, packet_ids: list[int], effects: Effects
    ) -> None:
        """Advance deliveries. Called directly for live sessions, which are not journaled."""
        unknown = session.acknowledge(kind, packet_ids)
        if kind == PUBREC and session.client is not None:
            # Also for an id we do not know: the client must be able to finish.
            known = packet_ids
            if unknown:
                known = [number for number in packet_ids if session.awaits_pubcomp(number)]
                lost = [number for number in unknown if number not in known]
                if lost:
                    effects.ack(session.client, PUBREL_UNKNOWN, lost)
            if known:
                effects.ack(session.client, PUBREL, known)
        if session.durable:
            self._sessions.dirty[session.client_id] = None
        self._go_on(session, len(packet_ids), effects)

    def lost(self, session: Session, command: DeliveriesLost, effects: Effects) -> None:
        """Free the ids of messages that will not be delivered, and go on."""
        reason = _reason(command)
        for packet_id in command.packet_ids:
            sequence = session.lose(packet_id)
            if sequence:
                self._counters.drops[reason] += 1
                if not self._position.is_recovering:
                    effects.drop(reason, session.client_id, sequence=sequence)
        self._sessions.touch(session)
        self._go_on(session, len(command.packet_ids), effects)

    def _go_on(self, session: Session, freed: int, effects: Effects) -> None:
        """Use the room of deliveries that are done: for the queue, retained messages, history."""
        if session.queue:
            self.drain(session, effects, max(PORTION, 2 * freed))
        if session.offers or session.replays:
            effects.ask_for_pages(session)


def _reason(command: DeliveriesLost) -> DropReason:
    if command.is_denied:
        return DropReason.NOT_AUTHORIZED
    if command.is_expired:
        return DropReason.EXPIRED
    return DropReason.TOO_LARGE if command.is_too_large else DropReason.RETENTION


def _flags(command: Published) -> int:
    """Flags of a delivery that tell how the message was published."""
    is_retain = command.retain or command.marks & FLAG_RETAIN_UNKEPT
    content_type = (command.marks & FLAG_CONTENT_TYPE) >> CONTENT_TYPE_SHIFT
    published_retain = DELIVER_PUBLISHED_RETAIN if is_retain else 0
    return published_retain | content_type << DELIVER_CONTENT_TYPE_SHIFT


def _noted_flags(session: Session, packet_id: int, sequence: int, *, retain: bool) -> int:
    """Flags of a delivery that follow from the session."""
    notes = session.notes
    if retain:
        number = notes.offer_ids.get(packet_id, 0) if notes is not None else 0
        return DELIVER_RETAIN | number << DELIVER_ID_SHIFT
    return DELIVER_OWN if notes is not None and sequence in notes.own else 0


def _split(command: Published, count: int) -> tuple[Published, Published | None]:
    """The first ``count`` messages, and the rest."""
    if count >= len(command.payloads):
        return command, None
    extras = command.extras
    return (
        msgspec.structs.replace(
            command, payloads=command.payloads[:count], extras=extras and extras[:count]
        ),
        msgspec.structs.replace(
            command, payloads=command.payloads[count:], extras=extras and extras[count:]
        ),
    )
