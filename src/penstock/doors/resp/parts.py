"""What Redis clients share: the parts of the broker that they use, and what is of RESP alone."""

import asyncio

from msgspec.structs import replace

from penstock.access.admission import Admission
from penstock.access.audit import AuditLog
from penstock.access.envelopes import Envelopes
from penstock.access.logins import Logins
from penstock.cluster.consensus import Consensus
from penstock.commit.feed import Feed
from penstock.commit.pipeline import Pipeline
from penstock.config.schema import Config
from penstock.core.broker import Broker
from penstock.core.effects import GroupChanged
from penstock.delivery.effects import EffectHandlers
from penstock.delivery.fanout import LiveFanout
from penstock.dispatch.dispatchers import Dispatchers
from penstock.doors.resp.pattern_budget import PatternBudget
from penstock.doors.resp.registry import Registry
from penstock.doors.resp.streams.group_queues import GroupQueues
from penstock.doors.resp.streams.known_ids import KnownIds
from penstock.doors.resp.streams.reader import EntryReader
from penstock.net.connections import Connections
from penstock.net.origin import Origin
from penstock.reading.readers import JournalReaders
from penstock.store.store import Store
from penstock.trust.principal import STRANGER, Principal

PROTOCOL = "redis"  # the name of this door in listings and logs


class RespParts:
    """One for all RESP connections of a broker. ``door.RespDoor`` adds the way in."""

    def __init__(
        self,
        *,
        config: Config,
        connections: Connections,
        admission: Admission,
        envelopes: Envelopes,
        broker: Broker,
        fanout: LiveFanout,
        effects: EffectHandlers,
        store: Store,
        pipeline: Pipeline,
        feed: Feed,
        readers: JournalReaders,
        dispatchers: Dispatchers,
        cluster: Consensus,
        logins: Logins,
        audit: AuditLog,
    ) -> None:
        self.settings = config.resp
        self.durability = config.durability
        self.connections = connections
        self.limits = connections.limits
        self.counters = connections.counters
        self.monotonic = connections.monotonic
        self.wall_ms = connections.wall_ms
        self.loop: asyncio.AbstractEventLoop = connections.loop
        self.admission = admission
        self.gate = admission.gate
        self.envelopes = envelopes
        self.broker = broker
        self.fanout = fanout
        self.store = store
        self.pipeline = pipeline
        self.feed = feed
        self.readers = readers
        self.dispatchers = dispatchers
        self.cluster = cluster
        self.logins = logins
        self.audit = audit
        self.registry = Registry()
        self.pattern_budget = PatternBudget(broker.routes)
        self.known_ids = KnownIds(store)
        self.reader = EntryReader(
            store, readers, pipeline, broker.groups, connections.limits.outbound_bytes_max
        )
        self.group_queues = GroupQueues(
            reader=self.reader,
            groups=broker.groups,
            dispatchers=dispatchers,
            pipeline=pipeline,
            feed=feed,
            clock=connections.clock,
            ids=connections.ids,
        )
        effects.on(GroupChanged, self.group_queues.group_changed)

    def welcome(self, origin: Origin) -> Principal:
        """Who a client is before AUTH; with ``resp.password``, nobody whom the broker serves."""
        if self.settings.password and not (origin.certificate or origin.listener_user):
            return replace(STRANGER, door=PROTOCOL, address=origin.peer)
        return self.logins.welcome(origin, PROTOCOL)
