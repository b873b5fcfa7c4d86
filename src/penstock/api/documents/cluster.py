"""What the API says about the cluster, as the node that is asked sees it."""

from typing import Annotated

import msgspec
from msgspec import Meta

from penstock.cluster.status import ClusterStatus
from penstock.limits import MEMBERS_MAX, NODE_ID_MAX

NodeId = Annotated[int, Meta(ge=1, le=NODE_ID_MAX)]
Address = Annotated[str, Meta(max_length=300)]


class MayStop(msgspec.Struct, frozen=True):
    """Whether a node may be stopped now."""

    safe: bool
    text: str  # "yes, 2 of 3 stay", or why not


class ClusterMember(msgspec.Struct, frozen=True, kw_only=True):
    """One node. What only the leader knows is None elsewhere."""

    node: int
    role: str  # leader, follower, learner
    this: bool  # the node that answers
    peer_addr: str
    client_addr: str
    state: str  # ok, behind, silent, blank, differs, unknown
    match: int | None  # the last entry that it is known to have
    lag: int | None  # entries that it lacks
    heard_s: float | None  # since it was heard from
    trouble: str  # why it cannot be reached
    differs: list[str]  # settings in which it differs
    snapshot_bytes: int  # sent of the copy that is on its way to it
    snapshot_bytes_total: int  # 0: there is none
    snapshot_trouble: str
    may_stop: MayStop


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster."""

    node: int  # that answers
    cluster_id: str
    state: str  # lone, waiting, member, removed
    role: str
    term: int
    leader: int  # 0: none known
    leader_addr: str
    commit: int
    applied: int
    diagnosis: str
    tolerates: int  # nodes that may fail now while the others go on
    acknowledged_by: int  # nodes that have a message on disk before it is acknowledged
    voters: int
    healthy: bool
    members: list[ClusterMember]


class NewMember(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """POST ``cluster/members``: a node and its addresses."""

    node: NodeId
    peer_addr: Address
    client_addr: Address = ""


class NewCluster(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """POST ``cluster/init``: the first members; none: only the node that is asked."""

    nodes: Annotated[list[NewMember], Meta(max_length=MEMBERS_MAX)] = []


class NodeStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What one node sees of the cluster, without asking others."""

    diagnosis: str
    peer_addr: str  # its own
    client_addr: str
    status: ClusterStatus


class NodeDigests(msgspec.Struct, frozen=True, kw_only=True):
    """The digests of one node at an entry, hexadecimal."""

    node_id: int
    index: int
    state: dict[str, str]  # by part of the state
    log_first: int
    log: str  # of the entries from ``log_first`` on


class Transfer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """POST ``cluster/transfer``: the node that shall lead."""

    to: NodeId


class MemberRemoval(msgspec.Struct, frozen=True, kw_only=True):
    """What DELETE ``cluster/members`` does, or with ``dry_run`` would do."""

    node: int
    dry_run: bool
    voters: int  # that stay
    tolerates: int  # nodes that may fail then
    text: str  # in a sentence
    cluster: Cluster  # afterwards; it may still be under way
