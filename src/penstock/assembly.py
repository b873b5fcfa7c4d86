"""The parts of a broker and how they fit together; the only module that knows all of them.

Each part is a property that builds it from the parts it needs, so dependencies determine the order
of construction. Only ``server.py``, which starts and stops the broker, imports this module.
"""

import asyncio
from collections.abc import Iterator
from functools import cached_property, partial

from penstock import __version__
from penstock.access.admission import Admission
from penstock.access.audit import AuditLog
from penstock.access.envelopes import Envelopes
from penstock.access.logins import Logins
from penstock.access.password_pool import pool_of
from penstock.access.quotas import Quotas
from penstock.access.revocation import Revocation
from penstock.clock import Clock, SteadyClock
from penstock.cluster.consensus import Consensus
from penstock.cluster.replicated_log import ReplicatedLog
from penstock.commit.erasing import Eraser
from penstock.commit.feed import Feed
from penstock.commit.pipeline import Pipeline
from penstock.commit.produce import Producing
from penstock.commit.recovery import SignedBefore
from penstock.commit.settings import PipelineSettings
from penstock.config.schema import Config
from penstock.core.broker import Broker
from penstock.core.commands import AccessChanged
from penstock.core.effects import (
    AccessApplied,
    Erasing,
    FollowUp,
    GroupChanged,
    IdentityTaken,
    OpenedForNobody,
    ScheduleChanged,
    TopicEnded,
    WillLeft,
)
from penstock.delivery.effects import EffectHandlers
from penstock.delivery.fanout import LiveFanout
from penstock.delivery.tracing import Tracing
from penstock.dispatch.dispatchers import Dispatchers
from penstock.dispatch.parts import DispatchParts
from penstock.doors.binary import BinaryDoor
from penstock.doors.mqtt.door import MqttDoor
from penstock.doors.mqtt.share_keeper import ShareKeeper
from penstock.doors.queue.door import QueueDoor
from penstock.doors.queue.faults import produce_fault
from penstock.doors.resp.door import RespDoor
from penstock.net.connection_ids import ConnectionIds
from penstock.net.connections import Connections
from penstock.net.flusher import Flusher
from penstock.node.client_events import ClientEvents
from penstock.node.decided import DecidedPublisher
from penstock.node.housekeeping import Housekeeping
from penstock.node.schedules import ScheduleRunner
from penstock.node.wills import Wills
from penstock.obs.counters import Counters
from penstock.obs.spans import SpanExporter
from penstock.reading.changes import Changes
from penstock.reading.readers import JournalReaders
from penstock.staging.context import StagingContext
from penstock.staging.sink_commits import SinkCommits
from penstock.store.store import Store
from penstock.trust.book import put
from penstock.trust.gate import Gate
from penstock.trust.policy import Policy
from penstock.trust.replay import ReplayWindow
from penstock.trust.rows import User


