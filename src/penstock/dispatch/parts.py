"""The parts of the broker that dispatching works with."""

from typing import NamedTuple

from penstock.clock import Clock, SteadyClock
from penstock.cluster.consensus import Consensus
from penstock.commit.feed import Feed
from penstock.commit.pipeline import Pipeline
from penstock.core.broker import Broker
from penstock.net.connections import Connections
from penstock.obs.counters import Counters
from penstock.reading.readers import JournalReaders
from penstock.store.store import Store
from penstock.trust.gate import Gate

RETRY_S = 0.5  # pause before a failed commit or read is tried again


class DispatchParts(NamedTuple):
    """Passed to dispatchers, backlogs and dead letters."""

    broker: Broker
    store: Store
    pipeline: Pipeline
    feed: Feed
    readers: JournalReaders
    connections: Connections
    cluster: Consensus
    gate: Gate
    clock: Clock
    steady: SteadyClock
    counters: Counters
