"""The parts of the broker that staged commits work with."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from penstock.commit.pipeline import Pipeline
from penstock.config.schema import Config
from penstock.core.broker import Broker
from penstock.net.connections import Connections
from penstock.obs.counters import Counters
from penstock.reading.readers import JournalReaders
from penstock.store.store import Store
from penstock.wire.queue.faults import Fault


class TopicMaker(Protocol):
    """Makes topics that do not exist yet."""

    def ensure(self, topic: bytes) -> None: ...


class StagingContext(NamedTuple):
    """Passed to sinks and stages."""

    config: Config
    broker: Broker
    store: Store  # with the staged topics, which others do not see
    pipeline: Pipeline
    readers: JournalReaders
    connections: Connections
    produce_fault: Callable[[bytes, int], Fault | None]  # why nobody may publish to a topic
    topics: TopicMaker
    counters: Counters
