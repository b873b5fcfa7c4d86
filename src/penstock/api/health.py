"""How well a broker is, in words: what an acknowledgement means now, what may fail. Pure."""

from typing import Literal

from penstock.api.documents.overview import ClusterLine, Health, NodeLine
from penstock.cluster.status import ClusterStatus, NodeState, diagnosis
from penstock.config.schema import Config


def health_of(status: ClusterStatus, why_not_ready: str, config: Config) -> Health:
    """``why_not_ready``: as ``/ready`` says; empty if it is."""
    spare = spare_nodes(status)
    text = diagnosis(status)
    state: Literal["healthy", "degraded", "unavailable"] = "healthy"
    if why_not_ready:
        state, text = "unavailable", f"unavailable: {why_not_ready}"
    elif status.state is NodeState.LONE:
        text = "healthy: a single node, which nothing replaces if it fails"
    elif text.startswith(("degraded", "working")) or spare < 0:
        state = "degraded"
    return Health(
        state=state,
        text=text,
        acknowledgement=acknowledgement(status, config),
        survives=max(spare, 0),
        ready=not why_not_ready,
        reason=why_not_ready or None,
    )


def acknowledgement(status: ClusterStatus, config: Config) -> str:
    """What a publisher is promised."""
    voters = len(status.voters)
    if config.durability == "interval":
        wait = config.durability_interval_ms
        return f"accepted in memory; a crash loses up to {wait} ms"
    if voters > 1:
        return f"on the disks of {voters // 2 + 1} of {voters} nodes"
    return "on the disk of this node"


def spare_nodes(status: ClusterStatus) -> int:
    """How many more nodes may fail, as far as this one knows; below 0: too few are up."""
    voters = status.voters
    silent = [m for m in voters if m.is_active is False and m.id != status.node_id]
    return len(voters) - len(silent) - (len(voters) // 2 + 1) if voters else 0


def cluster_line(status: ClusterStatus) -> ClusterLine:
    return ClusterLine(
        node=status.node_id,
        state=status.state.value,
        term=status.term,
        leader=status.leader or None,
        text=diagnosis(status),
        nodes=[
            NodeLine(
                node=member.id,
                leads=member.id == status.leader,
                this=member.id == status.node_id,
                learner=member.is_learner,
                lag=member.lag,
                silent=None if member.is_active is None else not member.is_active,
            )
            for member in status.members
        ],
    )
