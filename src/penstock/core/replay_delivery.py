"""History for new subscriptions: what SUBSCRIBE and pages do to sessions.

``core.replay_offers`` explains it. Nothing here looks at the clock, the journal or the outbox: the
caller that makes pages has.
"""

from collections.abc import Callable

from penstock.core.commands import Published, Replayed
from penstock.core.delivery import (
    DELIVER_CONTENT_TYPE_SHIFT,
    DELIVER_HISTORY,
    DELIVER_ID_SHIFT,
    DELIVER_PUBLISHED_RETAIN,
    Delivery,
    aged,
)
from penstock.core.effects import Effects, ReplayTurned
from penstock.core.live import LiveSubscriber
from penstock.core.replay_offers import HELD_MAX, ReplayOffer, held_back, hold
from penstock.core.replay_routes import JoiningSubscription
from penstock.core.routes import Routes
from penstock.core.session import Session, SessionClient
from penstock.core.session_table import SessionTable
from penstock.core.subscription_options import id_of, is_retain_as_published
from penstock.model.history_start import parse_request
from penstock.model.message import FLAG_RETAIN, FLAG_RETAIN_UNKEPT, Message

REPLAYED_MAX = 2_048  # deliveries in flight beyond which no history is added

# what a page does beside sending its messages
STEP_SENDS, STEP_JOINS, STEP_ENDS, STEP_LEAVES = 0, 1, 2, 3

_PUBLISHED_RETAIN = FLAG_RETAIN | FLAG_RETAIN_UNKEPT


