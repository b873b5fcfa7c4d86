"""The metrics of Raft, of other nodes, and of the connections between nodes.

A standalone broker has them too: it leads itself, in term 1. Metrics about other nodes have the
label ``node``. Only the leader knows their progress, so the other nodes have no such series.
"""

from collections.abc import Callable, Mapping

from penstock.admin.exposition import Metric, Scrape, counter, gauge
from penstock.cluster.status import ClusterStatus


def _gauge(name: str, text: str, read: Callable[[ClusterStatus], float]) -> Metric:
    return gauge(f"penstock_raft_{name}", text, lambda scrape: read(scrape.view.cluster()))


def _count(slot: str, text: str) -> Metric:

    def read(scrape: Scrape) -> int:
        count: int = getattr(scrape.view.cluster().counts, slot)
        return count

    return counter(f"penstock_raft_{slot}_total", text, read)


def _by_node(make: Callable[..., Metric], name: str, text: str, slot: str) -> Metric:
    def read(scrape: Scrape) -> Mapping[str, float]:
        status = scrape.view.cluster()
        values = {m.id: getattr(m, slot) for m in status.members if m.id != status.node_id}
        return {str(node): value for node, value in values.items() if value is not None}

    return make(name, text, read, "node")


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
    _by_node(
        gauge,
        "penstock_raft_follower_lag",
        "Entries that a node does not have yet; on the leader only, once it has heard from the"
        " node.",
        "lag",
    ),
    _by_node(
        gauge,
        "penstock_raft_follower_active",
        "1 if a node was heard from within an election timeout, otherwise 0; on the leader only.",
        "is_active",
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
    _by_node(
        gauge,
        "penstock_raft_snapshot_sending_bytes",
        "Bytes sent so far of a snapshot for a node, with what it had already from an attempt that"
        " was cut off; 0 while none is being sent.",
        "snapshot_bytes",
    ),
    _by_node(
        gauge,
        "penstock_raft_snapshot_sending_total_bytes",
        "Size of the snapshot that is being sent to a node; 0 while none is.",
        "snapshot_bytes_total",
    ),
    _gauge(
        "snapshot_receiving_bytes",
        "Bytes received so far of a snapshot; 0 while none is being received.",
        lambda s: s.snapshot_bytes,
    ),
    _gauge(
        "snapshot_receiving_total_bytes",
        "Size of the snapshot that is being received; 0 while none is.",
        lambda s: s.snapshot_bytes_total,
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
    _by_node(counter, "penstock_peer_sent_bytes_total", "Bytes sent to a node.", "bytes_out"),
    _by_node(
        counter, "penstock_peer_received_bytes_total", "Bytes received from a node.", "bytes_in"
    ),
    _by_node(
        counter,
        "penstock_peer_dropped_frames_total",
        "Frames for a node that were dropped because there was no connection, or too much data"
        " waiting. They are sent again as needed.",
        "drops",
    ),
    counter(
        "penstock_peer_questions_total",
        "Questions to other nodes for pages about the cluster, and changes passed on to the leader,"
        " by outcome.",
        lambda scrape: scrape.view.cluster().counts.questions,
        "outcome",
    ),
    counter(
        "penstock_peer_disconnects_total",
        "Connections between nodes that were closed or refused, by reason.",
        lambda scrape: scrape.view.cluster().counts.peer_ends,
        "reason",
    ),
)
