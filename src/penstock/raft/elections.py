"""Elections: campaigns, votes, and what candidates do.

Beside votes, participants tell each other what they know to be committed (``tells_commits``), which
etcd's do not. A node votes for no candidate with a shorter log. If the node with the longest log
may not lead itself, because it was removed or does not know yet that it was promoted, nobody can
win: for good, if it is needed for a majority. That ends when the others learn of the change that it
knows of, or it of theirs. Nodes that have the same entry (index and term) have the same log up to
it, so what is committed for one is committed for the other.
"""

from collections.abc import Callable

from penstock.raft import following, replication
from penstock.raft.errors import ProposalDropped, ProposalDropReason
from penstock.raft.participant import Participant
from penstock.raft.quorum import VoteResult
from penstock.raft.trace_names import kind_name
from penstock.raft.types import NO_NODE, MessageKind, NodeId, RaftMessage, Role

BY_TRANSFER = b"CampaignTransfer"  # context of votes after a transfer: leases do not count

_RESPONSES = {
    MessageKind.VOTE: MessageKind.VOTE_RESPONSE,
    MessageKind.PRE_VOTE: MessageKind.PRE_VOTE_RESPONSE,
}


def on_hup(node: Participant, _message: RaftMessage) -> None:
    hup(node, asks_first=node.config.pre_vote)


def hup(node: Participant, *, asks_first: bool, context: bytes = b"") -> None:
    """Begin an election if that makes sense; ``asks_first``: with a pre-vote."""
    if node.role is Role.LEADER:
        node.debug("ignoring MsgHup because already leader")
        return
    if not node.is_promotable():
        node.warn("is unpromotable and can not campaign")
        return
    if _has_unapplied_change(node):
        node.warn(
            f"cannot campaign at term {node.term} since there are still "
            "pending configuration changes to apply"
        )
        return
    node.info(f"is starting a new election at term {node.term}")
    if asks_first:
        node.become_pre_candidate()
        _ask_all(node, MessageKind.PRE_VOTE, node.term + 1, b"")
    else:
        _run(node, context)


def _has_unapplied_change(node: Participant) -> bool:
    """Whether others may already use another configuration, with another quorum."""
    log = node.log
    return log.applied < log.committed and log.has_conf_change(
        log.applied + 1, log.committed, node.config.committed_bytes_per_ready_max
    )


def _run(node: Participant, context: bytes) -> None:
    node.become_candidate()
    _ask_all(node, MessageKind.VOTE, node.term, context)


def _ask_all(node: Participant, kind: MessageKind, term: int, context: bytes) -> None:
    """Ask all voters. Our own vote counts like any other: when it is durable."""
    index, log_term = node.log.last_index, node.log.last_term
    for voter in node.tracker.voter_nodes():
        if voter == node.id:
            node.after_persist.append(RaftMessage(_RESPONSES[kind], voter, node.id, term))
            continue
        node.info(
            f"[logterm: {log_term}, index: {index}] sent {kind_name(kind)} "
            f"request to {voter:x} at term {node.term}"
        )
        node.messages.append(
            RaftMessage(kind, voter, node.id, term, log_term, index, context=context)
        )
        _tell_commit(node, voter)


def on_vote(node: Participant, message: RaftMessage) -> None:
    is_real = message.kind is MessageKind.VOTE
    may_vote = (
        node.vote == message.sender  # a repetition
        or (node.vote == NO_NODE and node.lead == NO_NODE)
        or (not is_real and message.term > node.term)
    )
    if not (may_vote and node.log.is_up_to_date(message.index, message.log_term)):
        reject_vote(node, message)
        return
    node.info(_about(node, message, f"cast {kind_name(message.kind)} for"))
    # The term of the request, not ours: that of a pre-vote is one ahead, and its sender matches the
    # response by it.
    kind = _RESPONSES[message.kind]
    node.after_persist.append(RaftMessage(kind, message.sender, node.id, message.term))
    if is_real:
        node.election_elapsed = 0
        node.vote = message.sender


def reject_vote(node: Participant, message: RaftMessage) -> None:
    """Refuse a vote, with our term, so that a node that is behind learns it."""
    node.info(_about(node, message, f"rejected {kind_name(message.kind)} from"))
    kind = _RESPONSES[message.kind]
    node.after_persist.append(RaftMessage(kind, message.sender, node.id, node.term, reject=True))
    _tell_commit(node, message.sender)


def _tell_commit(node: Participant, to: NodeId) -> None:
    committed = node.log.committed
    term = node.log.term_or_zero(committed) if node.config.tells_commits else 0
    if term:
        node.messages.append(
            RaftMessage(MessageKind.COMMITTED, to, node.id, log_term=term, index=committed)
        )


