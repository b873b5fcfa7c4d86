"""The same figures under HermesMQ's names, for existing dashboards.

All are gauges with the label ``node``: the node that was scraped. A standalone broker is a cluster
of one: node 1, which leads in term 1.
"""

from collections.abc import Callable

from penstock.admin.exposition import Metric, Scrape, gauge
from penstock.cluster.status import ClusterStatus


def _gauge(name: str, text: str, read: Callable[[Scrape], float]) -> Metric:
    def by_node(scrape: Scrape) -> dict[str, float]:
        return {str(scrape.view.cluster().node_id): read(scrape)}

    return gauge(f"hermesmq_{name}", text, by_node, "node")


def _raft(name: str, text: str, read: Callable[[ClusterStatus], float]) -> Metric:
    return _gauge(f"raft_{name}", text, lambda scrape: read(scrape.view.cluster()))


def _since_quorum_ms(status: ClusterStatus) -> float:
    """How long ago the leader last heard from a quorum, itself included."""
    if not status.is_leader:
        return 0
    silences = sorted(
        0.0 if member.id == status.node_id else member.contact_s or 0.0 for member in status.voters
    )
    return silences[len(silences) // 2] * 1000 if silences else 0


HERMESMQ: tuple[Metric, ...] = (
    _raft("term", "The same as `penstock_raft_term`.", lambda s: s.term),
    _raft("is_leader", "1 if this node leads, otherwise 0.", lambda s: s.is_leader),
    _raft("current_leader", "The leader's node number; 0 if none is known.", lambda s: s.leader),
    _raft("last_log_index", "Index of the last entry.", lambda s: s.last_index),
    _raft("last_applied", "Index of the last applied entry.", lambda s: s.applied),
    _raft(
        "millis_since_quorum_ack",
        "Time since the leader heard from a quorum; 0 on other nodes.",
        _since_quorum_ms,
    ),
    _gauge("topics", "The same as `penstock_queue_topics`.", lambda s: s.survey.topics),
    _gauge("messages", "The same as `penstock_queue_messages`.", lambda s: s.survey.messages),
    _gauge("in_flight", "The same as `penstock_groups_in_flight`.", lambda s: s.survey.in_flight),
)
