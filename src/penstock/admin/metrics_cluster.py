"""The metrics of a node: what Raft has decided, how far others are, what went between nodes.

A broker that stands alone has them, too: it leads itself, in the first term, and nobody lags. What
is known of other nodes has the label ``node``; how far they are is known to the leader alone, so
there is no such series on the others.
"""

from collections.abc import Callable, Mapping

from penstock.admin.exposition import Metric, Scrape
from penstock.cluster.status import ClusterStatus, MemberStatus


def _gauge(name: str, text: str, read: Callable[[ClusterStatus], float]) -> Metric:
    return Metric(
        f"penstock_raft_{name}", "gauge", text, lambda scrape: read(scrape.view.cluster())
    )


def _count(name: str, slot: str, text: str) -> Metric:
    def read(scrape: Scrape) -> int:
        count: int = getattr(scrape.view.cluster().counts, slot)
        return count

    return Metric(f"penstock_raft_{name}_total", "counter", text, read)


def _others(status: ClusterStatus) -> list[MemberStatus]:
    return [member for member in status.members if member.id != status.node_id]


def _lags(scrape: Scrape) -> Mapping[str, float]:
    others = _others(scrape.view.cluster())
    return {str(member.id): member.lag for member in others if member.lag is not None}


def _activity(scrape: Scrape) -> Mapping[str, float]:
    others = _others(scrape.view.cluster())
    return {str(member.id): member.is_active for member in others if member.is_active is not None}


def _traffic(slot: str) -> Callable[[Scrape], Mapping[str, float]]:
    return lambda scrape: {
        str(member.id): getattr(member, slot) for member in _others(scrape.view.cluster())
    }


def _members(scrape: Scrape) -> Mapping[str, float]:
    status = scrape.view.cluster()
    voters = len(status.voters)
    return {"voter": voters, "learner": len(status.members) - voters}


CLUSTER: tuple[Metric, ...] = (
    _gauge("term", "The term: how often a leader was sought.", lambda status: status.term),
    _gauge("leader", "The node that leads; 0: none is known.", lambda status: status.leader),
    _gauge("is_leader", "1 while this node leads, else 0.", lambda status: status.is_leader),
    Metric(
        "penstock_raft_members",
        "gauge",
        "Nodes of the cluster: voters, and learners, which are catching up.",
        _members,
        "kind",
    ),
    _gauge(
        "commit_index",
        "Last entry that most nodes have on disk, as far as this node knows.",
        lambda status: status.commit,
    ),
    _gauge(
        "applied_index", "Last entry that is applied on this node.", lambda status: status.applied
    ),
    _gauge(
        "last_index",
        "Last entry in this node's log, agreed upon or not.",
        lambda status: status.last_index,
    ),
    Metric(
        "penstock_raft_follower_lag",
        "gauge",
        "Entries that a node does not have yet; on the leader only, and only if it has heard from"
        " the node since it leads.",
        _lags,
        "node",
    ),
    Metric(
        "penstock_raft_follower_active",
        "gauge",
        "1 if a node was heard of within an election timeout, else 0; on the leader only.",
        _activity,
        "node",
    ),
    _gauge(
        "log_kept_bytes",
        "About how many bytes the entries have that are kept for other nodes and were written"
        " since this node started; cluster.log_kept_bytes bounds it.",
        lambda status: status.log_bytes,
    ),
    Metric(
        "penstock_clock_skew_seconds",
        "gauge",
        "This node's clock minus the cluster's time, which is that of the leader and by which"
        " leases and absences end; the time between the nodes is part of it.",
        lambda scrape: scrape.view.clock_skew_s(),
    ),
    Metric(
        "penstock_raft_snapshot_sending_bytes",
        "gauge",
        "How much of a copy of the store a node has been sent; 0 while none is on its way. The"
        " whole is about penstock_journal_bytes of this node.",
        _traffic("snapshot_bytes"),
        "node",
    ),
    _gauge(
        "snapshot_receiving_bytes",
        "How much of a copy of another node's store has arrived here; 0 while none is on its way.",
        lambda status: status.snapshot_bytes,
    ),
    _count("elections", "elections", "Changes of the leader, or attempts, that this node saw."),
    _count(
        "snapshots_sent", "snapshots_sent", "Copies of the store that were sent to other nodes."
    ),
    _count(
        "snapshots_received",
        "snapshots_received",
        "Copies of the store that this node was sent and uses.",
    ),
    _count("snapshots_failed", "snapshots_failed", "Copies of the store that did not arrive."),
    _count(
        "forwarded_batches",
        "forwarded_batches",
        "Batches of this node's clients that went to another node, which leads.",
    ),
    _count(
        "forward_repeats",
        "forward_repeats",
        "Times that such a batch was sent again: the leader changed, or did not answer.",
    ),
    _count(
        "forward_refusals",
        "forward_refusals",
        "Batches of other nodes that this node refused as leader.",
    ),
    Metric(
        "penstock_peer_sent_bytes_total",
        "counter",
        "Bytes sent to a node.",
        _traffic("bytes_out"),
        "node",
    ),
    Metric(
        "penstock_peer_received_bytes_total",
        "counter",
        "Bytes received from a node.",
        _traffic("bytes_in"),
        "node",
    ),
    Metric(
        "penstock_peer_dropped_frames_total",
        "counter",
        "Frames for a node that were not sent: no connection, or too much waited. They are sent"
        " again as needed.",
        _traffic("drops"),
        "node",
    ),
    Metric(
        "penstock_peer_disconnects_total",
        "counter",
        "Connections between nodes that ended or were refused, by reason.",
        lambda scrape: scrape.view.cluster().counts.peer_ends,
        "reason",
    ),
)
