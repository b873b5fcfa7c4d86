"""Retained messages for new subscriptions: what pages do to sessions.

``core.retained_offers`` defines pages and finds their messages. Here an offer begins with a
SUBSCRIBE, a page becomes the command ``Offered``, and applying that command puts its messages in
flight. Nothing here looks at the clock or at the outbox: the caller that makes pages has.
"""

from collections.abc import Callable, Collection

import msgspec

from penstock.core.commands import Offered, Subscribed
from penstock.core.delivery import (
    DELIVER_CONTENT_TYPE_SHIFT,
    DELIVER_ID_SHIFT,
    DELIVER_RETAIN,
    Delivery,
    aged,
)
from penstock.core.effects import Effects
from penstock.core.live import LiveSubscriber
from penstock.core.owners import Owners
from penstock.core.retained import Retained
from penstock.core.retained_offers import RetainedOffer, RetainedSearch
from penstock.core.routes import Routes
from penstock.core.session import Session, SessionClient
from penstock.core.subscription_options import code_of, qos_of

Offer = tuple[bytes, int, int]  # topic, sequence and QoS of a retained message

OFFERED_MAX = 1_024  # deliveries in flight beyond which no retained message is added

VISITS_AT_ONCE = 1_024  # nodes visited before a SUBSCRIBE is answered: less than 1 ms