class ReplayDelivery:
    """All replays of one broker. ``send`` puts a message in flight to a session, or queues it."""

    def __init__(
        self,
        sessions: SessionTable,
        routes: Routes[Session | LiveSubscriber],
        send: Callable[[Session, Delivery, Effects], None],
    ) -> None:
        self._sessions = sessions
        self._position = sessions.position
        self._replays = sessions.replays
        self._routes = routes
        self._send = send
        self.joining = sessions.replays.joining

    def begin(self, session: Session, name: bytes, options: int) -> bool:
        """Subscribe with history if that is asked for (``$replay/…``); return whether it is.

        If the session has the filter already, its history restarts, and the subscription leaves the
        routes until it has caught up: what is published meanwhile is history. An ordinary SUBSCRIBE
        of the filter ends its history.
        """
        request = parse_request(name)
        topic_filter = request.topic_filter if request else name
        self._replays.withdraw(session, (topic_filter,))
        if request is None:
            return False
        session.subscribe(topic_filter, options)
        session.withdraw_offers((topic_filter,))
        self._routes.unsubscribe(topic_filter, session)
        session.offers_made += 1
        horizon = self._position.last_sequence
        offer = ReplayOffer(session.offers_made, topic_filter, options, request.start, horizon)
        session.replays = [*(session.replays or ()), offer]
        return True

    def room(self, session: Session) -> int:
        """How many messages of history may be put in flight now."""
        if not session.has_room():
            return 0
        return max(min(session.window, REPLAYED_MAX) - session.inflight_count, 0)

    # ── pages ─────────────────────────────────────────────────────────────────────────────────

    def replayed(self, command: Replayed, client: SessionClient | None, effects: Effects) -> None:
        session = self._sessions.by_id.get(command.client_id)
        if session is not None and not self._sessions.is_contained(session):
            self._turn(session, command, effects)
            self._sessions.touch(session)
        if client is not None:
            effects.controls.append(ReplayTurned(client, is_done=True))

    def _turn(self, session: Session, command: Replayed, effects: Effects) -> None:
        """Send a page, unless its offer was withdrawn, or has another position, since."""
        if session.connection != command.connection or not session.connected:
            return  # the next connection gets its own pages
        offer = next((o for o in session.replays or () if o.number == command.number), None)
        if offer is None or offer.after != command.since:
            return
        if not self._send_page(session, offer, command, effects):
            return
        offer.after = command.after
        if command.step == STEP_JOINS and not offer.is_joining:
            self._replays.join(session, offer, self._position.last_sequence)
        elif command.step == STEP_LEAVES:
            self._replays.leave(session, offer)
        elif command.step == STEP_ENDS and offer.is_joining:
            self._end(session, offer, effects)

    def _send_page(
        self, session: Session, offer: ReplayOffer, command: Replayed, effects: Effects
    ) -> bool:
        """Send as much as there is room for; return whether that is all.

        The position must follow from ``runs`` alone, which is all that other nodes know.
        """
        messages = {message.sequence: message for message in command.found}
        for sequence, qos in command.each():
            message = messages.get(sequence)
            if not qos:
                if session.client is not None and message is not None:
                    effects.deliver(session.client, self._delivery(session, offer, message, 0, 0))
            elif self.room(session):
                packet_id = session.begin(sequence, qos)
                session.is_unordered = True
                if session.client is not None:
                    one: Delivery = (b"", None, qos, packet_id, sequence, None)
                    if message is not None:
                        one = self._delivery(session, offer, message, qos, packet_id)
                    effects.deliver(session.client, one)
            else:
                offer.after = sequence - 1
                return False
        return True

    def _delivery(
        self, session: Session, offer: ReplayOffer, message: Message, qos: int, packet_id: int
    ) -> Delivery:
        topic, payload, sequence = message.topic, message.payload, message.sequence
        if self._routes.may_receive is not None and not self._routes.may_receive(session, topic):
            # The right was lost after the page was made: the outbox, which reads it, judges it.
            return (b"", None, qos, packet_id, sequence, None)
        flags = qos | DELIVER_HISTORY | id_of(offer.options) << DELIVER_ID_SHIFT
        flags |= message.content_type << DELIVER_CONTENT_TYPE_SHIFT
        if is_retain_as_published(offer.options) and message.flags & _PUBLISHED_RETAIN:
            flags |= DELIVER_PUBLISHED_RETAIN
        return (topic, payload, flags, packet_id, sequence, aged(message.extras, message.time_ms))

    def _end(self, session: Session, offer: ReplayOffer, effects: Effects) -> None:
        """Send what was held back; from now on the subscription is like any other."""
        joining = self.joining(session, offer.topic_filter)
        room = max(self._sessions.queues.messages_max - session.queue_count, 0)
        if joining is None or len(offer.held) > self.room(session) + room:
            self._replays.leave(session, offer)
            return
        held = held_back(offer)
        self._replays.remove(session, offer)
        self._routes.subscribe(offer.topic_filter, session, offer.options)
        for sequence, qos in held:
            session.is_unordered = True
            self._send(session, (b"", None, qos, 0, sequence, None), effects)
        if session.client is not None:
            effects.deliver_run(session.client, joining.waiting)
            if joining.pass_on is not None:
                effects.seams.append((session.client, joining.pass_on))

    # ── what is applied while a subscription joins ────────────────────────────────────────────

    def hold(
        self, joining: JoiningSubscription, command: Published, sequence: int, flags: int
    ) -> None:
        """Hold back messages that were just applied."""
        offer, session = joining.offer, joining.session
        if self._sessions.is_contained(session):
            return
        if not offer.qos:
            self._keep(joining, command, flags)
        elif len(offer.held) + len(command.payloads) > HELD_MAX:
            self._replays.leave(session, offer)
        else:
            hold(offer, sequence, len(command.payloads), min(offer.qos, command.qos))
        self._sessions.touch(session)

    def _keep(self, joining: JoiningSubscription, command: Published, flags: int) -> None:
        """Keep messages for a subscription with QoS 0, which no session remembers."""
        if joining.session.client is None or len(joining.waiting) > HELD_MAX:
            return  # a full one leaves the routes: see ``is_full``
        extras = command.extras or [None] * len(command.payloads)
        joining.waiting += [
            (command.topic, payload, flags, 0, 0, extra)
            for payload, extra in zip(command.payloads, extras, strict=True)
        ]

    def is_full(self, session: Session, topic_filter: bytes) -> bool:
        """Whether a subscription that joins has missed something, and must leave again."""
        joining = self.joining(session, topic_filter)
        return joining is not None and len(joining.waiting) > HELD_MAX
