"""What doors, pages and metrics may ask of the cluster that this broker is part of.

``Consensus`` is the one interface; a replica implements it. A broker without peers is a cluster of
one that it leads.

Operations that take time call ``done`` once, on the event loop: with None, or with the error.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeAlias

from penstock.cluster.frames import Member
from penstock.cluster.status import ClusterStatus
from penstock.errors import PenstockError
from penstock.model.message import Extras
from penstock.raft.types import NodeId

DoneCallback: TypeAlias = Callable[[PenstockError | None], None]


class Leadership(NamedTuple):
    """Who leads the cluster, as one node knows it."""

    leader: NodeId  # 0: none known
    term: int
    is_leader: bool  # this node leads, and has applied everything from earlier terms


LeadershipListener: TypeAlias = Callable[[Leadership], None]


class Consensus(Protocol):
    """A node's part in its cluster. Properties are cheap, and may change between two turns."""

    @property
    def node_id(self) -> NodeId: ...

    @property
    def is_clustered(self) -> bool: ...

    @property
    def is_leader(self) -> bool: ...

    @property
    def is_writable(self) -> bool:
        """Whether a write may be committed soon: there is a leader, or was just now."""

    @property
    def leader(self) -> NodeId:
        """The leader as far as known; 0: none."""

    @property
    def leader_addr(self) -> str: ...

    @property
    def term(self) -> int: ...

    @property
    def leadership(self) -> Leadership: ...

    def on_leadership(self, listener: LeadershipListener) -> None:
        """Call ``listener`` once per change of leadership, in the order of registration."""

    def own(self) -> Member: ...

    def status(self) -> ClusterStatus: ...

    def present(self) -> frozenset[NodeId]:
        """Members that were heard from lately. Only the leader knows."""

    def broadcast(
        self,
        topic: bytes,
        payloads: Sequence[bytes],
        extras: Extras | None = None,
        flags: int = 0,
    ) -> None:
        """Send messages that are not journaled to all other nodes, without any guarantee.

        All have these headers and this expiry; ``flags`` as in the journal: the content type.
        """

    def read_barrier(self, done: DoneCallback) -> None:
        """Wait until this node has applied everything that was acknowledged before."""

    def at_index(self, index: int, act: Callable[[], None], /) -> None:
        """Act when exactly this entry is applied, before the next one; if that is past, never."""

    def off_index(self, index: int, act: Callable[[], None], /) -> None: ...

    def bootstrap(self, members: Sequence[Member], done: DoneCallback) -> None:
        """Form a cluster of these nodes. Idempotent."""

    def add(self, member: Member, done: DoneCallback) -> None:
        """Add a node: as a learner, promoted to a voter once it has caught up."""

    def remove(self, node_id: NodeId, done: DoneCallback) -> None: ...

    def transfer(self, node_id: NodeId, done: DoneCallback) -> None: ...
