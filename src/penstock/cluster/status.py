"""How a cluster is, as one of its nodes sees it, and what that means to whoever runs it.

A status is plain data: pages, metrics and the command line show it. Only the leader knows how far
others are, so lag and contact of members are told by the leader alone; on other nodes they are
unknown (None), and whoever wants them asks the leader.

``diagnosis`` puts the whole into a sentence that says what to do. It is pure, and so can be tested
with every kind of trouble there is.
"""

from enum import StrEnum

import msgspec


class NodeState(StrEnum):
    """What a node is to the cluster, whatever its role at the moment."""

    LONE = "lone"
    """It stands alone, and nobody can join: it does not listen for other nodes."""
    WAITING = "waiting"
    """It belongs to no cluster yet: it waits for init or join."""
    MEMBER = "member"
    REMOVED = "removed"
    """It was part of the cluster and is no longer."""


class MemberStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One node of the cluster, as the leader sees it."""

    id: int
    peer_addr: str = ""
    client_addr: str = ""
    is_learner: bool = False
    """It gets everything and has no vote yet: it is catching up."""
    match: int | None = None
    """Last entry that it is known to have; None: unknown here."""
    lag: int | None = None
    """Entries that it does not have yet."""
    is_active: bool | None = None
    """Whether it was heard of within an election timeout, and can be reached."""
    contact_s: float | None = None
    """Seconds since it was heard of."""
    answers: bool | None = None
    """Whether it answers at its address for clients, as whoever shows this found; None: not tried.

    Nodes may be up, and yet not reach each other.
    """
    bytes_in: int = 0
    bytes_out: int = 0
    """What came from it and went to it since this node started."""
    drops: int = 0
    """Frames for it that were not sent."""
    snapshot_bytes: int = 0
    """How much it was sent of the copy of the store that is on its way to it; 0: none is."""
    trouble: str = ""
    """Why it cannot be reached from here, for whoever is to mend it."""
    is_blank: bool = False
    """It runs, and says that it knows of nothing: it has lost its data."""
    differs: tuple[str, ...] = ()
    """Settings in which it differs from the node that tells; they do not speak to each other."""


class ClusterCounts(msgspec.Struct, kw_only=True):
    """What has happened since this node started; metrics show it."""

    elections: int = 0
    """Elections that this node took part in as a candidate, or saw another win."""
    snapshots_sent: int = 0
    snapshots_received: int = 0
    snapshots_failed: int = 0
    forwarded_batches: int = 0
    """Batches of this node's clients that went to another node's log."""
    forward_repeats: int = 0
    """Times that one of them was sent again."""
    forward_refusals: int = 0
    """Batches of other nodes that this node refused as leader."""
    peer_ends: dict[str, int] = {}
    """Why connections to other nodes ended or were refused, and how often."""


class ClusterStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster as one node sees it."""

    node_id: int
    cluster_id: str = ""
    """Hexadecimal; empty while it waits."""
    state: NodeState = NodeState.LONE
    role: str = "leader"
    """leader, follower, candidate or pre_candidate; learner, if it has no vote."""
    term: int = 1
    leader: int = 0
    """0: none is known."""
    leader_addr: str = ""
    """Where clients reach it."""
    commit: int = 0
    applied: int = 0
    first_index: int = 1
    last_index: int = 0
    log_bytes: int = 0
    """About what the entries have that are kept and were written since this node started."""
    snapshot_bytes: int = 0
    """How much has come of the copy of another node's store that is on its way; 0: none is."""
    members: tuple[MemberStatus, ...] = ()
    emptied_of: str = ""
    """The cluster that a waiting node was part of, as others say, before it lost its data."""
    was_removed: bool = False
    """Whether that cluster has removed it since."""
    counts: ClusterCounts = msgspec.field(default_factory=ClusterCounts)

    @property
    def is_leader(self) -> bool:
        """Whether this node leads."""
        return self.leader == self.node_id != 0

    @property
    def voters(self) -> list[MemberStatus]:
        """Members that have a vote."""
        return [member for member in self.members if not member.is_learner]


def tolerance(voters: int) -> int:
    """How many of so many voters may be lost while the others go on."""
    return max(voters - 1, 0) // 2


def unreadiness(status: ClusterStatus) -> str:
    """Say why new work should go to another node; empty if it may come."""
    match status.state:
        case NodeState.LONE:
            return ""
        case NodeState.WAITING if status.emptied_of:
            return _emptied(status)
        case NodeState.WAITING:
            return "in no cluster yet: run penstock cluster init or join"
        case NodeState.REMOVED:
            return "removed from the cluster"
    if not status.leader:
        return _leaderless(status)
    if status.role == "learner":
        return "catching up with the cluster"
    return ""


