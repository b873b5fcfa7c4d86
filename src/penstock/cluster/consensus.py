"""What pages, metrics and the queue protocol ask of the cluster that this broker may be part of.

``Consensus`` is the one interface; a replica has it. A broker that stands alone is a cluster of one
which leads and has nobody to ask: ``LoneConsensus``.

What takes time calls ``then``, once, on the event loop: with None if it is done, else with why not.
"""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from penstock.cluster.frames import Member
from penstock.cluster.status import ClusterStatus, MemberStatus, NodeState
from penstock.errors import ClusterError, PenstockError
from penstock.raft.types import NodeId

__all__ = ["Consensus", "LoneConsensus", "Then"]

Then: TypeAlias = Callable[[PenstockError | None], None]

_LONE_ID = 1


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

    def own(self) -> Member:
        """Say who this node is and where it is reached."""

    def status(self) -> ClusterStatus:
        """Everything at once, for people and metrics."""

    def read_barrier(self, then: Then) -> None:
        """Wait until what is applied here is at least as new as anything acknowledged before."""

    def bootstrap(self, members: Sequence[Member], then: Then) -> None:
        """Begin a cluster of these nodes; done already if it has begun with the same ones."""

    def add(self, member: Member, then: Then) -> None:
        """Have a node join: it learns first, and has a vote once it has caught up."""

    def remove(self, node_id: NodeId, then: Then) -> None:
        """Have a node take part no longer."""

    def transfer(self, node_id: NodeId, then: Then) -> None:
        """Have another node lead."""


class LoneConsensus:
    """A broker that does not listen for other nodes: its own word is a quorum."""

    node_id = _LONE_ID
    is_clustered = False
    is_leader = True
    is_writable = True
    leader = _LONE_ID
    term = 1

    def __init__(self, last_index: Callable[[], int], client_addr: str = "") -> None:
        """Say where the journal ends, and where clients reach this broker."""
        self._last_index = last_index
        self.leader_addr = client_addr

    def own(self) -> Member:
        """A node without peers needs no address for them."""
        return Member(_LONE_ID, "", self.leader_addr)

    def status(self) -> ClusterStatus:
        """What is committed is applied, and nobody lags."""
        last = self._last_index()
        own = MemberStatus(
            id=_LONE_ID, client_addr=self.leader_addr, match=last, lag=0, is_active=True
        )
        return ClusterStatus(
            node_id=_LONE_ID,
            state=NodeState.LONE,
            leader=_LONE_ID,
            leader_addr=self.leader_addr,
            commit=last,
            applied=last,
            last_index=last,
            members=(own,),
        )

    def read_barrier(self, then: Then) -> None:
        """Nobody else could have acknowledged anything."""
        then(None)

    def bootstrap(self, members: Sequence[Member], then: Then) -> None:  # noqa: ARG002
        """It has begun already; whatever the list, it needs no other."""
        then(None)

    def add(self, member: Member, then: Then) -> None:
        """Refuse: nobody could reach it."""
        then(_alone(f"node {member.id} cannot join"))

    def remove(self, node_id: NodeId, then: Then) -> None:
        """Refuse: there is nobody to remove."""
        then(_alone(f"node {node_id} cannot be removed"))

    def transfer(self, node_id: NodeId, then: Then) -> None:
        """Refuse, unless it leads already: nobody else could."""
        then(None if node_id == _LONE_ID else _alone(f"node {node_id} cannot lead"))


def _alone(what: str) -> ClusterError:
    return ClusterError(
        f"{what}: this broker stands alone",
        "start it with --node-id and --peer-listen, and others can join",
    )
