"""Batches on their way into the log: this node's to the leader; every node's, if this one leads.

What makes it safe to send a batch again is in ``forwarding``; how many are on their way at once,
and why, in ``flight``.
"""

import asyncio
from collections import deque
from itertools import islice

from penstock.cluster.flight import (
    BATCHES_BYTES_MAX,
    SPACING_S,
    EntriesInFlight,
    EntryInFlight,
    FlightWindow,
)
from penstock.cluster.forwarding import (
    MergedBatch,
    ProposalQueue,
    QueuedBatch,
    TailState,
    is_repetition,
)
from penstock.cluster.frames import Forward, ForwardRefused, Frame, RefusalReason
from penstock.cluster.leadership import LeadershipTracker
from penstock.cluster.local_node import LocalNode
from penstock.errors import ClusterError, LeadershipLost, NoQuorum, PenstockError
from penstock.raft.errors import ProposalDropped
from penstock.raft.ready import SoftState
from penstock.raft.types import NO_NODE, MessageKind, NodeId, Role
from penstock.store.batch import Batch, NodeSegment
from penstock.store.segments import pack_batch
from penstock.store.store import EncodedBatch

REPEAT_DOUBLINGS_MAX = 3  # of the interval of repeats, which begins with an election timeout


class OwnBatch:
    """A batch of this node in flight, packed when it has to travel."""

    def __init__(
        self, batch: Batch, incarnation: int, number: int, follows: int, submitted_at: float
    ) -> None:
        self.batch = batch
        self.incarnation = incarnation
        self.number = number
        self.follows = follows  # the number of the one before it, if that is in flight; else 0
        self.submitted_at = submitted_at
        self.is_begun = False  # its rows are with the disk
        self.sent_to: tuple[NodeId, int] | None = None  # leader and term
        self.repeat_in = 0  # ticks until it is sent again to the same leader
        self.repeats = 0
        self.forwarded_ticks = 0  # for how long it has been on its way to other nodes
        self._packed: bytes | None = None

    def queued(self, node: NodeId) -> QueuedBatch:
        batch = self.batch
        return QueuedBatch(node, self.incarnation, self.number, batch, batch.term, self.follows)

    @property
    def forward(self) -> Forward:
        if self._packed is None:
            self._packed = pack_batch(self.batch)
        return Forward(self.incarnation, self.number, self._packed, self.batch.term, self.follows)


