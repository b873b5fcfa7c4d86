"""Settings of one participant."""

from collections.abc import Callable
from dataclasses import dataclass

from penstock.raft.types import NO_LIMIT, NO_NODE, NodeId

Trace = Callable[[str, str], None]  # takes a level (DEBUG, INFO, WARN, ERROR) and a text


def no_trace(_level: str, _text: str) -> None:
    """Discard a trace line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftConfig:
    """Settings. Times are in ticks, sizes in bytes. ``roll(n)``: a random number below ``n``."""

    node_id: NodeId
    roll: Callable[[int], int]
    election_ticks: int = 10  # a follower starts an election after one to two times this silence
    heartbeat_ticks: int = 1
    bytes_per_message_max: int = 1 << 20  # entries of one append message; a larger one goes alone
    committed_bytes_per_ready_max: int = 1 << 20  # handed out, but not applied; likewise
    uncommitted_bytes_max: int = NO_LIMIT  # a leader's proposals; a single one may be larger
    inflight_messages_max: int = 256
    inflight_bytes_max: int = 0  # append messages in flight to one follower; 0: unbounded
    pending_reads_max: int = 4096  # more are dropped, and have to be requested again
    check_quorum: bool = True  # step down without a quorum; no votes while there is a leader
    pre_vote: bool = True  # ask whether we would win before disturbing others with a new term
    read_only_lease: bool = False  # trust the clock for reads, instead of asking a quorum
    forwards_proposals: bool = False  # followers forward proposals instead of dropping them
    validates_conf_changes: bool = True
    steps_down_on_removal: bool = True  # or on becoming a learner, when that is applied
    tells_commits: bool = False  # around votes, lest no node may lead: see ``elections``
    applies_unstable: bool = False
    """Hand out committed entries at once, to a driver that writes all before it applies any."""
    applied: int = 0  # the last index of the state machine; nothing up to it is handed out
    trace: Trace = no_trace  # gets what happens and why, in etcd's words

    def __post_init__(self) -> None:
        if self.node_id == NO_NODE:
            raise ValueError("0 is no node id; give the node another one")
        if not 0 < self.heartbeat_ticks < self.election_ticks:
            raise ValueError("heartbeat_ticks must be at least 1 and less than election_ticks")
        if self.inflight_messages_max < 1 or self.pending_reads_max < 1:
            raise ValueError("inflight_messages_max and pending_reads_max must be at least 1")
        if self.read_only_lease and not self.check_quorum:
            raise ValueError("read_only_lease needs check_quorum: a lease ends with the quorum")
