"""Who takes part: one change at a time, and never one that could end in two majorities or none.

Whatever is changed, those who are up must be a majority, before the change and after it. One that
is to be removed is not counted: it may be shut down at any moment. Only if two voters become one it
must be up itself, since neither can do anything without the other. One that is promoted is counted,
for it has shown that it keeps up; that is how a node replaces one that is dead.

A node is added as a learner: it gets everything and has no say. Once it has been close behind for
an election timeout it is promoted, by whoever leads then; nobody has to ask for it. A node is
removed for good: its id is never given again, because a node that lost its disk may have forgotten
a vote. What is asked for twice is done once.

``refusal`` has all the rules and is pure. ``PendingChanges`` keeps requests until they
are applied.
"""

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple

import msgspec

from penstock.cluster.frames import ChangeKind, Member
from penstock.cluster.reads import DoneCallback
from penstock.cluster.record import RaftRecord
from penstock.errors import ClusterError, PenstockError, Refused
from penstock.limits import MEMBERS_MAX, NODE_ID_MAX
from penstock.raft.raw_node import PeerStatus
from penstock.raft.types import ConfChange, ConfChangeKind, ConfState, NodeId

CAUGHT_UP_ENTRIES = 8
"""A learner that lacks no more than this, for an election timeout, is ready to have a say. The
leader writes one entry after another, so a node that keeps up lacks one or two."""

PAIR = 2
"""Voters of whom neither is a majority without the other."""

PROMOTE = "promote"
ARRIVED = "arrived"
"""What a leader asks of itself; not to be asked for."""

_STEPS = {
    ChangeKind.ADD: ConfChangeKind.ADD_LEARNER,
    ChangeKind.REMOVE: ConfChangeKind.REMOVE_NODE,
    PROMOTE: ConfChangeKind.ADD_NODE,
    ARRIVED: ConfChangeKind.UPDATE_NODE,
    ChangeKind.MOVE: ConfChangeKind.UPDATE_NODE,
}

_encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(Member)


class MembershipView(NamedTuple):
    """What a leader knows when it is asked for a change."""

    node_id: NodeId
    conf: ConfState
    members: Mapping[NodeId, Member]
    removed: tuple[NodeId, ...]
    live: frozenset[NodeId]
    """Nodes heard of within an election timeout, the leader among them."""
    is_settled: bool
    """Whether an entry of the leader's own term is committed and applied."""
    is_changing: bool
    """Whether another change is not applied yet."""


class MemberChange(NamedTuple):
    """A change that somebody wants."""

    kind: str
    member: Member


def is_done(asked: MemberChange, record: RaftRecord) -> bool:
    """Whether there is nothing left to do."""
    node_id, conf = asked.member.id, record.conf
    is_member = node_id in conf.voters or node_id in conf.learners
    if asked.kind == ChangeKind.REMOVE:
        return not is_member
    if asked.kind == PROMOTE:
        return node_id in conf.voters
    if asked.kind == ARRIVED:
        return node_id in record.arrived or not is_member
    is_known = record.members.get(node_id) == asked.member
    return not is_member or is_known if asked.kind == ChangeKind.MOVE else is_member and is_known


def refusal(asked: MemberChange, view: MembershipView) -> Refused | None:
    """Why the leader will not make a change now; None if it may."""
    if not view.is_settled:
        return Refused(
            "the leader has just been elected and has not committed anything yet",
            "Try again in a moment.",
        )
    if view.is_changing:
        return Refused("another change of the members is under way", "Try again when it is done.")
    if asked.kind == ChangeKind.ADD:
        return _add_refusal(asked.member, view)
    if asked.kind == ChangeKind.MOVE and asked.member.id not in view.members:
        return Refused(f"node {asked.member.id} is not part of the cluster", "Let it join.")
    if asked.kind in {ARRIVED, ChangeKind.MOVE}:
        return None
    return _quorum_refusal(asked, view)


def _add_refusal(member: Member, view: MembershipView) -> Refused | None:
    known = view.members.get(member.id)
    if not 0 < member.id <= NODE_ID_MAX:
        return Refused(f"{member.id} is no node id", f"Choose one from 1 to {NODE_ID_MAX}.")
    if member.id in view.removed:
        return Refused(
            f"node {member.id} was removed, and an id is given once only",
            "Start the node with an empty data directory and another node_id.",
        )
    if known is not None and known != member:
        return Refused(
            f"node {member.id} is in the cluster, at {known.peer_addr}",
            "Give the new node another node_id, or remove the other one first.",
        )
    if len(view.members) >= MEMBERS_MAX:
        return Refused(f"a cluster has {MEMBERS_MAX} nodes at most", "Remove one first.")
    return None


def _quorum_refusal(asked: MemberChange, view: MembershipView) -> Refused | None:
    """Refuse what would leave too few of those who are up, or could be left half done."""
    node, before = asked.member.id, frozenset(view.conf.voters)
    after = before | {node} if asked.kind == PROMOTE else before - {node}
    if not after:
        return Refused("the last voter cannot be removed", "Stop the broker instead.")
    is_needed = asked.kind == PROMOTE or len(before) == PAIR
    rest = view.live if is_needed else view.live - {node}
    for voters in (before, after):
        live = voters & rest
        if len(live) <= len(voters) // 2:
            return Refused(
                f"only {len(live)} of {len(voters)} voters are up{_without(node, voters)}: no"
                " quorum",
                "Start the others first; remove those that will not come back.",
            )
    return None


