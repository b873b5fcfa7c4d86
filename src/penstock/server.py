"""The composition root: builds a broker from its configuration, starts it and stops it.

The only module that knows all the parts. Start: open the store, take the checkpoint, replay what
came after it, end the sessions that were connected when the last life ended, listen. Stop: accept
no more, let clients go (their wills are published), commit what was accepted, close the store.
"""

import asyncio
import contextlib
from collections.abc import Callable
from itertools import chain, islice
from pathlib import Path

import msgspec

from penstock import __version__
from penstock.admin.app import create_app
from penstock.admin.view import JournalView
from penstock.clock import Clock, SteadyClock, SystemClock
from penstock.cluster.install import install
from penstock.cluster.status import ClusterStatus, unreadiness
from penstock.commit.produce import Producing
from penstock.commit.recovery import recover, signed_until_ms
from penstock.config.address import Address
from penstock.config.listeners import wanted
from penstock.config.schema import Config
from penstock.core.broker import Broker
from penstock.core.groups import Group, Groups
from penstock.core.live import LiveSubscriber
from penstock.core.stale_publishes import has_stale_publish
from penstock.core.subscriptions import SubscriptionTrie
from penstock.delivery.fanout import LiveFanout
from penstock.dispatch.dispatchers import Dispatchers
from penstock.dispatch.queue_names import PREFIX, WORKERS, is_queue
from penstock.doors.resp.connection import RespConnection
from penstock.errors import Refused, StorageError
from penstock.model.stages import PREFIX as STAGES
from penstock.net.connections import peer_of
from penstock.net.detect import Protocol
from penstock.net.http import BODY_BYTES_MAX, KEEP_ALIVE_S, HttpDoor
from penstock.net.listener import Door, Listener
from penstock.node.client_list import away_clients, connected_clients
from penstock.node.cluster_admin import NodeClusterAdmin
from penstock.node.doors import binary_door, mqtt_door, queue_door, resp_door
from penstock.node.housekeeping import Housekeeping
from penstock.node.hub import Hub, connect
from penstock.node.key_admin import NodeKeyAdmin
from penstock.node.node import Node
from penstock.node.queue_admin import NodeQueueAdmin
from penstock.node.sys_topics import SysTopics
from penstock.node.topic_publisher import NodeTopicPublisher
from penstock.obs.client_view import ClientView
from penstock.obs.counters import Counters
from penstock.obs.log import get_logger
from penstock.obs.reasons import DisconnectReason, DropReason
from penstock.reading.confirming import confirmed
from penstock.retention.scan import RetentionScan
from penstock.staging.sinks import Sinks
from penstock.staging.visible_store import VisibleStore
from penstock.store.lmdb_store import LmdbStore
from penstock.store.store import (
    LogStore,
    ProtectedTopics,
    RetentionLimits,
    RetentionResult,
    RetentionRules,
    Store,
    TopicInfo,
    TopicRetentionRule,
)
from penstock.trust.gate import Gate

TURN_S = 0.25
"""How often deadlines are looked at."""

RETENTION_INTERVAL_S = 1.0
"""Pause between two slices of retention when there is little to do."""

QUEUES_COUNTED_MAX = 1_000
"""Queues whose jobs are counted for the metrics."""

_ORDINARY_HTTP_ENDS = {
    DisconnectReason.CLIENT_DISCONNECT,
    DisconnectReason.CONNECTION_LOST,
    DisconnectReason.SERVER_SHUTDOWN,
}

_log = get_logger("server")


