"""The parts of one broker, for those that still take all of them."""

import asyncio
from typing import TYPE_CHECKING

from penstock.access.admission import Admission
from penstock.access.envelopes import Envelopes
from penstock.clock import Clock, SteadyClock
from penstock.cluster.consensus import Consensus
from penstock.cluster.replicated_log import ReplicatedLog
from penstock.commit.erasing import Eraser
from penstock.commit.feed import Feed
from penstock.commit.pipeline import Pipeline
from penstock.commit.settings import PipelineSettings
from penstock.config.schema import Config
from penstock.core.broker import Broker
from penstock.core.effects import (
    Erasing,
    FollowUp,
    GroupChanged,
    OpenedForNobody,
    TopicEnded,
)
from penstock.delivery.effects import EffectHandlers
from penstock.delivery.fanout import LiveFanout
from penstock.net.connection_ids import ConnectionIds
from penstock.net.connections import Connections
from penstock.net.flusher import Flusher
from penstock.node.wills import Wills
from penstock.obs.counters import Counters
from penstock.reading.changes import Changes
from penstock.reading.readers import JournalReaders
from penstock.store.store import Store
from penstock.trust.gate import Gate
from penstock.trust.policy import Policy
from penstock.trust.replay import ReplayWindow

if TYPE_CHECKING:
    from penstock.commit.produce import Producing
    from penstock.dispatch.dispatchers import Dispatchers
    from penstock.node.housekeeping import Housekeeping
    from penstock.staging.sinks import Sinks


class Hub:
    """The parts of one broker."""

    dispatchers: "Dispatchers"
    producing: "Producing"
    sinks: "Sinks"
    housekeeping: "Housekeeping"

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
        signed_until_ms: int = 0,
    ) -> None:
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
        ids = ConnectionIds(clock, cluster.node_id)
        flusher = Flusher(self.loop, clock.monotonic, counters)
        self.effects = EffectHandlers(flusher, counters)
        self.fanout = fanout or LiveFanout(broker.routes, config.journal)
        self.feed = Feed()
        self.pipeline = Pipeline(
            broker=broker,
            store=store,
            log=log,
            clock=clock,
            counters=counters,
            execute=self.effects.execute,
            pass_on=self.fanout.pass_on,
            feed=self.feed,
            settings=PipelineSettings.of(config),
        )
        self.connections = Connections(config.limits, clock, counters, ids, flusher, self.pipeline)
        self.effects.on(FollowUp, self._follow_up)
        self.effects.on(Erasing, Eraser(store, self.pipeline).erase)
        self.readers = JournalReaders(store, self.pipeline, counters, self.connections.complaints)
        started_ms = max(clock.wall_ms(), signed_until_ms + 1)
        self.gate = make_gate(config, broker, started_ms)
        self.admission = Admission(config, broker.routes, broker.retained, self.gate, counters)
        self.envelopes = Envelopes(self.admission, broker.routes, self.fanout, counters)
        self.feed.on_extras = self.envelopes.committed
        self.feed.on_extras_failed = self.envelopes.commit_failed
        self.changes = Changes(
            clock.wall_ms(),
            store.next_index,
            lambda work: self.loop.call_soon(self.connections.turns.run, work),
        )
        self.feed.on_committed = self.changes.committed
        self.wills = Wills(self.admission, self.fanout, self.pipeline, cluster, clock, counters)

    def _follow_up(self, effect: FollowUp) -> None:
        self.pipeline.submit(effect.command, effect.waiter, durable=True)

    def close(self) -> None:
        self.readers.close()
        self.pipeline.close()


def connect(hub: Hub) -> None:
    """Have the parts carry out the effects that concern them."""
    on = hub.effects.on
    dispatchers, housekeeping = hub.dispatchers, hub.housekeeping
    on(OpenedForNobody, lambda e: housekeeping.opened_for_nobody(e.client_id, e.connection))
    on(GroupChanged, lambda e: dispatchers.group_changed(e.topic, e.group, e.workers))
    on(TopicEnded, lambda e: dispatchers.topic_ended(e.topic))


def make_gate(config: Config, broker: Broker, started_ms: int) -> Gate:
    signing = config.signing
    window = ReplayWindow(signing.window_s * 1000, signing.nonces_max, started_ms)
    return Gate(broker.keys, Policy(signing), window)
