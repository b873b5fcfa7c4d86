"""Entries, messages and a ``Ready`` as etcd prints them; etcd's names live here and nowhere else."""

import json
from collections.abc import Iterable, Iterator, Sequence

from penstock.raft.conf_entries import decode_change
from penstock.raft.ready import Ready
from penstock.raft.types import (
    ConfChangeKind,
    EntryKind,
    HardState,
    MessageKind,
    RaftEntry,
    RaftMessage,
    ReadState,
    Role,
    SnapshotMeta,
)

ROLES = {
    Role.FOLLOWER: "StateFollower",
    Role.CANDIDATE: "StateCandidate",
    Role.LEADER: "StateLeader",
    Role.PRE_CANDIDATE: "StatePreCandidate",
}
ENTRIES = {
    EntryKind.NORMAL: "EntryNormal",
    EntryKind.CONF_CHANGE: "EntryConfChange",
    EntryKind.CONF_CHANGE_V2: "EntryConfChangeV2",
}
MESSAGES = {
    MessageKind.HUP: "MsgHup",
    MessageKind.BEAT: "MsgBeat",
    MessageKind.PROPOSE: "MsgProp",
    MessageKind.APPEND: "MsgApp",
    MessageKind.APPEND_RESPONSE: "MsgAppResp",
    MessageKind.VOTE: "MsgVote",
    MessageKind.VOTE_RESPONSE: "MsgVoteResp",
    MessageKind.SNAPSHOT: "MsgSnap",
    MessageKind.HEARTBEAT: "MsgHeartbeat",
    MessageKind.HEARTBEAT_RESPONSE: "MsgHeartbeatResp",
    MessageKind.UNREACHABLE: "MsgUnreachable",
    MessageKind.SNAPSHOT_STATUS: "MsgSnapStatus",
    MessageKind.CHECK_QUORUM: "MsgCheckQuorum",
    MessageKind.TRANSFER_LEADER: "MsgTransferLeader",
    MessageKind.TIMEOUT_NOW: "MsgTimeoutNow",
    MessageKind.READ_INDEX: "MsgReadIndex",
    MessageKind.READ_INDEX_RESPONSE: "MsgReadIndexResp",
    MessageKind.PRE_VOTE: "MsgPreVote",
    MessageKind.PRE_VOTE_RESPONSE: "MsgPreVoteResp",
    MessageKind.FORGET_LEADER: "MsgForgetLeader",
}
STEPS = {
    ConfChangeKind.ADD_NODE: "v",
    ConfChangeKind.ADD_LEARNER: "l",
    ConfChangeKind.REMOVE_NODE: "r",
    ConfChangeKind.UPDATE_NODE: "u",
}


def entry(found: RaftEntry) -> str:
    """``term/index kind data``; of a change of the configuration its steps, if there are any."""
    return f"{found.term}/{found.index} {ENTRIES[found.kind]} {_data(found)}".rstrip()


def _data(found: RaftEntry) -> str:
    if found.kind is EntryKind.NORMAL:
        return json.dumps(found.data.decode())
    return " ".join(f"{STEPS[kind]}{node}" for kind, node in decode_change(found).steps)


def snapshot(meta: SnapshotMeta) -> str:
    conf = meta.conf_state
    return (
        f"Index:{meta.index} Term:{meta.term} ConfState:Voters:{_ids(conf.voters)}"
        f" VotersOutgoing:{_ids(conf.voters_outgoing)} Learners:{_ids(conf.learners)}"
        f" LearnersNext:{_ids(conf.learners_next)} AutoLeave:{_bool(conf.auto_leave)}"
    )


def _ids(nodes: Iterable[int]) -> str:
    return f"[{' '.join(map(str, nodes))}]"


def _bool(flag: bool) -> str:
    return str(flag).lower()


def hard_state(state: HardState) -> str:
    vote = f" Vote:{state.vote}" if state.vote else ""
    return f"Term:{state.term}{vote} Commit:{state.commit}"


def message(sent: RaftMessage) -> str:
    entries = sent.entries
    if sent.kind in (MessageKind.READ_INDEX, MessageKind.READ_INDEX_RESPONSE):
        entries = (RaftEntry(0, 0, sent.context),)  # etcd has the context of a read in an entry
    reject = f" Rejected (Hint: {sent.reject_hint})" if sent.reject else ""
    return (
        f"{sent.sender}->{sent.to} {MESSAGES[sent.kind]} Term:{sent.term}"
        f" Log:{sent.log_term}/{sent.index}{reject}"
        + payload(sent.commit, sent.vote, entries, sent.snapshot)
    )


def payload(
    commit: int, vote: int, entries: Sequence[RaftEntry], installed: SnapshotMeta | None
) -> str:
    """The rest of a message: whatever is empty is left out."""
    return (
        (f" Commit:{commit}" if commit else "")
        + (f" Vote:{vote}" if vote else "")
        + _entries_inline(entries)
        + (f"\n  Snapshot: {snapshot(installed)}" if installed and installed.index else "")
    )


def _entries_inline(entries: Sequence[RaftEntry]) -> str:
    if not entries:
        return ""
    if len(entries) == 1:
        return f" Entries:[{entry(entries[0])}]"
    return " Entries:[" + "".join(f"\n  {entry(found)}" for found in entries) + "\n]"


def ready(batch: Ready, messages: Sequence[str]) -> str:
    """A whole batch. The messages come as text: which belong here depends on who writes."""
    parts = list(_ready_parts(batch))
    if messages:
        parts += ["Messages:", *messages]
    if not parts:
        return "<empty Ready>"
    return "\n".join([f"Ready MustSync={_bool(batch.must_sync)}:", *parts])


def _ready_parts(batch: Ready) -> Iterator[str]:
    if batch.soft_state is not None:
        lead, role = batch.soft_state
        yield f"Lead:{lead} State:{ROLES[role]}"
    if batch.hard_state is not None:
        yield f"HardState {hard_state(batch.hard_state)}"
    if batch.read_states:
        yield f"ReadStates [{' '.join(map(_read_state, batch.read_states))}]"
    if batch.entries:
        yield from ("Entries:", *map(entry, batch.entries))
    if batch.snapshot is not None:
        yield f"Snapshot {snapshot(batch.snapshot)}"
    if batch.committed:
        yield from ("CommittedEntries:", *map(entry, batch.committed))


def _read_state(state: ReadState) -> str:
    return f"{{{state.index} {_ids(state.context)}}}"
