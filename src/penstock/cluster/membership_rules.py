"""Rules of membership: one change at a time, and never one that allows two majorities or none.

The nodes that are up must be a majority, before the change and after it. A node that is to be
removed does not count: it may be shut down at any moment. Only when two voters become one must it
be up, since neither can do anything without the other. A promoted node counts: it keeps up.

A node is added as a learner, without a vote. Once it has been close behind for an election timeout,
the leader promotes it. A node is removed for good: its id is never used again, because a node that
lost its disk may have forgotten a vote. Requests are idempotent. ``refusal`` has all the rules.
"""

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple

import msgspec

from penstock.cluster.consensus import DoneCallback
from penstock.cluster.frames import ChangeKind, Member
from penstock.cluster.record import RaftRecord
from penstock.errors import ClusterError, PenstockError, Refused
from penstock.limits import MEMBERS_MAX, NODE_ID_MAX
from penstock.raft.raw_node import PeerStatus
from penstock.raft.types import ConfChange, ConfChangeKind, ConfState, NodeId

CAUGHT_UP_ENTRIES = 8  # a learner that lacks no more, for an election timeout, becomes a voter

PAIR = 2  # two voters: neither is a majority without the other

PROMOTE = "promote"
ARRIVED = "arrived"  # changes that only a leader requests, of itself

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
    """What a leader knows when a change is requested."""

    node_id: NodeId
    conf: ConfState
    members: Mapping[NodeId, Member]
    removed: tuple[NodeId, ...]
    live: frozenset[NodeId]  # heard from within an election timeout; includes the leader
    is_settled: bool  # an entry of the leader's own term is committed and applied
    is_changing: bool  # another change is not applied yet


class MemberChange(NamedTuple):
    """A requested change."""

    kind: str
    member: Member


def is_done(change: MemberChange, record: RaftRecord) -> bool:
    node_id, conf = change.member.id, record.conf
    is_member = node_id in conf.voters or node_id in conf.learners
    if change.kind == ChangeKind.REMOVE:
        return not is_member
    if change.kind == PROMOTE:
        return node_id in conf.voters
    if change.kind == ARRIVED:
        return node_id in record.arrived or not is_member
    is_known = record.members.get(node_id) == change.member
    return not is_member or is_known if change.kind == ChangeKind.MOVE else is_member and is_known


def refusal(change: MemberChange, view: MembershipView) -> Refused | None:
    """Why the leader refuses a change now; None if it may be made."""
    if not view.is_settled:
        return Refused(
            "the leader was just elected and has not committed anything yet",
            "Try again in a moment.",
        )
    if view.is_changing:
        return Refused("another change of the members is under way", "Try again when it is done.")
    if change.kind == ChangeKind.ADD:
        return _add_refusal(change.member, view)
    if change.kind == ChangeKind.MOVE and change.member.id not in view.members:
        return Refused(f"node {change.member.id} is not part of the cluster", "Let it join.")
    if change.kind in {ARRIVED, ChangeKind.MOVE}:
        return None
    return _quorum_refusal(change, view)


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


def _quorum_refusal(change: MemberChange, view: MembershipView) -> Refused | None:
    """Refuse what would leave no quorum of live voters, or could get stuck halfway."""
    node, before = change.member.id, frozenset(view.conf.voters)
    after = before | {node} if change.kind == PROMOTE else before - {node}
    if not after:
        return Refused("the last voter cannot be removed", "Stop the broker instead.")
    is_needed = change.kind == PROMOTE or len(before) == PAIR
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
    if to not in view.conf.voters:
        voters = ", ".join(map(str, view.conf.voters))
        return Refused(f"node {to} has no vote, so it cannot lead", f"Choose one of {voters}.")
    if to not in view.live:
        return Refused(f"node {to} is not reachable", "Start it first, or choose another one.")
    return None


def transfer_target(view: MembershipView, progress: Mapping[NodeId, PeerStatus]) -> NodeId | None:
    """The node to take over from the leader: the live voter that has the most of the log."""
    others = [node for node in view.conf.voters if node != view.node_id and node in view.live]
    return max(others, key=lambda node: (progress[node].match, -node), default=None)


def conf_change_of(change: MemberChange) -> ConfChange:
    step = (_STEPS[change.kind], change.member.id)
    return ConfChange((step,), context=_encode(change.member))


def member_of(change: ConfChange) -> Member | None:
    try:
        return _decoder.decode(change.context) if change.context else None
    except msgspec.MsgspecError:
        return None


class Promotions:
    """For how long each learner has been close behind."""

    def __init__(self, ticks_needed: int) -> None:
        self._ticks_needed = ticks_needed
        self._ticks: dict[NodeId, int] = {}

    def tick(
        self, last_index: int, progress: Mapping[NodeId, PeerStatus], live: AbstractSet[NodeId]
    ) -> NodeId | None:
        """Return a learner that is ready to be promoted, if there is one.

        ``live`` tells whether it is up: the core resets its own flag with each quorum check.
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
        self._ticks.clear()


class _PendingChange(NamedTuple):
    change: MemberChange
    done: DoneCallback
    deadline: float


class PendingChanges:
    """Requests, made here or forwarded by a follower, until they are applied."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._wanted: dict[int, _PendingChange] = {}
        self._number = 0
        self.proposed: tuple[int, int] | None = None  # index and number of the one in the log

    def add(self, change: MemberChange, done: DoneCallback, patience_s: float) -> int:
        """Add a request; ``done`` is called when it is applied, refused, or too late."""
        self._number += 1
        self._wanted[self._number] = _PendingChange(change, done, self._clock() + patience_s)
        return self._number

    @property
    def is_idle(self) -> bool:
        return not self._wanted and self.proposed is None

    def has(self, change: MemberChange) -> bool:
        return any(wanted.change == change for wanted in self._wanted.values())

    def waiting(self) -> list[tuple[int, MemberChange]]:
        proposed = self.proposed[1] if self.proposed else 0
        return [(n, wanted.change) for n, wanted in self._wanted.items() if n != proposed]

    def settle(self, record: RaftRecord) -> None:
        """Answer requests that are done, or were not made although their entry was applied."""
        for number, wanted in list(self._wanted.items()):
            if is_done(wanted.change, record):
                self.answer(number, None)
        if self.proposed is not None and record.applied >= self.proposed[0]:
            number = self.proposed[1]
            self.proposed = None
            self.answer(number, Refused("the change was not made", "Ask again."))

    def answer(self, number: int, error: PenstockError | None) -> None:
        wanted = self._wanted.pop(number, None)
        if wanted is not None:
            wanted.done(error)

    def end(self, node_id: NodeId) -> None:
        """Answer all: this node was removed, and sees no more changes."""
        for number, wanted in list(self._wanted.items()):
            is_own_removal = wanted.change == MemberChange(ChangeKind.REMOVE, Member(node_id))
            error = Refused("this node was removed from the cluster", "Ask another node.")
            self.answer(number, None if is_own_removal else error)

    def tick(self) -> None:
        """Give up on what took too long; it may still happen."""
        now = self._clock()
        for number, wanted in list(self._wanted.items()):
            if now >= wanted.deadline:
                message = (
                    f"the change of node {wanted.change.member.id} took too long: outcome unknown"
                )
                self.answer(number, ClusterError(message, "Look at penstock cluster status."))
