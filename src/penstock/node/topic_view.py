"""What the broker does with messages of a topic, for the API (``api.views.TopicView``)."""

from collections.abc import Callable
from itertools import islice

from penstock.access.admission import Admission
from penstock.api.views import EXAMPLES_MAX, Audience
from penstock.commit.feed import Feed
from penstock.config.schema import Journal
from penstock.core.broker import Broker
from penstock.core.live import LiveSubscriber
from penstock.core.session import Session
from penstock.delivery.fanout import LiveFanout
from penstock.node.live_tap import LiveTap, uncaptured
from penstock.obs.printable import printable
from penstock.trust.principal import Principal


class NodeTopicView:
    """Implements ``api.views.TopicView`` for one node."""

    def __init__(
        self,
        broker: Broker,
        admission: Admission,
        feed: Feed,
        fanout: LiveFanout,
        journal: Journal,
        wall_ms: Callable[[], int],
    ) -> None:
        self._broker = broker
        self._admission = admission
        self._feed = feed
        self._fanout = fanout
        self._wall_ms = wall_ms
        self._journal = journal

    def capture(self, topic: bytes) -> str:
        """Whether QoS 0 messages are journaled, or why not."""
        if self._admission.is_captured(topic):
            return "captured"
        if not self._journal.capture:
            return "off"
        return "reserved" if topic.startswith(b"$") else "excluded"

    def audience(self, topic: bytes) -> Callable[[], Audience]:
        """Who gets messages of a topic, counted when it is called: routes may be long."""
        routes, followed = self._broker.routes, self._feed.routes
        targets = (routes.cached.get(topic) or routes.resolve(topic)).targets
        followers = len((followed.cached.get(topic) or followed.resolve(topic)).targets)
        return lambda: _counted(targets, followers)

    def tap(
        self, topic_filter: bytes, principal: Principal, is_wanted: Callable[[bytes], bool]
    ) -> LiveTap:
        filters = uncaptured(topic_filter, self._journal)
        return LiveTap(self._fanout, filters, principal, is_wanted, self._wall_ms)

    def has_retained(self, topic: bytes) -> bool:
        return self._broker.retained.get(topic) is not None


def _counted(targets: tuple[tuple[Session | LiveSubscriber, int], ...], followers: int) -> Audience:
    sessions = [target for target, _ in targets if isinstance(target, Session)]
    # A plain LiveSubscriber is the live half of a follower; other protocols have subclasses.
    others = sum(
        not isinstance(one, Session) and type(one) is not LiveSubscriber for one, _ in targets
    )
    return Audience(
        sessions=len(sessions),
        away=sum(not session.connected for session in sessions),
        live=others + followers,
        examples=[printable(one.client_id) for one in islice(sessions, EXAMPLES_MAX)],
    )