class RetainedDelivery:
    """All offers of one broker. ``send`` puts a message in flight to a session.

    ``sessions`` are the durable ones with offers.
    """

    def __init__(
        self,
        retained: Retained,
        routes: Routes[Session | LiveSubscriber],
        owners: Owners,
        sessions: set[Session],
        send: Callable[[Session, Delivery, Effects], None],
    ) -> None:
        self._retained = retained
        self._routes = routes
        self._owners = owners
        self._send = send
        self.sessions = sessions

    def begin(
        self, session: Session, requests: list[tuple[bytes, int]], last_sequence: int
    ) -> None:
        """Offer what is retained for the filters, at the lower QoS [MQTT-3.3.1-6].

        Also for a filter that the session already had, unless its retain handling says otherwise
        (``brings_retained``). Each topic once, at its
        highest QoS, however many filters of the packet match it: a packet that repeats ``#`` a
        thousand times must not cost a thousand times as much.
        """
        granted: dict[bytes, int] = {}
        for topic_filter, options in requests:
            before = granted.get(topic_filter, 0)
            # of equal ones the subscription, which may have an identifier
            granted[topic_filter] = max(options, before, key=qos_of)
        if granted:
            session.begin_offer(granted, last_sequence)
            self.note(session)

    def note(self, session: Session) -> None:
        if session.offers and session.durable:
            self.sessions.add(session)
        else:
            self.sessions.discard(session)

    # ── pages ─────────────────────────────────────────────────────────────────────────────────

    def first_page(self, session: Session, command: Subscribed) -> Offered:
        """The answer to a SUBSCRIBE, with retained messages if they are found quickly.

        If not, or if earlier subscriptions are still being served, they come in later pages.
        """
        page = Offered(command.client_id, session.connection, 0, [], [], is_last=False)
        offer = session.offers[0] if session.offers else None
        if offer is not None and offer.after < 0:
            search = RetainedSearch(self._retained, offer)
            if search.step(VISITS_AT_ONCE):
                page = self.page(session, offer, search, command.now_ms) or page
        codes = [code_of(options) for _, options in command.requests]
        return msgspec.structs.replace(page, packet_id=command.packet_id, return_codes=codes)

    def page(
        self,
        session: Session,
        offer: RetainedOffer,
        search: RetainedSearch,
        now_ms: int,
        passed_over: Collection[bytes] = (),
    ) -> Offered | None:
        """The next page of an offer, without what has expired by ``now_ms``.

        None if the search has to continue first.
        """
        page = search.page(self._retained, offer, now_ms, passed_over)
        if page is None:
            return None
        return Offered(
            client_id=session.client_id,
            connection=session.connection,
            packet_id=0,
            return_codes=[],
            offers=self._allowed(session, page.offers),
            live=self._allowed(session, page.live),
            number=page.number,
            since=offer.after,
            after=page.after,
            is_last=page.is_last,
        )

    def _allowed(self, session: Session, offers: list[Offer]) -> list[Offer]:
        """Without those that the client may not get, or whose author may not publish any more."""
        if self._routes.may_receive is None:
            return offers
        return [offer for offer in offers if self._owners.may_be_offered(session, offer[0])]

    def has_room(self, session: Session) -> bool:
        """Whether a good part of a page could be sent now."""
        return _room(session) >= max(1, min(session.window, OFFERED_MAX) // 4)

    def search(self, offer: RetainedOffer) -> RetainedSearch:
        return RetainedSearch(self._retained, offer)

    # ── applying ──────────────────────────────────────────────────────────────────────────────

    def turn(self, session: Session, command: Offered, effects: Effects) -> None:
        """Send a page, unless its offer was withdrawn or renewed since."""
        offer = session.offers[0] if session.offers else None
        if not command.number and command.is_last:  # of a journal that has no pages
            offer = offer or RetainedOffer(0, {}, -1, 0)
        elif offer is None or (offer.number, offer.after) != (command.number, command.since):
            return
        after = self._send_page(session, offer, command, effects)
        is_complete = after is None
        after = command.after if after is None else after
        if session.client is not None:
            self._send_live(command, offer, after, session.client, effects)
        session.turn_page(offer, after, is_last=is_complete and command.is_last)
        self.note(session)

    def _send_page(
        self, session: Session, offer: RetainedOffer, command: Offered, effects: Effects
    ) -> int | None:
        """Send as much as there is room for; return how far that is, None if it is all."""
        after = offer.after
        for topic, sequence, qos in command.offers:
            if self._is_outdated(session, topic, sequence):
                continue
            if self._routes.may_receive and not self._routes.may_receive(session, topic):
                continue  # the right was lost after the page was made
            if command.number and _room(session) < 1:
                return after
            after = max(after, sequence)
            session.note_offer(sequence)
            message = self._retained.get(topic)
            flags = qos | DELIVER_RETAIN | offer.subscription_id << DELIVER_ID_SHIFT
            if message is None or message.sequence != sequence:
                self._send(session, (topic, None, flags, 0, sequence, None), effects)
            else:
                flags |= message.content_type << DELIVER_CONTENT_TYPE_SHIFT
                extras = aged(message.extras, message.time_ms)
                sent = topic, message.payload, flags, 0, sequence, extras
                self._send(session, sent, effects)
        return None

    def _is_outdated(self, session: Session, topic: bytes, sequence: int) -> bool:
        """Whether a topic got another retained message after the page was made.

        What a durable session is sent must follow from the journal alone, which does not tell what
        was retained at this moment; so the session notes what came.
        """
        if session.durable:
            return topic in (session.overtaken or ())
        message = self._retained.get(topic)
        return message is None or message.sequence != sequence

    def _send_live(
        self,
        command: Offered,
        offer: RetainedOffer,
        after: int,
        client: SessionClient,
        effects: Effects,
    ) -> None:
        """Send those of QoS 0, as far as the page was sent."""
        for topic, sequence, _ in command.live:
            message = self._retained.get(topic) if sequence <= after else None
            if message is not None and message.sequence == sequence:
                flags = DELIVER_RETAIN | message.content_type << DELIVER_CONTENT_TYPE_SHIFT
                flags |= offer.subscription_id << DELIVER_ID_SHIFT
                extras = aged(message.extras, message.time_ms)
                sent = topic, message.payload, flags, 0, 0, extras
                effects.deliver(client, sent)

    def overtaken(self, topic: bytes, is_contained: Callable[[Session], bool]) -> None:
        """Note that a topic has another retained message, which subscribers get live."""
        for session, _ in (self._routes.cached.get(topic) or self._routes.resolve(topic)).targets:
            if session in self.sessions and not is_contained(session):
                session.overtake(topic)


def _room(session: Session) -> int:
    """How many retained messages may be put in flight now."""
    if not session.connected or session.queue:
        return 0
    return min(session.window, OFFERED_MAX) - session.inflight_count
