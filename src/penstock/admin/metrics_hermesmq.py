"""The same figures under the names of HermesMQ, for those who have dashboards for it.

All are gauges with the label ``node``. A broker on its own is a cluster of one: the node 1, which
leads, in the first term, and whose own word is a quorum. What is committed is applied, so the
journal's last entry is both of its indexes.
"""

from collections.abc import Callable

from penstock.admin.metrics_form import Metric, Scrape

__all__ = ["HERMESMQ"]

NODE = "1"


def _gauge(name: str, text: str, read: Callable[[Scrape], int]) -> Metric:
    return Metric(f"hermesmq_{name}", "gauge", text, lambda scrape: {NODE: read(scrape)}, "node")


def _last_index(scrape: Scrape) -> int:
    return scrape.view.store.next_index - 1


HERMESMQ: tuple[Metric, ...] = (
    _gauge("raft_term", "The term of the leader: always 1.", lambda _scrape: 1),
    _gauge("raft_is_leader", "Whether this node leads: always 1.", lambda _scrape: 1),
    _gauge("raft_current_leader", "The node that leads: always 1.", lambda _scrape: 1),
    _gauge("raft_last_log_index", "Index of the last entry of the journal.", _last_index),
    _gauge("raft_last_applied", "Index of the last entry that is applied: the same.", _last_index),
    _gauge(
        "raft_millis_since_quorum_ack",
        "Time since a quorum was heard of: always 0.",
        lambda _scrape: 0,
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
