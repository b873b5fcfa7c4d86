"""The status of a cluster as one of its nodes sees it, and what an operator should do about it.

A status is plain data for pages, metrics and the command line. Only the leader knows the lag and
contact of members; on other nodes they are None.

``diagnosis`` sums it up in a sentence that says what to do. It is pure.
"""

from enum import StrEnum

import msgspec


class NodeState(StrEnum):
    """A node's relation to the cluster, whatever its role."""

    LONE = "lone"  # it does not listen for other nodes
    WAITING = "waiting"  # in no cluster yet: it waits for init or join
    MEMBER = "member"
    REMOVED = "removed"


class MemberStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One node of the cluster, as the leader sees it."""

    id: int
    peer_addr: str = ""
    client_addr: str = ""
    is_learner: bool = False  # it has no vote yet: it is catching up
    match: int | None = None  # the last entry that it is known to have
    lag: int | None = None  # entries that it lacks
    is_active: bool | None = None  # heard from within an election timeout, and reachable
    contact_s: float | None = None  # seconds since it was heard from
    answers: bool | None = None  # at its address for clients; None: not tried
    bytes_in: int = 0
    bytes_out: int = 0
    drops: int = 0  # frames for it that were not sent
    snapshot_bytes: int = 0  # sent of the snapshot in flight to it; 0: there is none
    snapshot_bytes_total: int = 0  # of that snapshot
    snapshot_blocks: int = 0  # that it has, of that snapshot
    snapshot_blocks_total: int = 0
    snapshot_trouble: str = ""  # why the last snapshot for it failed
    trouble: str = ""  # why it cannot be reached from here
    is_blank: bool = False  # it is up with an empty store: it has lost its data
    differs: tuple[str, ...] = ()  # settings in which it differs: the two refuse each other


class ClusterCounts(msgspec.Struct, kw_only=True):
    """Counters since this node started, for metrics."""

    elections: int = 0  # as a candidate, or won by another node
    snapshots_sent: int = 0
    snapshots_received: int = 0
    snapshots_failed: int = 0
    forwarded_batches: int = 0  # batches of this node that went to a leader
    forward_repeats: int = 0
    forward_refusals: int = 0  # batches of other nodes that this node refused as leader
    questions: dict[str, int] = {}  # to other nodes, by outcome
    peer_ends: dict[str, int] = {}  # ends of connections to other nodes, by reason


class ClusterStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster as one node sees it."""

    node_id: int
    cluster_id: str = ""  # hexadecimal; empty while it waits
    state: NodeState = NodeState.LONE
    role: str = "leader"  # leader, follower, candidate, pre_candidate or learner
    term: int = 1
    leader: int = 0  # 0: none known
    leader_addr: str = ""  # for clients
    commit: int = 0
    applied: int = 0
    first_index: int = 1
    last_index: int = 0
    log_bytes: int = 0  # about the size of entries that were written since the start and are kept
    snapshot_bytes: int = 0  # received of the snapshot in flight; 0: there is none
    snapshot_bytes_total: int = 0
    snapshot_blocks: int = 0
    snapshot_blocks_total: int = 0
    members: tuple[MemberStatus, ...] = ()
    emptied_of: str = ""  # the cluster that a waiting node was part of before it lost its data
    was_removed: bool = False  # whether that cluster has removed it since
    counts: ClusterCounts = msgspec.field(default_factory=ClusterCounts)

    @property
    def is_leader(self) -> bool:
        return self.leader == self.node_id != 0

    @property
    def voters(self) -> list[MemberStatus]:
        return [member for member in self.members if not member.is_learner]


def tolerance(voters: int) -> int:
    """How many of the voters may fail while the others go on."""
    return max(voters - 1, 0) // 2


def unreadiness(status: ClusterStatus) -> str:
    """Why this node is not ready for clients; empty if it is."""
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
    if status.state is NodeState.LONE:
        return "a single node: no fault tolerance; set peer_listen so that others can join"
    if status.state is NodeState.WAITING and status.emptied_of:
        return _emptied(status)
    if status.state is NodeState.WAITING:
        return (
            "not part of a cluster yet: run penstock cluster init for a new one, or penstock"
            " cluster join for an existing one"
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
    return f"node {status.leader} leads; ask it about the others"


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
    odd = [member for member in status.members if member.differs]
    if not odd:
        return ""
    names = ", ".join(sorted({name for member in odd for name in member.differs}))
    return (
        f"node {status.node_id} and {_called(odd)} differ in {names}, and refuse each other;"
        " give all nodes the same settings, and restart those that had others"
    )


def _leaderless(status: ClusterStatus) -> str:
    if odd := _odd(status):
        return f"no leader: {odd}"
    voters = status.voters
    reachable = [m for m in voters if m.is_active or m.id == status.node_id]
    needed = len(voters) // 2 + 1
    if len(reachable) >= needed:
        return "no leader: an election is under way; try again in a moment"
    missing = [m for m in voters if m not in reachable]
    return f"{_few(len(reachable), len(voters), missing)}; nothing is acknowledged until then"


def _few(reachable: int, voters: int, missing: list[MemberStatus]) -> str:
    """Too few nodes reach each other. Those that answer clients need no start."""
    up = [m for m in missing if m.answers]
    down = [m for m in missing if not m.answers]
    advice = [f"start the others ({_ids(down)})"] if down else []
    if up:
        look = f"{_nodes(up)} up, but not reachable from here: check the network between nodes"
        advice.insert(0, look)
    return f"no quorum: {reachable} of {voters} nodes reachable; {'; '.join(advice)}"


def _led(status: ClusterStatus) -> str:
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
    joining = _joining([m for m in status.members if m.is_learner])
    if len(voters) == 1:
        return f"a cluster of one: no fault tolerance; join two more nodes{joining}"
    if not spare:
        return f"working, but losing either node stops it; join a third{joining}"
    return f"healthy: {_survives(spare)}{joining}"


def _joining(learners: list[MemberStatus]) -> str:
    lost = [m for m in learners if m.is_active is False]
    there = [m for m in learners if m not in lost]
    learning = f"; {_nodes(there)} catching up" if there else ""
    return f"{learning}; {_nodes(lost)} joining but not reachable" if lost else learning


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
