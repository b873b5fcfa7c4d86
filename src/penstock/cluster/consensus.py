"""What doors, pages and metrics ask of the cluster that this broker may be part of.

``Consensus`` is the one interface; a replica has it. A broker that stands alone is a cluster of one
which leads and has nobody to ask.

What takes time calls ``then``, once, on the event loop: with None if it is done, else with why not.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeAlias

from penstock.cluster.frames import Member
from penstock.cluster.status import ClusterStatus
from penstock.errors import PenstockError
from penstock.raft.types import NodeId

DoneCallback: TypeAlias = Callable[[PenstockError | None], None]


class Leadership(NamedTuple):
    """Who leads the cluster, as one node knows it."""

    leader: NodeId  # 0: none known
    term: int
    is_leader: bool  # this node leads, and has applied everything from earlier terms


LeadershipListener: TypeAlias = Callable[[Leadership], None]


class Consensus(Protocol):
    """A node's part in its cluster. Properties are cheap, and may be another in the next turn."""

    @property
    def node_id(self) -> NodeId:
        """Who we are."""

    @property
    def is_clustered(self) -> bool:
        """Whether others may have a say."""

    @property
    def is_leader(self) -> bool:
        """Whether this node leads."""

    @property
    def is_writable(self) -> bool:
        """Whether what is written now may be committed soon: there is a leader, or was just now."""

    @property
    def leader(self) -> NodeId:
        """Who leads; 0: nobody that we know of."""

    @property
    def leader_addr(self) -> str:
        """Where clients reach the leader; empty if that is not known."""

    @property
    def term(self) -> int:
        """The term of Raft."""

    @property
    def leadership(self) -> Leadership: ...

    def on_leadership(self, listener: LeadershipListener) -> None:
        """Call ``listener`` once per change of leadership, in the order of registration."""

    def own(self) -> Member:
        """Say who this node is and where it is reached."""

    def status(self) -> ClusterStatus:
        """Everything at once, for people and metrics."""

    def present(self) -> frozenset[NodeId]:
        """Members that were heard of lately; only the leader can tell."""

    def broadcast(self, topic: bytes, payloads: Sequence[bytes]) -> None:
        """Tell other nodes of messages that no journal keeps; nobody knows whether they hear it."""

    def read_barrier(self, then: DoneCallback) -> None:
        """Wait until what is applied here is at least as new as anything acknowledged before."""

    def at_index(self, index: int, act: Callable[[], None], /) -> None:
        """Act when exactly this entry is applied, before the next one; if that is past, never."""

    def off_index(self, index: int, act: Callable[[], None], /) -> None:
        """Undo ``at_index``."""

    def bootstrap(self, members: Sequence[Member], then: DoneCallback) -> None:
        """Begin a cluster of these nodes; done already if it has begun with the same ones."""

    def add(self, member: Member, then: DoneCallback) -> None:
        """Have a node join: it learns first, and has a vote once it has caught up."""

    def remove(self, node_id: NodeId, then: DoneCallback) -> None:
        """Have a node take part no longer."""

    def transfer(self, node_id: NodeId, then: DoneCallback) -> None:
        """Have another node lead."""
