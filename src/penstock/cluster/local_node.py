"""The node as the parts of its replica see it: who it is, whether it leads, who the peers are."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from penstock.cluster.consensus import DoneCallback, Leadership
from penstock.cluster.engine import Engine
from penstock.cluster.exit import exit_process
from penstock.cluster.frames import Frame, Member
from penstock.cluster.peer_activity import PeerActivity
from penstock.cluster.peer_stats import TransportStats
from penstock.cluster.record import RaftRecord
from penstock.cluster.replicated_log import LogListener
from penstock.cluster.status import ClusterCounts
from penstock.config.schema import Cluster
from penstock.errors import ClusterError
from penstock.model.message import Extras
from penstock.raft.raw_node import RawNode
from penstock.raft.types import NO_NODE, NodeId
from penstock.store.batch import Batch
from penstock.store.store import LogStore


class Peers(Protocol):
    """The transport. Nothing blocks; what cannot be sent is dropped."""

    def send(self, to: NodeId, frame: Frame) -> None:
        """Send a frame, or drop it and call ``FrameHandler.unreachable`` later."""

    def set_members(self, members: Mapping[NodeId, Member]) -> None: ...

    def is_reached(self, node: NodeId) -> bool: ...

    def answers(self, node: NodeId) -> bool:
        """Whether a node that is reached answers questions (``cluster/asking.py``)."""

    @property
    def stats(self) -> TransportStats: ...


@dataclass
class BrokerHooks:
    """What a replica asks of the broker above it."""

    now_ms: Callable[[], int] = lambda: 0  # the steady time that a leader sends to its followers
    set_time: Callable[[int], None] = lambda _now_ms: None  # the leader's steady time
    # topic, payloads, their extras, flags of the journal
    deliver_live: Callable[[bytes, list[bytes], list[Extras | None] | None, int], None] = (
        lambda _topic, _payloads, _extras, _flags: None
    )
    is_late: Callable[[Batch], bool] = lambda _batch: False  # called on the writer thread


@dataclass(frozen=True)
class ReplicaEnvironment:
    """What a replica is given at its start."""

    settings: Cluster
    member: Member  # how other nodes and clients reach this one
    peers: Peers
    monotonic: Callable[[], float]
    roll: Callable[[int], int]  # roll(n): a random number below n
    hooks: BrokerHooks = field(default_factory=BrokerHooks)
    exit: Callable[[BaseException], None] = exit_process  # should not return

    @property
    def election_s(self) -> float:
        return self.settings.election_ticks * self.settings.tick_ms / 1000


class LocalNode:
    """The state that the parts of a replica share. Belongs to the event loop."""

    def __init__(self, engine: Engine, store: LogStore, environment: ReplicaEnvironment) -> None:
        self.engine = engine
        self.store = store
        self.environment = environment
        self.settings = environment.settings
        self.member = environment.member
        self.peers = environment.peers
        self.monotonic = environment.monotonic
        self.activity = PeerActivity(self.monotonic, self.settings.node_grace_s)
        self.counts = ClusterCounts()
        self.is_removed = False
        self.is_closed = False

    def begin(self, listener: LogListener) -> None:
        self.listener = listener

    @property
    def record(self) -> RaftRecord:
        """What this node has on disk beside the log. Only the replica changes it."""
        return self.engine.record

    @property
    def raw(self) -> RawNode | None:
        """The core; None while this node is in no cluster."""
        return self.engine.raw

    @property
    def node_id(self) -> NodeId:
        return self.record.node_id

    @property
    def is_initialised(self) -> bool:
        return self.raw is not None

    @property
    def is_lone(self) -> bool:
        return self.record.is_alone()

    @property
    def is_clustered(self) -> bool:
        is_open = bool(self.settings.peer_listen) and self.record.is_initialised
        return is_open or len(self.record.members) > 1

    @property
    def is_leader(self) -> bool:
        """Whether this node leads, and has applied everything from earlier terms."""
        return self.engine.is_leader and not self.is_removed

    @property
    def leader(self) -> NodeId:
        raw = self.raw
        return raw.lead if raw is not None and not self.is_removed else NO_NODE

    @property
    def leader_addr(self) -> str:
        member = self.record.members.get(self.leader)
        return member.client_addr if member else ""

    @property
    def leadership(self) -> Leadership:
        return Leadership(self.leader, self.record.term, self.is_leader)

    def send(self, to: NodeId, frame: Frame) -> None:
        self.peers.send(to, frame)

    def wake(self) -> None:
        self.engine.wake()

    def when_written(self, done: DoneCallback) -> None:
        """Call ``done`` when everything that is applied by now is durable."""
        self.engine.work.callbacks.append(done)


def removed_error() -> ClusterError:
    return ClusterError("this node was removed from the cluster", "Use another node.")
