"""What a node does about changes of the members: asks, passes on, proposes, applies.

The rules are in ``membership``. A change may be asked for on any node; one that does not lead
passes it on to the leader until it sees it applied, or is told why not. A leader that is to be
removed hands over first, and then passes the request on like any other node.
"""

from collections.abc import Callable
from functools import partial
from typing import Protocol

from penstock.cluster.frames import (
    ChangeKind,
    ChangeRefused,
    ChangeRequest,
    Frame,
    Member,
    MemberRemoved,
)
from penstock.cluster.kept_log import KeptLog
from penstock.cluster.membership_rules import (
    ARRIVED,
    PROMOTE,
    MemberChange,
    MembershipView,
    PendingChanges,
    Promotions,
    change_of,
    heir,
    is_done,
    member_of,
    refusal,
    transfer_refusal,
)
from penstock.cluster.reads import DoneCallback
from penstock.cluster.record import RaftRecord
from penstock.errors import NoQuorum, PenstockError, Refused
from penstock.obs.log import get_logger
from penstock.raft.confchange import ConfChangeError
from penstock.raft.raw_node import ProposalDropped, RawNode, decode_change
from penstock.raft.types import NO_NODE, ConfChangeKind, NodeId, RaftEntry, Role

PATIENCE_S = 20.0
"""How long a change may take before whoever asked is told that nothing is known of it."""

_log = get_logger("cluster")


class MembershipHost(Protocol):
    """What the node itself is to its members."""

    @property
    def node_id(self) -> NodeId: ...
    @property
    def record(self) -> RaftRecord: ...
    @property
    def raw(self) -> RawNode | None: ...
    @property
    def is_leader(self) -> bool: ...
    @property
    def leader(self) -> NodeId: ...

    def own(self) -> Member:
        """Say who this node is, and where it is reached."""

    def heard_s(self, node: NodeId) -> float | None:
        """Seconds since a node was heard of."""

    def send(self, to: NodeId, frame: Frame) -> None:
        """Send a frame, or not."""

    def wake(self) -> None:
        """Have ``propose`` called when the log has no tail."""

    def conf_changed(self) -> None:
        """Who takes part has changed."""

    def left(self) -> None:
        """Say that this node does no longer."""

    def when_written(self, then: DoneCallback) -> None:
        """Call ``then`` when all that was applied is on the disk."""


