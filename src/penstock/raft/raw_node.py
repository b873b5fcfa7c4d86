"""The interface for the driver of a participant.

Events go in: ``tick``, ``step``, ``propose``. Work comes out: ``ready``. That it was done goes in
again: ``persisted``, ``applied``. Nothing calls back, and nothing blocks.

::

    while node.has_ready():
        ready = node.ready()
        send(ready.messages)
        write(ready.snapshot, ready.entries, ready.hard_state)      # one step, then one sync
        node.persisted(ready.mark)
        send(m for m in ready.after_persist if m.to != own_id)
        apply(ready.committed)
        node.applied(ready.committed[-1].index)
"""

from collections.abc import Sequence
from contextlib import suppress

import msgspec

from penstock.raft import leading, membership
from penstock.raft.conf_entries import change_entry
from penstock.raft.config import RaftConfig
from penstock.raft.errors import ProposalDropped
from penstock.raft.node import RaftNode
from penstock.raft.progress import ProgressState
from penstock.raft.ready import PersistMark, Ready, SoftState
from penstock.raft.types import (
    ConfChange,
    ConfState,
    HardState,
    LogView,
    MessageKind,
    NodeId,
    RaftEntry,
    RaftMessage,
    Role,
)

_LOCAL = frozenset(
    {
        MessageKind.HUP,
        MessageKind.BEAT,
        MessageKind.UNREACHABLE,
        MessageKind.SNAPSHOT_STATUS,
        MessageKind.CHECK_QUORUM,
        MessageKind.FORGET_LEADER,
    }
)  # local only: ignored if they come from others

_WITHOUT_TERM = frozenset({MessageKind.PROPOSE, MessageKind.READ_INDEX, MessageKind.COMMITTED})
"""Messages that are forwarded to a leader, or that hold in every term."""

_RESPONSES = frozenset(
    {
        MessageKind.APPEND_RESPONSE,
        MessageKind.VOTE_RESPONSE,
        MessageKind.HEARTBEAT_RESPONSE,
        MessageKind.READ_INDEX_RESPONSE,
        MessageKind.PRE_VOTE_RESPONSE,
    }
)


class PeerStatus(msgspec.Struct, frozen=True):
    """What a leader knows of one participant."""

    match: int
    next: int
    state: ProgressState
    recent_active: bool
    is_learner: bool
    is_paused: bool
    inflight_count: int
    pending_snapshot: int


class Status(msgspec.Struct, frozen=True):
    """A participant as it sees itself; ``progress`` is empty unless it leads."""

    node_id: NodeId
    role: Role
    term: int
    vote: NodeId
    lead: NodeId
    commit: int
    applied: int
    last_index: int
    lead_transferee: NodeId
    conf_state: ConfState
    progress: dict[NodeId, PeerStatus]


