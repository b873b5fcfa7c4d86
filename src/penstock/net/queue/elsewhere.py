"""What a node answers that does not lead: where to ask, or why nobody can be asked.

All that changes something, and all that must be current, is the leader's business. A node that
follows names it (``not_leader``), and clients go there. For a moment nobody leads after each loss
of a leader: clients are told ``not_leader`` without an address, and try the next node. Also those
who read: a node that has just started may be far behind, and the next leader knows better. Once
that has lasted it is ``no_quorum``, which people must do something about; then what is there can be
read at any node, as of what this node has applied.

On the leader, what is read passes a barrier first: a leader that was cut off without knowing must
not tell what was true a while ago.
"""

from typing import Final

from penstock.cluster.consensus import Consensus
from penstock.cluster.status import NodeState
from penstock.errors import NoQuorum, PenstockError
from penstock.net.queue.faults import NO_QUORUM, NOT_LEADER, Fault

__all__ = ["AT_ANY_NODE", "READS", "misplaced", "unconfirmed"]

READS: Final = frozenset(
    {
        "changes",
        "fetch",
        "list_groups",
        "list_keys",
        "list_sinks",
        "list_topics",
        "locate",
        "stats",
    }
)
"""Requests that change nothing."""

AT_ANY_NODE: Final = frozenset({"bootstrap"})
"""Requests that are no matter of leading."""

ELECTION_MS: Final = 100
QUORUM_MS: Final = 1_000
"""When to ask again: soon, while a leader is being elected; later, if nodes are down."""


def misplaced(consensus: Consensus, kind: str) -> Fault | None:
    """Say why a request may not be served by this node, which does not lead; None: it may."""
    if kind in AT_ANY_NODE:
        return None
    if consensus.leader not in {0, consensus.node_id}:
        text = f"node {consensus.leader} leads, this one follows"
        return Fault(NOT_LEADER, text, leader_addr=consensus.leader_addr)
    if consensus.leader or consensus.is_writable:
        return Fault(NOT_LEADER, "a leader is being elected: ask again", ELECTION_MS)
    state = consensus.status().state
    return None if kind in READS and state is NodeState.MEMBER else _stuck(state)


def _stuck(state: NodeState) -> Fault:
    if state is NodeState.WAITING:
        text = "this node belongs to no cluster yet: penstock cluster init, or join"
    elif state is NodeState.REMOVED:
        text = "this node was removed from the cluster: ask another"
    else:
        text = "too few nodes of the cluster are up: nothing changed here, ask again later"
    return Fault(NO_QUORUM, text, QUORUM_MS)


def unconfirmed(consensus: Consensus, error: PenstockError) -> Fault:
    """Say why a read could not be made sure to be current."""
    if isinstance(error, NoQuorum):
        return Fault(NO_QUORUM, f"{error.message}: ask again later", QUORUM_MS)
    return Fault(NOT_LEADER, error.message, ELECTION_MS, leader_addr=consensus.leader_addr)
