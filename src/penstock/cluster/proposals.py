"""Batches on their way into the log: this node's to the leader; every node's, if this one leads.

What makes it safe to send a batch again is in ``forwarding``.
"""

from collections.abc import Callable
from typing import Protocol

from penstock.cluster.engine import Engine
from penstock.cluster.forwarding import (
    MergedBatch,
    OwnBatch,
    ProposalQueue,
    QueuedBatch,
    is_repetition,
)
from penstock.cluster.frames import Forward, ForwardRefused, Frame, RefusalReason
from penstock.cluster.status import ClusterCounts
from penstock.errors import ClusterError, LeadershipLost, PenstockError
from penstock.raft.raw_node import ProposalDropped
from penstock.raft.types import NO_NODE, NodeId, Role
from penstock.store.batch import Batch, NodeSegment
from penstock.store.store import EncodedBatch

REPEAT_DOUBLINGS_MAX = 3
"""A batch is repeated after an election timeout, then after twice as long, and so on up to this."""


class ProposalHost(Protocol):
    """Who sends, and who is told."""

    counts: ClusterCounts

    def send(self, to: NodeId, frame: Frame) -> None:
        """Send a frame to another node, or not."""

    def is_late(self, batch: Batch) -> bool:
        """Whether a batch must not be in the log any more, given all that is. Writer thread."""

    def refused(self, batch: Batch, error: PenstockError) -> None:
        """Say that this node's batch was given up."""


