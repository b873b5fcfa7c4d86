"""What a leader does: take proposals, process responses, confirm reads, transfer leadership."""

import msgspec

from penstock.raft import membership, replication
from penstock.raft.conf_entries import decode_change
from penstock.raft.confchange import ConfChangeError
from penstock.raft.errors import ProposalDropped, ProposalDropReason
from penstock.raft.participant import Participant
from penstock.raft.progress import PeerProgress, ProgressState
from penstock.raft.trace_names import change_text
from penstock.raft.types import (
    NO_NODE,
    ConfChange,
    EntryKind,
    MessageKind,
    NodeId,
    RaftEntry,
    RaftMessage,
    ReadState,
    Role,
)


def _on_beat(node: Participant, _message: RaftMessage) -> None:
    replication.broadcast_heartbeat(node, node.read_only.heartbeat_context())


def _on_check_quorum(node: Participant, _message: RaftMessage) -> None:
    """Step down without a quorum for an election timeout: others may have a leader."""
    if not node.tracker.quorum_active():
        node.warn("stepped down to follower since quorum is not active")
        node.become_follower(node.term, NO_NODE)
    for _, progress in node.peers:
        progress.recent_active = False


def _on_proposal(node: Participant, message: RaftMessage) -> None:
    if node.id not in node.tracker.progress:
        raise ProposalDropped(ProposalDropReason.REMOVED)
    if node.lead_transferee != NO_NODE:
        node.debug(
            f"[term {node.term}] transfer leadership to "
            f"{node.lead_transferee:x} is in progress; dropping proposal"
        )
        raise ProposalDropped(ProposalDropReason.TRANSFER)
    before = node.pending_conf_index
    try:
        proposed = [_admit(node, entry, place) for place, entry in enumerate(message.entries, 1)]
        replication.append_entries(node, proposed)
    except ProposalDropped:
        node.pending_conf_index = before
        raise
    replication.broadcast_append(node)


def _admit(node: Participant, entry: RaftEntry, place: int) -> tuple[bytes, EntryKind]:
    """Admit an entry. A configuration change that may not be made becomes empty."""
    if entry.kind is EntryKind.NORMAL:
        return entry.data, EntryKind.NORMAL
    try:
        change = decode_change(entry)
    except msgspec.DecodeError as error:
        raise ProposalDropped(ProposalDropReason.MALFORMED) from error
    fault = fault_of(node, change)
    if fault and node.config.validates_conf_changes:
        node.info(
            f"ignoring conf change {change_text(change)} at config {node.tracker.config}: {fault}"
        )
        return b"", EntryKind.NORMAL
    node.pending_conf_index = node.log.last_index + place
    return entry.data, entry.kind


def fault_of(node: Participant, change: ConfChange) -> str:
    """Why a change may not be proposed now; empty if it may.

    One at a time: quorums of configurations two changes apart need not overlap. And not before a
    commit in this term, which decides the change of an earlier leader.
    """
    applied = node.log.applied
    if node.pending_conf_index > applied:
        return (
            f"possible unapplied conf change at index {node.pending_conf_index} "
            f"(applied to {applied})"
        )
    if not node.has_committed_in_term():
        return "nothing of this term is committed yet"
    is_joint = node.tracker.config.is_joint
    if is_joint and change.steps:
        return "must transition out of joint config first"
    if not is_joint and not change.steps:
        return "not in joint state; refusing empty conf change"
    return _impossibility_of(node, change)


def _impossibility_of(node: Participant, change: ConfChange) -> str:
    """Why a change could not be applied; empty if it could.

    No other change is in flight, so it will be applied to the current configuration. One that fails
    then would fail on every node, and at every start.
    """
    try:
        membership.plan(node, change)
    except ConfChangeError as error:
        return str(error)
    return ""


def _on_append_response(node: Participant, message: RaftMessage) -> None:
    """Note what a node has durable, or rejects. The leader itself responds, too."""
    progress = node.tracker.progress.get(message.sender)
    if progress is None:
        _trace_unknown(node, message)
        return
    progress.recent_active = True
    if message.reject:
        _on_rejection(node, progress, message)
    elif progress.maybe_update(message.index) or (
        progress.match == message.index and progress.state is ProgressState.PROBE
    ):
        _on_acknowledgement(node, progress, message)


