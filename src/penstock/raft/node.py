"""One Raft participant: ticks and messages go in, to one handler per (role, message kind).

Before its handler, a message's term is checked, the same for all roles: a later term makes the
receiver a follower, an earlier one is ignored.
"""

from collections.abc import Callable

from penstock.raft import elections, following, leading, membership
from penstock.raft.conf_entries import change_entry
from penstock.raft.config import RaftConfig
from penstock.raft.errors import LogDamaged, ProposalDropped
from penstock.raft.participant import Participant
from penstock.raft.trace_names import kind_name
from penstock.raft.types import (
    NO_NODE,
    ConfChange,
    HardState,
    LogView,
    MessageKind,
    RaftMessage,
    Role,
    SnapshotMeta,
)

Handler = Callable[[Participant, RaftMessage], None]

HANDLERS: dict[tuple[Role, MessageKind], Handler] = {
    **elections.HANDLERS,
    **following.HANDLERS,
    **leading.HANDLERS,
}  # other messages are ignored

_ASKS = (MessageKind.VOTE, MessageKind.PRE_VOTE)
_LEADS = (MessageKind.APPEND, MessageKind.HEARTBEAT, MessageKind.SNAPSHOT)
_HUP = RaftMessage(MessageKind.HUP)
_BEAT = RaftMessage(MessageKind.BEAT)
_CHECK_QUORUM = RaftMessage(MessageKind.CHECK_QUORUM)


class RaftNode(Participant):
    """A participant with its handlers."""

    __slots__ = ()

    def __init__(self, config: RaftConfig, view: LogView) -> None:
        super().__init__(config, view)
        hard_state, conf_state = view.initial_state()
        membership.restore(self, conf_state)
        if hard_state != HardState():
            self.load(hard_state)
        if config.applied:
            self._load_applied(config.applied)
        self.become_follower(self.term, NO_NODE)
        self.trace("INFO", self._introduced())

    def _load_applied(self, applied: int) -> None:
        log = self.log
        if not log.applied <= applied <= log.committed:
            raise LogDamaged(
                f"entry {applied} was applied; {log.applied} to {log.committed} are committed here"
            )
        log.applied_to(applied)

    def _introduced(self) -> str:
        log = self.log
        peers = ",".join(f"{voter:x}" for voter in self.tracker.voter_nodes())
        return (
            f"newRaft {self.id:x} [peers: [{peers}], term: {self.term}, commit: {log.committed}, "
            f"applied: {log.applied}, lastindex: {log.last_index}, lastterm: {log.last_term}]"
        )

    def tick(self) -> None:
        self.election_elapsed += 1
        if self.role is Role.LEADER:
            self._tick_leader()
        elif self.election_elapsed >= self.randomized_election_ticks and self.is_promotable():
            self.election_elapsed = 0
            self.step(_HUP)

    def _tick_leader(self) -> None:
        self.heartbeat_elapsed += 1
        if self.election_elapsed >= self.config.election_ticks:
            self.election_elapsed = 0
            if self.config.check_quorum:
                self.step(_CHECK_QUORUM)
            # The transfer has timed out.
            self.lead_transferee = NO_NODE
        if self.role is Role.LEADER and self.heartbeat_elapsed >= self.config.heartbeat_ticks:
            self.heartbeat_elapsed = 0
            self.step(_BEAT)

    def step(self, message: RaftMessage) -> None:
        """Handle a message; term 0 means that it is local. Raises ProposalDropped."""
        term = message.term
        if term and term != self.term:
            if term < self.term:
                self._on_earlier_term(message)
                return
            if not self._on_later_term(message):
                return
        handle = HANDLERS.get((self.role, message.kind))
        if handle is not None:
            handle(self, message)

    def _on_later_term(self, message: RaftMessage) -> bool:
        """Become a follower; return False if the message is to be ignored."""
        kind = message.kind
        if kind in _ASKS and self._is_in_lease() and message.context != elections.BY_TRANSFER:
            elections.trace_lease(self, message)
            return False
        if kind is MessageKind.PRE_VOTE:
            return True  # it only asks
        if kind is MessageKind.PRE_VOTE_RESPONSE and not message.reject:
            return True  # the term is that of the request, which no node has entered yet
        self.info(
            f"[term: {self.term}] received a {kind_name(kind)} message with "
            f"higher term from {message.sender:x} [term: {message.term}]"
        )
        self.become_follower(message.term, message.sender if kind in _LEADS else NO_NODE)
        return True

    def _is_in_lease(self) -> bool:
        """Whether a leader was heard from so recently that no other may win."""
        is_fresh = self.election_elapsed < self.config.election_ticks
        return self.config.check_quorum and self.lead != NO_NODE and is_fresh

    def _on_earlier_term(self, message: RaftMessage) -> None:
        """Ignore a message of an earlier term, except to tell its sender our term.

        With pre-vote or check-quorum, a node that was away does not send others a higher term. It
        would ignore the leader's messages forever.
        """
        config, kind = self.config, message.kind
        if kind in (MessageKind.HEARTBEAT, MessageKind.APPEND) and (
            config.check_quorum or config.pre_vote
        ):
            self.acknowledge(message.sender, 0)
        elif kind is MessageKind.PRE_VOTE:
            elections.reject_vote(self, message)
        else:
            self.info(
                f"[term: {self.term}] ignored a {kind_name(kind)} message with "
                f"lower term from {message.sender:x} [term: {message.term}]"
            )

    def stable_to(self, term: int, index: int, log_term: int) -> None:
        """Entries up to ``index`` that were handed out in ``term`` are durable.

        If the term has changed since, they may have been replaced, even by others with the same
        index and term that were replaced in turn. So they are ignored; the next ready reports them
        again.
        """
        if term == self.term:
            self.log.unstable.stable_to(index, log_term)
        else:
            self.info(
                f"[term: {self.term}] ignored entry appends from a "
                f"MsgStorageAppendResp message with lower term [term: {term}]"
            )

    def snapshot_installed(self, snapshot: SnapshotMeta) -> None:
        """A snapshot is durable. It is committed, so this holds in any term."""
        self.log.unstable.stable_snapshot_to(snapshot.index)
        self.applied_to(snapshot.index)

    def applied_to(self, index: int) -> None:
        log = self.log
        size = log.applied_to(max(index, log.applied))
        self.uncommitted_bytes = max(0, self.uncommitted_bytes - size)
        if (
            self.role is Role.LEADER
            and self.tracker.config.auto_leave
            and log.applied >= self.pending_conf_index
            and self.has_committed_in_term()
        ):
            self._leave_joint()

    def _leave_joint(self) -> None:
        """Propose to leave a joint configuration; if that is dropped, retry at the next apply."""
        entry = change_entry(ConfChange())
        try:
            self.step(RaftMessage(MessageKind.PROPOSE, sender=self.id, entries=(entry,)))
        except ProposalDropped:
            self.trace(
                "DEBUG",
                "not initiating automatic transition out of joint configuration "
                f"{self.tracker.config}: raft proposal dropped",
            )
        else:
            self.trace(
                "INFO",
                f"initiating automatic transition out of joint configuration {self.tracker.config}",
            )
