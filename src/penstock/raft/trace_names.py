"""Names in trace lines: etcd's, so that its published traces can be compared.

Nothing else may depend on these texts.
"""

from penstock.raft.types import ConfChange, ConfChangeKind, ConfChangeTransition, MessageKind

_KINDS = {
    MessageKind.PROPOSE: "MsgProp",
    MessageKind.APPEND: "MsgApp",
    MessageKind.APPEND_RESPONSE: "MsgAppResp",
    MessageKind.VOTE: "MsgVote",
    MessageKind.VOTE_RESPONSE: "MsgVoteResp",
    MessageKind.SNAPSHOT: "MsgSnap",
    MessageKind.HEARTBEAT: "MsgHeartbeat",
    MessageKind.HEARTBEAT_RESPONSE: "MsgHeartbeatResp",
    MessageKind.TRANSFER_LEADER: "MsgTransferLeader",
    MessageKind.TIMEOUT_NOW: "MsgTimeoutNow",
    MessageKind.READ_INDEX: "MsgReadIndex",
    MessageKind.READ_INDEX_RESPONSE: "MsgReadIndexResp",
    MessageKind.PRE_VOTE: "MsgPreVote",
    MessageKind.PRE_VOTE_RESPONSE: "MsgPreVoteResp",
}
_TRANSITIONS = {
    ConfChangeTransition.AUTO: "ConfChangeTransitionAuto",
    ConfChangeTransition.JOINT_IMPLICIT: "ConfChangeTransitionJointImplicit",
    ConfChangeTransition.JOINT_EXPLICIT: "ConfChangeTransitionJointExplicit",
}
_STEPS = {
    ConfChangeKind.ADD_NODE: "ConfChangeAddNode",
    ConfChangeKind.REMOVE_NODE: "ConfChangeRemoveNode",
    ConfChangeKind.UPDATE_NODE: "ConfChangeUpdateNode",
    ConfChangeKind.ADD_LEARNER: "ConfChangeAddLearnerNode",
}


def kind_name(kind: MessageKind) -> str:
    return _KINDS.get(kind, kind.name)


def change_text(change: ConfChange) -> str:
    """A change in the text form of protocol buffers."""
    steps = (f"changes:{{type:{_STEPS[kind]} node_id:{node}}}" for kind, node in change.steps)
    return " ".join([f"transition:{_TRANSITIONS[change.transition]}", *steps])
