"""A node's status, made of what the core and the node itself know."""

from collections.abc import Mapping

import msgspec

from penstock.cluster.bootstrap import Bootstrap
from penstock.cluster.frames import Member
from penstock.cluster.local_node import LocalNode
from penstock.cluster.peer_stats import PeerStats
from penstock.cluster.status import ClusterStatus, MemberStatus, NodeState
from penstock.raft.raw_node import PeerStatus
from penstock.raft.types import NodeId

LOST_ELECTIONS = 3  # election timeouts until a node counts as silent if there is no leader

_NO_TRAFFIC = PeerStats()


def status_of(
    node: LocalNode, bootstrap: Bootstrap, first_index: int, log_bytes: int
) -> ClusterStatus:
    record, raw = node.record, node.raw
    if raw is None:
        return ClusterStatus(
            node_id=record.node_id,
            state=NodeState.WAITING,
            role="follower",
            emptied_of=bootstrap.lost_cluster_id.hex(),
            was_removed=bootstrap.was_removed,
        )
    status = raw.status()
    stats = node.peers.stats
    is_learner = record.node_id in record.conf.learners
    return ClusterStatus(
        node_id=record.node_id,
        cluster_id=record.cluster_id.hex(),
        state=_state(node),
        role="learner" if is_learner else status.role.name.lower(),
        term=status.term,
        leader=node.leader,
        leader_addr=node.leader_addr,
        commit=status.commit,
        applied=record.applied,
        first_index=first_index,
        log_bytes=log_bytes,
        snapshot_bytes=stats.snapshot.bytes,
        snapshot_bytes_total=stats.snapshot.bytes_total,
        snapshot_blocks=stats.snapshot.blocks,
        snapshot_blocks_total=stats.snapshot.blocks_total,
        last_index=status.last_index,
        members=_members(node, bootstrap, status.progress, status.last_index),
        counts=msgspec.structs.replace(
            node.counts, peer_ends={why.value: n for why, n in stats.ends.items()}
        ),
    )


def _state(node: LocalNode) -> NodeState:
    if node.is_removed:
        return NodeState.REMOVED
    if not node.settings.peer_listen and len(node.record.members) < 2:
        return NodeState.LONE
    return NodeState.MEMBER


def _members(
    node: LocalNode, bootstrap: Bootstrap, progress: Mapping[NodeId, PeerStatus], last_index: int
) -> tuple[MemberStatus, ...]:
    members = sorted(node.record.members.values(), key=lambda member: member.id)
    return tuple(
        [
            _member(node, member, progress.get(member.id), last_index, bootstrap)
            for member in members
        ]
    )


def _match(peer: PeerStatus | None, *, is_active: bool) -> int | None:
    """How far a node is, if known: a new leader has to hear from it first."""
    return None if peer is None or (peer.match == 0 and not is_active) else peer.match


def _member(
    node: LocalNode, member: Member, peer: PeerStatus | None, last_index: int, bootstrap: Bootstrap
) -> MemberStatus:
    """One member: only the leader knows lag; without a leader, every node knows silence."""
    is_self = member.id == node.node_id
    contact_s = 0.0 if is_self else node.activity.heard_s(member.id)
    election_s = node.environment.election_s
    patience_s = election_s if node.leader else LOST_ELECTIONS * election_s
    is_known = is_self or peer is not None or not node.leader or member.id == node.leader
    stats = node.peers.stats
    traffic = stats.peers.get(member.id, _NO_TRAFFIC)
    # A node that cannot be sent to may still ask for votes: hearing from it is not enough.
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
        snapshot_bytes=traffic.snapshot.bytes,
        snapshot_bytes_total=traffic.snapshot.bytes_total,
        snapshot_blocks=traffic.snapshot.blocks,
        snapshot_blocks_total=traffic.snapshot.blocks_total,
        snapshot_trouble=traffic.snapshot_trouble,
        trouble=traffic.trouble,
        is_blank=bootstrap.is_blank(member.id),
        differs=stats.differing.get(member.id, ()),
    )
