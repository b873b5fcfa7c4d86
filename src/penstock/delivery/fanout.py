"""Live fan-out: messages to every connected subscriber of a topic, before they are on disk.

Clients of the binary protocol follow the journal and get a message after its commit. What the
journal does not keep they get live, too: ``listen`` subscribes them for that.
"""

from itertools import repeat

from penstock.config.schema import Journal
from penstock.core.live import Live, LiveClient, LiveSubscriber, live_of
from penstock.core.routes import Routes
from penstock.core.session import Session
from penstock.core.subscription_options import Marks
from penstock.model.message import Extras

Targets = tuple[tuple[Session | LiveSubscriber, int], ...]  # subscribers with their QoS
Marked = dict[Session | LiveSubscriber, Marks]  # what else the subscriptions of some of them say


class LiveFanout:
    """Gives live messages to the connected clients of this node."""

    def __init__(self, routes: Routes[Session | LiveSubscriber], journal: Journal) -> None:
        self._routes = routes
        self._captures_all = journal.capture and not journal.capture_exclude
        self._listeners: dict[LiveClient, LiveSubscriber] = {}
        self.listening_count = 0  # subscriptions made by ``listen``

    def forward(self, targets: Targets, live: Live, marked: Marked | None = None) -> None:
        """``targets`` and ``marked`` are those of the topic's route."""
        if marked is not None:
            _forward_marked(targets, marked, live)
            return
        for target, _granted in targets:
            client = target.client
            if client is not None:
                client.forward(live)

    def pass_on(
        self,
        topic: bytes,
        payloads: list[bytes],
        extras: list[Extras | None] | None = None,
        flags: int = 0,
    ) -> None:
        """Forward QoS 0 messages of another node; ``flags`` are those of the journal."""
        route = self._routes.cached.get(topic) or self._routes.resolve(topic)
        if not route.targets:
            return
        if extras is None and not flags:
            self.forward(route.targets, Live.of(topic, payloads), route.marked)
            return
        for payload, extra in zip(payloads, extras or repeat(None, len(payloads)), strict=True):
            self.forward(route.targets, live_of(topic, payload, extra, flags), route.marked)

    def listen(self, topic_filter: bytes, client: LiveClient) -> None:
        """Forward what a filter matches to ``client``, unless the journal keeps all of it."""
        if topic_filter.startswith(b"$") or not self._captures_all:
            listener = self._listeners.setdefault(client, LiveSubscriber(client))
            self.listening_count += self._routes.subscribe(topic_filter, listener, 0)

    def unlisten(self, topic_filter: bytes, client: LiveClient) -> None:
        listener = self._listeners.get(client)
        if listener is not None:
            self.listening_count -= self._routes.unsubscribe(topic_filter, listener)

    def forget(self, client: LiveClient) -> None:
        self._listeners.pop(client, None)


def _forward_marked(targets: Targets, marked: Marked, live: Live) -> None:
    for target, _granted in targets:
        marks = marked.get(target)
        if marks is None or not isinstance(target, Session):
            if target.client is not None:
                target.client.forward(live)
            continue
        if marks.has_no_local and live.publisher == target.client_id:
            marks = marks.own
        if marks is not None and target.client is not None:
            target.client.forward_marked(live, marks)
