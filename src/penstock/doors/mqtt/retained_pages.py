"""Sends retained messages to a subscriber in pages (``core/retained_offers``).

A page is made when the client's window is not full, its outbox is idle, and the page before it was
applied. The search runs in slices shared by all subscribers (``Turns.share``).
"""

from collections.abc import Iterator
from typing import Protocol

from penstock.core.retained_offers import RetainedOffer, RetainedSearch
from penstock.core.session import Session, SessionClient
from penstock.doors.mqtt.parts import MqttParts
from penstock.net.outbox import Outbox
from penstock.obs.reasons import DisconnectReason

VISITS = 512  # topics visited per slice: less than 1 ms


class PageReader(SessionClient, Protocol):
    """The connection that the pages are sent to."""

    reason: DisconnectReason | None

    @property
    def outbox(self) -> Outbox: ...


class RetainedPages:
    """The pages of one connection."""

    __slots__ = ("_connection", "_door", "_is_making", "_search", "_session", "_submitted")

    def __init__(self, door: MqttParts, connection: PageReader, session: Session) -> None:
        self._door = door
        self._connection = connection
        self._session = session
        self._search: RetainedSearch | None = None
        self._is_making = False  # whether a search is scheduled
        self._submitted: tuple[int, int] | None = None  # the offer whose page is in the pipeline

    def go_on(self, *, is_page_done: bool) -> None:
        """Make the next page if there is one and room for it; may be called at any time."""
        if is_page_done:
            self._submitted = None
        if not self._is_making and self._offer() is not None:
            self._is_making = True
            self._door.connections.turns.share(self._make())

    def _offer(self) -> RetainedOffer | None:
        session, connection = self._session, self._connection
        if not session.offers or session.client is not connection or connection.reason is not None:
            return None
        offer = session.offers[0]
        if (offer.number, offer.after) == self._submitted:
            return None
        has_room = self._door.broker.retained_delivery.has_room(session)
        return offer if has_room and connection.outbox.is_idle() else None

    def _make(self) -> Iterator[None]:
        retained_delivery = self._door.broker.retained_delivery
        page = None
        while page is None and (offer := self._offer()) is not None:
            search = self._search
            if search is None or search.number != offer.number:
                search = self._search = retained_delivery.search(offer)
            if search.step(VISITS):
                passed_over = self._door.pipeline.topics_to_retain()
                now_ms = self._door.connections.wall_ms()
                page = retained_delivery.page(self._session, offer, search, now_ms, passed_over)
                if page is not None:
                    self._submitted = offer.number, offer.after
            yield
        self._is_making = False
        if page is not None:
            if page.is_last:
                self._search = None
            is_durable = self._session.durable
            self._door.pipeline.submit(page, self._connection, durable=is_durable)
