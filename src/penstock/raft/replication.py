"""How a leader's entries get to others, and when they are committed."""

from collections.abc import Sequence

from penstock.raft.errors import ProposalDropped, ProposalDropReason
from penstock.raft.log import data_size
from penstock.raft.participant import Participant
from penstock.raft.progress import PeerProgress, ProgressState
from penstock.raft.types import (
    Compacted,
    EntriesUnavailable,
    EntryKind,
    MessageKind,
    NodeId,
    RaftEntry,
    RaftMessage,
    SnapshotUnavailable,
)

_APPEND = MessageKind.APPEND
_HEARTBEAT = MessageKind.HEARTBEAT
_REPLICATE = ProgressState.REPLICATE


def append_empty(node: Participant) -> None:
    append_entries(node, ((b"", EntryKind.NORMAL),))


def append_entries(node: Participant, proposed: Sequence[tuple[bytes, EntryKind]]) -> None:
    """Append to our own log; our copy counts once durable. Raises ProposalDropped."""
    log, term = node.log, node.term
    _reserve(node, sum([len(data) for data, _ in proposed]))
    start = log.last_index + 1
    log.append([RaftEntry(term, at, *what) for at, what in enumerate(proposed, start)])
    node.acknowledge(node.id, log.last_index)


def _reserve(node: Participant, size: int) -> None:
    """Count bytes as uncommitted. Empty entries, and a single one of any size, always pass."""
    total = node.uncommitted_bytes + size
    if size and node.uncommitted_bytes and total > node.config.uncommitted_bytes_max:
        node.warn(
            "appending new entries to log would exceed uncommitted entry "
            "size limit; dropping proposal"
        )
        raise ProposalDropped(ProposalDropReason.UNCOMMITTED)
    node.uncommitted_bytes = total


def maybe_commit(node: Participant) -> bool:
    return node.log.maybe_commit(node.tracker.committed(), node.term)


def broadcast_append(node: Participant) -> None:
    for node_id, progress in node.peers:
        _maybe_send(node, node_id, progress, is_empty_sent=True)


def send_append(node: Participant, to: NodeId, progress: PeerProgress) -> None:
    _maybe_send(node, to, progress, is_empty_sent=True)


def send_more(node: Participant, to: NodeId, progress: PeerProgress) -> None:
    """Send a peer as many messages as the window allows, none of them empty."""
    while progress.next <= node.log.last_index and _maybe_send(
        node, to, progress, is_empty_sent=False
    ):
        pass


def send_new(node: Participant) -> None:
    for node_id, progress in node.peers:
        _maybe_send(node, node_id, progress, is_empty_sent=False)


def _maybe_send(
    node: Participant, to: NodeId, progress: PeerProgress, *, is_empty_sent: bool
) -> bool:
    """Send an append message, or a snapshot if the log is too short; False if nothing was sent.

    With a full window an empty message may still be sent: if everything in the window was lost, its
    response lets the follower go on.
    """
    if progress.is_paused():
        return False
    log = node.log
    entries: tuple[RaftEntry, ...] = ()
    try:
        term = log.term(progress.next - 1)
        if progress.state is not _REPLICATE or not progress.inflights.full():
            entries = log.entries(progress.next, node.config.bytes_per_message_max)
    except (Compacted, EntriesUnavailable):
        return _maybe_send_snapshot(node, to, progress)
    if not entries and not is_empty_sent:
        return False
    commit = log.committed
    node.messages.append(
        RaftMessage(_APPEND, to, node.id, node.term, term, progress.next - 1, entries, commit)
    )
    progress.sent_entries(len(entries), data_size(entries))
    progress.sent_commit(commit)
    return True


def _maybe_send_snapshot(node: Participant, to: NodeId, progress: PeerProgress) -> bool:
    """Send a snapshot to an active peer; False if none is available now."""
    if not progress.recent_active:
        node.trace("DEBUG", f"ignore sending snapshot to {to:x} since it is not recently active")
        return False
    try:
        snapshot = node.log.unstable.snapshot or node.log.view.snapshot()
    except SnapshotUnavailable:
        node.debug(f"failed to send snapshot to {to:x} because snapshot is temporarily unavailable")
        return False
    node.debug(
        f"[firstindex: {node.log.first_index()}, commit: {node.log.committed}] "
        f"sent snapshot[index: {snapshot.index}, term: {snapshot.term}] to {to:x} [{progress}]"
    )
    progress.become_snapshot(snapshot.index)
    node.debug(f"paused sending replication messages to {to:x} [{progress}]")
    node.messages.append(
        RaftMessage(MessageKind.SNAPSHOT, to, node.id, node.term, snapshot=snapshot)
    )
    return True


def broadcast_heartbeat(node: Participant, context: bytes) -> None:
    """Send heartbeats. The responses return the context."""
    for node_id, progress in node.peers:
        # A follower that lacks committed entries would take its log for damaged.
        commit = min(progress.match, node.log.committed)
        node.messages.append(
            RaftMessage(_HEARTBEAT, node_id, node.id, node.term, commit=commit, context=context)
        )
        progress.sent_commit(commit)
