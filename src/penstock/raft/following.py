"""What a follower does: take entries, snapshots and heartbeats; forward requests to the leader."""

from collections.abc import Callable

from penstock.raft import membership
from penstock.raft.errors import ProposalDropped, ProposalDropReason
from penstock.raft.participant import Participant
from penstock.raft.types import (
    NO_NODE,
    MessageKind,
    RaftMessage,
    ReadState,
    Role,
    SnapshotMeta,
)


def handle_append(node: Participant, message: RaftMessage) -> None:
    log = node.log
    if message.index < log.committed:
        # What is committed is the same everywhere: let the leader continue from there.
        node.acknowledge(message.sender, log.committed)
        return
    entries = message.entries
    if entries and not entries[0].index - 1 == message.index == entries[-1].index - len(entries):
        return  # no leader sends such a message
    last = log.maybe_append(message.index, message.log_term, entries, message.commit)
    if last is None:
        _reject_append(node, message)
    else:
        node.acknowledge(message.sender, last)


def _reject_append(node: Participant, message: RaftMessage) -> None:
    """Reject entries whose predecessor we lack; by the hint the leader skips whole terms."""
    log = node.log
    node.debug(
        f"[logterm: {log.term_or_zero(message.index)}, index: {message.index}] "
        f"rejected MsgApp [logterm: {message.log_term}, index: {message.index}] "
        f"from {message.sender:x}"
    )
    hint = min(message.index, log.last_index)
    hint, hint_term = log.find_conflict_by_term(hint, message.log_term)
    node.after_persist.append(
        RaftMessage(
            MessageKind.APPEND_RESPONSE,
            message.sender,
            node.id,
            node.term,
            hint_term,
            message.index,
            reject=True,
            reject_hint=hint,
        )
    )


def handle_heartbeat(node: Participant, message: RaftMessage) -> None:
    """Answer a heartbeat. Its commit index never exceeds what we have acknowledged."""
    node.log.commit_to(message.commit)
    node.send(MessageKind.HEARTBEAT_RESPONSE, message.sender, context=message.context)


def handle_snapshot(node: Participant, message: RaftMessage) -> None:
    snapshot = message.snapshot or SnapshotMeta()
    is_taken = _restore(node, snapshot)
    deed = "restored" if is_taken else "ignored"
    node.info(f"[commit: {node.log.committed}] {deed} {_text(snapshot)}")
    node.acknowledge(message.sender, node.log.last_index if is_taken else node.log.committed)


def _text(snapshot: SnapshotMeta) -> str:
    return f"snapshot [index: {snapshot.index}, term: {snapshot.term}]"


def _restore(node: Participant, snapshot: SnapshotMeta) -> bool:
    """Restore from a snapshot; False if it has nothing new, or is not for us."""
    log = node.log
    if snapshot.index <= log.committed:
        return False
    conf = snapshot.conf_state  # nodes in learners_next are also in voters_outgoing
    if node.id not in (*conf.voters, *conf.learners, *conf.voters_outgoing):
        node.warn(
            f"attempted to restore snapshot but it is not in the ConfState "
            f"{conf}; should never happen"
        )
        return False
    if log.matches(snapshot.index, snapshot.term):
        # We have all of it, but did not know that it is committed.
        node.info(f"{_where(node)} fast-forwarded commit to {_text(snapshot)}")
        log.commit_to(snapshot.index)
        return False
    log.restore(snapshot)
    membership.restore(node, snapshot.conf_state)
    node.info(f"{_where(node)} restored {_text(snapshot)}")
    return True


def _where(node: Participant) -> str:
    log = node.log
    return f"[commit: {log.committed}, lastindex: {log.last_index}, lastterm: {log.last_term}]"


def _on_proposal(node: Participant, message: RaftMessage) -> None:
    if node.lead == NO_NODE:
        node.info(f"no leader at term {node.term}; dropping proposal")
        raise ProposalDropped(ProposalDropReason.NO_LEADER)
    if not node.config.forwards_proposals:
        node.info(f"not forwarding to leader {node.lead:x} at term {node.term}; dropping proposal")
        raise ProposalDropped(ProposalDropReason.NOT_LEADER)
    sender = message.sender or node.id
    sent = RaftMessage(MessageKind.PROPOSE, node.lead, sender, entries=message.entries)
    node.messages.append(sent)


def _on_transfer(node: Participant, message: RaftMessage) -> None:
    """Forward a transfer to the leader. Its sender is the node that is to lead."""
    if node.lead == NO_NODE:
        _trace_dropped(node, "leader transfer msg")
        return
    sent = RaftMessage(MessageKind.TRANSFER_LEADER, node.lead, message.sender, node.term)
    node.messages.append(sent)


def _on_read_index(node: Participant, message: RaftMessage) -> None:
    if node.lead == NO_NODE:
        _trace_dropped(node, "index reading msg")
        return
    sender = message.sender or node.id
    sent = RaftMessage(MessageKind.READ_INDEX, node.lead, sender, context=message.context)
    node.messages.append(sent)


def _trace_dropped(node: Participant, what: str) -> None:
    node.info(f"no leader at term {node.term}; dropping {what}")


def _on_read_index_response(node: Participant, message: RaftMessage) -> None:
    node.read_states.append(ReadState(message.index, message.context))


def _on_forget_leader(node: Participant, _message: RaftMessage) -> None:
    """Forget the leader, which the caller knows to be gone, so as to vote for others."""
    if node.config.read_only_lease:
        # The lease relies on no votes being granted meanwhile.
        node.trace("ERROR", "ignoring MsgForgetLeader due to ReadOnlyLeaseBased")
    elif node.lead != NO_NODE:
        node.info(f"forgetting leader {node.lead:x} at term {node.term}")
        node.lead = NO_NODE


def _from_leader(
    handle: Callable[[Participant, RaftMessage], None],
) -> Callable[[Participant, RaftMessage], None]:

    def handle_from_leader(node: Participant, message: RaftMessage) -> None:
        node.election_elapsed = 0
        node.lead = message.sender
        handle(node, message)

    return handle_from_leader


HANDLERS = {
    (Role.FOLLOWER, MessageKind.APPEND): _from_leader(handle_append),
    (Role.FOLLOWER, MessageKind.HEARTBEAT): _from_leader(handle_heartbeat),
    (Role.FOLLOWER, MessageKind.SNAPSHOT): _from_leader(handle_snapshot),
    (Role.FOLLOWER, MessageKind.PROPOSE): _on_proposal,
    (Role.FOLLOWER, MessageKind.TRANSFER_LEADER): _on_transfer,
    (Role.FOLLOWER, MessageKind.READ_INDEX): _on_read_index,
    (Role.FOLLOWER, MessageKind.READ_INDEX_RESPONSE): _on_read_index_response,
    (Role.FOLLOWER, MessageKind.FORGET_LEADER): _on_forget_leader,
}