class Server:
    """One broker in this process. ``start`` it on a running loop; ``stop`` it on the same."""

    def __init__(
        self,
        config: Config,
        *,
        clock: Clock | None = None,
        store: LogStore | None = None,
        snapshots_received: int = 0,
    ) -> None:
        """``snapshots_received``: stores of others that took the place of ours in this process."""
        self.config = config
        self.counters = Counters()
        self.version = __version__
        self.addresses = list[Address]()
        """Where it listens, with the ports that were really taken."""
        self.skipped = list[Address]()
        """Usual addresses that another program has."""
        self._clock = clock or SystemClock()
        self._given_store = store
        self.snapshots_received = snapshots_received
        self._tasks: list[asyncio.Task[None]] = []
        self.replaced = asyncio.Event()
        """Set when a copy of another node's store has arrived: give way to it (``give_way``)."""
        self._is_stopping = False
        self._started_at = 0.0
        self._listener: Listener | None = None

    async def start(self) -> None:
        """Open the store, recover, listen; raises ``PenstockError`` with nothing left behind."""
        self._started_at = self._clock.monotonic()
        self._whole = self._given_store or self._open_store()
        self.store: Store = VisibleStore(self._whole)
        try:
            self.broker = self._make_broker()
            recover(self.store, self.broker)
            self.counters.drops.update(dict.fromkeys(DropReason, 0))  # counted in an earlier life
            self.broker.groups.redeliveries = 0
            self._build()
            await self.node.start()
            self.hub.pipeline.next_index = self._whole.next_index  # to lead takes an entry
            self.hub.housekeeping.start()  # before a worker of this life can come
            await self._listen()
        except BaseException:
            await self.abandon()
            raise
        self.hub.housekeeping.bury_own()
        self._tasks = [asyncio.create_task(self._turn_for_ever())]
        self._sys_due_at = self._retention_due_at = self._clock.monotonic()

    def _open_store(self) -> LogStore:
        return LmdbStore(Path(self.config.data), map_bytes=self.config.journal.map_bytes_initial)

    def _make_broker(self) -> Broker:
        limits = self.config.limits
        return Broker(
            self.counters,
            inflight_max=limits.inflight_max,
            queue_messages_max=limits.queue_messages_max,
            queue_drops_oldest=limits.queue_full == "drop_oldest",
            retained_max=limits.retained_max,
            routes_cached_max=limits.routes_cached_max,
        )

    def _build(self) -> None:
        steady = SteadyClock(self._clock)
        fanout = LiveFanout(self.broker.routes, self.config.journal)
        self.node = Node(
            self.config,
            self._whole,
            self._clock,
            steady,
            pass_on=fanout.pass_on,
            is_late=lambda batch: has_stale_publish(batch.events, self.broker.sessions),
            arrived=self.replaced.set,
        )
        self.node.replica.counts.snapshots_received = self.snapshots_received
        self.hub = Hub(
            config=self.config,
            broker=self.broker,
            store=self.store,
            clock=self._clock,
            counters=self.counters,
            steady=steady,
            fanout=fanout,
            signed_until_ms=signed_until_ms(self.store) if len(self.broker.keys) else 0,
            log=self.node.replica,
            cluster=self.node.replica,
        )
        self._whole.on_removed = self._removed_on_writer
        timeout_s = self.config.limits.connect_timeout_s
        self.queues = NodeQueueAdmin(self.hub)
        topics = NodeTopicPublisher(self.hub)
        self._http = HttpDoor(
            create_app(
                self,
                NodeKeyAdmin(self.hub),
                self.config.admin.token,
                self.queues,
                NodeClusterAdmin(self.hub, self._whole),
                publisher=topics,
                hosts=self.config.admin.hosts,
            ),
            self._http_closed,
            body_bytes_max=max(BODY_BYTES_MAX, topics.payload_bytes_max),
            request_timeout_s=timeout_s,
            keep_alive_s=min(KEEP_ALIVE_S, timeout_s),
        )
        self.hub.dispatchers = Dispatchers(self.hub)
        self.hub.producing = Producing(self.hub)
        self.hub.sinks = Sinks(self.hub, self._whole)
        self._binary = binary_door(self.hub)
        self.hub.housekeeping = Housekeeping(self.hub, self._binary.identities)
        self._mqtt = mqtt_door(self.hub)
        self.node.replica.on_leadership(self.hub.housekeeping.led)
        connect(self.hub)
        self.queue_door = queue_door(self.hub)
        self.resp_door = resp_door(self.hub)
        self._listener = Listener(self.hub.connections, self._doors())
        self._sys_topics = SysTopics(
            self.broker, self.store, fanout, self._clock, self.version, self.uptime_s
        )
        self._rules = _retention_rules(self.config)
        self._rules_version = -1
        self._examination: RetentionScan | None = None
        """The last look at topics for retention."""

    def _doors(self) -> dict[Protocol, Door]:
        return {
            Protocol.MQTT: self._mqtt.accept,
            Protocol.BINARY: self._binary.accept,
            Protocol.RESP: self.resp_door.accept,
            Protocol.QUEUE: self.queue_door.accept,
            Protocol.HTTP: self._http_door,
        }

    def _http_door(self, transport: asyncio.Transport, data: bytes, _accepted_at: float) -> None:
        self.hub.connections.open.add(transport)
        self._http.hand_over(transport, data)

    def _http_closed(self, transport: asyncio.Transport, reason: DisconnectReason) -> None:
        self.hub.connections.open.discard(transport)
        self.counters.disconnects[reason] += 1
        if reason not in _ORDINARY_HTTP_ENDS:
            values = {"reason": reason.value, "peer": peer_of(transport), "detail": "http"}
            self.hub.connections.complaints.info("refused", reason.value, **values)

    async def _listen(self) -> None:
        assert self._listener is not None
        for address, is_required in wanted(self.config):
            try:
                self.addresses.append(await self._listener.listen(address))
            except Refused as error:
                if is_required:
                    raise
                self.skipped.append(address)
                _log.warning("address_skipped", address=str(address), error=error.message)

    # ── while it runs ─────────────────────────────────────────────────────────────────────────

    async def _turn_for_ever(self) -> None:
        while True:
            stalled_s = self.hub.connections.stalls.beat(TURN_S)
            try:
                if stalled_s:
                    self._forgive(stalled_s)
                else:
                    self.turn()
            except Exception:  # noqa: BLE001 - a bug of ours must not stop the clock
                _log.exception("turn_failed")
            await asyncio.sleep(TURN_S)

    def _forgive(self, stalled_s: float) -> None:
        """We stood still: nobody's silence in that time counts, and input is read first."""
        _log.warning("stalled", seconds=round(stalled_s, 1))
        assert self._listener is not None
        self._listener.forgive(stalled_s)
        self.hub.connections.forgive(stalled_s)

    def turn(self) -> None:
        """Do what time asks for: deadlines, expiry, $SYS, retention, checkpoint."""
        now = self._clock.monotonic()
        self.hub.connections.turn(now)
        self._mqtt.turn(now)
        self.hub.housekeeping.turn()
        self.hub.pipeline.turn()
        interval_s = self.config.sys.interval_s
        if interval_s and now >= self._sys_due_at:
            self._sys_due_at = now + interval_s
            self._sys_topics.publish()
        if now >= self._retention_due_at:
            self._retention_due_at = now + RETENTION_INTERVAL_S
            self._retain()

    def _retain(self) -> None:
        self.hub.dispatchers.turn()
        self.hub.sinks.turn()
        if self._examination is None or self._examination.is_over:
            self._examination = RetentionScan(self.hub, self._examined)
            self._examination.go_on()

    def _examined(self, found: RetentionScan) -> None:
        floor = self.broker.oldest_needed() or self.hub.pipeline.next_sequence
        now_ms, protected = self._clock.wall_ms(), _protected(self.broker, found.floors)
        rules, low_water_marks = self._current_rules(), found.lows()
        self.hub.pipeline.run_on_writer(
            lambda: self._retain_on_writer(rules, now_ms, floor, protected, low_water_marks)
        )

    def _current_rules(self) -> RetentionRules:
        """Those of the configuration, and limits by size that were set for topics since.

        Limits by count and age that were set for a topic are exact, and come as its low offset.
        """
        if self._rules_version != self.broker.topics.version:
            self._rules_version = self.broker.topics.version
            sizes = {
                t.name: RetentionLimits(bytes_max=t.max_bytes)
                for t in self.broker.topics
                if t.max_bytes
            }
            self._rules = msgspec.structs.replace(self._rules, by_topic=sizes)
        return self._rules

    def _retain_on_writer(
        self,
        rules: RetentionRules,
        now_ms: int,
        floor: int,
        protected: ProtectedTopics,
        low_water_marks: dict[bytes, int],
    ) -> None:
        try:
            removed = self.store.retain(rules, now_ms, floor, protected, low_water_marks)
        except StorageError as error:
            _log.warning("retention_failed", error=error.message)
            return
        if removed.more:
            self._retention_due_at = 0.0  # more at the next turn
        if removed.messages:
            self._removed_on_writer(removed)

    def _removed_on_writer(self, removed: RetentionResult) -> None:
        with contextlib.suppress(RuntimeError):  # the loop may be gone by now
            self.hub.loop.call_soon_threadsafe(self._count_missed, removed.offsets)

    def _count_missed(self, removed: dict[bytes, list[tuple[int, int]]]) -> None:
        """Count what groups have lost. Whoever settles it as gone does so after this, by commit."""
        for topic, stretches in removed.items():
            missed = self.groups.missed(topic, stretches)
            if is_queue(topic) and self.groups.get(topic, WORKERS) is None:  # no worker came yet
                missed += sum(end - first for first, end in stretches)
            self.counters.drops[DropReason.RETENTION] += missed

    # ── the view that the administration pages have ───────────────────────────────────────────

    def sessions(self) -> tuple[int, int]:
        """Sessions with a connection, and durable ones without."""
        return len(self.broker.sessions) - len(self.broker.away), len(self.broker.away)

    def queued(self) -> int:
        """Messages that wait in sessions' queues."""
        return self.broker.queued_count

    def outgoing(self) -> tuple[int, int, int]:
        """Bytes that wait to be sent, the most they may be, and who waits for room among them."""
        budget = self.hub.connections.budget
        return budget.used, budget.bytes_max, budget.waiting_count

    def retained(self) -> int:
        """Retained messages."""
        return self.broker.retained.count

    @property
    def gate(self) -> Gate:
        """Who judges signatures."""
        return self.hub.gate

    @property
    def groups(self) -> Groups:
        """All groups of all topics."""
        return self.broker.groups

    def clients(self, prefix: bytes, count_max: int, *, are_away: bool) -> list[ClientView]:
        """Clients that are connected here, or sessions that wait for theirs."""
        listed = away_clients if are_away else connected_clients
        return listed(self.hub, prefix, count_max)

    def connections(self) -> int:
        """Open connections of clients."""
        return len(self.hub.connections.clients)

    def subscriptions(self) -> int:
        """Filters of all clients, those once that are held in two places; and queues' workers."""
        live = self.broker.routes.subscription_count - self.hub.fanout.listening_count
        return live + self.followers() + self._patterns() + self.counters.workers_connected

    def _patterns(self) -> int:
        """Patterns of all RESP clients; whoever has the same one counts, too."""
        if not self.broker.routes.pattern_count:
            return 0
        clients = [c for c in self.hub.connections.clients if isinstance(c, RespConnection)]
        return sum(len(client.subscriptions.patterns) for client in clients)

    def followers(self) -> int:
        """Filters of those who follow the journal."""
        return self.hub.feed.routes.subscription_count

    def durable_subscribers(self) -> int:
        """Client ids whose acknowledgements are kept."""
        return len(self.broker.subscribers.by_id)

    def topics_subscribed(self) -> int:
        """Different filters and patterns that somebody subscribes to."""
        routes, followed = self.broker.routes, self.hub.feed.routes.filters()
        only_followed = sum(name not in routes.filters() for name in followed)
        return len(routes.filters()) + only_followed + routes.pattern_count

    def filters(self, count_max: int) -> list[bytes]:
        """Some of the filters that somebody subscribes to."""
        filters = chain(self.broker.routes.filters(), self.hub.feed.routes.filters())
        return list(islice(filters, count_max))

    def subscribers(self, topic_filter: bytes) -> int:
        """How many subscribe to a filter of just this spelling, followers once."""
        live = self.broker.routes.audience(topic_filter)
        followers = len(self.hub.feed.routes.audience(topic_filter))
        return followers + sum(not isinstance(who, LiveSubscriber) for who in live)

    def queue_pending(self) -> int:
        """Jobs that wait in queues or are being done; in any thread."""
        queues = islice(self.store.topics(PREFIX), QUEUES_COUNTED_MAX)
        return sum(_jobs(queue, self.groups.get(queue.name, WORKERS)) for queue in queues)

    def journal(self) -> JournalView:
        """The journal in numbers."""
        size = self.store.size()
        return JournalView(
            bytes=size.bytes_used,
            map_bytes=size.map_bytes,
            entries=size.entries,
            messages=size.messages,
            oldest_sequence=size.sequence_oldest,
            newest_sequence=size.sequence_newest,
        )

    def pending_capture_bytes(self) -> int:
        """Payload bytes that are not on disk yet."""
        return self.hub.pipeline.pending_bytes

    def clock_skew_s(self) -> float:
        """Say how far this node's clock is ahead of the cluster's time, which is the leader's."""
        return (self.hub.wall_ms() - self.hub.steady_ms()) / 1000

    def uptime_s(self) -> float:
        """Seconds since the start."""
        return self._clock.monotonic() - self._started_at

    def ready(self) -> tuple[bool, str]:
        """Whether it may be given work, and if not, why."""
        if self._is_stopping:
            return False, "shutting down"
        failure = self.hub.pipeline.failure
        if isinstance(failure, StorageError):  # the lack of a quorum is told by what there is now
            return False, failure.message
        why_not = unreadiness(self.cluster())
        return not why_not, why_not

    async def confirmed(self) -> None:
        """Wait until what is read here is current. Raises NoQuorum."""
        await confirmed(self.hub.cluster)

    def cluster(self) -> ClusterStatus:
        """The cluster as this node sees it."""
        return self.hub.cluster.status()

    # ── the end ───────────────────────────────────────────────────────────────────────────────

    async def stop(self) -> bool:
        """Stop in order, within the configured time; tell whether all that was accepted is kept."""
        assert self._listener is not None
        self._is_stopping = True
        self._listener.stop_accepting()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.config.shutdown.timeout_s):
                self._pause_clients()
                await self.hub.pipeline.drain()
                await self.node.hand_over()
                self._close_clients()
                await self.hub.pipeline.drain()
                await self._until_closed()
        is_kept = self.hub.pipeline.is_idle
        await self.abandon()
        return is_kept

    async def give_way(self) -> None:
        """Stop, so that the store that has arrived can take the place of ours; then install it.

        We are far behind: nothing of ours is worth waiting for. Clients find another node.
        """
        node_id = self.node.replica.node_id
        assert self._listener is not None
        self._listener.stop_accepting()
        self._close_clients()
        await asyncio.sleep(0)  # let them be told
        await self.abandon()
        install(Path(self.config.data), node_id)

    def _pause_clients(self) -> None:
        """Take nothing more, else those who go on publishing would keep the line from draining."""
        self.hub.connections.is_stopping = True
        for client in list(self.hub.connections.clients):
            client.pause()

    def _close_clients(self) -> None:
        for client in list(self.hub.connections.clients):
            client.close(DisconnectReason.SERVER_SHUTDOWN)
        self._http.close_all()

    async def _until_closed(self) -> None:
        """Wait for clients to take their last bytes; the slow ones have a deadline of their own."""
        while self.hub.connections.clients:
            self.hub.connections.deadlines.turn(self._clock.monotonic())
            await asyncio.sleep(0.01)

    async def abandon(self) -> None:
        """Let go of everything at once, as a crash would: what was not committed is gone."""
        self._is_stopping = True
        for task in self._tasks:
            task.cancel()
        if self._listener is not None:
            self._listener.stop_accepting()
            self._listener.abort_strangers()
            for connection in list(self.hub.connections.open):
                connection.abort()
            await self.node.stop()
            self.hub.close()
        self.store.close()