class RawNode:
    """A participant and what it handed out. Any call may raise LogDamaged: the node must exit."""

    __slots__ = ("_applies_unstable", "_commit", "_soft_state", "_term", "_vote", "node")

    def __init__(self, config: RaftConfig, log_view: LogView) -> None:
        self.node = node = RaftNode(config, log_view)
        self._applies_unstable = config.applies_unstable
        self._soft_state = SoftState(node.lead, node.role)
        self._term, self._vote, self._commit = node.term, node.vote, node.log.committed

    def tick(self) -> None:
        self.node.tick()

    def campaign(self) -> None:
        self.node.step(RaftMessage(MessageKind.HUP))

    def propose(self, data: bytes | Sequence[bytes]) -> None:
        """Propose one entry, or several in a row. Raises ProposalDropped."""
        if isinstance(data, bytes):
            data = (data,)
        self._propose(tuple([RaftEntry(0, 0, piece) for piece in data]))

    def propose_conf_change(self, change: ConfChange) -> None:
        """Raises ProposalDropped. A change that may not be made now becomes an empty entry."""
        self._propose((change_entry(change),))

    def conf_change_fault(self, change: ConfChange) -> str:
        return leading.fault_of(self.node, change)

    def _propose(self, entries: tuple[RaftEntry, ...]) -> None:
        if entries:
            node = self.node
            node.step(RaftMessage(MessageKind.PROPOSE, node.id, node.id, entries=entries))

    def apply_conf_change(self, change: ConfChange) -> ConfState:
        """Apply each committed change, in order, before ``applied``. Raises ConfChangeError."""
        return membership.apply_change(self.node, change)

    def step(self, message: RaftMessage) -> bool:
        """Handle a peer's message; False if ignored: a local kind, or a response of no member."""
        kind, node = message.kind, self.node
        if kind in _LOCAL or (not message.term and kind not in _WITHOUT_TERM):
            return False
        if kind in _RESPONSES and message.sender not in node.tracker.progress:
            return False
        if kind is MessageKind.PROPOSE:
            self._step_proposal(message)
        else:
            node.step(message)
        return True

    def _step_proposal(self, message: RaftMessage) -> None:
        """Handle a forwarded proposal. One that is dropped is lost."""
        with suppress(ProposalDropped):
            if message.entries:
                self.node.step(message)

    def read_index(self, context: bytes) -> None:
        """Request the index to apply before a read; the answer is in ``read_states``.

        ``context`` identifies the answer. There may be none: ask again after a while, with another
        context, for the first answer may still come.
        """
        if not context:
            raise ValueError("a read needs a context by which its answer is known")
        self.node.step(RaftMessage(MessageKind.READ_INDEX, context=context))

    def transfer_leader(self, to: NodeId) -> None:
        """Transfer leadership. It may fail; after an election timeout it is over."""
        self.node.step(RaftMessage(MessageKind.TRANSFER_LEADER, sender=to))

    def forget_leader(self) -> None:
        """Forget a leader that is known to be gone, so as to vote at once."""
        self.node.step(RaftMessage(MessageKind.FORGET_LEADER))

    def report_unreachable(self, node_id: NodeId) -> None:
        """Note that the last messages to a participant may be lost."""
        self.node.step(RaftMessage(MessageKind.UNREACHABLE, sender=node_id))

    def report_snapshot(self, node_id: NodeId, is_ok: bool) -> None:
        """Note that sending a snapshot has ended. Required: nothing else is sent before."""
        self.node.step(RaftMessage(MessageKind.SNAPSHOT_STATUS, sender=node_id, reject=not is_ok))

    def has_ready(self) -> bool:
        node, log = self.node, self.node.log
        unstable = log.unstable
        return bool(
            node.messages
            or node.after_persist
            or unstable.in_progress - unstable.offset < len(unstable.entries)
            or log.committed != self._commit
            or log.has_next_committed(self._applies_unstable)
            or node.read_states
            or node.term != self._term
            or node.vote != self._vote
            or (node.lead, node.role) != self._soft_state
            or unstable.next_snapshot() is not None
        )

    def ready(self) -> Ready:
        """Take the work to do. It is handed out once."""
        node, log = self.node, self.node.log
        entries = log.unstable.next_entries()
        snapshot = log.unstable.next_snapshot()
        committed = log.next_committed(self._applies_unstable)
        after_persist = tuple(node.after_persist)
        must_sync = bool(entries) or node.term != self._term or node.vote != self._vote
        ready = Ready(
            self._mark(after_persist),
            self._take_soft_state(),
            self._take_hard_state(),
            entries,
            snapshot,
            tuple(node.messages),
            after_persist,
            committed,
            tuple(node.read_states),
            must_sync,
        )
        node.messages.clear()
        node.after_persist.clear()
        node.read_states.clear()
        log.unstable.accept()
        if committed:
            log.accept_applying(committed, self._applies_unstable)
        return ready

    def _mark(self, after_persist: tuple[RaftMessage, ...]) -> PersistMark:
        """All unstable entries will be durable: those of earlier readies are written before."""
        node = self.node
        log, unstable = node.log, node.log.unstable
        own = tuple([m for m in after_persist if m.to == node.id])
        snapshot = unstable.next_snapshot()
        if unstable.entries:
            return PersistMark(node.term, log.last_index, log.last_term, snapshot, own)
        return PersistMark(node.term, 0, 0, snapshot, own)

    def _take_soft_state(self) -> SoftState | None:
        node = self.node
        if (node.lead, node.role) == self._soft_state:
            return None
        self._soft_state = SoftState(node.lead, node.role)
        return self._soft_state

    def _take_hard_state(self) -> HardState | None:
        node = self.node
        term, vote, commit = node.term, node.vote, node.log.committed
        if commit == self._commit and term == self._term and vote == self._vote:
            return None
        self._term, self._vote, self._commit = term, vote, commit
        return HardState(term, vote, commit)

    def persisted(self, mark: PersistMark) -> None:
        """A ready is durable, and so are all that were taken before it."""
        node = self.node
        # Before ``stable_to``: terms of unstable entries are in memory.
        for message in mark.own:
            node.step(message)
        if mark.index:
            node.stable_to(mark.term, mark.index, mark.log_term)
        if mark.snapshot is not None:
            node.snapshot_installed(mark.snapshot)

    def applied(self, index: int) -> None:
        self.node.applied_to(index)

    @property
    def role(self) -> Role:
        return self.node.role

    @property
    def term(self) -> int:
        return self.node.term

    @property
    def lead(self) -> NodeId:
        return self.node.lead

    @property
    def commit(self) -> int:
        return self.node.log.committed

    @property
    def last_index(self) -> int:
        return self.node.log.last_index

    def status(self) -> Status:
        node, log = self.node, self.node.log
        return Status(
            node_id=node.id,
            role=node.role,
            term=node.term,
            vote=node.vote,
            lead=node.lead,
            commit=log.committed,
            applied=log.applied,
            last_index=log.last_index,
            lead_transferee=node.lead_transferee,
            conf_state=node.tracker.conf_state(),
            progress=self._progress() if node.role is Role.LEADER else {},
        )

    def _progress(self) -> dict[NodeId, PeerStatus]:
        return {
            node_id: PeerStatus(
                match=progress.match,
                next=progress.next,
                state=progress.state,
                recent_active=progress.recent_active,
                is_learner=progress.is_learner,
                is_paused=progress.is_paused(),
                inflight_count=progress.inflights.count,
                pending_snapshot=progress.pending_snapshot,
            )
            for node_id, progress in self.node.tracker.visit()
        }
