"""The broker as the HTTP pages read it (``admin.view.BrokerView``): numbers, from memory."""

from collections.abc import Mapping
from itertools import chain, islice

from penstock import __version__
from penstock.admin.view import JournalView, QueueView
from penstock.clock import SteadyClock
from penstock.cluster.consensus import Consensus
from penstock.cluster.status import ClusterStatus, unreadiness
from penstock.commit.feed import Feed
from penstock.commit.pipeline import Pipeline
from penstock.core.broker import Broker
from penstock.core.groups import Group
from penstock.core.live import LiveSubscriber
from penstock.delivery.fanout import LiveFanout
from penstock.errors import StorageError
from penstock.model.queue_names import PREFIX, WORKERS
from penstock.net.connections import Connections
from penstock.node.client_list import away_clients, connected_clients
from penstock.node.tls_admin import TlsView
from penstock.obs.bridge_view import BridgeViews
from penstock.obs.client_view import ClientView
from penstock.reading.confirming import confirmed
from penstock.store.store import Store, TopicInfo
from penstock.trust.gate import Gate

QUEUES_COUNTED_MAX = 1_000  # queues whose jobs are counted for the metrics


class NodeView:
    """Implements ``admin.view.BrokerView`` for one node."""

    version = __version__

    def __init__(
        self,
        *,
        broker: Broker,
        store: Store,
        pipeline: Pipeline,
        feed: Feed,
        fanout: LiveFanout,
        connections: Connections,
        cluster: Consensus,
        gate: Gate,
        queues: QueueView,
        steady: SteadyClock,
        tls: TlsView,
        bridges: BridgeViews,
    ) -> None:
        self._broker = broker
        self.store = store
        self.counters = broker.counters
        self._pipeline = pipeline
        self._feed = feed
        self._fanout = fanout
        self._connections = connections
        self._cluster = cluster
        self.gate = gate
        self.queues = queues
        self._steady = steady
        self._tls = tls
        self.bridges = bridges
        self._started_at = connections.monotonic()

    def sessions(self) -> tuple[int, int]:
        return len(self._broker.sessions) - len(self._broker.away), len(self._broker.away)

    def queued(self) -> int:
        return self._broker.queues.count

    def certificate_expiry(self) -> Mapping[str, float]:
        return self._tls.expiry()

    def reloads(self) -> Mapping[str, int]:
        return self._tls.reloads()

    def outgoing(self) -> tuple[int, int, int]:
        budget = self._connections.budget
        return budget.used, budget.bytes_max, budget.waiting_count

    def retained(self) -> int:
        return self._broker.retained.count

    def schedules(self) -> int:
        return len(self._broker.schedules)

    def clients(self, prefix: bytes, count_max: int, *, are_away: bool) -> list[ClientView]:
        if are_away:
            return away_clients(self._broker, prefix, count_max)
        return connected_clients(self._connections, self._broker, prefix, count_max)

    def connections(self) -> int:
        return len(self._connections.clients)

    def subscriptions(self) -> int:
        live = self._broker.routes.subscription_count - self._fanout.listening_count
        return live + self.followers() + self._patterns() + self.counters.workers_connected

    def _patterns(self) -> int:
        if not self._broker.routes.pattern_count:
            return 0
        return sum(client.pattern_count for client in self._connections.clients)

    def followers(self) -> int:
        return self._feed.routes.subscription_count

    def durable_subscribers(self) -> int:
        return len(self._broker.subscribers.by_id)

    def topics_subscribed(self) -> int:
        routes, followed = self._broker.routes, self._feed.routes.filters()
        only_followed = sum(name not in routes.filters() for name in followed)
        return len(routes.filters()) + only_followed + routes.pattern_count

    def filters(self, count_max: int) -> list[bytes]:
        filters = chain(self._broker.routes.filters(), self._feed.routes.filters())
        return list(islice(filters, count_max))

    def subscribers(self, topic_filter: bytes) -> int:
        live = self._broker.routes.audience(topic_filter)
        followers = len(self._feed.routes.audience(topic_filter))
        # A plain LiveSubscriber is the live half of a follower; RESP has a subclass of its own.
        return followers + sum(type(who) is not LiveSubscriber for who in live)

    def queue_pending(self) -> int:
        queues = islice(self.store.topics(PREFIX), QUEUES_COUNTED_MAX)
        return sum(_jobs(queue, self._broker.groups.get(queue.name, WORKERS)) for queue in queues)

    def journal(self) -> JournalView:
        size = self.store.size()
        return JournalView(
            bytes=size.bytes_used,
            map_bytes=size.map_bytes,
            entries=size.entries,
            messages=size.messages,
            oldest_sequence=size.sequence_oldest,
            newest_sequence=size.sequence_newest,
            blocks=size.blocks,
            block_bytes=size.block_bytes,
            tail_bytes=size.tail_bytes,
            damage=size.damage,
            disk_free_bytes=size.disk_free_bytes,
        )

    def pending_capture_bytes(self) -> int:
        return self._pipeline.pending_bytes

    def clock_skew_s(self) -> float:
        return (self._connections.wall_ms() - self._steady.now_ms()) / 1000

    def uptime_s(self) -> float:
        return self._connections.monotonic() - self._started_at

    def ready(self) -> tuple[bool, str]:
        if self._connections.is_stopping:
            return False, "shutting down"
        failure = self._pipeline.failure
        if isinstance(failure, StorageError):  # for the quorum the current status counts
            return False, failure.message
        why_not = unreadiness(self.cluster())
        return not why_not, why_not

    async def confirmed(self) -> None:
        await confirmed(self._cluster)

    def cluster(self) -> ClusterStatus:
        return self._cluster.status()


def _jobs(queue: TopicInfo, group: Group | None) -> int:
    """Jobs of a queue that are ready or leased; its group is created for the first worker."""
    if group is None:
        return queue.count
    return len(group.pending) + max(queue.next_offset - max(group.next, queue.first_offset), 0)
