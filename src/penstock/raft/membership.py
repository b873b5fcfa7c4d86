"""Applying configuration changes."""

from penstock.raft import confchange, replication
from penstock.raft.conf_entries import joint_auto_leave
from penstock.raft.confchange import Changed, Changer
from penstock.raft.participant import Participant
from penstock.raft.tracker import Tracker
from penstock.raft.types import NO_NODE, ConfChange, ConfState, Role


def apply_change(node: Participant, change: ConfChange) -> ConfState:
    """Switch to the next configuration. Raises ConfChangeError."""
    return _switch(node, plan(node, change))


def plan(node: Participant, change: ConfChange) -> Changed:
    """The outcome of a change. Raises ConfChangeError."""
    changer = Changer(node.tracker, node.log.last_index)
    auto_leave = joint_auto_leave(change)
    if not change.steps:
        return changer.leave_joint()
    if auto_leave is None:
        return changer.simple(change.steps)
    return changer.enter_joint(auto_leave, change.steps)


def restore(node: Participant, state: ConfState) -> None:
    config = node.config
    node.tracker = Tracker(config.inflight_messages_max, config.inflight_bytes_max)
    _switch(node, confchange.restore(Changer(node.tracker, node.log.last_index), state))


def _switch(node: Participant, made: Changed) -> ConfState:
    tracker = node.tracker
    tracker.config, tracker.progress = made
    node.note_peers()
    node.info(f"switched to configuration {tracker.config}")
    state = tracker.conf_state()
    if node.role is not Role.LEADER:
        return state
    own = tracker.progress.get(node.id)
    if own is None or own.is_learner:
        # A leader without a vote may go on until the others know, but not for long.
        if node.config.steps_down_on_removal:
            node.become_follower(node.term, NO_NODE)
    elif state.voters:
        _go_on_leading(node)
    return state


def _go_on_leading(node: Participant) -> None:
    """Commit what a smaller quorum has, and send to new nodes at once."""
    if replication.maybe_commit(node):
        replication.broadcast_append(node)
    else:
        replication.send_new(node)
    if node.lead_transferee not in node.tracker.config.voters:
        node.lead_transferee = NO_NODE
