"""Batches on their way into the log: this node's to the leader; every node's, if this one leads.

What makes it safe to send a batch again is in ``forwarding``.
"""

import asyncio

from penstock.cluster.forwarding import MergedBatch, ProposalQueue, QueuedBatch, is_repetition
from penstock.cluster.frames import Forward, ForwardRefused, Frame, RefusalReason
from penstock.cluster.leadership import LeadershipTracker
from penstock.cluster.local_node import LocalNode
from penstock.errors import ClusterError, LeadershipLost, NoQuorum, PenstockError
from penstock.raft.errors import ProposalDropped
from penstock.raft.types import NO_NODE, NodeId, Role
from penstock.store.batch import Batch, NodeSegment
from penstock.store.segments import pack_batch
from penstock.store.store import EncodedBatch

REPEAT_DOUBLINGS_MAX = 3  # of the interval of repeats, which begins with an election timeout


class OwnBatch:
    """A batch of this node in flight, packed when it has to travel."""

    def __init__(self, batch: Batch, incarnation: int, number: int) -> None:
        self.batch = batch
        self.incarnation = incarnation
        self.number = number
        self.sent_to: tuple[NodeId, int] | None = None  # leader and term
        self.repeat_in = 0  # ticks until it is sent again to the same leader
        self.repeats = 0
        self.forwarded_ticks = 0  # for how long it has been on its way to other nodes
        self._packed: bytes | None = None

    def queued(self, node: NodeId) -> QueuedBatch:
        return QueuedBatch(node, self.incarnation, self.number, self.batch, self.batch.term)

    @property
    def forward(self) -> Forward:
        if self._packed is None:
            self._packed = pack_batch(self.batch)
        return Forward(self.incarnation, self.number, self._packed, self.batch.term)


