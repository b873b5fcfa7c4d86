"""The broker at a glance."""

from typing import Literal

import msgspec

from penstock.api.documents.common import Moment
from penstock.api.documents.topics import BusyTopic


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """How well it is, in words."""

    state: Literal["healthy", "degraded", "unavailable"]
    text: str  # "healthy: survives the loss of 1 node"
    acknowledgement: str  # what one means now: "on the disks of 2 of 3 nodes"
    survives: int  # nodes that may fail while the others go on
    ready: bool  # as /ready answers
    reason: str | None  # why it is not


class Rates(msgspec.Struct, frozen=True, kw_only=True):
    """What happened a second, over the last ten; null: nothing to measure."""

    messages_in: float
    messages_out: float
    bytes_in: float
    bytes_out: float
    commits: float
    drops: float
    ends: float  # of connections
    acknowledge_p50_ms: float | None  # from reading a publish to its acknowledgement
    acknowledge_p99_ms: float | None
    commit_p99_ms: float | None
    fsync_p99_ms: float | None  # waiting for the disk


class Numbers(msgspec.Struct, frozen=True, kw_only=True):
    """How much there is now."""

    connections: int  # all protocols, HTTP excluded
    sessions: int  # MQTT, connected
    away: int  # MQTT sessions whose client is away
    subscriptions: int
    queued: int  # messages in the queues of sessions
    retained: int
    topics: int  # in the journal; at least so many, if there are 10,000
    groups: int
    lag: int  # of all groups
    in_flight: int  # messages with workers of groups
    dead_letters: int  # at least so many, if there are thousands of groups
    output_bytes: int  # waiting to be sent
    pending_capture_bytes: int  # QoS 0, waiting for the disk


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What needs attention: why, and where to look."""

    severity: Literal["bad", "warn"]
    code: str  # group_lag, dead_letters, disk_full_soon, many_ends, ...
    text: str
    advice: str
    page: str  # of the console: groups, clients, cluster, ...
    topic: str | None = None
    group: str | None = None
    reason: str | None = None  # of ends or drops
    count: int | None = None


class Storage(msgspec.Struct, frozen=True, kw_only=True):
    """The journal on this node."""

    bytes: int
    bytes_max: int  # beyond it the oldest messages are removed; 0: no limit
    disk_free_bytes: int
    messages: int
    oldest_sequence: int
    newest_sequence: int
    growth_bytes_per_s: float | None  # null: too early to say
    full_in_s: float | None  # when the disk or the limit is reached; null: not as it looks now
    full_means: str  # what happens then


class NodeLine(msgspec.Struct, frozen=True, kw_only=True):
    """A node of the cluster, in short."""

    node: int
    leads: bool
    this: bool
    learner: bool
    lag: int | None  # entries that it lacks; only the leader knows
    silent: bool | None


class ClusterLine(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster, in short."""

    node: int  # that answers
    state: str
    term: int
    leader: int | None
    text: str  # the diagnosis
    nodes: list[NodeLine]


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """The broker at a glance, as the asked node sees it."""

    at: Moment
    version: str
    speed: str  # of the kernel: compiled or interpreted
    uptime_s: float
    health: Health
    rates: Rates
    numbers: Numbers
    ends: dict[str, int]  # connections that ended in the last 5 minutes, by reason
    drops: dict[str, int]  # messages dropped in the last 5 minutes, by reason
    findings: list[Finding]  # the worst first
    storage: Storage
    busiest: list[BusyTopic]  # of the newest 10,000 messages; those that the caller may read
    cluster: ClusterLine
