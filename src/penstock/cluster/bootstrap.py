"""How a node with an empty store comes into a cluster, or learns that it has lost its data.

A node with an empty store waits. Either it is told to form a cluster with others (``start``), or a
member of a cluster that knows it as a member tells it which one (``Welcome``). A node that has
taken part before and has an empty store now has lost its disk, and with it perhaps a vote: it must
not come back under the same id. So a node with an empty store says so (``Blank``) to those that
speak to it, or that it is to form a cluster with, and they answer if it should not (``Emptied``).
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from penstock.cluster.consensus import DoneCallback
from penstock.cluster.frames import Blank, Emptied, Frame, Member, MemberRemoved, Welcome
from penstock.cluster.local_node import LocalNode
from penstock.cluster.record import RaftRecord, cluster_id_of, genesis_record
from penstock.cluster.start import bootstrap_refusal
from penstock.errors import Refused
from penstock.obs.log import get_logger
from penstock.raft.types import NodeId

_Forming: TypeAlias = tuple[set[NodeId], Callable[[], None], asyncio.TimerHandle]
"""A cluster to form: nodes that have not answered, what to do then, and when to do it anyway."""

_log = get_logger("cluster")


class Bootstrap:
    """``begin_with`` starts the core with the record of a cluster."""

    def __init__(self, node: LocalNode, begin_with: Callable[[RaftRecord], None]) -> None:
        self._node = node
        self._begin_with = begin_with
        self._patience_s = node.environment.election_s  # how long to wait for objections
        self._loop = asyncio.get_running_loop()
        self._blank: dict[NodeId, float] = {}
        self._forming: list[_Forming] = []
        self.lost_cluster_id = b""  # the cluster that this node was part of before it lost its data
        self.was_removed = False  # whether that cluster has removed it since

    def start(self, genesis: Sequence[Member], done: DoneCallback) -> None:
        """Form a cluster of these nodes unless one objects; ``done`` when that is durable here."""
        error = self._refusal(genesis)
        if error is not None or self._node.is_initialised:
            self._loop.call_soon(done, error)
        elif len(genesis) == 1:
            self._begin(genesis, done)
        else:
            self._ask_others(genesis, done)

    def _ask_others(self, genesis: Sequence[Member], done: DoneCallback) -> None:
        """Begin when all others are blank, too, or after a while."""
        node = self._node
        node.peers.set_members({member.id: member for member in genesis})
        others = {member.id for member in genesis} - {node.node_id}
        begin = partial(self._begin, genesis, done)
        self._forming.append((others, begin, self._loop.call_later(self._patience_s, begin)))
        for other in others:
            node.send(other, Blank())

    def _answered(self, sender: NodeId) -> None:
        for others, begin, timer in self._forming:
            others.discard(sender)
            if not others:
                timer.cancel()
                self._loop.call_soon(begin)
        self._forming = [forming for forming in self._forming if forming[0]]

    def _refusal(self, genesis: Sequence[Member]) -> Refused | None:
        node = self._node
        if self.lost_cluster_id:
            return Refused(
                f"node {node.node_id} has lost its data: it was part of a cluster before",
                "Start it with a node_id that was never used, and let it join.",
            )
        listens = bool(node.settings.peer_listen)
        return bootstrap_refusal(genesis, node.record, listens=listens)

    def _begin(self, genesis: Sequence[Member], done: DoneCallback) -> None:
        node = self._node
        error = self._refusal(genesis)
        if error is not None or node.is_initialised:
            done(error)
            return
        self._initialise(cluster_id_of(genesis), genesis, genesis)
        node.when_written(done)

    def received(self, sender: NodeId, frame: Frame) -> None:
        if isinstance(frame, Welcome):
            if len(frame.cluster_id) == len(self._node.record.cluster_id):
                self._initialise(frame.cluster_id, frame.genesis, frame.members)
        elif isinstance(frame, Emptied):
            self._note_emptied(frame)
        elif isinstance(frame, MemberRemoved) and self.lost_cluster_id:
            self.was_removed = True
        elif isinstance(frame, Blank) and self._forming:
            self._answered(sender)
        else:
            self._node.send(sender, Blank())

    def _note_emptied(self, frame: Emptied) -> None:
        if not self.lost_cluster_id:
            _log.error(
                "data_lost",
                node=self._node.node_id,
                cluster=frame.cluster_id.hex(),
                advice="Start it with a node_id that was never used, let it join, then remove this"
                " one from the cluster.",
            )
        self.lost_cluster_id, self.was_removed = frame.cluster_id, frame.is_removed

    def _initialise(
        self, cluster_id: bytes, genesis: Sequence[Member], members: Sequence[Member]
    ) -> None:
        record = genesis_record(self._node.node_id, cluster_id, genesis)
        record.incarnation = self._node.record.incarnation
        record.members |= {member.id: member for member in members}
        _log.info("cluster_joined", cluster=cluster_id.hex(), nodes=sorted(record.members))
        self._begin_with(record)

    def greet(self) -> None:
        node, record = self._node, self._node.record
        if not node.is_leader and record.applied:
            return  # the cluster has begun, and welcoming is the leader's job
        welcome = Welcome(record.cluster_id, record.genesis, tuple(record.members.values()))
        for other in record.members:
            is_new = other not in record.arrived and other != node.node_id
            if is_new and node.activity.heard_s(other) is None:
                node.send(other, welcome)

    def found_blank(self, sender: NodeId) -> None:
        """Tell a blank node that took part before that it has lost its data."""
        record = self._node.record
        is_removed = sender in record.removed
        if is_removed or sender in record.arrived:
            self._node.send(sender, Emptied(record.cluster_id, is_removed))
        if sender in record.arrived:
            self._blank[sender] = self._node.monotonic()

    def is_blank(self, node: NodeId) -> bool:
        """Whether a member that took part said lately that it has an empty store."""
        since = self._blank.get(node)
        return since is not None and self._node.monotonic() - since < 10 * self._patience_s
