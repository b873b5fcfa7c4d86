"""The same figures under the names of HermesMQ, for those who have dashboards for it.

All are gauges with the label ``node``, which is the node that is asked. A broker on its own is a
cluster of one: the node 1, which leads, in the first term, and whose own word is a quorum.
"""

from collections.abc import Callable

from penstock.admin.exposition import Metric, Scrape
from penstock.cluster.status import ClusterStatus


def _gauge(name: str, text: str, read: Callable[[Scrape], float]) -> Metric:
    return Metric(
        f"hermesmq_{name}",
        "gauge",
        text,
        lambda scrape: {str(scrape.view.cluster().node_id): read(scrape)},
        "node",
    )


def _raft(name: str, text: str, read: Callable[[ClusterStatus], float]) -> Metric:
    return _gauge(f"raft_{name}", text, lambda scrape: read(scrape.view.cluster()))


def _silence_ms(status: ClusterStatus) -> float:
    """Since when the leader has not heard from a quorum, itself included."""
    if not status.is_leader:
        return 0
    silences = sorted(
        0.0 if member.id == status.node_id else member.contact_s or 0.0 for member in status.voters
    )
    return silences[len(silences) // 2] * 1000 if silences else 0


HERMESMQ: tuple[Metric, ...] = (
    _raft("term", "The same as `penstock_raft_term`.", lambda status: status.term),
    _raft("is_leader", "Whether this node leads.", lambda status: status.is_leader),
    _raft("current_leader", "The node that leads; 0: none.", lambda status: status.leader),
    _raft("last_log_index", "Index of the last entry.", lambda status: status.last_index),
    _raft(
        "last_applied", "Index of the last entry that is applied.", lambda status: status.applied
    ),
    _raft(
        "millis_since_quorum_ack",
        "Time since the leader heard from most nodes; 0 on others.",
        _silence_ms,
    ),
    _gauge("topics", "The same as `penstock_queue_topics`.", lambda scrape: scrape.survey.topics),
    _gauge(
        "messages", "The same as `penstock_queue_messages`.", lambda scrape: scrape.survey.messages
    ),
    _gauge(
        "in_flight",
        "The same as `penstock_groups_in_flight`.",
        lambda scrape: scrape.survey.in_flight,
    ),
)
