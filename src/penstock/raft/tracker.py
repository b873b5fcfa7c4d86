"""All participants as one of them sees them: configuration, progress, votes."""

from typing import NamedTuple

import msgspec

from penstock.raft.inflights import Inflights
from penstock.raft.progress import PeerProgress
from penstock.raft.quorum import JointConfig, MajorityConfig, VoteResult
from penstock.raft.types import ConfState, NodeId

ProgressMap = dict[NodeId, PeerProgress]


class TrackerConfig(msgspec.Struct, frozen=True):
    """The configuration.

    A voter that a joint change makes a learner still votes in the outgoing half. No node is both,
    so it is in ``learners_next`` until the joint configuration is left.
    """

    voters: JointConfig = JointConfig()
    auto_leave: bool = False  # the leader leaves the joint configuration once it is committed
    learners: frozenset[NodeId] = frozenset()
    learners_next: frozenset[NodeId] = frozenset()

    def __str__(self) -> str:
        """As etcd prints it: ``voters=(1 2 3)&&(1) learners=(4) autoleave``."""
        said = [f"voters={self.voters}"]
        if self.learners:
            said.append(f"learners={MajorityConfig(self.learners)}")
        if self.learners_next:
            said.append(f"learners_next={MajorityConfig(self.learners_next)}")
        if self.auto_leave:
            said.append("autoleave")
        return " ".join(said)

    @property
    def is_joint(self) -> bool:
        return bool(self.voters.outgoing)

    def conf_state(self) -> ConfState:
        return ConfState(
            voters=tuple(sorted(self.voters.incoming)),
            learners=tuple(sorted(self.learners)),
            voters_outgoing=tuple(sorted(self.voters.outgoing)),
            learners_next=tuple(sorted(self.learners_next)),
            auto_leave=self.auto_leave,
        )


class VoteTally(NamedTuple):
    """The votes of an election so far."""

    granted: int
    rejected: int
    result: VoteResult


class Tracker:
    """Configuration, progress of all nodes, and votes of the current election."""

    __slots__ = ("config", "inflight_bytes_max", "inflight_messages_max", "progress", "votes")

    def __init__(self, inflight_messages_max: int, inflight_bytes_max: int = 0) -> None:
        self.inflight_messages_max = inflight_messages_max
        self.inflight_bytes_max = inflight_bytes_max
        self.config = TrackerConfig()
        self.progress: ProgressMap = {}
        self.votes: dict[NodeId, bool] = {}

    def new_inflights(self) -> Inflights:
        return Inflights(self.inflight_messages_max, self.inflight_bytes_max)

    def conf_state(self) -> ConfState:
        return self.config.conf_state()

    def is_singleton(self) -> bool:
        voters = self.config.voters
        return len(voters.incoming) == 1 and not voters.outgoing

    def voter_nodes(self) -> list[NodeId]:
        return sorted(self.config.voters.ids())

    def learner_nodes(self) -> list[NodeId]:
        """All learners, in ascending order, without ``learners_next``."""
        return sorted(self.config.learners)

    def visit(self) -> list[tuple[NodeId, PeerProgress]]:
        """All participants, in ascending order: what is sent must not depend on a dict's."""
        return sorted(self.progress.items())

    def committed(self) -> int:
        return self.config.voters.committed_index(self._acked)

    def _acked(self, node_id: NodeId) -> int | None:
        progress = self.progress.get(node_id)
        return None if progress is None else progress.match

    def quorum_active(self) -> bool:
        active = {node_id: pr.recent_active for node_id, pr in self.progress.items()}
        return self.config.voters.vote_result(active) is VoteResult.WON

    def reset_votes(self) -> None:
        self.votes = {}

    def record_vote(self, node_id: NodeId, granted: bool) -> None:
        """Note a vote. Only a node's first one counts."""
        self.votes.setdefault(node_id, granted)

    def tally_votes(self) -> VoteTally:
        cast = [self.votes[voter] for voter in self.config.voters.ids() if voter in self.votes]
        granted = sum(cast)
        result = self.config.voters.vote_result(self.votes)
        return VoteTally(granted, len(cast) - granted, result)
