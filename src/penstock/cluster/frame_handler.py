"""What a node does with the frames of other nodes, and what it sends to all of them."""

from collections.abc import Callable, Sequence

from penstock.cluster.applier import LogApplier
from penstock.cluster.asking import Asking
from penstock.cluster.bootstrap import Bootstrap
from penstock.cluster.frames import (
    Answer,
    Blank,
    ChangeRefused,
    ChangeRequest,
    Forward,
    ForwardRefused,
    Frame,
    LiveMessages,
    MemberRemoved,
    Question,
    RaftFrame,
)
from penstock.cluster.local_node import LocalNode
from penstock.cluster.membership import Membership
from penstock.cluster.proposals import Proposals
from penstock.model.message import Extras
from penstock.raft.types import MessageKind, NodeId

_NO_EXTRAS = Extras()


class FrameHandler:
    """The ``FrameReceiver`` of a transport."""

    def __init__(
        self,
        node: LocalNode,
        applier: LogApplier,
        proposals: Proposals,
        membership: Membership,
        bootstrap: Bootstrap,
        asking: Asking,
    ) -> None:
        self._node = node
        self._hooks = node.environment.hooks
        self._applier = applier
        self._proposals = proposals
        self._membership = membership
        self._bootstrap = bootstrap
        self._asking = asking
        self._handlers: dict[type, Callable[[NodeId, Frame], None]] = {
            RaftFrame: self._step,
            Forward: proposals.forwarded,
            ForwardRefused: proposals.forward_refused,
            LiveMessages: self._deliver_live,
            ChangeRequest: membership.requested_by_peer,
            ChangeRefused: membership.refused_by_leader,
            MemberRemoved: self._told_removed,
            Question: asking.asked,
            Answer: asking.answered,
        }

    def received(self, sender: NodeId, frame: Frame) -> None:
        node = self._node
        if node.is_closed:
            return
        if node.is_removed:
            self._received_while_removed(sender, frame)
            return
        if node.raw is None:
            self._bootstrap.received(sender, frame)
            return
        if isinstance(frame, Blank):  # it is up, but does not take part
            self._bootstrap.found_blank(sender)
            return
        node.activity.heard(sender)
        if sender in node.record.removed:
            self._membership.tell_removed(sender)
            node.wake()
            return
        handle = self._handlers.get(type(frame))
        if handle is not None:  # else it is for nodes that are in no cluster
            handle(sender, frame)

    def _received_while_removed(self, sender: NodeId, frame: Frame) -> None:
        """Go on voting and telling commits: nodes that know of no removal count this one."""
        if isinstance(frame, MemberRemoved):
            self._told_removed(sender, frame)
        elif isinstance(frame, RaftFrame) and sender not in self._node.record.removed:
            self._step(sender, frame)

    def _step(self, sender: NodeId, frame: Frame) -> None:
        assert isinstance(frame, RaftFrame)
        node = self._node
        message, raw = frame.message, node.raw
        is_ours = (message.sender, message.to) == (sender, node.node_id)
        if raw is None or not is_ours or message.kind is MessageKind.SNAPSHOT:
            return  # a snapshot has a connection of its own, and this node restarts with it
        if node.is_lone:
            return  # no other node has a vote
        node.engine.guarded(lambda: raw.step(message))
        if sender == raw.lead:
            self._proposals.leader_takes(message.kind, frame.forwards)
            if frame.now_ms:
                self._hooks.set_time(frame.now_ms)
        node.wake()

    def _deliver_live(self, sender: NodeId, frame: Frame) -> None:
        assert isinstance(frame, LiveMessages)
        if sender in self._node.record.members:
            payloads = list(frame.payloads)
            extras: list[Extras | None] | None = None
            if frame.headers or frame.expires_ms:
                extras = [Extras(frame.headers, expires_ms=frame.expires_ms)] * len(payloads)
            self._hooks.deliver_live(frame.topic, payloads, extras, frame.flags)

    def _told_removed(self, sender: NodeId, _frame: Frame) -> None:
        if sender in self._node.record.members:
            self._applier.leave()
            self._membership.told_removed()

    def unreachable(self, peer: NodeId) -> None:
        node = self._node
        self._asking.unreachable(peer)
        raw = node.raw
        if raw is None or node.is_closed:
            return
        raw.report_unreachable(peer)
        if peer == raw.lead:
            self._proposals.leader_unreachable()
        node.wake()

    def report_snapshot(self, peer: NodeId, *, is_ok: bool) -> None:
        node = self._node
        if is_ok:
            node.counts.snapshots_sent += 1
        else:
            node.counts.snapshots_failed += 1
        if node.raw is not None:
            node.raw.report_snapshot(peer, is_ok)
            node.wake()

    def broadcast(
        self,
        topic: bytes,
        payloads: Sequence[bytes],
        extras: Extras | None = None,
        flags: int = 0,
    ) -> None:
        node = self._node
        if len(node.record.members) < 2:
            return
        extras = extras or _NO_EXTRAS
        frame = LiveMessages(topic, tuple(payloads), extras.headers, extras.expires_ms, flags)
        for peer in node.record.members:
            if peer != node.node_id:
                node.send(peer, frame)