class Assembly:
    """One broker. Each part is built when it is first needed."""

    def __init__(
        self,
        *,
        config: Config,
        broker: Broker,
        store: Store,
        clock: Clock,
        counters: Counters,
        log: ReplicatedLog,
        cluster: Consensus,
        steady: SteadyClock | None = None,
        fanout: LiveFanout | None = None,
        signed: SignedBefore | None = None,
        whole_store: Store | None = None,
    ) -> None:
        """``signed`` was accepted before; ``whole_store`` also has the topics ``store`` hides."""
        self.config = config
        self.limits = config.limits
        self.broker = broker
        self.store = store
        self.clock = clock
        self.monotonic = clock.monotonic
        self.wall_ms = clock.wall_ms
        self.steady = steady or SteadyClock(clock)
        self.steady_ms = self.steady.now_ms
        self.counters = counters
        self.loop = asyncio.get_running_loop()
        self.cluster = cluster
        self.fanout = fanout or LiveFanout(broker.routes, config.journal)
        self._log = log
        self._signed = signed or SignedBefore([], clock.wall_ms())
        self._whole_store = whole_store or store
        self._connect()

    def _connect(self) -> None:
        on = self.effects.on
        on(FollowUp, self._follow_up)
        on(Erasing, Eraser(self.store, self.pipeline).erase)
        on(GroupChanged, self.dispatchers.group_changed)
        on(TopicEnded, self.dispatchers.topics.ended)
        on(IdentityTaken, self.binary_door.identity_taken)
        on(OpenedForNobody, self.housekeeping.opened_for_nobody)
        on(WillLeft, self.housekeeping.will_left)
        on(ScheduleChanged, self.schedules.changed)
        on(AccessApplied, self.revocation.applied)
        self.feed.on_extras = self.envelopes.committed
        self.feed.on_extras_failed = self.envelopes.commit_failed
        self.feed.on_committed = self.changes.committed
        if self.tracing is not None:
            self.feed.on_own_extras = self.tracing.committed
        self.connections.meter_of = self.quotas.meter
        self.logins.on_failed = self.audit.login_failed

    def _follow_up(self, effect: FollowUp) -> None:
        self.pipeline.submit(effect.command, effect.waiter, durable=True)

    def close(self) -> None:
        if self.tracing is not None:
            self.tracing.close()
        self.logins.close()
        self.readers.close()
        self.pipeline.close()

    # ── commit and delivery ───────────────────────────────────────────────────────────────────

    @cached_property
    def flusher(self) -> Flusher:
        return Flusher(self.loop, self.clock.monotonic, self.counters)

    @cached_property
    def effects(self) -> EffectHandlers:
        return EffectHandlers(self.flusher, self.counters)

    @cached_property
    def feed(self) -> Feed:
        return Feed()

    @cached_property
    def pipeline(self) -> Pipeline:
        return Pipeline(
            broker=self.broker,
            store=self.store,
            log=self._log,
            clock=self.clock,
            counters=self.counters,
            execute=self.effects.execute,
            pass_on=self.fanout.pass_on,
            feed=self.feed,
            settings=PipelineSettings.of(self.config),
        )

    @cached_property
    def connections(self) -> Connections:
        ids = ConnectionIds(self.clock, self.cluster.node_id)
        return Connections(self.limits, self.clock, self.counters, ids, self.flusher, self.pipeline)

    @cached_property
    def producing(self) -> Producing:
        return Producing(self.broker, self.pipeline, self.counters)

    @cached_property
    def tracing(self) -> Tracing | None:
        options = self.config.tracing
        if not options.endpoint:
            return None
        exporter = SpanExporter(options.endpoint, options.service_name, __version__, self.counters)
        return Tracing(exporter, self.clock, self.cluster.node_id)

    # ── reading ───────────────────────────────────────────────────────────────────────────────

    @cached_property
    def readers(self) -> JournalReaders:
        throttled_log = self.connections.throttled_log
        return JournalReaders(self.store, self.pipeline, self.counters, throttled_log)

    @cached_property
    def changes(self) -> Changes:
        def run(work: Iterator[None]) -> None:
            self.loop.call_soon(self.connections.turns.run, work)

        return Changes(self.clock.wall_ms(), self.store.next_index, run)

    # ── access ────────────────────────────────────────────────────────────────────────────────

    @cached_property
    def gate(self) -> Gate:
        signing = self.config.signing
        window_ms, known_from_ms = signing.window_s * 1000, self._signed.known_from_ms
        window = ReplayWindow(window_ms, signing.nonces_max, known_from_ms)
        gate = Gate(self.broker.keys, Policy(signing), window)
        for signature in self._signed.signatures:
            gate.note_stored(signature)
        return gate

    @cached_property
    def admission(self) -> Admission:
        broker = self.broker
        return Admission(
            self.config, broker.routes, broker.retained, self.gate, self.counters, self.clock
        )

    @cached_property
    def quotas(self) -> Quotas:
        return Quotas(self.broker.access)

    @cached_property
    def logins(self) -> Logins:
        return Logins(
            self.config,
            self.broker.access,
            self.broker.keys,
            cluster=self.cluster,
            quotas=self.quotas,
            clock=self.clock,
            counters=self.counters,
            pool=pool_of(self.config, self.loop),
            rehashed=self._store_rehashed,
        )

    def _store_rehashed(self, row: User, peer: str) -> None:
        """On any node: it is void if users have changed meanwhile, and a later login does it."""
        version = self.broker.access.version
        command = AccessChanged([put(row)], row.name, "rehash", peer, self.wall_ms(), version)
        self.pipeline.submit(command, None, durable=True)

    @cached_property
    def audit(self) -> AuditLog:
        return AuditLog(self.pipeline, self.store, self.broker.access, self.cluster.node_id)

    @cached_property
    def client_events(self) -> ClientEvents:
        is_on = self.config.journal.client_events
        return ClientEvents(self.counters.events, self.pipeline, self.cluster, is_on=is_on)

    @cached_property
    def revocation(self) -> Revocation:
        forget_routes = self.broker.routes.forget_all
        return Revocation(self.logins, self.connections.clients, forget_routes)

    @cached_property
    def envelopes(self) -> Envelopes:
        return Envelopes(self.admission, self.broker.routes, self.fanout, self.counters)

    # ── queues, sinks, sessions ───────────────────────────────────────────────────────────────

    @cached_property
    def dispatchers(self) -> Dispatchers:
        parts = DispatchParts(
            broker=self.broker,
            store=self.store,
            pipeline=self.pipeline,
            feed=self.feed,
            readers=self.readers,
            connections=self.connections,
            cluster=self.cluster,
            gate=self.gate,
            clock=self.clock,
            steady=self.steady,
            counters=self.counters,
        )
        return Dispatchers(parts, are_leases_volatile=self.config.durability == "interval")

    @cached_property
    def sinks(self) -> SinkCommits:
        return SinkCommits(
            StagingContext(
                config=self.config,
                broker=self.broker,
                store=self._whole_store,
                pipeline=self.pipeline,
                readers=self.readers,
                connections=self.connections,
                produce_fault=partial(produce_fault, self.admission),
                topics=self.dispatchers.topics,
                counters=self.counters,
            )
        )

    @cached_property
    def decided_publisher(self) -> DecidedPublisher:
        return DecidedPublisher(self.admission, self.fanout, self.pipeline, self.cluster)

    @cached_property
    def schedules(self) -> ScheduleRunner:
        return ScheduleRunner(
            self.broker,
            self.admission,
            self.decided_publisher,
            self.pipeline,
            self.clock,
            self.counters,
            self.loop,
        )

    @cached_property
    def wills(self) -> Wills:
        return Wills(
            self.admission,
            self.decided_publisher,
            self.pipeline,
            self.clock,
            self.counters,
            self.broker.owners,
        )

    @cached_property
    def housekeeping(self) -> Housekeeping:
        return Housekeeping(
            broker=self.broker,
            pipeline=self.pipeline,
            connections=self.connections,
            cluster=self.cluster,
            dispatchers=self.dispatchers,
            sinks=self.sinks,
            wills=self.wills,
            steady=self.steady,
            identities=self.binary_door.identities,
            node_grace_s=self.config.cluster.node_grace_s,
        )

    # ── doors ─────────────────────────────────────────────────────────────────────────────────

    @cached_property
    def binary_door(self) -> BinaryDoor:
        return BinaryDoor(
            connections=self.connections,
            broker=self.broker,
            pipeline=self.pipeline,
            admission=self.admission,
            logins=self.logins,
            fanout=self.fanout,
            readers=self.readers,
            feed=self.feed,
            dispatchers=self.dispatchers,
            cluster=self.cluster,
        )

    @cached_property
    def mqtt_door(self) -> MqttDoor:
        return MqttDoor(
            settings=self.config.mqtt,
            connections=self.connections,
            broker=self.broker,
            pipeline=self.pipeline,
            admission=self.admission,
            logins=self.logins,
            envelopes=self.envelopes,
            fanout=self.fanout,
            effects=self.effects,
            readers=self.readers,
            feed=self.feed,
            dispatchers=self.dispatchers,
            cluster=self.cluster,
            session_ends=self.housekeeping,
            tracing=self.tracing,
        )

    @cached_property
    def share_keeper(self) -> ShareKeeper:
        return ShareKeeper(self.mqtt_door)

    @cached_property
    def resp_door(self) -> RespDoor:
        return RespDoor(
            config=self.config,
            connections=self.connections,
            admission=self.admission,
            envelopes=self.envelopes,
            broker=self.broker,
            fanout=self.fanout,
            effects=self.effects,
            store=self.store,
            pipeline=self.pipeline,
            feed=self.feed,
            readers=self.readers,
            dispatchers=self.dispatchers,
            cluster=self.cluster,
            logins=self.logins,
            audit=self.audit,
        )

    @cached_property
    def queue_door(self) -> QueueDoor:
        return QueueDoor(
            connections=self.connections,
            loop=self.loop,
            steady=self.steady,
            admission=self.admission,
            broker=self.broker,
            store=self.store,
            pipeline=self.pipeline,
            readers=self.readers,
            changes=self.changes,
            dispatchers=self.dispatchers,
            producing=self.producing,
            sinks=self.sinks,
            cluster=self.cluster,
            logins=self.logins,
            audit=self.audit,
            tracing=self.tracing,
        )
