"""Membership changes on this node: requests, proposals, and what follows when they are applied.

The rules are in ``membership_rules``. A change may be requested on any node. One that does not lead
forwards the request to the leader until it sees it applied, or hears why not. A leader that is to
be removed transfers leadership first, and then forwards the request like any other node.
"""

from functools import partial

from penstock.cluster.consensus import DoneCallback
from penstock.cluster.frames import (
    ChangeKind,
    ChangeRefused,
    ChangeRequest,
    Frame,
    Member,
    MemberRemoved,
)
from penstock.cluster.local_node import LocalNode
from penstock.cluster.membership_rules import (
    ARRIVED,
    PROMOTE,
    MemberChange,
    MembershipView,
    PendingChanges,
    Promotions,
    conf_change_of,
    is_done,
    member_of,
    refusal,
    transfer_refusal,
    transfer_target,
)
from penstock.errors import NoQuorum, PenstockError, Refused
from penstock.obs.log import get_logger
from penstock.raft.conf_entries import decode_change
from penstock.raft.confchange import ConfChangeError
from penstock.raft.errors import ProposalDropped
from penstock.raft.raw_node import RawNode
from penstock.raft.types import NO_NODE, ConfChangeKind, NodeId, RaftEntry, Role

CHANGE_TIMEOUT_S = 20.0  # after this long a change is answered with "outcome unknown"

_log = get_logger("cluster")