def _jobs(queue: TopicInfo, group: Group | None) -> int:
    """Jobs of a queue that wait or are in hand; its group is made for the first worker."""
    if group is None:
        return queue.count
    return len(group.pending) + max(queue.next_offset - max(group.next, queue.first_offset), 0)


def _protected(broker: Broker, floors: dict[bytes, int]) -> ProtectedTopics:
    """Work that is not done is kept, whatever the limits by default.

    That is of queues, and of topics that were made for it: those of the queue protocol, ``floors``.
    What is staged is kept by any means: nobody could tell what was missing of it.
    """
    queues = {
        topic: groups[WORKERS].oldest_unsettled
        for topic, groups in broker.groups.by_topic.items()
        if is_queue(topic) and WORKERS in groups
    }
    return ProtectedTopics(PREFIX, queues | floors, STAGES)


def _retention_rules(config: Config) -> RetentionRules:
    retention = config.retention
    return RetentionRules(
        default=_limits(retention.messages_max, retention.age_s_max, retention.bytes_max),
        rules=tuple(
            TopicRetentionRule(
                _matcher(rule.filter), _limits(rule.messages_max, rule.age_s_max, rule.bytes_max)
            )
            for rule in retention.rules
        ),
        total_bytes_max=config.journal.total_bytes_max,
    )


def _limits(messages_max: int, age_s_max: int, bytes_max: int) -> RetentionLimits:
    return RetentionLimits(messages_max or None, age_s_max * 1000 or None, bytes_max or None)


def _matcher(topic_filter: str) -> Callable[[bytes], bool]:
    trie: SubscriptionTrie[str] = SubscriptionTrie()
    trie.subscribe(topic_filter.encode(), topic_filter, 0)
    return lambda topic: bool(trie.match(topic))
