"""What a cluster's status means for people: states, and whether a node may be stopped. Pure."""

from msgspec.structs import replace

from penstock.api.documents.cluster import Cluster, ClusterMember, MayStop
from penstock.cluster.frames import Member
from penstock.cluster.status import (
    ClusterStatus,
    MemberStatus,
    NodeState,
    diagnosis,
    tolerance,
    unreadiness,
)

BEHIND_ENTRIES = 1_000  # that a node may lack and still be called up to date


def describe(status: ClusterStatus, own: Member) -> Cluster:
    voters = len(status.voters)
    tolerates = tolerated(status)
    return Cluster(
        node=status.node_id,
        cluster_id=status.cluster_id,
        state=status.state.value,
        role=status.role,
        term=status.term,
        leader=status.leader,
        leader_addr=status.leader_addr,
        commit=status.commit,
        applied=status.applied,
        diagnosis=diagnosis(status),
        tolerates=tolerates,
        acknowledged_by=voters // 2 + 1 if voters else 1,
        voters=voters,
        healthy=not unreadiness(status) and tolerates == tolerance(voters),
        members=[_member(status, member) for member in status.members] or [_alone(status, own)],
    )


def seen_from(cluster: Cluster, own: ClusterStatus) -> Cluster:
    """What the leader says, as the answer of this node."""
    members = [replace(member, this=member.node == own.node_id) for member in cluster.members]
    return replace(cluster, node=own.node_id, role=own.role, applied=own.applied, members=members)


def tolerated(status: ClusterStatus) -> int:
    """How many more nodes may fail while the others go on; as far as this node knows."""
    there = [member for member in status.voters if _is_there(status, member)]
    return max(len(there) - (len(status.voters) // 2 + 1), 0) if status.voters else 0


def _is_there(status: ClusterStatus, member: MemberStatus) -> bool:
    """Whether a voter counts for a quorum now. A follower does not know of others: it hopes."""
    return member.id == status.node_id or (member.is_active is not False and not member.is_blank)


def _member(status: ClusterStatus, member: MemberStatus) -> ClusterMember:
    return ClusterMember(
        node=member.id,
        role=_role(status, member),
        this=member.id == status.node_id,
        peer_addr=member.peer_addr,
        client_addr=member.client_addr,
        state=_state(status, member),
        match=member.match,
        lag=member.lag,
        heard_s=member.contact_s,
        trouble=member.trouble,
        differs=list(member.differs),
        snapshot_bytes=member.snapshot_bytes,
        snapshot_bytes_total=member.snapshot_bytes_total,
        snapshot_trouble=member.snapshot_trouble,
        may_stop=may_stop(status, member.id),
    )


def _alone(status: ClusterStatus, own: Member) -> ClusterMember:
    """A node that is in no cluster (yet)."""
    member = MemberStatus(
        id=status.node_id, peer_addr=own.peer_addr, client_addr=own.client_addr, is_active=True
    )
    return _member(status, member)


def _role(status: ClusterStatus, member: MemberStatus) -> str:
    if member.is_learner:
        return "learner"
    return "leader" if member.id == status.leader else "follower"


def _state(status: ClusterStatus, member: MemberStatus) -> str:
    if member.differs:
        return "differs"
    if member.is_blank:
        return "blank"
    if member.id == status.node_id:
        return "ok"
    if member.is_active is None:
        return "unknown"
    if not member.is_active:
        return "silent"
    return "behind" if (member.lag or 0) > BEHIND_ENTRIES else "ok"


def may_stop(status: ClusterStatus, node: int) -> MayStop:
    """Whether the others go on acknowledging while this node is stopped."""
    voters = status.voters
    if status.state is NodeState.LONE or len(voters) < 2:
        return MayStop(False, "no: it is the only one")
    if not status.leader:
        return MayStop(False, "no: there is no leader now")
    if node in {member.id for member in status.members if member.is_learner}:
        return MayStop(True, f"yes: it has no vote, {len(voters)} of {len(voters)} stay")
    left = [member for member in voters if member.id != node and _is_there(status, member)]
    needed = len(voters) // 2 + 1
    stay = f"{len(left)} of {len(voters)} stay"
    if len(left) < needed:
        return MayStop(False, f"no: {stay}, and {needed} are needed")
    late = [member.id for member in left if (member.lag or 0) > BEHIND_ENTRIES]
    if len(left) - len(late) < needed:
        names = ", ".join(map(str, late))
        return MayStop(False, f"no: {stay}, but node {names} has yet to catch up")
    leads = "; another one will lead" if node == status.leader else ""
    return MayStop(True, f"yes, {stay}{leads}")


def removal_text(status: ClusterStatus, node: int) -> str:
    voters = [member for member in status.voters if member.id != node]
    survives = tolerance(len(voters))
    nodes = f"{len(voters)} node{'s' * (len(voters) != 1)}"
    if not survives:
        return f"{nodes} stay, and none of them may fail then"
    return f"{nodes} stay, of which {survives} may fail"