class Proposals:
    """``own``: this node's batches in flight, oldest first. ``queue``: all nodes', if it leads."""

    def __init__(self, node: LocalNode, leadership: LeadershipTracker) -> None:
        settings = node.settings
        self._node = node
        self._leadership = leadership
        self._engine = node.engine
        loop = asyncio.get_running_loop()
        self._soon, self._later = loop.call_soon, loop.call_later
        self._election_ticks = settings.election_ticks
        self.patience_ticks = int(settings.no_leader_timeout_s * 1000 / settings.tick_ms)
        self.queue = ProposalQueue()
        self._entries = EntriesInFlight()
        self._must_wait = False  # what is queued cannot be encoded before all of the log is applied
        self._encoding = (0, 0)  # term, and last entry before the one that is being encoded
        self._number = 0
        self.own: deque[OwnBatch] = deque()
        self._window = FlightWindow()
        self._is_spaced = True  # the last batch was submitted a while ago
        self._leader_takes = 1  # batches of this node at a time

    # ── This node's batches ───────────────────────────────────────────────────────────────────

    def submit(self, batch: Batch) -> None:
        """Bring a batch into the log, or refuse it if nobody has led for too long."""
        self._number += 1
        follows = self.own[-1].number if self.own else 0
        incarnation, now = self._engine.record.incarnation, self._node.monotonic()
        own = OwnBatch(batch, incarnation, self._number, follows, now)
        self.own.append(own)
        error = self._leadership.write_refusal()
        if error is not None:
            self._soon(self.refuse, self.own[0], error)
        elif self._engine.record.is_alone():
            self._engine.wake()
        else:
            self._begin(own)
            self._space()

    def _begin(self, own: OwnBatch) -> None:
        """Have the rows written here, and the content by the leader."""
        work, batch = self._engine.work, own.batch
        own.is_begun = True
        work.add_rows(batch)
        if batch.has_content:
            self.propose_own()
        else:
            work.batches.append(batch)
            self._engine.wake()

    @property
    def has_room(self) -> bool:
        """Whether another batch may follow those in flight now."""
        own, raw = self.own, self._engine.raw
        if not own or raw is None or len(own) >= self._window.width or not self._is_spaced:
            return False
        if not own[-1].batch.has_content or self._engine.record.is_alone():
            return False
        if sum([one.batch.payload_bytes for one in own]) >= BATCHES_BYTES_MAX:
            return False
        if raw.role is Role.LEADER:
            return not self.queue  # else it would wait there, and may as well gather more
        return len(own) < self._leader_takes

    def _space(self) -> None:
        """Leave others a while to gather, if more than one batch may be in flight."""
        if self._window.width > 1 and self._is_spaced:
            self._is_spaced = False
            self._later(SPACING_S, self._spaced)

    def _spaced(self) -> None:
        self._is_spaced = True
        self._offer_room()

    def _offer_room(self) -> None:
        if not self._node.is_closed and self.has_room:
            self._node.listener.made_room()

    def refuse(self, own: OwnBatch, error: PenstockError) -> None:
        """Give up on a batch and those after it. They may turn up in the log all the same."""
        if own in self.own:
            while self.own.pop() is not own:
                pass
            if not self._node.is_closed:
                self._node.listener.refused(own.batch, error)

    def refuse_own(self, error: PenstockError) -> None:
        if self.own:
            self._soon(self.refuse, self.own[0], error)

    def propose_own(self) -> None:
        """Bring this node's batches to the leader, unless it has got them."""
        raw, record = self._engine.raw, self._engine.record
        if not self.own or raw is None or record.is_alone():
            return
        if raw.role is Role.LEADER:
            for own in self.own:
                if own.batch.has_content:
                    self._enqueue(own.queued(record.node_id))
        elif raw.lead != NO_NODE and self._engine.has_written:
            for own in islice(self.own, self._leader_takes):
                if own.batch.has_content and own.sent_to != (raw.lead, raw.term):
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

    def leader_takes(self, kind: MessageKind, count: int) -> None:
        """Note how many batches of a node the leader takes at a time; one if it does not tell."""
        if kind in {MessageKind.APPEND, MessageKind.HEARTBEAT}:
            self._leader_takes = max(count, 1)

    def tick(self) -> None:
        self._give_up()
        if not self.own:
            return
        for own in self.own:
            own.repeat_in -= 1
            own.forwarded_ticks += own.sent_to is not None
        if self.own[0].sent_to is not None and self.own[0].repeat_in <= 0:
            self._repeat()
        else:
            self.propose_own()

    def _repeat(self) -> None:
        """Send everything once more, in order: nobody knows what was lost."""
        raw = self._engine.raw
        assert raw is not None
        if raw.role is not Role.LEADER and raw.lead != NO_NODE:
            for own in islice(self.own, self._leader_takes):
                if own.batch.has_content:
                    self._forward(own, raw.lead, raw.term)
        else:
            self.propose_own()

    def _give_up(self) -> None:
        """Refuse the batches, which may still be committed, if nobody led or took one for long."""
        if not self.own:
            return
        own = self.own[0]
        error = self._leadership.write_refusal()
        if error is None and own.forwarded_ticks >= self.patience_ticks:
            error = NoQuorum(
                f"node {self._node.leader} leads, but does not take what this node sends it",
                "Check the network between them; clients may use another node.",
            )
        if error is not None:
            self.refuse(own, error)

    def leader_unreachable(self) -> None:
        """Something sent to the leader was dropped: repeat the batches soon, not at once."""
        for own in self.own:
            own.repeat_in = min(own.repeat_in, 2)

    def forward_refused(self, _sender: NodeId, frame: Frame) -> None:
        assert isinstance(frame, ForwardRefused)
        for own in list(self.own):
            if (own.incarnation, own.number) == (frame.incarnation, frame.number):
                self.refuse(own, error_of(frame.reason))

    def take_own(self, segment: NodeSegment | None) -> Batch | None:
        """Return this node's batch if it is the one that a segment of an applied entry holds."""
        if not self.own or segment is None:
            return None
        own = self.own[0]
        if segment[:3] != (self._engine.record.node_id, own.incarnation, own.number):
            return None
        self._landed()
        return own.batch

    def written(self, batch: Batch) -> bool:
        """Note that a batch is on disk without having been proposed; False if it was given up."""
        is_own = bool(self.own) and self.own[0].batch is batch
        if is_own:
            self.own.popleft()
        return is_own

    def _landed(self) -> None:
        own = self.own.popleft()
        self._window.landed(self._node.monotonic() - own.submitted_at)
        if self.own:
            self._soon(self.propose_own)  # those that the leader had no room for
            self._soon(self._offer_room)

    def conf_changed(self) -> None:
        """Switch paths if this node has become, or is no longer, alone.

        The change was the only entry in flight, so no queued batch is in the log. Those of members
        stay: their nodes would repeat them only after a while.
        """
        record = self._engine.record
        if record.is_alone():
            self.queue.clear()
            return
        self.queue.keep(record.members)
        for own in self.own:
            if not own.is_begun:
                self._begin(own)
        self.propose_own()

    # ── All nodes' batches, on the leader ─────────────────────────────────────────────────────

    def roles_changed(self, state: SoftState) -> None:
        """Forget what only a leader knows: nodes send their batches to the next one."""
        self._leader_takes = 1
        if state.role is not Role.LEADER:
            self.queue.clear()
            self._entries.clear()

    def forwarded(self, sender: NodeId, frame: Frame) -> None:
        """Queue another node's batch. The transport has authenticated the sender."""
        assert isinstance(frame, Forward)
        raw = self._engine.raw
        is_member = sender in self._engine.record.members
        if raw is None or raw.role is not Role.LEADER or not is_member:
            return  # its node sends it to the leader once more
        what = (frame.incarnation, frame.number, frame.batch, frame.term, frame.follows)
        self._enqueue(QueuedBatch(sender, *what))

    def _enqueue(self, queued: QueuedBatch) -> None:
        origins = self._entries.origins(self._engine.record.origins)
        if not is_repetition(origins, queued.node, *queued.key) and self.queue.add(queued):
            self._engine.wake()

    def applied(self, index: int) -> None:
        self._entries.applied(index, self._node.monotonic())

    def encode_next(self) -> None:
        """Encode the next entry if there is room in flight.

        All of the log was applied when this node began to lead, and everything since is its own. So
        every earlier batch is known.
        """
        engine, raw = self._engine, self._engine.raw
        if not self.queue or raw is None or not engine.is_leader:
            return
        if engine.has_tail and not self._may_follow(raw.last_index):
            return
        origins = self._entries.origins(engine.record.origins)
        _, refused = self.queue.settle(origins, raw.term)
        for queued, reason in refused:
            self._refuse_queued(queued, reason)
        waiting = self.queue.next(origins)
        if waiting:
            self._must_wait = False
            self._encoding = (raw.term, raw.last_index)
            tail = TailState(engine.has_tail, self._entries.makes_stale, self._entries.moving)
            is_late = self._node.environment.hooks.is_late
            engine.disk.encode_batch(waiting, is_late, tail, self._encoded)

    def _may_follow(self, last_index: int) -> bool:
        """Whether an entry may follow those in flight; not one of another kind."""
        entries = self._entries
        return entries.last_index == last_index and entries.has_room and not self._must_wait

    def _refuse_queued(self, queued: QueuedBatch, reason: RefusalReason) -> None:
        if queued.node != self._engine.record.node_id:
            self._node.counts.forward_refusals += 1
            answer = ForwardRefused(queued.incarnation, queued.number, reason)
            self._node.send(queued.node, answer)
            return
        for own in self.own:
            if own.number == queued.number:
                self._soon(self.refuse, own, error_of(reason))

    def _encoded(self, merged: MergedBatch, encoded: EncodedBatch | None) -> None:
        """Propose the entry, unless leadership or the end of the log have changed meanwhile."""
        engine = self._engine
        raw = engine.raw
        assert raw is not None
        for queued, reason in merged.refused:
            self.queue.remove([queued])
            self._refuse_queued(queued, reason)
        is_current = engine.is_leader and self._encoding == (raw.term, raw.last_index)
        self._must_wait = merged.must_wait and not merged.taken
        if encoded is not None and is_current:
            try:
                raw.propose(encoded.data)
            except ProposalDropped:
                pass  # leadership is being transferred: the batches wait, here or elsewhere
            else:
                self._proposed(merged, raw.last_index, len(encoded.data))
        engine.wake()

    def _proposed(self, merged: MergedBatch, index: int, size: int) -> None:
        batch, now = merged.batch, self._node.monotonic()
        stale, moving = merged.makes_stale, merged.moving
        self._entries.add(
            EntryInFlight(index, size, now, batch.segments, bool(batch.drops), stale, moving)
        )
        self.queue.remove(merged.taken)
        if self.own:
            self._soon(self._offer_room)


def error_of(reason: RefusalReason) -> PenstockError:
    if reason is RefusalReason.LEADERSHIP_LOST:
        return LeadershipLost("another node leads the cluster now", "Send it again.")
    if reason is RefusalReason.LATE:
        return LeadershipLost("a client of this node has moved to another one", "Send it again.")
    if reason is RefusalReason.TOO_LARGE:
        return ClusterError("the batch is too large for the leader", "Send smaller messages.")
    return ClusterError("the batch was damaged on its way to the leader", "Send it again.")