class Proposals:
    """``own`` is this node's batch on its way; the queue, what waits where this node leads."""

    def __init__(
        self, host: ProposalHost, engine: Engine, soon: Callable[..., object], election_ticks: int
    ) -> None:
        self._host = host
        self._engine = engine
        self._soon = soon
        self._election_ticks = election_ticks
        self._queue = ProposalQueue()
        self._drawing_term = 0
        self._number = 0
        self.own: OwnBatch | None = None

    # ── This node's ───────────────────────────────────────────────────────────────────────────

    def submit(self, batch: Batch, error: PenstockError | None) -> None:
        """Bring a batch into the log, unless there is a reason not to try."""
        assert self.own is None, "one batch at a time"
        self._number += 1
        own = self.own = OwnBatch(batch, self._engine.record.incarnation, self._number)
        if error is not None:
            self._soon(self.refuse, own, error)
        elif not self._engine.record.is_alone():
            self._begin(own)

    def _begin(self, own: OwnBatch) -> None:
        """Have the rows written here, and the content wherever the leader is."""
        work, batch = self._engine.work, own.batch
        work.add_rows(batch)
        if batch.has_content:
            self.bring()
        else:
            work.batches.append(batch)
            self._engine.wake()

    def refuse(self, own: OwnBatch, error: PenstockError) -> None:
        """Give a batch up, if it is still on its way. It may turn up in the log all the same."""
        if self.own is own:
            self.own = None
            self._host.refused(own.batch, error)

    def bring(self) -> None:
        """Bring this node's batch to whoever leads; again, if it was brought before."""
        own, raw, record = self.own, self._engine.raw, self._engine.record
        if own is None or raw is None or not own.batch.has_content or record.is_alone():
            return
        if raw.role is Role.LEADER:
            self._enqueue(own.candidate(record.node_id))
        elif raw.lead != NO_NODE and self._engine.has_written:
            self._forward(own, raw.lead, raw.term)

    def _forward(self, own: OwnBatch, lead: NodeId, term: int) -> None:
        counts = self._host.counts
        if own.sent_to is None:
            counts.forwarded_batches += 1
        else:
            counts.forward_repeats += 1
        own.patience = own.patience + 1 if own.sent_to == (lead, term) else 0
        own.repeat_in = self._election_ticks << min(own.patience, REPEAT_DOUBLINGS_MAX)
        own.sent_to = (lead, term)
        self._host.send(lead, own.forward)

    def tick(self) -> None:
        """Repeat this node's batch if it has been on its way for long."""
        own = self.own
        if own is None:
            return
        own.repeat_in -= 1
        own.forwarded_ticks += own.sent_to is not None
        if own.sent_to is None or own.repeat_in <= 0:
            self.bring()

    def unreachable(self) -> None:
        """What was sent to the leader did not get there: repeat it soon, not at once."""
        if self.own is not None:
            self.own.repeat_in = min(self.own.repeat_in, 2)

    def forward_refused(self, _sender: NodeId, frame: Frame) -> None:
        """The leader says that it will never be in the log."""
        assert isinstance(frame, ForwardRefused)
        own = self.own
        if own is not None and (own.incarnation, own.number) == (frame.incarnation, frame.number):
            self.refuse(own, error_of(frame.reason))

    def take_own(self, segment: NodeSegment | None) -> Batch | None:
        """Return this node's batch if a part of an entry is that: it has arrived."""
        own = self.own
        if own is None or segment is None:
            return None
        if segment[:3] != (self._engine.record.node_id, own.incarnation, own.number):
            return None
        self.own = None
        return own.batch

    def conf_changed(self) -> None:
        """Take the other way if this node has become, or is no longer, alone.

        The change was the only entry under way, so what waited is not in the log.
        """
        self._queue.clear()
        own = self.own
        if own is not None and not self._engine.record.is_alone():
            self._begin(own)

    # ── All nodes' ────────────────────────────────────────────────────────────────────────────

    def forwarded(self, sender: NodeId, frame: Frame) -> None:
        """A batch came from another node; who that is was proven to the transport."""
        assert isinstance(frame, Forward)
        raw = self._engine.raw
        is_member = sender in self._engine.record.members
        if raw is None or raw.role is not Role.LEADER or not is_member:
            return  # it will be sent to whoever leads
        self._enqueue(QueuedBatch(sender, frame.incarnation, frame.number, frame.batch, frame.term))

    def _enqueue(self, candidate: QueuedBatch) -> None:
        key = (candidate.node, candidate.incarnation, candidate.number)
        if not is_repetition(self._engine.record.origins, *key) and self._queue.add(candidate):
            self._engine.wake()

    def follow(self) -> None:
        """Forget what waits, as this node does not lead: whoever does is sent it again."""
        self._queue.clear()

    def draw_next(self) -> None:
        """Draw up the next entry, if the log has no tail: then all that was before is known."""
        engine = self._engine
        if not self._queue or not engine.is_leader or engine.has_tail:
            return
        assert engine.raw is not None
        _, refused = self._queue.settle(engine.record.origins, engine.raw.term)
        for candidate, reason in refused:
            self._refuse(candidate, reason)
        if self._queue:
            self._drawing_term = engine.raw.term
            engine.disk.encode_batch(self._queue.next(), self._host.is_late, self._drawn)

    def _refuse(self, candidate: QueuedBatch, reason: RefusalReason) -> None:
        own = self.own
        if candidate.node != self._engine.record.node_id:
            self._host.counts.forward_refusals += 1
            answer = ForwardRefused(candidate.incarnation, candidate.number, reason)
            self._host.send(candidate.node, answer)
        elif own is not None and own.number == candidate.number:
            self._soon(self.refuse, own, error_of(reason))

    def _drawn(self, merged: MergedBatch, drawn: EncodedBatch | None) -> None:
        """Propose what was drawn up, unless another leads by now or something came before it."""
        engine = self._engine
        raw = engine.raw
        assert raw is not None
        for candidate, reason in merged.refused:
            self._queue.remove([candidate])
            self._refuse(candidate, reason)
        is_current = engine.is_leader and raw.term == self._drawing_term
        if drawn is not None and is_current and not engine.has_tail:
            try:
                raw.propose(drawn.data)
            except ProposalDropped:
                pass  # leadership is being handed over: the batches wait, here or elsewhere
            else:
                self._queue.remove(merged.taken)
        engine.wake()


def error_of(reason: RefusalReason) -> PenstockError:
    """A refusal as those are told who wait."""
    if reason is RefusalReason.LEADERSHIP_LOST:
        return LeadershipLost("another node leads the cluster by now", "Send it again.")
    if reason is RefusalReason.LATE:
        return LeadershipLost("a client of this node is at another one by now", "Send it again.")
    if reason is RefusalReason.TOO_LARGE:
        return ClusterError("the batch is too large for the leader", "Send smaller messages.")
    return ClusterError("the batch was damaged on its way to the leader", "Send it again.")
