"""The metrics of Raft, of other nodes, and of the connections between nodes.

A standalone broker has them too: it leads itself, in term 1. Metrics about other nodes have the
label ``node``. Only the leader knows their progress, so the other nodes have no such series.
"""

from collections.abc import Callable, Mapping

from penstock.admin.exposition import Metric, Scrape, counter, gauge
from penstock.cluster.status import ClusterStatus, MemberStatus


def _gauge(name: str, text: str, read: Callable[[ClusterStatus], float]) -> Metric:
    return gauge(f"penstock_raft_{name}", text, lambda scrape: read(scrape.view.cluster()))


def _count(slot: str, text: str) -> Metric:

    def read(scrape: Scrape) -> int:
        count: int = getattr(scrape.view.cluster().counts, slot)
        return count

    return counter(f"penstock_raft_{slot}_total", text, read)


def _others(scrape: Scrape) -> list[MemberStatus]:
    status = scrape.view.cluster()
    return [member for member in status.members if member.id != status.node_id]


def _by_node(slot: str) -> Callable[[Scrape], Mapping[str, float]]:
    def read(scrape: Scrape) -> Mapping[str, float]:
        values = {str(member.id): getattr(member, slot) for member in _others(scrape)}
        return {node: value for node, value in values.items() if value is not None}

    return read


def _members(scrape: Scrape) -> Mapping[str, float]:
    status = scrape.view.cluster()
    voters = len(status.voters)
    return {"voter": voters, "learner": len(status.members) - voters}


CLUSTER: tuple[Metric, ...] = (
    _gauge("term", "The current term.", lambda status: status.term),
    _gauge("leader", "The leader's node number; 0 if none is known.", lambda s: s.leader),
    _gauge("is_leader", "1 while this node leads, otherwise 0.", lambda s: s.is_leader),
    gauge(
        "penstock_raft_members",
        "Nodes of the cluster: voters, and learners, which are catching up.",
        _members,
        "kind",
    ),
    _gauge(
        "commit_index",
        "Last entry known here to be on disk on a quorum of nodes.",
        lambda s: s.commit,
    ),
    _gauge("applied_index", "Last entry applied on this node.", lambda s: s.applied),
    _gauge(
        "last_index", "Last entry in this node's log, committed or not.", lambda s: s.last_index
    ),
    gauge(
        "penstock_raft_follower_lag",
        "Entries that a node does not have yet; on the leader only, once it has heard from the"
        " node.",
        _by_node("lag"),
        "node",
    ),
    gauge(
        "penstock_raft_follower_active",
        "1 if a node was heard from within an election timeout, otherwise 0; on the leader only.",
        _by_node("is_active"),
        "node",
    ),
    _gauge(
        "log_kept_bytes",
        "Approximate size of the entries written since this node started and kept for other nodes;"
        " limited by cluster.log_kept_bytes.",
        lambda s: s.log_bytes,
    ),
    gauge(
        "penstock_clock_skew_seconds",
        "This node's clock minus the leader's, by which leases and sessions expire; includes the"
        " network delay.",
        lambda scrape: scrape.view.clock_skew_s(),
    ),
    gauge(
        "penstock_raft_snapshot_sending_bytes",
        "Bytes sent so far of a snapshot for a node; 0 while none is being sent. The whole is about"
        " penstock_journal_bytes of this node.",
        _by_node("snapshot_bytes"),
        "node",
    ),
    _gauge(
        "snapshot_receiving_bytes",
        "Bytes received so far of a snapshot; 0 while none is being received.",
        lambda s: s.snapshot_bytes,
    ),
    _count("elections", "Elections that this node started or saw another node win."),
    _count("snapshots_sent", "Snapshots of the store sent to other nodes."),
    _count("snapshots_received", "Snapshots of the store received and installed."),
    _count("snapshots_failed", "Snapshots of the store that failed to arrive."),
    _count("forwarded_batches", "Batches of this node's clients forwarded to the leader."),
    _count(
        "forward_repeats",
        "Times that such a batch was sent again because the leader changed or did not answer.",
    ),
    _count("forward_refusals", "Batches of other nodes that this node refused as leader."),
    counter(
        "penstock_peer_sent_bytes_total", "Bytes sent to a node.", _by_node("bytes_out"), "node"
    ),
    counter(
        "penstock_peer_received_bytes_total",
        "Bytes received from a node.",
        _by_node("bytes_in"),
        "node",
    ),
    counter(
        "penstock_peer_dropped_frames_total",
        "Frames for a node that were dropped because there was no connection, or too much data"
        " waiting. They are sent again as needed.",
        _by_node("drops"),
        "node",
    ),
    counter(
        "penstock_peer_disconnects_total",
        "Connections between nodes that were closed or refused, by reason.",
        lambda scrape: scrape.view.cluster().counts.peer_ends,
        "reason",
    ),
)
