"""What a node answers that does not lead: where to ask, or why no node can serve the request.

A follower names the leader (``not_leader``). During an election, or in no cluster, it names none,
and clients try the next node. When there has been no leader for a while the code is ``no_quorum``.
On the leader, reads pass a barrier first: a leader that was cut off must not answer with old data.
A client that prefers old data to none sets ``stale`` in its request, and any node answers.
"""

from typing import Final

from penstock.cluster.consensus import Consensus
from penstock.cluster.status import NodeState
from penstock.errors import NoQuorum, PenstockError
from penstock.wire.queue.faults import NO_QUORUM, NOT_LEADER, Fault

ELECTION_MS: Final = 100
QUORUM_MS: Final = 1_000  # when to retry: soon during an election, later if nodes are down
_STALE_HINT: Final = ", or set `stale` to read what this node has"


def follower_fault(consensus: Consensus, *, is_read: bool) -> Fault:
    if consensus.leader not in {0, consensus.node_id}:
        text = f"node {consensus.leader} leads, this one follows"
        return Fault(NOT_LEADER, text, leader_addr=consensus.leader_addr)
    if consensus.leader or consensus.is_writable:
        return Fault(NOT_LEADER, "a leader is being elected: retry", ELECTION_MS)
    return _stuck(consensus.status().state, is_read=is_read)


def _stuck(state: NodeState, *, is_read: bool) -> Fault:
    if state is NodeState.WAITING:
        text = "this node belongs to no cluster yet: penstock cluster init, or join"
        return Fault(NOT_LEADER, text, QUORUM_MS)
    if state is NodeState.REMOVED:
        return Fault(NOT_LEADER, "this node was removed from the cluster: ask another", QUORUM_MS)
    text = "too few nodes of the cluster are up: nothing changed here, retry later"
    return Fault(NO_QUORUM, f"{text}{_STALE_HINT}" if is_read else text, QUORUM_MS)


def unconfirmed(consensus: Consensus, error: PenstockError) -> Fault:
    if isinstance(error, NoQuorum):
        return Fault(NO_QUORUM, f"{error.message}: retry later{_STALE_HINT}", QUORUM_MS)
    return Fault(NOT_LEADER, error.message, ELECTION_MS, leader_addr=consensus.leader_addr)
