"""Which subscriptions with history are in the routes, and in what guise.

``core.replay_offers`` explains it: none while history is read, a ``JoiningSubscription`` while the
last of it is sent, and the session itself from then on.
"""

from collections.abc import Callable, Iterable

from penstock.core.delivery import Delivery
from penstock.core.live import LiveSubscriber
from penstock.core.replay_offers import ReplayOffer
from penstock.core.routes import Routes
from penstock.core.session import Session
from penstock.core.subscription_options import qos_of


class JoiningSubscription(LiveSubscriber):
    """Stands in the routes for a subscription whose last history is being sent.

    ``client`` collects live messages for the connection, if that is one of this node, and
    ``pass_on`` hands them on. ``waiting`` has messages of QoS 1 and 2 that are sent with QoS 0.
    """

    __slots__ = ("offer", "pass_on", "session", "waiting")

    def __init__(self, session: Session, offer: ReplayOffer) -> None:
        super().__init__(None)
        self.session = session
        self.offer = offer
        self.pass_on: Callable[[], None] | None = None
        self.waiting: list[Delivery] = []


class ReplayRoutes:
    """The part of replays that concerns the routes, for all sessions of a broker."""

    def __init__(self, routes: Routes[Session | LiveSubscriber]) -> None:
        self._routes = routes
        self._joining: dict[tuple[Session, bytes], JoiningSubscription] = {}

    def joining(self, session: Session, topic_filter: bytes) -> JoiningSubscription | None:
        return self._joining.get((session, topic_filter))

    def routed(self, session: Session) -> Iterable[tuple[bytes, int]]:
        """Subscriptions of a session that are in the routes."""
        subscriptions = session.subscriptions or {}
        replayed = {offer.topic_filter for offer in session.replays or ()}
        return [each for each in subscriptions.items() if each[0] not in replayed]

    def load(self, session: Session) -> None:
        """A session was loaded from its row."""
        for offer in session.replays or ():
            if offer.is_joining:
                self._enter(session, offer)

    def join(self, session: Session, offer: ReplayOffer, last_sequence: int) -> None:
        offer.joined_at = last_sequence
        self._enter(session, offer)

    def _enter(self, session: Session, offer: ReplayOffer) -> None:
        joining = JoiningSubscription(session, offer)
        self._joining[session, offer.topic_filter] = joining
        self._routes.subscribe(offer.topic_filter, joining, qos_of(offer.options))

    def leave(self, session: Session, offer: ReplayOffer) -> None:
        """Back to reading; pages under way are void."""
        self._exit(session, offer)
        session.offers_made += 1
        offer.number = session.offers_made

    def part(self, session: Session) -> None:
        """The connection has ended, or another begins: go on from the positions reached."""
        for offer in session.replays or ():
            self.leave(session, offer)

    def withdraw(self, session: Session, filters: Iterable[bytes]) -> None:
        """End the replays of some filters; whether these stay subscribed is the caller's affair."""
        if session.replays:
            wanted = set(filters)
            for offer in [each for each in session.replays if each.topic_filter in wanted]:
                self.remove(session, offer)

    def withdraw_all(self, session: Session) -> None:
        for offer in session.replays or ():
            self.remove(session, offer)

    def remove(self, session: Session, offer: ReplayOffer) -> None:
        self._exit(session, offer)
        session.replays = [each for each in session.replays or () if each is not offer] or None

    def _exit(self, session: Session, offer: ReplayOffer) -> None:
        joining = self._joining.pop((session, offer.topic_filter), None)
        if joining is not None:
            self._routes.unsubscribe(offer.topic_filter, joining)
        offer.leave()