class Membership:
    """The changes that this node knows of."""

    def __init__(
        self,
        host: MembershipHost,
        clock: Callable[[], float],
        *,
        election_ticks: int,
        tick_s: float,
    ) -> None:
        self._host = host
        self._clock = clock
        self._election_ticks = election_ticks
        self._election_s = election_ticks * tick_s
        self._changes = PendingChanges(clock)
        self._promotions = Promotions(election_ticks)
        self._transfer: tuple[NodeId, DoneCallback, float] | None = None
        self._ticks = 0

    @property
    def is_waiting(self) -> bool:
        """Whether some change waits to be put into the log."""
        return not self._changes.is_idle

    @property
    def live(self) -> frozenset[NodeId]:
        """Nodes heard of within an election timeout, and this one."""
        host = self._host
        heard = ((node, host.heard_s(node)) for node in host.record.members)
        near = [node for node, ago in heard if ago is not None and ago < self._election_s]
        return frozenset({*near, host.node_id})

    def needed(self, kept: KeptLog) -> int:
        """The entry after which all are to be kept: of the last ones so many, or some more.

        A leader spares those that are up and slow for a while.
        """
        raw, last, live = self._host.raw, self._host.record.folded, self.live
        progress = raw.status().progress if raw is not None else {}  # only a leader knows any
        had = [peer.match for node, peer in progress.items() if node in live]
        return kept.needed(last, had)

    def _view(self) -> MembershipView:
        record = self._host.record
        return MembershipView(
            node_id=record.node_id,
            conf=record.conf,
            members=record.members,
            removed=tuple(record.removed),
            live=self.live,
            is_settled=self._host.is_leader,
            is_changing=self._changes.proposed is not None,
        )

    # ── Asking ────────────────────────────────────────────────────────────────────────────────

    def ask(self, kind: ChangeKind, member: Member, then: DoneCallback) -> None:
        """Have a change made, here or by the leader; ``then`` is told once."""
        host, asked = self._host, MemberChange(kind, member)
        if host.raw is None or not host.leader:
            then(NoQuorum("no node leads the cluster", "Start more nodes, then ask again."))
            return
        if is_done(asked, host.record):
            then(None)
            return
        number = self._changes.add(asked, then, PATIENCE_S)
        if host.leader == host.node_id:
            host.wake()
        else:
            host.send(host.leader, ChangeRequest(number, kind, member))

    def asked_elsewhere(self, sender: NodeId, frame: Frame) -> None:
        """Another node passes on what it was asked; it sees for itself when it is done."""
        assert isinstance(frame, ChangeRequest)
        host, asked = self._host, MemberChange(frame.kind, frame.member)
        if host.leader != host.node_id or self._changes.has(asked):
            return
        if asked.kind == ChangeKind.MOVE and asked.member.id != sender:
            return  # where a node is, it says itself

        def answer(error: PenstockError | None) -> None:
            if error is not None:
                host.send(sender, ChangeRefused(frame.number, error.message, error.advice))

        self._changes.add(asked, answer, PATIENCE_S)
        host.wake()

    def refused_elsewhere(self, _sender: NodeId, frame: Frame) -> None:
        """The leader says why not."""
        assert isinstance(frame, ChangeRefused)
        self._changes.answer(frame.number, Refused(frame.message, frame.advice))

    def _pass_on(self) -> None:
        """Ask whoever leads now for all that is not done."""
        host = self._host
        if host.leader not in {NO_NODE, host.node_id}:
            for number, asked in self._changes.waiting():
                if asked.kind in {PROMOTE, ARRIVED}:
                    self._changes.answer(number, Refused("another node leads by now"))
                else:
                    frame = ChangeRequest(number, ChangeKind(asked.kind), asked.member)
                    host.send(host.leader, frame)

    # ── Leading ───────────────────────────────────────────────────────────────────────────────

    def propose(self) -> bool:
        """Put the next change into the log, which has no tail; tell whether one was."""
        raw = self._host.raw
        if raw is None or self._changes.proposed is not None or not self._changes.waiting():
            return False
        if not self._host.is_leader or raw.last_index != self._host.record.folded:
            return False
        return any(self._consider(raw, number, asked) for number, asked in self._changes.waiting())

    def _consider(self, raw: RawNode, number: int, asked: MemberChange) -> bool:
        """Propose a change, or answer it if there is no need or no way."""
        view = self._view()
        if is_done(asked, self._host.record):
            self._changes.answer(number, None)
            return False
        error = refusal(asked, view)
        if error is None and asked.kind == ChangeKind.REMOVE and asked.member.id == view.node_id:
            self._step_aside(raw, number, view)
            return False
        if error is not None:
            self._changes.answer(number, error)
            return False
        try:
            raw.propose_conf_change(change_of(asked))
        except ProposalDropped:
            return False  # leadership is being handed over
        self._changes.proposed = (raw.last_index, number)
        return True

    def _step_aside(self, raw: RawNode, number: int, view: MembershipView) -> None:
        """Hand over before being removed: the next leader does it."""
        status = raw.status()
        if status.lead_transferee != NO_NODE:
            return
        to = heir(view, status.progress)
        if to is None:
            self._changes.answer(
                number, Refused("no other voter is up to take over", "Start another node first.")
            )
        else:
            raw.transfer_leader(to)

    def hand_over(self) -> None:
        """Let another node lead, if there is one."""
        raw = self._host.raw
        if raw is not None and raw.role is Role.LEADER:
            to = heir(self._view(), raw.status().progress)
            if to is not None:
                raw.transfer_leader(to)
                self._host.wake()

    def transfer(self, to: NodeId, then: DoneCallback) -> None:
        """Have another node lead; ``then`` is told when it does, or that it did not."""
        host = self._host
        raw = host.raw
        if raw is None or not host.is_leader:
            then(Refused("this node does not lead", f"Ask the leader, node {host.leader}."))
        elif to == host.node_id:
            then(None)
        elif (error := transfer_refusal(to, self._view())) is not None:
            then(error)
        elif self._transfer is not None:
            then(Refused("leadership is being handed over already", "Try again in a moment."))
        else:
            self._transfer = (to, then, self._clock() + 2 * self._election_s)
            raw.transfer_leader(to)
            host.wake()

    def _end_transfer(self, error: PenstockError | None) -> None:
        if self._transfer is not None:
            _, then, _ = self._transfer
            self._transfer = None
            then(error)

    # ── What happens ──────────────────────────────────────────────────────────────────────────

    def apply(self, entry: RaftEntry) -> None:
        """A change is committed: it is so from now on."""
        host = self._host
        raw, record = host.raw, host.record
        assert raw is not None
        change = decode_change(entry)
        try:
            conf = raw.apply_conf_change(change)
        except ConfChangeError as error:  # the same on all nodes
            _log.warning("member_change_void", index=entry.index, error=str(error))
            return
        gone = [node for kind, node in change.steps if kind is ConfChangeKind.REMOVE_NODE]
        member = None if gone else member_of(change)
        record.fold_conf(conf, [member] if member else [], gone)
        if any(kind is ConfChangeKind.UPDATE_NODE for kind, _ in change.steps):
            record.arrived = sorted({*record.arrived, *(node for _, node in change.steps)})
        _log.info("members_changed", voters=conf.voters, learners=conf.learners)
        if raw.role is Role.LEADER:
            for node in gone:
                self.tell_removed(node)
        host.conf_changed()
        if host.node_id in gone:
            host.left()

    def tell_removed(self, node: NodeId) -> None:
        """Tell a node that it was removed, once that is written here.

        It may be shut down then: no start of this node falls back to a configuration that needs it.
        """
        frame = MemberRemoved(self._host.record.folded)
        self._host.when_written(lambda _error: self._host.send(node, frame))

    def applied(self, _index: int) -> None:
        """Entries up to this one are applied. Who waits is told when it is written, too.

        One that was removed itself says nothing before it is told by others: see ``tell_removed``.
        """
        is_removed = self._host.node_id in self._host.record.removed
        if not self._changes.is_idle and not is_removed:
            self._host.when_written(lambda _error: self._changes.settle(self._host.record))

    def led(self) -> None:
        """Who leads has changed."""
        host = self._host
        self._promotions.clear()
        if self._transfer is not None and host.leader == self._transfer[0]:
            self._end_transfer(None)
        if host.leader != host.node_id:
            self._changes.proposed = None
            self._pass_on()

    def left(self) -> None:
        """Answer who waits here: others say that this node was removed, and need it no more."""
        self._changes.end(self._host.node_id)

    def expire(self) -> None:
        """Give up what nobody answers."""
        self._changes.tick()

    def tick(self) -> None:
        """A moment has passed."""
        host = self._host
        self._ticks += 1
        self._changes.tick()
        if self._transfer is not None and self._clock() >= self._transfer[2]:
            to = self._transfer[0]
            self._end_transfer(Refused(f"node {to} did not take over in time", "Try again."))
        if self._ticks % self._election_ticks == 0:
            self._pass_on()
            self._tell_address()
        if host.raw is not None and host.is_leader and self._changes.is_idle:
            self._look_after(host.raw)

    def _tell_address(self) -> None:
        """Have all nodes know where this one is reached, by them and by clients.

        Whoever began the cluster may not have said so, and it may be another place than before.
        """
        host, own = self._host, self._host.own()
        asked = MemberChange(ChangeKind.MOVE, own)
        is_elsewhere = host.record.members.get(own.id, own) != own
        if is_elsewhere and host.leader and not self._changes.has(asked):
            self.ask(ChangeKind.MOVE, own, partial(_seen_to, asked))

    def _look_after(self, raw: RawNode) -> None:
        """Ask for what a leader asks for by itself."""
        record = self._host.record
        ready = self._promotable(raw) if record.conf.learners else None
        new = [node for node in record.members if self._has_arrived(node)]
        for kind, node in [(PROMOTE, ready)] if ready else [(ARRIVED, node) for node in new[:1]]:
            asked = MemberChange(kind, record.members.get(node, Member(node)))
            if refusal(asked, self._view()) is None:
                self._changes.add(asked, partial(_seen_to, asked), PATIENCE_S)
                self._host.wake()

    def _promotable(self, raw: RawNode) -> NodeId | None:
        return self._promotions.tick(raw.last_index, raw.status().progress, self.live)

    def _has_arrived(self, node: NodeId) -> bool:
        """Whether a node takes part, and nobody has written that down."""
        host = self._host
        is_here = node == host.node_id or host.heard_s(node) is not None
        return is_here and node not in host.record.arrived


def _seen_to(asked: MemberChange, error: PenstockError | None) -> None:
    node = asked.member.id
    if error is None:
        _log.info("member", node=node, change=asked.kind)
    else:
        _log.warning("member_not_changed", node=node, change=asked.kind, error=error.message)