def diagnosis(status: ClusterStatus) -> str:
    """Say in a sentence how it is, and what to do if it is not well."""
    if status.state is NodeState.LONE:
        return "a single node: it survives no loss; give it peer_listen for others to join"
    if status.state is NodeState.WAITING and status.emptied_of:
        return _emptied(status)
    if status.state is NodeState.WAITING:
        return (
            "not part of a cluster yet: run penstock cluster init for a new one, or penstock"
            " cluster join for one that is there"
        )
    if status.state is NodeState.REMOVED:
        return (
            "removed from the cluster: stop it; its machine may come back under a new node_id,"
            " with an empty data directory"
        )
    if not status.leader:
        return _leaderless(status)
    if status.is_leader:
        return _led(status)
    return f"node {status.leader} leads; it knows how the others are"


def _emptied(status: ClusterStatus) -> str:
    if status.was_removed:
        return (
            f"node {status.node_id} has lost its data and was removed from cluster"
            f" {status.emptied_of}: stop it; its machine may come back under a node_id that was"
            " never used"
        )
    return (
        f"node {status.node_id} has lost its data: it was part of cluster {status.emptied_of};"
        " start it with a node_id that was never used, let it join, then remove node"
        f" {status.node_id}"
    )


def _odd(status: ClusterStatus) -> str:
    """Say which members have other settings; empty if none has."""
    odd = [member for member in status.members if member.differs]
    if not odd:
        return ""
    names = ", ".join(sorted({name for member in odd for name in member.differs}))
    return (
        f"node {status.node_id} and {_called(odd)} differ in {names}, and so do not speak to each"
        " other; give all nodes the same settings, and restart those that had others"
    )


def _leaderless(status: ClusterStatus) -> str:
    if odd := _odd(status):
        return f"no leader: {odd}"
    voters = status.voters
    reachable = [m for m in voters if m.is_active or m.id == status.node_id]
    needed = len(voters) // 2 + 1
    if len(reachable) >= needed:
        return "no leader: an election is under way; look again in a moment"
    missing = [m for m in voters if m not in reachable]
    return f"{_few(len(reachable), len(voters), missing)}; nothing is acknowledged until then"


def _few(reachable: int, voters: int, missing: list[MemberStatus]) -> str:
    """Say that too few nodes reach each other: those that answer us need no start."""
    up = [m for m in missing if m.answers]
    down = [m for m in missing if not m.answers]
    advice = [f"start the others ({_ids(down)})"] if down else []
    if up:
        look = f"{_nodes(up)} up, but not reachable from here: look at the network between nodes"
        advice.insert(0, look)
    return f"no quorum: {reachable} of {voters} nodes reachable; {'; '.join(advice)}"


def _led(status: ClusterStatus) -> str:
    """Judge by what the leader knows of the others."""
    voters = status.voters
    silent = [m for m in voters if m.id != status.node_id and m.is_active is False]
    spare = len(voters) - len(silent) - (len(voters) // 2 + 1)
    if spare < 0:
        few = _few(len(voters) - len(silent), len(voters), silent)
        return f"{few}; nothing is acknowledged until then"
    if odd := _odd(status):
        return f"degraded: {odd}; {_survives(spare)} now"
    if blank := [m for m in voters if m.is_blank]:
        advice = "start it with a node_id that was never used, let it join, then remove"
        return f"degraded: {_called(blank)} lost its data; {advice} {_ids(blank)}"
    if silent:
        lost = f"degraded: {_nodes(silent)} not reachable; start it, or replace it"
        return f"{lost} (join a new node, then remove it); {_survives(spare)} now"
    coming = _coming([m for m in status.members if m.is_learner])
    if len(voters) == 1:
        return f"a cluster of one: it survives no loss; join two more nodes{coming}"
    if not spare:
        return f"working, but losing either node stops it; join a third{coming}"
    return f"healthy: {_survives(spare)}{coming}"


def _coming(learners: list[MemberStatus]) -> str:
    """Who learns, and who would if it were reached: that one waits for somebody to mend it."""
    lost = [m for m in learners if m.is_active is False]
    there = [m for m in learners if m not in lost]
    learning = f"; {_nodes(there)} catching up" if there else ""
    return f"{learning}; {_nodes(lost)} to learn but not reachable" if lost else learning


def _survives(spare: int) -> str:
    if not spare:
        return "the cluster cannot lose another node"
    return f"survives the loss of {spare} node{'s' * (spare > 1)}"


def _ids(members: list[MemberStatus]) -> str:
    return ", ".join(str(member.id) for member in members)


def _called(members: list[MemberStatus]) -> str:
    return f"node{'s' * (len(members) > 1)} {_ids(members)}"


def _nodes(members: list[MemberStatus]) -> str:
    return f"{_called(members)} {'is' if len(members) == 1 else 'are'}"
