"""What MQTT connections share: the parts of the broker they need, and their own queues."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from penstock import kernel
from penstock.access.admission import Admission
from penstock.access.envelopes import Envelopes
from penstock.access.logins import Logins
from penstock.cluster.consensus import Consensus
from penstock.commit.feed import Feed
from penstock.commit.pipeline import Pipeline
from penstock.config.schema import Mqtt
from penstock.core.broker import Broker
from penstock.core.session import Session
from penstock.delivery.effects import EffectHandlers
from penstock.delivery.fanout import LiveFanout
from penstock.delivery.tracing import Tracing
from penstock.dispatch.dispatchers import Dispatchers
from penstock.doors.mqtt.connect_queue import ConnectQueue
from penstock.doors.mqtt.fetch_queue import FetchQueue
from penstock.doors.mqtt.replay_memory import ReplayMemory
from penstock.doors.mqtt.server_reference import server_reference
from penstock.net.connections import Connections
from penstock.obs.log import get_logger
from penstock.obs.reasons import DisconnectReason
from penstock.obs.summarized_log import SummarizedLog
from penstock.reading.readers import JournalReaders
from penstock.wire.mqtt.machine import State

if TYPE_CHECKING or kernel.is_compiled:
    from penstock.kernel.publishes import ShortWay


class SessionEnds(Protocol):
    """Journals the end of connections; wills are published when they are due."""

    def now_ms(self) -> int:
        """The time of sessions, for ``SessionOpened``."""

    def close_session(
        self, session: Session, connection: int, *, is_will_due: bool, expiry_s: int = -1
    ) -> None: ...


@dataclass(kw_only=True, eq=False)
class MqttParts:
    """The parts of the broker that MQTT connections use."""

    settings: Mqtt
    connections: Connections
    broker: Broker
    pipeline: Pipeline
    admission: Admission
    logins: Logins
    envelopes: Envelopes
    fanout: LiveFanout
    effects: EffectHandlers
    readers: JournalReaders
    feed: Feed
    dispatchers: Dispatchers
    cluster: Consensus
    session_ends: SessionEnds
    tracing: Tracing | None = None
    connect_queue: ConnectQueue = field(init=False)
    fetch_queue: FetchQueue = field(init=False)
    replay_memory: ReplayMemory = field(default_factory=ReplayMemory)
    refused_versions: SummarizedLog = field(init=False)  # clients of MQTT 3.1 and others

    @cached_property
    def short_way(self) -> "ShortWay":
        """For reads of ordinary QoS 0 packets; a compiled broker has it."""
        return ShortWay(self, State.CONNECTED)

    _stop_reference: str | None = field(init=False, default=None)  # once the broker stops

    def server_reference(self, reason: DisconnectReason) -> str:
        """Where a client whose connection ends for this reason may go; empty: nowhere else."""
        if reason is not DisconnectReason.SERVER_SHUTDOWN:
            return server_reference(self.cluster, reason)
        if self._stop_reference is None:  # the same for all clients: there may be thousands
            self._stop_reference = server_reference(self.cluster, reason)
        return self._stop_reference

    def __post_init__(self) -> None:
        self.connect_queue = ConnectQueue(self.connections, self.broker.sessions)
        self.fetch_queue = FetchQueue(self.connections)
        self.refused_versions = SummarizedLog(
            get_logger("net"), "version_refused", self.connections.monotonic
        )
