"""The parts of the broker that staged commits work with."""

from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeVar

from penstock.commit.pipeline import Pipeline
from penstock.config.schema import Config
from penstock.core.broker import Broker
from penstock.core.completion import Completion
from penstock.net.connections import Connections
from penstock.obs.counters import Counters
from penstock.reading.readers import JournalReaders
from penstock.store.store import Store
from penstock.trust.principal import Principal
from penstock.wire.queue.faults import Fault

Result_contra = TypeVar("Result_contra", contravariant=True)


class StagingCompletion(Completion[Result_contra], Protocol[Result_contra]):
    """Waits for a request of a sink; ``fail``: the request itself is at fault, nothing happened."""

    def fail(self, fault: Fault) -> None: ...


class TopicCreator(Protocol):
    """Creates topics that do not exist yet."""

    def ensure(self, topic: bytes) -> None: ...


class StagingContext(NamedTuple):
    """Passed to sinks and stages."""

    config: Config
    broker: Broker
    store: Store  # with the staged topics
    pipeline: Pipeline
    readers: JournalReaders
    connections: Connections
    # why a user cannot publish so many messages to a topic
    produce_fault: Callable[[Principal, bytes, int], Fault | None]
    topics: TopicCreator
    counters: Counters