def _on_committed(node: Participant, message: RaftMessage) -> None:
    """Learn what is committed. What is not in our log is ignored."""
    if message.log_term and node.log.maybe_commit(message.index, message.log_term):
        node.info(f"knows of {message.sender:x} that {message.index} is committed")


def trace_lease(node: Participant, message: RaftMessage) -> None:
    left = node.config.election_ticks - node.election_elapsed
    text = _about(node, message, f"ignored {kind_name(message.kind)} from")
    node.info(f"{text}: lease is not expired (remaining ticks: {left})")


def _about(node: Participant, message: RaftMessage, deed: str) -> str:
    return (
        f"[logterm: {node.log.last_term}, index: {node.log.last_index}, "
        f"vote: {node.vote:x}] {deed} {message.sender:x} "
        f"[logterm: {message.log_term}, index: {message.index}] at term {node.term}"
    )


def _on_vote_response(node: Participant, message: RaftMessage) -> None:
    result = _poll(node, message.kind, message.sender, granted=not message.reject)
    if result is VoteResult.WON:
        if node.role is Role.PRE_CANDIDATE:
            _run(node, b"")
        else:
            _lead(node)
    elif result is VoteResult.LOST:
        node.become_follower(node.term, NO_NODE)


def _poll(node: Participant, kind: MessageKind, sender: NodeId, *, granted: bool) -> VoteResult:
    node.tracker.record_vote(sender, granted)
    tally = node.tracker.tally_votes()
    what = kind_name(kind) if granted else f"{kind_name(kind)} rejection"
    node.info(f"received {what} from {sender:x} at term {node.term}")
    node.info(
        f"has received {tally.granted} {kind_name(kind)} votes and {tally.rejected} vote rejections"
    )
    return tally.result


def _lead(node: Participant) -> None:
    """Lead, with an empty entry: its commit also commits everything before it."""
    node.become_leader()
    replication.append_empty(node)
    node.info(f"became leader at term {node.term}")
    replication.broadcast_append(node)


def _on_proposal(node: Participant, _message: RaftMessage) -> None:
    node.info(f"no leader at term {node.term}; dropping proposal")
    raise ProposalDropped(ProposalDropReason.NO_LEADER)


def _follow_first(
    handle: Callable[[Participant, RaftMessage], None],
) -> Callable[[Participant, RaftMessage], None]:
    """Another node was elected in this term: follow it, then handle its message."""

    def handle_as_follower(node: Participant, message: RaftMessage) -> None:
        node.become_follower(message.term, message.sender)
        handle(node, message)

    return handle_as_follower


def _on_timeout_now(node: Participant, message: RaftMessage) -> None:
    state = "StatePreCandidate" if node.role is Role.PRE_CANDIDATE else "StateCandidate"
    node.debug(f"[term {node.term} state {state}] ignored MsgTimeoutNow from {message.sender:x}")


def _on_asked_to_lead(node: Participant, message: RaftMessage) -> None:
    """The leader transfers to us. We have all entries, so no pre-vote is needed."""
    node.info(
        f"[term {node.term}] received MsgTimeoutNow from {message.sender:x} "
        "and starts an election to get leadership."
    )
    hup(node, asks_first=False, context=BY_TRANSFER)


_WHILE_RUNNING = {
    MessageKind.PROPOSE: _on_proposal,
    MessageKind.APPEND: _follow_first(following.handle_append),
    MessageKind.HEARTBEAT: _follow_first(following.handle_heartbeat),
    MessageKind.SNAPSHOT: _follow_first(following.handle_snapshot),
    MessageKind.TIMEOUT_NOW: _on_timeout_now,
}
HANDLERS = {
    **{(Role.CANDIDATE, kind): handle for kind, handle in _WHILE_RUNNING.items()},
    **{(Role.PRE_CANDIDATE, kind): handle for kind, handle in _WHILE_RUNNING.items()},
    # A response to the other kind of request is stale.
    (Role.CANDIDATE, MessageKind.VOTE_RESPONSE): _on_vote_response,
    (Role.PRE_CANDIDATE, MessageKind.PRE_VOTE_RESPONSE): _on_vote_response,
    (Role.FOLLOWER, MessageKind.TIMEOUT_NOW): _on_asked_to_lead,
    **{(role, MessageKind.COMMITTED): _on_committed for role in Role if role is not Role.LEADER},
    **{(role, MessageKind.HUP): on_hup for role in Role},
    **{(role, MessageKind.VOTE): on_vote for role in Role},
    **{(role, MessageKind.PRE_VOTE): on_vote for role in Role},
}
