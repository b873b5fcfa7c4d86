"""The state of one participant, and its role changes.

``elections``, ``following``, ``leading``, ``replication`` and ``membership`` work on this state;
``node`` puts them together.
"""

from penstock.raft.config import RaftConfig
from penstock.raft.errors import LogDamaged
from penstock.raft.log import RaftLog
from penstock.raft.progress import PeerProgress
from penstock.raft.read_only import ReadOnly
from penstock.raft.tracker import Tracker
from penstock.raft.types import (
    NO_NODE,
    HardState,
    LogView,
    MessageKind,
    NodeId,
    RaftMessage,
    ReadState,
    Role,
)


class Participant:
    """The state of one participant.

    ``messages`` may leave at once. ``after_persist`` say something that must be durable first: a
    vote, that entries are here; some of them are to this node itself. ``peers`` are all others in
    ascending order, with their progress. ``pending_conf_index`` is the last index that may hold a
    configuration change that is not applied. ``postponed_reads`` wait for the first commit of the
    term.
    """

    __slots__ = (
        "after_persist",
        "config",
        "election_elapsed",
        "heartbeat_elapsed",
        "id",
        "lead",
        "lead_transferee",
        "log",
        "messages",
        "peers",
        "pending_conf_index",
        "postponed_reads",
        "randomized_election_ticks",
        "read_only",
        "read_states",
        "role",
        "term",
        "trace",
        "tracker",
        "uncommitted_bytes",
        "vote",
    )

    def __init__(self, config: RaftConfig, view: LogView) -> None:
        self.config = config
        self.trace = config.trace
        self.id = config.node_id
        self.term = 0
        self.vote: NodeId = NO_NODE
        self.lead: NodeId = NO_NODE
        self.lead_transferee: NodeId = NO_NODE
        self.role = Role.FOLLOWER
        self.log = RaftLog(view, config.committed_bytes_per_ready_max, config.trace)
        self.tracker = Tracker(config.inflight_messages_max, config.inflight_bytes_max)
        self.peers: list[tuple[NodeId, PeerProgress]] = []
        self.messages: list[RaftMessage] = []
        self.after_persist: list[RaftMessage] = []
        self.read_only = ReadOnly(config.pending_reads_max)
        self.read_states: list[ReadState] = []
        self.postponed_reads: list[tuple[NodeId, bytes]] = []
        self.pending_conf_index = 0
        self.uncommitted_bytes = 0
        self.election_elapsed = 0
        self.heartbeat_elapsed = 0
        self.randomized_election_ticks = config.election_ticks

    def load(self, state: HardState) -> None:
        """Load the hard state. Raises LogDamaged if the log is too short for it."""
        if not self.log.committed <= state.commit <= self.log.last_index:
            raise LogDamaged(
                f"entry {state.commit} was committed and the log holds "
                f"{self.log.committed} to {self.log.last_index}"
            )
        self.log.committed = state.commit
        self.term = state.term
        self.vote = state.vote

    def debug(self, text: str) -> None:
        self.trace("DEBUG", f"{self.id:x} {text}")

    def info(self, text: str) -> None:
        self.trace("INFO", f"{self.id:x} {text}")

    def warn(self, text: str) -> None:
        self.trace("WARN", f"{self.id:x} {text}")

    def send(self, kind: MessageKind, to: NodeId, *, index: int = 0, context: bytes = b"") -> None:
        self.messages.append(RaftMessage(kind, to, self.id, self.term, 0, index, context=context))

    def acknowledge(self, to: NodeId, index: int) -> None:
        """Acknowledge everything up to ``index``, once it is durable."""
        self.after_persist.append(
            RaftMessage(MessageKind.APPEND_RESPONSE, to, self.id, self.term, 0, index)
        )

    def become_follower(self, term: int, lead: NodeId) -> None:
        self._reset(term)
        self.lead = lead
        self.role = Role.FOLLOWER
        self.info(f"became follower at term {self.term}")

    def become_candidate(self) -> None:
        assert self.role is not Role.LEADER, "a leader does not run for election"
        self._reset(self.term + 1)
        self.vote = self.id
        self.role = Role.CANDIDATE
        self.info(f"became candidate at term {self.term}")

    def become_pre_candidate(self) -> None:
        """Ask whether we would win, without changing term or vote."""
        assert self.role is not Role.LEADER, "a leader does not run for election"
        self.tracker.reset_votes()
        self.lead = NO_NODE
        self.role = Role.PRE_CANDIDATE
        self.info(f"became pre-candidate at term {self.term}")

    def become_leader(self) -> None:
        """Become leader. Any entry of the log may be a pending configuration change."""
        assert self.role is not Role.FOLLOWER, "leads without an election"
        self._reset(self.term)
        self.lead = self.id
        self.role = Role.LEADER
        own = self.tracker.progress[self.id]
        own.become_replicate()
        own.recent_active = True
        self.pending_conf_index = self.log.last_index

    def _reset(self, term: int) -> None:
        if self.term != term:
            self.term = term
            self.vote = NO_NODE
        self.lead = NO_NODE
        self.lead_transferee = NO_NODE
        self.election_elapsed = 0
        self.heartbeat_elapsed = 0
        ticks = self.config.election_ticks
        self.randomized_election_ticks = ticks + self.config.roll(ticks)
        self.tracker.reset_votes()
        self._reset_progress()
        self.pending_conf_index = 0
        self.uncommitted_bytes = 0
        self.read_only = ReadOnly(self.config.pending_reads_max)
        self.postponed_reads = []

    def _reset_progress(self) -> None:
        tracker, last = self.tracker, self.log.last_index
        for node_id, old in tracker.progress.items():
            tracker.progress[node_id] = PeerProgress(
                last + 1,
                tracker.new_inflights(),
                match=last if node_id == self.id else 0,
                is_learner=old.is_learner,
            )
        self.note_peers()

    def note_peers(self) -> None:
        self.peers = [(node_id, pr) for node_id, pr in self.tracker.visit() if node_id != self.id]

    def is_promotable(self) -> bool:
        """Whether this node may lead: it is a voter, and has its state."""
        own = self.tracker.progress.get(self.id)
        return own is not None and not own.is_learner and self.log.unstable.snapshot is None

    def has_committed_in_term(self) -> bool:
        """Until it has, a leader does not know how far its predecessors had committed."""
        return self.log.term_or_zero(self.log.committed) == self.term
