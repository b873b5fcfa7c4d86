"""What connections of the binary protocol share: the parts of the broker they need."""

from dataclasses import dataclass, field
from typing import Protocol

from penstock.access.admission import Admission
from penstock.access.logins import Logins
from penstock.cluster.consensus import Consensus
from penstock.commit.feed import Feed
from penstock.commit.pipeline import Pipeline
from penstock.core.broker import Broker
from penstock.delivery.fanout import LiveFanout
from penstock.dispatch.dispatchers import Dispatchers
from penstock.doors.binary.numbered import NumberedPublishes
from penstock.net.connections import Connections
from penstock.obs.reasons import DisconnectReason
from penstock.reading.readers import JournalReaders
from penstock.trust.principal import Principal


class IdentifiedClient(Protocol):
    """A connection that has a client id."""

    number: int
    is_identified: bool
    principal: Principal
    reason: DisconnectReason | None  # None while it is open

    def close(self, reason: DisconnectReason, detail: str = "") -> None: ...


@dataclass(kw_only=True, eq=False)
class BinaryParts:
    """The parts of the broker that connections of the binary protocol use."""

    connections: Connections
    broker: Broker
    pipeline: Pipeline
    admission: Admission
    logins: Logins
    fanout: LiveFanout
    readers: JournalReaders
    feed: Feed
    dispatchers: Dispatchers
    cluster: Consensus
    identities: dict[bytes, IdentifiedClient] = field(init=False, default_factory=dict)
    numbered: NumberedPublishes = field(init=False)

    def __post_init__(self) -> None:
        self.numbered = NumberedPublishes(self.broker, self.pipeline)