def _on_rejection(node: Participant, progress: PeerProgress, message: RaftMessage) -> None:
    """Go back to where the logs may agree: by the follower's hint and our own terms."""
    node.debug(
        f"received MsgAppResp(rejected, hint: (index {message.reject_hint}, "
        f"term {message.log_term})) from {message.sender:x} for index {message.index}"
    )
    hint = message.reject_hint
    if message.log_term:
        hint, _ = node.log.find_conflict_by_term(hint, message.log_term)
    if not progress.maybe_decr_to(message.index, hint):
        return
    node.debug(f"decreased progress of {message.sender:x} to [{progress}]")
    if progress.state is ProgressState.REPLICATE:
        progress.become_probe()
    replication.send_append(node, message.sender, progress)


def _on_acknowledgement(node: Participant, progress: PeerProgress, message: RaftMessage) -> None:
    sender = message.sender
    _note_arrival(node, progress, message)
    if replication.maybe_commit(node):
        if node.postponed_reads:
            _release_reads(node)
        replication.broadcast_append(node)
    elif sender != node.id and progress.can_bump_commit(node.log.committed):
        replication.send_append(node, sender, progress)
    if sender != node.id:
        replication.send_more(node, sender, progress)
    if sender == node.lead_transferee and progress.match == node.log.last_index:
        node.info(f"sent MsgTimeoutNow to {sender:x} after received MsgAppResp")
        node.send(MessageKind.TIMEOUT_NOW, sender)


def _note_arrival(node: Participant, progress: PeerProgress, message: RaftMessage) -> None:
    state = progress.state
    if state is ProgressState.REPLICATE:
        progress.inflights.free_le(message.index)
    elif state is ProgressState.PROBE:
        progress.become_replicate()
    elif progress.match + 1 >= node.log.first_index():
        # Whichever snapshot arrived: the log reaches far enough now.
        node.debug(
            f"recovered from needing snapshot, resumed sending replication "
            f"messages to {message.sender:x} [{progress}]"
        )
        progress.become_probe()  # takes the snapshot's index into account
        progress.become_replicate()


def _on_heartbeat_response(node: Participant, message: RaftMessage) -> None:
    progress = node.tracker.progress.get(message.sender)
    if progress is None:
        _trace_unknown(node, message)
        return
    progress.recent_active = True
    progress.msg_app_flow_paused = False
    if progress.match < node.log.last_index or progress.state is ProgressState.PROBE:
        replication.send_append(node, message.sender, progress)
    if message.context and not node.config.read_only_lease:
        _confirm_reads(node, message.sender, message.context)


def _on_unreachable(node: Participant, message: RaftMessage) -> None:
    """Probe a follower: what is in flight to it is probably lost."""
    progress = node.tracker.progress.get(message.sender)
    if progress is None:
        _trace_unknown(node, message)
        return
    if progress.state is ProgressState.REPLICATE:
        progress.become_probe()
    node.debug(
        f"failed to send message to {message.sender:x} because it is unreachable [{progress}]"
    )


def _on_snapshot_status(node: Participant, message: RaftMessage) -> None:
    """Probe after a snapshot, sent or failed, once the follower responds."""
    progress = node.tracker.progress.get(message.sender)
    if progress is None:
        _trace_unknown(node, message)
        return
    if progress.state is not ProgressState.SNAPSHOT:
        return
    if message.reject:
        progress.pending_snapshot = 0  # else we would continue behind a snapshot that failed
    progress.become_probe()
    how = "failed" if message.reject else "succeeded"
    node.debug(
        f"snapshot {how}, resumed sending replication messages to {message.sender:x} [{progress}]"
    )
    progress.msg_app_flow_paused = True


def _trace_unknown(node: Participant, message: RaftMessage) -> None:
    node.debug(f"no progress available for {message.sender:x}")


