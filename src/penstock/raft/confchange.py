"""How a configuration becomes the next one.

Any two majorities of configurations that differ by one voter overlap, so such a change is
**simple**: it takes effect at once. Any other change goes through a **joint** configuration, in
which both the old and the new majority must agree, and which a second change leaves.

A change is made on a draft and returns a new configuration with the progress of all its members.
The tracker is not touched, so a refused change leaves no trace.
"""

from collections.abc import Iterable
from copy import copy
from typing import assert_never

from penstock.raft.progress import PeerProgress
from penstock.raft.quorum import JointConfig, MajorityConfig
from penstock.raft.tracker import ProgressMap, Tracker, TrackerConfig
from penstock.raft.types import NO_NODE, ConfChangeKind, ConfState, NodeId

Steps = Iterable[tuple[ConfChangeKind, NodeId]]
Changed = tuple[TrackerConfig, ProgressMap]


class ConfChangeError(Exception):
    """The change is not possible."""


class Changer:
    """Makes the next configuration of a tracker. New members are probed from ``last_index``."""

    def __init__(self, tracker: Tracker, last_index: int) -> None:
        self._tracker = tracker
        self._last_index = last_index

    def enter_joint(self, auto_leave: bool, steps: Steps) -> Changed:
        """Make the steps; the current majority must agree until the joint configuration is left."""
        draft = _Draft(self._tracker, self._last_index)
        if draft.outgoing:
            raise ConfChangeError("config is already joint")
        if not draft.incoming:
            # Only a node that is being set up has no voters: there is no majority to join.
            raise ConfChangeError("can't make a zero-voter config joint")
        draft.outgoing = set(draft.incoming)
        draft.auto_leave = auto_leave
        draft.apply(steps)
        return draft.finish()

    def leave_joint(self) -> Changed:
        draft = _Draft(self._tracker, self._last_index)
        if not draft.outgoing:
            raise ConfChangeError("can't leave a non-joint config")
        draft.leave()
        return draft.finish()

    def simple(self, steps: Steps) -> Changed:
        """Make steps that change at most one voter, and any number of learners."""
        draft = _Draft(self._tracker, self._last_index)
        if draft.outgoing:
            raise ConfChangeError("can't apply simple config change in joint config")
        draft.apply(steps)
        if len(draft.incoming ^ self._tracker.config.voters.incoming) > 1:
            raise ConfChangeError("more than one voter changed without entering joint config")
        return draft.finish()


def restore(changer: Changer, conf_state: ConfState) -> Changed:
    """Make a stored configuration by the steps that lead to it; refuse it if none do."""
    made = _made(changer, conf_state)
    if made[0].conf_state() != _in_order(conf_state):
        raise ConfChangeError(f"no changes lead to {conf_state}")
    return made


def _in_order(written: ConfState) -> ConfState:
    return ConfState(
        voters=tuple(sorted(written.voters)),
        learners=tuple(sorted(written.learners)),
        voters_outgoing=tuple(sorted(written.voters_outgoing)),
        learners_next=tuple(sorted(written.learners_next)),
        auto_leave=written.auto_leave,
    )


def _made(changer: Changer, conf_state: ConfState) -> Changed:
    add, learn = ConfChangeKind.ADD_NODE, ConfChangeKind.ADD_LEARNER
    voters = [(add, voter) for voter in conf_state.voters]
    learners = [(learn, node) for node in (*conf_state.learners, *conf_state.learners_next)]
    if not conf_state.voters_outgoing:
        return _one_by_one(changer, [*voters, *learners])
    outgoing = conf_state.voters_outgoing
    before = _one_by_one(changer, [(add, voter) for voter in outgoing])
    leaving = [(ConfChangeKind.REMOVE_NODE, voter) for voter in outgoing]
    return _upon(changer, before).enter_joint(conf_state.auto_leave, [*leaving, *voters, *learners])


def _one_by_one(changer: Changer, steps: Steps) -> Changed:
    made: Changed = (TrackerConfig(), {})
    for step in steps:
        made = _upon(changer, made).simple([step])
    return made


