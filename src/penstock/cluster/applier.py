"""What happens when the engine reports: entries go to the broker, and waiting parts are told.

An entry holds the batches of one or several nodes. The listener hears of each once: of its own
as ``committed``, of the others as ``foreign``.
"""

from penstock.cluster.engine import NO_COST
from penstock.cluster.index_triggers import IndexTriggers
from penstock.cluster.kept_log import KeptLog
from penstock.cluster.leadership import LeadershipTracker
from penstock.cluster.local_node import LocalNode, removed_error
from penstock.cluster.membership import Membership
from penstock.cluster.proposals import Proposals
from penstock.cluster.reads import ReadBarriers
from penstock.errors import StorageBroken, StorageError, StorageFull
from penstock.obs.log import get_logger
from penstock.raft.ready import SoftState
from penstock.raft.types import RaftEntry, ReadState
from penstock.store.batch import Batch
from penstock.store.entry import Entry
from penstock.store.segments import SegmentRange, batch_of, spans
from penstock.store.store import Commit, Written

_log = get_logger("cluster")


class LogApplier:
    """The engine's owner."""

    def __init__(
        self,
        node: LocalNode,
        leadership: LeadershipTracker,
        proposals: Proposals,
        membership: Membership,
        reads: ReadBarriers,
    ) -> None:
        self._node = node
        self._engine = node.engine
        self._leadership = leadership
        self._proposals = proposals
        self._membership = membership
        self._reads = reads
        self.triggers = IndexTriggers()
        settings = node.settings
        self.kept_log = KeptLog(settings.log_kept_entries, settings.log_kept_bytes)

    def apply(self, entry: Entry) -> None:
        node, proposals = self._node, self._proposals
        self.kept_log.add(entry.index, len(entry.buffer))
        for span in parts(entry):
            segment = span.segment
            if segment is not None:
                node.record.origins[segment.node] = (segment.incarnation, segment.number)
            own = proposals.take_own(segment)
            batch = own if own is not None else batch_of(entry, span)
            commit = commit_of(entry, span, batch, self._engine.last_write)
            if own is not None:
                node.listener.committed(batch, commit)
            else:
                node.listener.foreign(batch, commit)
        self.triggers.applied(entry.index)

    def apply_change(self, entry: RaftEntry) -> None:
        gone = self._membership.apply(entry)
        if gone is None:
            return
        node = self._node
        node.peers.set_members(node.record.members)
        self._proposals.conf_changed()
        if node.node_id in gone:
            self.leave()

    def applied(self, index: int) -> None:
        self._proposals.applied(index)
        self._membership.applied(index)
        self._reads.applied(index)

    def answered(self, state: ReadState) -> None:
        self._reads.answered(state, self._node.record.applied)

    def rows_written(self, batch: Batch, written: Written) -> None:
        if self._proposals.written(batch):
            index, sequence = self._node.record.applied, self._node.store.next_sequence
            self._node.listener.committed(batch, Commit(index, sequence, 0, 0, *written, ()))

    def committed_alone(self, batch: Batch, outcome: Commit | StorageError) -> None:
        """Tell the listener first, then the core."""
        node = self._node
        if node.is_closed:
            return
        self._proposals.written(batch)
        if isinstance(outcome, StorageError):
            is_fatal = node.is_clustered and not isinstance(outcome, StorageFull)
            if is_fatal or isinstance(outcome, StorageBroken):
                self.failed(outcome)
                return
            self._proposals.own.clear()
            node.listener.refused(batch, outcome)
        else:
            try:
                node.listener.committed(batch, outcome)
            finally:
                self._engine.committed_alone(outcome.index)
        if not self._engine.may_commit_alone:
            node.wake()  # else the next batch, if there is one, is with the writer already

    def idle(self) -> None:
        """Begin what had to wait until nothing is in flight."""
        node, own = self._node, self._proposals.own
        if node.is_removed:
            return
        is_changing = self._membership.is_waiting
        if is_changing and self._membership.propose():
            node.wake()
        elif not node.is_lone:
            if not (is_changing and self._engine.has_tail):  # a change goes alone
                self._proposals.encode_next()
        elif node.is_leader:
            self._engine.may_commit_alone = not is_changing and len(own) < 2
            if own:
                self._engine.disk.commit(own[0].batch)

    def roles_changed(self, state: SoftState) -> None:
        self._leadership.roles_changed(state)
        self._proposals.roles_changed(state)
        self._membership.leader_changed()
        self._proposals.propose_own()
        self._leadership.announce()

    def settled(self) -> None:
        self._leadership.announce()

    def leave(self) -> None:
        """Stop taking part, except for votes: this node was removed."""
        node = self._node
        if node.is_removed:
            return
        node.is_removed = True
        self._engine.may_commit_alone = False
        _log.warning("node_removed", node=node.node_id, advice="Stop it, and use another one.")
        self._reads.fail(removed_error())
        self._proposals.refuse_own(removed_error())
        self._leadership.announce()

    def failed(self, error: BaseException) -> None:
        """Exit: to go on could lose what other nodes rely on."""
        node = self._node
        if not node.is_closed:
            node.is_closed = True
            node.environment.exit(error)


def parts(entry: Entry) -> list[SegmentRange]:
    if not (entry.count or entry.events or entry.dropped):
        return []
    return spans(entry)


def commit_of(entry: Entry, span: SegmentRange, batch: Batch, written: Written = NO_COST) -> Commit:
    return Commit(
        index=entry.index,
        base_sequence=entry.base_sequence + span.start,
        count=span.end - span.start,
        bytes=len(entry.buffer),
        commit_s=written.commit_s,
        fsync_s=written.fsync_s,
        first_offsets=_offsets(entry, span, batch),
        ends_entry=(span.end, span.event_end) == (entry.count, len(entry.events)),
    )


def _offsets(entry: Entry, span: SegmentRange, batch: Batch) -> tuple[int, ...]:
    """First offset of each group, in the order of the batch's topics; an entry's order differs."""
    if span.start == 0 and span.end == entry.count:
        return tuple([view.first_offset for view in entry.groups])
    positions, bounds = entry.run_positions, entry.run_bounds
    found: dict[bytes, int] = {}
    for view in entry.groups:
        for run in range(view.run_start, view.run_end):
            if span.start <= positions[run] < span.end:
                found[view.name] = view.first_offset + bounds[run] - view.message_start
                break
    return tuple([found[name] for name in batch.topics])
