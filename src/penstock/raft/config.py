"""The settings of one participant."""

from collections.abc import Callable
from dataclasses import dataclass

from penstock.raft.types import NO_LIMIT, NO_NODE, NodeId

Trace = Callable[[str, str], None]
"""Takes a level (DEBUG, INFO, WARN, ERROR) and a text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftConfig:
    """What a participant is told at its start. Times are counted in ticks, sizes in bytes of data.

    ``roll(n)`` gives a number from 0 up to ``n``, without it, each time another one: elections end
    soon only if participants do not all begin them at once.
    """

    node_id: NodeId
    roll: Callable[[int], int]
    election_ticks: int = 10
    """A follower that hears nothing for so long (and up to twice as long) begins an election."""
    heartbeat_ticks: int = 1
    bytes_per_message_max: int = 1 << 20
    """Entries of one append message; a larger entry goes alone."""
    committed_bytes_per_ready_max: int = 1 << 20
    """Entries handed out to be applied and not yet applied; a larger entry goes alone."""
    uncommitted_bytes_max: int = NO_LIMIT
    """Proposals that a leader takes before they are applied; a lone one of any size is taken."""
    inflight_messages_max: int = 256
    inflight_bytes_max: int = 0
    """Append messages on their way to one follower; 0: only their number is bounded."""
    pending_reads_max: int = 4096
    """Reads that a leader keeps until it is confirmed; more are forgotten, and asked again."""
    check_quorum: bool = True
    """A leader without a quorum steps down, and nobody votes while it hears of a leader."""
    pre_vote: bool = True
    """Ask whether one would win before disturbing others by a new term."""
    read_only_lease: bool = False
    """Trust the clock for reads, instead of asking a quorum."""
    forwards_proposals: bool = False
    """Followers send proposals on to the leader, instead of refusing them."""
    validates_conf_changes: bool = True
    steps_down_on_removal: bool = True
    """A leader that was removed, or made a learner, stops leading when that is applied."""
    tells_commits: bool = False
    """Around votes, tell each other what is committed. Else a change of the members that only some
    know of can leave nobody who may lead: see ``elections``."""
    applies_unstable: bool = False
    """Hand out committed entries before they are on this disk. Only for one who writes them first,
    all in one step, before applying any."""
    applied: int = 0
    """The last index that the state machine has; nothing up to it is handed out again."""
    trace: Trace | None = None
    """Told what happens and why, in the words of etcd. Nothing is formatted without it."""

    def __post_init__(self) -> None:
        if self.node_id == NO_NODE:
            raise ValueError("0 is nobody's id; give the node another one")
        if not 0 < self.heartbeat_ticks < self.election_ticks:
            raise ValueError("heartbeat_ticks must be at least 1 and less than election_ticks")
        if self.inflight_messages_max < 1 or self.pending_reads_max < 1:
            raise ValueError("inflight_messages_max and pending_reads_max must be at least 1")
        if self.read_only_lease and not self.check_quorum:
            raise ValueError("read_only_lease needs check_quorum: a lease ends with the quorum")