def _without(node: NodeId, voters: AbstractSet[NodeId]) -> str:
    return f" without node {node}" if node in voters else ""


def transfer_refusal(to: NodeId, view: MembershipView) -> Refused | None:
    """Why leadership cannot be handed to a node; None if it can be tried."""
    if to not in view.conf.voters:
        voters = ", ".join(map(str, view.conf.voters))
        return Refused(f"node {to} has no vote, so it cannot lead", f"Choose one of {voters}.")
    if to not in view.live:
        return Refused(f"node {to} is not reachable", "Start it first, or choose another one.")
    return None


def heir(view: MembershipView, progress: Mapping[NodeId, PeerStatus]) -> NodeId | None:
    """Who should lead if the leader goes: of those that are up, the one with the most."""
    others = [node for node in view.conf.voters if node != view.node_id and node in view.live]
    return max(others, key=lambda node: (progress[node].match, -node), default=None)


def change_of(asked: MemberChange) -> ConfChange:
    """The entry that makes a change; where the node is found travels with it."""
    step = (_STEPS[asked.kind], asked.member.id)
    return ConfChange((step,), context=_encode(asked.member))


def member_of(change: ConfChange) -> Member | None:
    """Where a node is found that a change adds."""
    try:
        return _decoder.decode(change.context) if change.context else None
    except msgspec.MsgspecError:
        return None


class Promotions:
    """Counts for how long each learner has been close behind."""

    def __init__(self, ticks_needed: int) -> None:
        self._ticks_needed = ticks_needed
        self._ticks: dict[NodeId, int] = {}

    def tick(
        self, last_index: int, progress: Mapping[NodeId, PeerStatus], live: AbstractSet[NodeId]
    ) -> NodeId | None:
        """A moment has passed; return a learner that is ready, if there is one.

        Whether it is up is asked of ``live``: the core forgets it whenever it counts its quorum.
        """
        near = {
            node: self._ticks.get(node, 0) + 1
            for node, peer in progress.items()
            if peer.is_learner
            and node in live
            and last_index - peer.match <= CAUGHT_UP_ENTRIES
            and peer.match
        }
        self._ticks = near
        ready = [node for node, ticks in near.items() if ticks >= self._ticks_needed]
        return min(ready, default=None)

    def clear(self) -> None:
        """Begin anew: this node does not lead, or has led for a moment only."""
        self._ticks.clear()


class _PendingChange(NamedTuple):
    asked: MemberChange
    then: DoneCallback
    deadline: float


class PendingChanges:
    """What was asked for, here or of a follower that passes it on, until it is applied."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._wanted: dict[int, _PendingChange] = {}
        self._number = 0
        self.proposed: tuple[int, int] | None = None
        """Index and number of the change that is in the log and not applied."""

    def add(self, asked: MemberChange, then: DoneCallback, patience_s: float) -> int:
        """Remember a change; ``then`` is told when it is applied, refused, or too late."""
        self._number += 1
        self._wanted[self._number] = _PendingChange(asked, then, self._clock() + patience_s)
        return self._number

    @property
    def is_idle(self) -> bool:
        """Whether nobody waits for anything."""
        return not self._wanted and self.proposed is None

    def has(self, asked: MemberChange) -> bool:
        """Whether the same was asked for already."""
        return any(wanted.asked == asked for wanted in self._wanted.values())

    def waiting(self) -> list[tuple[int, MemberChange]]:
        """Those that are not in the log, in order."""
        proposed = self.proposed[1] if self.proposed else 0
        return [(n, wanted.asked) for n, wanted in self._wanted.items() if n != proposed]

    def settle(self, record: RaftRecord) -> None:
        """Tell those whose change is done, or was not made though its entry was applied."""
        for number, wanted in list(self._wanted.items()):
            if is_done(wanted.asked, record):
                self.answer(number, None)
        if self.proposed is not None and record.folded >= self.proposed[0]:
            number = self.proposed[1]
            self.proposed = None
            self.answer(number, Refused("the change was not made", "Ask again."))

    def answer(self, number: int, error: PenstockError | None) -> None:
        """Tell who asked, if nobody has yet."""
        wanted = self._wanted.pop(number, None)
        if wanted is not None:
            wanted.then(error)

    def end(self, node_id: NodeId) -> None:
        """Answer all: this node was removed, and sees no more of what is changed."""
        for number, wanted in list(self._wanted.items()):
            is_it = wanted.asked == MemberChange(ChangeKind.REMOVE, Member(node_id))
            error = Refused("this node was removed from the cluster", "Ask another node.")
            self.answer(number, None if is_it else error)

    def tick(self) -> None:
        """Give up what took too long; it may still happen."""
        now = self._clock()
        for number, wanted in list(self._wanted.items()):
            if now >= wanted.deadline:
                message = f"it is not known yet whether node {wanted.asked.member.id} was changed"
                self.answer(number, ClusterError(message, "Look at penstock cluster status."))
