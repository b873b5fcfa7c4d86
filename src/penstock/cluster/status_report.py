"""A node's status, out of what the core and the node itself know."""

from collections.abc import Mapping
from typing import Protocol

import msgspec

from penstock.cluster.frames import Member
from penstock.cluster.peer_stats import PeerStats, TransportStats
from penstock.cluster.record import RaftRecord
from penstock.cluster.status import ClusterCounts, ClusterStatus, MemberStatus, NodeState
from penstock.config.schema import Cluster
from penstock.raft.raw_node import PeerStatus, RawNode
from penstock.raft.types import NodeId

LOST_ELECTIONS = 3
"""Without a leader nodes speak only when they ask for votes: silence counts after so many
election timeouts."""


_NO_TRAFFIC = PeerStats()


class StatusSource(Protocol):
    """Who is asked."""

    counts: ClusterCounts

    @property
    def record(self) -> RaftRecord: ...
    @property
    def raw(self) -> RawNode | None: ...
    @property
    def is_removed(self) -> bool: ...
    @property
    def leader(self) -> NodeId: ...
    @property
    def leader_addr(self) -> str: ...
    @property
    def figures(self) -> TransportStats: ...
    @property
    def first_index(self) -> int: ...
    @property
    def log_bytes(self) -> int: ...

    @property
    def emptied_of(self) -> str: ...

    @property
    def was_removed(self) -> bool: ...

    def is_blank(self, node: NodeId) -> bool:
        """Whether a member has lost its data."""

    def heard_s(self, node: NodeId) -> float | None:
        """Seconds since a node was heard of."""


def status_of(node: StatusSource, settings: Cluster) -> ClusterStatus:
    """How the cluster is, as this node sees it."""
    record, raw = node.record, node.raw
    if raw is None:
        return ClusterStatus(
            node_id=record.node_id,
            state=NodeState.WAITING,
            role="follower",
            emptied_of=node.emptied_of,
            was_removed=node.was_removed,
        )
    status = raw.status()
    is_learner = record.node_id in record.conf.learners
    return ClusterStatus(
        node_id=record.node_id,
        cluster_id=record.cluster_id.hex(),
        state=_state(node, settings),
        role="learner" if is_learner else status.role.name.lower(),
        term=status.term,
        leader=node.leader,
        leader_addr=node.leader_addr,
        commit=status.commit,
        applied=record.folded,
        first_index=node.first_index,
        log_bytes=node.log_bytes,
        snapshot_bytes=node.figures.snapshot_bytes,
        last_index=status.last_index,
        members=_members(node, settings, status.progress, status.last_index),
        counts=msgspec.structs.replace(
            node.counts, peer_ends={why.value: n for why, n in node.figures.ends.items()}
        ),
    )


def _state(node: StatusSource, settings: Cluster) -> NodeState:
    if node.is_removed:
        return NodeState.REMOVED
    if not settings.peer_listen and len(node.record.members) < 2:
        return NodeState.LONE
    return NodeState.MEMBER


def _members(
    node: StatusSource, settings: Cluster, progress: Mapping[NodeId, PeerStatus], last_index: int
) -> tuple[MemberStatus, ...]:
    members = sorted(node.record.members.values(), key=lambda member: member.id)
    election_s = settings.election_ticks * settings.tick_ms / 1000
    return tuple(
        [
            _member(node, member, progress.get(member.id), last_index, election_s)
            for member in members
        ]
    )


def _match(peer: PeerStatus | None, *, is_active: bool) -> int | None:
    """How far a node is, if that is known: a new leader has to hear of it first."""
    return None if peer is None or (peer.match == 0 and not is_active) else peer.match


def _member(
    node: StatusSource, member: Member, peer: PeerStatus | None, last_index: int, election_s: float
) -> MemberStatus:
    """One of them: lag is known to the leader, silence also where nobody leads."""
    is_self = member.id == node.record.node_id
    contact_s = 0.0 if is_self else node.heard_s(member.id)
    patience_s = election_s if node.leader else LOST_ELECTIONS * election_s
    is_known = is_self or peer is not None or not node.leader or member.id == node.leader
    traffic = node.figures.peers.get(member.id, _NO_TRAFFIC)
    # A node that nobody can send to may still ask for votes: to hear of it is not enough.
    is_active = contact_s is not None and contact_s < patience_s and not traffic.trouble
    match = last_index if peer is not None and is_self else _match(peer, is_active=is_active)
    return MemberStatus(
        id=member.id,
        peer_addr=member.peer_addr,
        client_addr=member.client_addr,
        is_learner=member.id in node.record.conf.learners,
        match=match,
        lag=None if match is None else last_index - match,
        is_active=is_active if is_known else None,
        contact_s=contact_s,
        bytes_in=traffic.bytes_in,
        bytes_out=traffic.bytes_out,
        drops=traffic.drops,
        snapshot_bytes=traffic.snapshot_bytes,
        trouble=traffic.trouble,
        is_blank=node.is_blank(member.id),
        differs=node.figures.differing.get(member.id, ()),
    )
