"""What the connections of the queue protocol share: parts of the broker, and checks."""

import asyncio

from penstock.access.admission import Admission, topic_refusal
from penstock.access.audit import AuditLog
from penstock.access.logins import Logins
from penstock.clock import SteadyClock
from penstock.cluster.consensus import Consensus
from penstock.commit.pipeline import Pipeline
from penstock.commit.produce import Producing
from penstock.core.broker import Broker
from penstock.delivery.tracing import Tracing
from penstock.dispatch.dispatchers import Dispatchers
from penstock.doors.queue.faults import refusal_fault, reserved_fault
from penstock.doors.queue.scans import ScanBook
from penstock.limits import GROUP_BYTES_MAX, GROUPS_MAX
from penstock.model.dead_letters import PREFIX as DEAD_PREFIX
from penstock.net.connections import Connections
from penstock.obs.reasons import DisconnectReason
from penstock.reading.changes import Changes
from penstock.reading.readers import JournalReaders
from penstock.staging.sink_commits import SinkCommits
from penstock.store.store import Store
from penstock.wire.queue.faults import FORBIDDEN, LIMIT, Fault


class QueueParts:
    """One for all connections of the queue protocol of a broker."""

    def __init__(
        self,
        *,
        connections: Connections,
        loop: asyncio.AbstractEventLoop,
        steady: SteadyClock,
        admission: Admission,
        broker: Broker,
        store: Store,
        pipeline: Pipeline,
        readers: JournalReaders,
        changes: Changes,
        dispatchers: Dispatchers,
        producing: Producing,
        sinks: SinkCommits,
        cluster: Consensus,
        logins: Logins,
        audit: AuditLog,
        tracing: Tracing | None = None,
    ) -> None:
        self.tracing = tracing
        self.connections = connections
        self.limits = connections.limits
        self.counters = connections.counters
        self.monotonic = connections.monotonic
        self.wall_ms = connections.wall_ms
        self.steady_ms = steady.now_ms
        self.loop = loop
        self.admission = admission
        self.broker = broker
        self.store = store
        self.pipeline = pipeline
        self.readers = readers
        self.changes = changes
        self.dispatchers = dispatchers
        self.producing = producing
        self.sinks = sinks
        self.cluster = cluster
        self.logins = logins
        self.audit = audit
        self.scans = ScanBook()

    def is_there(self, topic: bytes) -> bool:
        """Whether there is something to delete of a topic."""
        broker = self.broker
        has_groups = bool(broker.groups.by_topic.get(topic))
        return has_groups or broker.topics.get(topic) is not None or bool(self.store.topic(topic))

    def read_fault(self, topic: bytes) -> Fault | None:
        """Why no client may read a topic. Dead letters are readable, though only we write them."""
        refusal = topic_refusal(topic, self.limits)
        is_reserved = refusal is not None and refusal.reason is DisconnectReason.TOPIC_RESERVED
        if refusal is None or (is_reserved and topic.startswith(DEAD_PREFIX)):
            return None
        return refusal_fault(refusal)

    def change_fault(self, topic: bytes) -> Fault | None:
        if topic.startswith(b"$") and not topic.startswith(DEAD_PREFIX):
            return reserved_fault(topic)
        fault = self.read_fault(topic)
        if fault is not None:
            return fault
        refusal = self.admission.gate.admit_removal(topic)
        return Fault(FORBIDDEN, refusal.text) if refusal else None

    def group_fault(self, topic: bytes, group: bytes) -> Fault | None:
        if len(group) > GROUP_BYTES_MAX:
            return Fault(LIMIT, f"the name of a group may have {GROUP_BYTES_MAX} bytes at most")
        fault = self.read_fault(topic)
        if fault is not None:
            return fault
        refusal = self.admission.gate.admit_group(topic, group)
        if refusal is not None:
            return Fault(FORBIDDEN, refusal.text)
        if not self.dispatchers.groups.has_room_for(topic, group):
            return Fault(LIMIT, f"there are {GROUPS_MAX} groups: delete some that are not needed")
        return None
