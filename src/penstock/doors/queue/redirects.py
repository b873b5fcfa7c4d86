"""What a node answers that does not lead: where to ask, or why nobody can be asked.

All that changes something, and all that must be current, is the leader's business. A node that
follows names it (``not_leader``), and clients go there. For a moment nobody leads after each loss
of a leader: clients are told ``not_leader`` without an address, and try the next node. So they are
by a node that is in no cluster, or no longer: clients of other brokers take any other code as
final. Once there has been no leader for a while it is ``no_quorum``, which people must do something
about.

On the leader, what is read passes a barrier first: a leader that was cut off without knowing must
not tell what was true a while ago. A client that would rather have old news than none says so in
its request (``stale``), and any node answers from what it has applied.
"""

from typing import Final

from penstock.cluster.consensus import Consensus
from penstock.cluster.status import NodeState
from penstock.doors.queue.faults import NO_QUORUM, NOT_LEADER, Fault
from penstock.errors import NoQuorum, PenstockError

ELECTION_MS: Final = 100
QUORUM_MS: Final = 1_000
"""When to ask again: soon, while a leader is being elected; later, if nodes are down."""

_OLD_NEWS: Final = ", or set `stale` to read what this node has"


def misplaced(consensus: Consensus, *, is_read: bool) -> Fault:
    """Say why a request may not be served by this node, which does not lead."""
    if consensus.leader not in {0, consensus.node_id}:
        text = f"node {consensus.leader} leads, this one follows"
        return Fault(NOT_LEADER, text, leader_addr=consensus.leader_addr)
    if consensus.leader or consensus.is_writable:
        return Fault(NOT_LEADER, "a leader is being elected: ask again", ELECTION_MS)
    return _stuck(consensus.status().state, is_read=is_read)


def _stuck(state: NodeState, *, is_read: bool) -> Fault:
    if state is NodeState.WAITING:
        text = "this node belongs to no cluster yet: penstock cluster init, or join"
        return Fault(NOT_LEADER, text, QUORUM_MS)
    if state is NodeState.REMOVED:
        return Fault(NOT_LEADER, "this node was removed from the cluster: ask another", QUORUM_MS)
    text = "too few nodes of the cluster are up: nothing changed here, ask again later"
    return Fault(NO_QUORUM, f"{text}{_OLD_NEWS}" if is_read else text, QUORUM_MS)


def unconfirmed(consensus: Consensus, error: PenstockError) -> Fault:
    """Say why a read could not be made sure to be current."""
    if isinstance(error, NoQuorum):
        return Fault(NO_QUORUM, f"{error.message}: ask again later{_OLD_NEWS}", QUORUM_MS)
    return Fault(NOT_LEADER, error.message, ELECTION_MS, leader_addr=consensus.leader_addr)