def _upon(changer: Changer, made: Changed) -> Changer:
    """A changer for what was made so far, with the same limits."""
    limits = changer._tracker  # noqa: SLF001 - of this module
    tracker = Tracker(limits.inflight_messages_max, limits.inflight_bytes_max)
    tracker.config, tracker.progress = made
    return Changer(tracker, changer._last_index)  # noqa: SLF001


class _Draft:
    """A configuration in the making, with copies of all progress."""

    def __init__(self, tracker: Tracker, last_index: int) -> None:
        config = tracker.config
        self.incoming = set(config.voters.incoming)
        self.outgoing = set(config.voters.outgoing)
        self.learners = set(config.learners)
        self.learners_next = set(config.learners_next)
        self.auto_leave = config.auto_leave
        self.progress = {node_id: copy(pr) for node_id, pr in tracker.progress.items()}
        self._tracker = tracker
        self._last_index = last_index
        self._check()

    def apply(self, steps: Steps) -> None:
        """Make the steps in order. Node 0 marks a step that was struck out."""
        for kind, node_id in steps:
            if node_id != NO_NODE:
                self._step(kind, node_id)
        if not self.incoming:
            raise ConfChangeError("removed all voters")

    def _step(self, kind: ConfChangeKind, node_id: NodeId) -> None:
        match kind:
            case ConfChangeKind.ADD_NODE:
                self._make_voter(node_id)
            case ConfChangeKind.ADD_LEARNER:
                self._make_learner(node_id)
            case ConfChangeKind.REMOVE_NODE:
                self._remove(node_id)
            case ConfChangeKind.UPDATE_NODE:
                pass  # its context is for the driver, not for the core
            case _:
                assert_never(kind)

    def leave(self) -> None:
        for node_id in self.learners_next:
            self.progress[node_id].is_learner = True
        self.learners |= self.learners_next
        for node_id in self.outgoing - self.incoming - self.learners:
            del self.progress[node_id]
        self.learners_next = set()
        self.outgoing = set()
        self.auto_leave = False

    def finish(self) -> Changed:
        self._check()
        voters = JointConfig(MajorityConfig(self.incoming), MajorityConfig(self.outgoing))
        learners, learners_next = frozenset(self.learners), frozenset(self.learners_next)
        return TrackerConfig(voters, self.auto_leave, learners, learners_next), self.progress

    def _make_voter(self, node_id: NodeId) -> None:
        self._known(node_id).is_learner = False
        self.learners.discard(node_id)
        self.learners_next.discard(node_id)
        self.incoming.add(node_id)

    def _make_learner(self, node_id: NodeId) -> None:
        progress = self._known(node_id)
        self.incoming.discard(node_id)
        if node_id in self.outgoing:
            # It keeps its vote until the joint configuration is left, and is a learner then.
            self.learners_next.add(node_id)
        else:
            progress.is_learner = True
            self.learners.add(node_id)

    def _remove(self, node_id: NodeId) -> None:
        for group in (self.incoming, self.learners, self.learners_next):
            group.discard(node_id)
        if node_id not in self.outgoing:
            self.progress.pop(node_id, None)

    def _known(self, node_id: NodeId) -> PeerProgress:
        """The progress of a node. A new one counts as active, or a quorum check deposes us."""
        if node_id not in self.progress:
            start = max(self._last_index, 1)
            self.progress[node_id] = PeerProgress(
                next=start, inflights=self._tracker.new_inflights(), recent_active=True
            )
        return self.progress[node_id]

    def _check(self) -> None:
        voters = self.incoming | self.outgoing
        members = voters | self.learners | self.learners_next
        flagged = {node_id for node_id, pr in self.progress.items() if pr.is_learner}
        self._must(members == self.progress.keys(), "progress and members differ")
        self._must(flagged == self.learners, "progress and learners differ")
        self._must(not self.learners & voters, "a learner is a voter")
        # A future learner votes in the outgoing half only.
        waiting = self.outgoing - self.incoming
        self._must(self.learners_next <= waiting, "a future learner is not an outgoing voter")
        self._must(
            bool(self.outgoing) or not self.auto_leave, "auto_leave without a joint configuration"
        )

    def _must(self, holds: bool, fault: str) -> None:
        if not holds:
            raise ConfChangeError(f"the configuration contradicts itself: {fault}")