class Membership:
    """The changes that this node knows of."""

    def __init__(self, node: LocalNode) -> None:
        self._node = node
        self._election_ticks = node.settings.election_ticks
        self._election_s = node.environment.election_s
        self._changes = PendingChanges(node.monotonic)
        self._promotions = Promotions(self._election_ticks)
        self._transfer: tuple[NodeId, DoneCallback, float] | None = None
        self._ticks = 0

    @property
    def is_waiting(self) -> bool:
        return not self._changes.is_idle

    @property
    def live(self) -> frozenset[NodeId]:
        node = self._node
        return node.activity.active(node.record.members, node.node_id, self._election_s)

    def _view(self) -> MembershipView:
        record = self._node.record
        return MembershipView(
            node_id=record.node_id,
            conf=record.conf,
            members=record.members,
            removed=tuple(record.removed),
            live=self.live,
            is_settled=self._node.is_leader,
            is_changing=self._changes.proposed is not None,
        )

    def request(self, kind: ChangeKind, member: Member, done: DoneCallback) -> None:
        node, change = self._node, MemberChange(kind, member)
        if node.raw is None or not node.leader:
            done(NoQuorum("no node leads the cluster", "Start more nodes, then ask again."))
            return
        if is_done(change, node.record):
            done(None)
            return
        number = self._changes.add(change, done, CHANGE_TIMEOUT_S)
        if node.leader == node.node_id:
            node.wake()
        else:
            node.send(node.leader, ChangeRequest(number, kind, member))

    def requested_by_peer(self, sender: NodeId, frame: Frame) -> None:
        """Take a request that another node forwards. It sees for itself when it is applied."""
        assert isinstance(frame, ChangeRequest)
        node, change = self._node, MemberChange(frame.kind, frame.member)
        if node.leader != node.node_id or self._changes.has(change):
            return
        if change.kind == ChangeKind.MOVE and change.member.id != sender:
            return  # only a node itself may say where it is

        def done(error: PenstockError | None) -> None:
            if error is not None:
                node.send(sender, ChangeRefused(frame.number, error.message, error.advice))

        self._changes.add(change, done, CHANGE_TIMEOUT_S)
        node.wake()

    def refused_by_leader(self, _sender: NodeId, frame: Frame) -> None:
        assert isinstance(frame, ChangeRefused)
        self._changes.answer(frame.number, Refused(frame.message, frame.advice))

    def _forward(self) -> None:
        node = self._node
        if node.leader not in {NO_NODE, node.node_id}:
            for number, change in self._changes.waiting():
                if change.kind in {PROMOTE, ARRIVED}:
                    self._changes.answer(number, Refused("another node leads now"))
                else:
                    frame = ChangeRequest(number, ChangeKind(change.kind), change.member)
                    node.send(node.leader, frame)

    def propose(self) -> bool:
        """Propose the next change if the log has no tail; return whether one was proposed."""
        raw = self._node.raw
        if raw is None or self._changes.proposed is not None or not self._changes.waiting():
            return False
        if not self._node.is_leader or raw.last_index != self._node.record.applied:
            return False
        waiting = self._changes.waiting()
        return any(self._consider(raw, number, change) for number, change in waiting)

    def _consider(self, raw: RawNode, number: int, change: MemberChange) -> bool:
        view = self._view()
        if is_done(change, self._node.record):
            self._changes.answer(number, None)
            return False
        error = refusal(change, view)
        if error is None and change.kind == ChangeKind.REMOVE and change.member.id == view.node_id:
            self._step_aside(raw, number, view)
            return False
        if error is not None:
            self._changes.answer(number, error)
            return False
        try:
            raw.propose_conf_change(conf_change_of(change))
        except ProposalDropped:
            return False  # leadership is being transferred
        self._changes.proposed = (raw.last_index, number)
        return True

    def _step_aside(self, raw: RawNode, number: int, view: MembershipView) -> None:
        """Transfer leadership before being removed: the next leader does it."""
        status = raw.status()
        if status.lead_transferee != NO_NODE:
            return
        to = transfer_target(view, status.progress)
        if to is None:
            self._changes.answer(
                number, Refused("no other voter is up to take over", "Start another node first.")
            )
        else:
            raw.transfer_leader(to)

    def hand_over(self) -> None:
        raw = self._node.raw
        if raw is not None and raw.role is Role.LEADER:
            to = transfer_target(self._view(), raw.status().progress)
            if to is not None:
                raw.transfer_leader(to)
                self._node.wake()

    def transfer(self, to: NodeId, done: DoneCallback) -> None:
        """Transfer leadership to a node; ``done`` is called when it leads, or did not take over."""
        node = self._node
        raw = node.raw
        if raw is None or not node.is_leader:
            done(Refused("this node does not lead", f"Ask the leader, node {node.leader}."))
        elif to == node.node_id:
            done(None)
        elif (error := transfer_refusal(to, self._view())) is not None:
            done(error)
        elif self._transfer is not None:
            done(Refused("leadership is being transferred already", "Try again in a moment."))
        else:
            self._transfer = (to, done, node.monotonic() + 2 * self._election_s)
            raw.transfer_leader(to)
            node.wake()

    def _end_transfer(self, error: PenstockError | None) -> None:
        if self._transfer is not None:
            _, done, _ = self._transfer
            self._transfer = None
            done(error)

    def apply(self, entry: RaftEntry) -> list[NodeId] | None:
        """Apply a committed change; return the nodes that it removes, None if it is void."""
        node = self._node
        raw, record = node.raw, node.record
        assert raw is not None
        change = decode_change(entry)
        try:
            conf = raw.apply_conf_change(change)
        except ConfChangeError as error:  # the same on all nodes
            _log.warning("member_change_void", index=entry.index, error=str(error))
            return None
        gone = [node_id for kind, node_id in change.steps if kind is ConfChangeKind.REMOVE_NODE]
        member = None if gone else member_of(change)
        record.apply_conf(conf, [member] if member else [], gone)
        if any(kind is ConfChangeKind.UPDATE_NODE for kind, _ in change.steps):
            record.arrived = sorted({*record.arrived, *(node_id for _, node_id in change.steps)})
        _log.info("members_changed", voters=conf.voters, learners=conf.learners)
        if raw.role is Role.LEADER:
            for node_id in gone:
                self.tell_removed(node_id)
        return gone

    def tell_removed(self, node_id: NodeId) -> None:
        """Tell a node, once its removal is durable here: no restart will need it then."""
        frame = MemberRemoved(self._node.record.applied)
        self._node.when_written(lambda _error: self._node.send(node_id, frame))

    def applied(self, _index: int) -> None:
        """Answer applied requests, once durable. A removed node hears it from the others."""
        record = self._node.record
        if not self._changes.is_idle and record.node_id not in record.removed:
            self._node.when_written(lambda _error: self._changes.settle(self._node.record))

    def leader_changed(self) -> None:
        node = self._node
        self._promotions.clear()
        if self._transfer is not None and node.leader == self._transfer[0]:
            self._end_transfer(None)
        if node.leader != node.node_id:
            self._changes.proposed = None
            self._forward()

    def told_removed(self) -> None:
        self._changes.end(self._node.node_id)

    def expire(self) -> None:
        self._changes.tick()

    def tick(self) -> None:
        node = self._node
        self._ticks += 1
        self._changes.tick()
        if self._transfer is not None and node.monotonic() >= self._transfer[2]:
            to = self._transfer[0]
            self._end_transfer(Refused(f"node {to} did not take over in time", "Try again."))
        if self._ticks % self._election_ticks == 0:
            self._forward()
            self._publish_address()
        if node.raw is not None and node.is_leader and self._changes.is_idle:
            self._request_as_leader(node.raw)

    def _publish_address(self) -> None:
        """Make the addresses of this node known if they have changed, or never were."""
        node, own = self._node, self._node.member
        change = MemberChange(ChangeKind.MOVE, own)
        has_moved = node.record.members.get(own.id, own) != own
        if has_moved and node.leader and not self._changes.has(change):
            self.request(ChangeKind.MOVE, own, partial(_log_outcome, change))

    def _request_as_leader(self, raw: RawNode) -> None:
        """Request what a leader requests of its own accord: promotions, and noting arrivals."""
        record = self._node.record
        ready = None
        if record.conf.learners:
            ready = self._promotions.tick(raw.last_index, raw.status().progress, self.live)
        new = [node_id for node_id in record.members if self._has_arrived(node_id)]
        for kind, node_id in [(PROMOTE, ready)] if ready else [(ARRIVED, one) for one in new[:1]]:
            change = MemberChange(kind, record.members.get(node_id, Member(node_id)))
            if refusal(change, self._view()) is None:
                self._changes.add(change, partial(_log_outcome, change), CHANGE_TIMEOUT_S)
                self._node.wake()

    def _has_arrived(self, node_id: NodeId) -> bool:
        node = self._node
        is_here = node_id == node.node_id or node.activity.heard_s(node_id) is not None
        return is_here and node_id not in node.record.arrived


def _log_outcome(change: MemberChange, error: PenstockError | None) -> None:
    node_id = change.member.id
    if error is None:
        _log.info("member", node=node_id, change=change.kind)
    else:
        _log.warning("member_not_changed", node=node_id, change=change.kind, error=error.message)
