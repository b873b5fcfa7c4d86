"""What facts are gathered from: the parts of a broker, and a way to read the journal."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from penstock.access.admission import Admission
from penstock.access.quotas import Quotas
from penstock.clock import Clock
from penstock.cluster.consensus import Consensus
from penstock.commit.pipeline import Pipeline
from penstock.config.schema import Config
from penstock.core.broker import Broker
from penstock.dispatch.dispatchers import Dispatchers
from penstock.net.connections import Connections
from penstock.node.client_events import ClientEvents
from penstock.obs.events import Events
from penstock.store.store import Store

_Value = TypeVar("_Value")


class Reading(Protocol):
    """Does in a thread what takes long or reads the disk (``api.call.Call.read``)."""

    def __call__(self, work: Callable[[], _Value], /) -> Awaitable[_Value]: ...


@dataclass(frozen=True, kw_only=True)
class ExplainingParts:
    """The parts of one broker."""

    config: Config
    broker: Broker
    store: Store
    pipeline: Pipeline
    connections: Connections
    dispatchers: Dispatchers
    admission: Admission
    quotas: Quotas
    cluster: Consensus
    clock: Clock
    client_events: ClientEvents

    @property
    def events(self) -> Events:
        return self.connections.counters.events

    @property
    def now_ms(self) -> int:
        return self.clock.wall_ms()


def text(name: bytes) -> str:
    """A name as people see it, and as documents have it."""
    return name.decode(errors="replace")
