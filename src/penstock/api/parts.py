"""The parts of a broker that resources are made of. Whoever needs another one adds a field."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.admin.guard import Guard
from penstock.admin.view import (
    AccessAdmin,
    BrokerView,
    ClusterAdmin,
    KeyAdmin,
    QueueAdmin,
    ScheduleAdmin,
    SparkAdmin,
    TopicPublisher,
)
from penstock.api.beat import Beat
from penstock.api.explainer import Explainer
from penstock.api.measurements import Measurements
from penstock.api.peer_requests import Nodes
from penstock.api.views import ClientAdmin, Publishing, RetainedAdmin, TopicView
from penstock.config.schema import Config
from penstock.obs.bridge_view import BridgeViews
from penstock.obs.counters import Counters


class Configured(NamedTuple):
    """The configuration: as it is now, and where its options came from at the start."""

    config: Callable[[], Config]
    sources: Mapping[str, str] = {}
    file: str | None = None


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What resources are given. None: the broker (of a test) has no such part."""

    view: BrokerView
    guard: Guard
    publisher: TopicPublisher | None = None
    keys: KeyAdmin | None = None
    queues: QueueAdmin | None = None
    cluster: ClusterAdmin | None = None
    access: AccessAdmin | None = None
    bridges: BridgeViews | None = None
    schedules: ScheduleAdmin | None = None
    counters: Counters = field(default_factory=Counters)
    beat: Beat = field(default_factory=Beat)
    measurements: Measurements | None = None
    topics: TopicView | None = None
    publishing: Publishing | None = None
    retained: RetainedAdmin | None = None
    clients: ClientAdmin | None = None
    explainer: Explainer | None = None
    configured: Configured = field(default_factory=lambda: Configured(Config))
    nodes: Nodes | None = None
    spark: SparkAdmin | None = None

    @property
    def access_admin(self) -> AccessAdmin:
        assert self.access is not None
        return self.access

    @property
    def spark_admin(self) -> SparkAdmin:
        assert self.spark is not None
        return self.spark

    @property
    def queue_admin(self) -> QueueAdmin:
        assert self.queues is not None
        return self.queues