def _on_read_index(node: Participant, message: RaftMessage) -> None:
    """Begin a linearizable read; without a sender it is our own.

    Before the first commit of its term even a lone voter does not know how far it had committed:
    the commit index on disk may be older than what it acknowledged before a crash.
    """
    if not message.context:
        return
    if node.has_committed_in_term():
        _begin_read(node, message.sender, message.context)
    elif len(node.postponed_reads) < node.config.pending_reads_max:
        node.postponed_reads.append((message.sender, message.context))


def _release_reads(node: Participant) -> None:
    if not node.has_committed_in_term():
        return
    postponed, node.postponed_reads = node.postponed_reads, []
    for sender, context in postponed:
        _begin_read(node, sender, context)


def _begin_read(node: Participant, sender: NodeId, context: bytes) -> None:
    is_alone = node.tracker.is_singleton() and node.id in node.tracker.config.voters
    if is_alone or node.config.read_only_lease:
        _answer_read(node, sender, context, node.log.committed)
    elif node.read_only.add(sender, context, node.log.committed):
        number = node.read_only.heartbeat_context()
        node.read_only.acknowledge(node.id, number)
        replication.broadcast_heartbeat(node, number)


def _confirm_reads(node: Participant, sender: NodeId, context: bytes) -> None:
    node.read_only.acknowledge(sender, context)
    for read in node.read_only.advance(node.tracker.config.voters):
        _answer_read(node, read.sender, read.context, read.index)


def _answer_read(node: Participant, sender: NodeId, context: bytes, index: int) -> None:
    if sender in (NO_NODE, node.id):
        node.read_states.append(ReadState(index, context))
    else:
        node.send(MessageKind.READ_INDEX_RESPONSE, sender, index=index, context=context)


def _on_transfer(node: Participant, message: RaftMessage) -> None:
    """Transfer leadership to the sender once it has all entries; drop proposals meanwhile."""
    to, last = message.sender, node.lead_transferee
    progress = node.tracker.progress.get(to)
    if progress is None:
        _trace_unknown(node, message)
    elif progress.is_learner:
        node.debug("is learner. Ignored transferring leadership")
    elif last == to:
        node.info(
            f"[term {node.term}] transfer leadership to {to:x} is in progress, "
            f"ignores request to same node {to:x}"
        )
    else:
        _abort_transfer(node)
        _begin_transfer(node, to, progress)


def _abort_transfer(node: Participant) -> None:
    last, node.lead_transferee = node.lead_transferee, NO_NODE
    if last != NO_NODE:
        node.info(f"[term {node.term}] abort previous transferring leadership to {last:x}")


def _begin_transfer(node: Participant, to: NodeId, progress: PeerProgress) -> None:
    if to == node.id:
        node.debug("is already leader. Ignored transferring leadership to self")
        return
    node.info(f"[term {node.term}] starts to transfer leadership to {to:x}")
    node.election_elapsed = 0
    node.lead_transferee = to
    if progress.match < node.log.last_index:
        replication.send_append(node, to, progress)
        return
    node.send(MessageKind.TIMEOUT_NOW, to)
    node.info(f"sends MsgTimeoutNow to {to:x} immediately as {to:x} already has up-to-date log")


HANDLERS = {
    (Role.LEADER, MessageKind.BEAT): _on_beat,
    (Role.LEADER, MessageKind.CHECK_QUORUM): _on_check_quorum,
    (Role.LEADER, MessageKind.PROPOSE): _on_proposal,
    (Role.LEADER, MessageKind.APPEND_RESPONSE): _on_append_response,
    (Role.LEADER, MessageKind.HEARTBEAT_RESPONSE): _on_heartbeat_response,
    (Role.LEADER, MessageKind.UNREACHABLE): _on_unreachable,
    (Role.LEADER, MessageKind.SNAPSHOT_STATUS): _on_snapshot_status,
    (Role.LEADER, MessageKind.READ_INDEX): _on_read_index,
    (Role.LEADER, MessageKind.TRANSFER_LEADER): _on_transfer,
}