class Proposals:
    """``own`` is this node's batch in flight; ``queue`` holds all nodes' batches on the leader."""

    def __init__(self, node: LocalNode, leadership: LeadershipTracker) -> None:
        settings = node.settings
        self._node = node
        self._leadership = leadership
        self._engine = node.engine
        self._soon = asyncio.get_running_loop().call_soon
        self._election_ticks = settings.election_ticks
        self.patience_ticks = int(settings.no_leader_timeout_s * 1000 / settings.tick_ms)
        self.queue = ProposalQueue()
        self._encoding_term = 0
        self._number = 0
        self.own: OwnBatch | None = None

    def submit(self, batch: Batch) -> None:
        """Bring a batch into the log, or refuse it if nobody has led for too long."""
        assert self.own is None, "one batch at a time"
        self._number += 1
        own = self.own = OwnBatch(batch, self._engine.record.incarnation, self._number)
        error = self._leadership.write_refusal()
        if error is not None:
            self._soon(self.refuse, own, error)
        elif self._engine.record.is_alone():
            self._engine.wake()
        else:
            self._begin(own)

    def _begin(self, own: OwnBatch) -> None:
        """Have the rows written here, and the content by the leader."""
        work, batch = self._engine.work, own.batch
        work.add_rows(batch)
        if batch.has_content:
            self.propose_own()
        else:
            work.batches.append(batch)
            self._engine.wake()

    def refuse(self, own: OwnBatch, error: PenstockError) -> None:
        """Give up on a batch that is still in flight. It may turn up in the log all the same."""
        if self.own is own:
            self.own = None
            if not self._node.is_closed:
                self._node.listener.refused(own.batch, error)

    def refuse_own(self, error: PenstockError) -> None:
        if self.own is not None:
            self._soon(self.refuse, self.own, error)

    def propose_own(self) -> None:
        """Bring this node's batch to the leader, once more if it was sent before."""
        own, raw, record = self.own, self._engine.raw, self._engine.record
        if own is None or raw is None or not own.batch.has_content or record.is_alone():
            return
        if raw.role is Role.LEADER:
            self._enqueue(own.queued(record.node_id))
        elif raw.lead != NO_NODE and self._engine.has_written:
            self._forward(own, raw.lead, raw.term)

    def _forward(self, own: OwnBatch, lead: NodeId, term: int) -> None:
        counts = self._node.counts
        if own.sent_to is None:
            counts.forwarded_batches += 1
        else:
            counts.forward_repeats += 1
        own.repeats = own.repeats + 1 if own.sent_to == (lead, term) else 0
        own.repeat_in = self._election_ticks << min(own.repeats, REPEAT_DOUBLINGS_MAX)
        own.sent_to = (lead, term)
        self._node.send(lead, own.forward)

    def tick(self) -> None:
        self._give_up()
        own = self.own
        if own is None:
            return
        own.repeat_in -= 1
        own.forwarded_ticks += own.sent_to is not None
        if own.sent_to is None or own.repeat_in <= 0:
            self.propose_own()

    def _give_up(self) -> None:
        """Refuse the batch, which may still be committed, if nobody led or took it for long."""
        own = self.own
        if own is None:
            return
        error = self._leadership.write_refusal()
        if error is None and own.forwarded_ticks >= self.patience_ticks:
            error = NoQuorum(
                f"node {self._node.leader} leads, but does not take what this node sends it",
                "Check the network between them; clients may use another node.",
            )
        if error is not None:
            self.refuse(own, error)

    def leader_unreachable(self) -> None:
        """Something sent to the leader was dropped: repeat the batch soon, not at once."""
        if self.own is not None:
            self.own.repeat_in = min(self.own.repeat_in, 2)

    def forward_refused(self, _sender: NodeId, frame: Frame) -> None:
        assert isinstance(frame, ForwardRefused)
        own = self.own
        if own is not None and (own.incarnation, own.number) == (frame.incarnation, frame.number):
            self.refuse(own, error_of(frame.reason))

    def take_own(self, segment: NodeSegment | None) -> Batch | None:
        """Return this node's batch if it is the one that a segment of an applied entry holds."""
        own = self.own
        if own is None or segment is None:
            return None
        if segment[:3] != (self._engine.record.node_id, own.incarnation, own.number):
            return None
        self.own = None
        return own.batch

    def conf_changed(self) -> None:
        """Switch paths if this node has become, or is no longer, alone.

        The change was the only entry in flight, so no queued batch is in the log.
        """
        self.queue.clear()
        own = self.own
        if own is not None and not self._engine.record.is_alone():
            self._begin(own)

    def forwarded(self, sender: NodeId, frame: Frame) -> None:
        """Queue another node's batch. The transport has authenticated the sender."""
        assert isinstance(frame, Forward)
        raw = self._engine.raw
        is_member = sender in self._engine.record.members
        if raw is None or raw.role is not Role.LEADER or not is_member:
            return  # its node sends it to the leader once more
        self._enqueue(QueuedBatch(sender, frame.incarnation, frame.number, frame.batch, frame.term))

    def _enqueue(self, queued: QueuedBatch) -> None:
        key = (queued.node, queued.incarnation, queued.number)
        if not is_repetition(self._engine.record.origins, *key) and self.queue.add(queued):
            self._engine.wake()

    def encode_next(self) -> None:
        """Encode the next entry if the log has no tail: only then is every earlier batch known."""
        engine = self._engine
        if not self.queue or not engine.is_leader or engine.has_tail:
            return
        assert engine.raw is not None
        _, refused = self.queue.settle(engine.record.origins, engine.raw.term)
        for queued, reason in refused:
            self._refuse_queued(queued, reason)
        if self.queue:
            self._encoding_term = engine.raw.term
            engine.disk.encode_batch(
                self.queue.next(), self._node.environment.hooks.is_late, self._encoded
            )

    def _refuse_queued(self, queued: QueuedBatch, reason: RefusalReason) -> None:
        own = self.own
        if queued.node != self._engine.record.node_id:
            self._node.counts.forward_refusals += 1
            answer = ForwardRefused(queued.incarnation, queued.number, reason)
            self._node.send(queued.node, answer)
        elif own is not None and own.number == queued.number:
            self.refuse_own(error_of(reason))

    def _encoded(self, merged: MergedBatch, encoded: EncodedBatch | None) -> None:
        """Propose the entry, unless leadership or the end of the log have changed meanwhile."""
        engine = self._engine
        raw = engine.raw
        assert raw is not None
        for queued, reason in merged.refused:
            self.queue.remove([queued])
            self._refuse_queued(queued, reason)
        is_current = engine.is_leader and raw.term == self._encoding_term
        if encoded is not None and is_current and not engine.has_tail:
            try:
                raw.propose(encoded.data)
            except ProposalDropped:
                pass  # leadership is being transferred: the batches wait, here or elsewhere
            else:
                self.queue.remove(merged.taken)
        engine.wake()


def error_of(reason: RefusalReason) -> PenstockError:
    if reason is RefusalReason.LEADERSHIP_LOST:
        return LeadershipLost("another node leads the cluster now", "Send it again.")
    if reason is RefusalReason.LATE:
        return LeadershipLost("a client of this node has moved to another one", "Send it again.")
    if reason is RefusalReason.TOO_LARGE:
        return ClusterError("the batch is too large for the leader", "Send smaller messages.")
    return ClusterError("the batch was damaged on its way to the leader", "Send it again.")
