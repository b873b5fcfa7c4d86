"""How a node that knows of nothing comes to be in a cluster, or is told that it lost its disk.

A node with an empty store waits. It is told to begin a cluster with others (``bootstrap``), or one
that is in a cluster, and knows it as a member, tells it which one (``Welcome``). Never a node that
has taken part before: such a node, if it knows of nothing, has lost its disk and with it, perhaps,
a vote. It must not come back under the same id. So whoever knows of nothing says so (``Blank``) to
those who speak to it, or whom it is to begin with, and is told if it should (``Emptied``).
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol, TypeAlias

from penstock.cluster.frames import Blank, Emptied, Frame, Member, MemberRemoved, Welcome
from penstock.cluster.reads import DoneCallback
from penstock.cluster.record import RaftRecord, cluster_id_of, genesis_record
from penstock.cluster.start import bootstrap_refusal
from penstock.errors import Refused
from penstock.obs.log import get_logger
from penstock.raft.types import NodeId

_Asked: TypeAlias = tuple[set[NodeId], Callable[[], None], asyncio.TimerHandle]

_log = get_logger("cluster")


class BootstrapHost(Protocol):
    """What the node itself is to newcomers, and as one."""

    @property
    def node_id(self) -> NodeId: ...
    @property
    def record(self) -> RaftRecord: ...
    @property
    def is_initialised(self) -> bool: ...
    @property
    def is_listening(self) -> bool: ...
    @property
    def is_leader(self) -> bool: ...

    def heard_s(self, node: NodeId) -> float | None:
        """Seconds since a node was heard of."""

    def send(self, to: NodeId, frame: Frame) -> None:
        """Send a frame, or not."""

    def meet(self, members: Mapping[NodeId, Member]) -> None:
        """Be able to speak to these nodes."""

    def begin_with(self, record: RaftRecord) -> None:
        """Be in a cluster from now on, as the record says."""

    def when_written(self, then: DoneCallback) -> None:
        """Call ``then`` when the record is on the disk."""


class Bootstrap:
    """``patience_s``: how long a node that begins a cluster listens for objections."""

    def __init__(self, host: BootstrapHost, clock: Callable[[], float], patience_s: float) -> None:
        self._host = host
        self._clock = clock
        self._patience_s = patience_s
        self._loop = asyncio.get_running_loop()
        self._blank: dict[NodeId, float] = {}
        self._asked: list[_Asked] = []
        """Clusters that are to begin: who has not answered, what to do then, and when anyway."""
        self.emptied_of = b""
        """The cluster that says that this node, which knows of nothing, was part of it."""
        self.was_removed = False
        """Whether that cluster has removed this node since."""

    # ── As one ────────────────────────────────────────────────────────────────────────────────

    def bootstrap(self, genesis: Sequence[Member], then: DoneCallback) -> None:
        """Begin a cluster with these nodes, unless one of them says that there was one before."""
        error = self._refusal(genesis)
        if error is not None or self._host.is_initialised:
            self._loop.call_soon(then, error)
        elif len(genesis) == 1:
            self._begin(genesis, then)
        else:
            self._ask_others(genesis, then)

    def _ask_others(self, genesis: Sequence[Member], then: DoneCallback) -> None:
        """Begin when all others say that they know of nothing either, or some say nothing."""
        self._host.meet({member.id: member for member in genesis})
        others = {member.id for member in genesis} - {self._host.node_id}
        begin = partial(self._begin, genesis, then)
        self._asked.append((others, begin, self._loop.call_later(self._patience_s, begin)))
        for node in others:
            self._host.send(node, Blank())

    def _answered(self, sender: NodeId) -> None:
        """Another node knows of nothing, too."""
        for others, begin, timer in self._asked:
            others.discard(sender)
            if not others:
                timer.cancel()
                self._loop.call_soon(begin)
        self._asked = [asked for asked in self._asked if asked[0]]

    def _refusal(self, genesis: Sequence[Member]) -> Refused | None:
        if self.emptied_of:
            return Refused(
                f"node {self._host.node_id} has lost its data: it was part of a cluster before",
                "Start it with a node_id that was never used, and let it join.",
            )
        host = self._host
        return bootstrap_refusal(genesis, host.record, listens=host.is_listening)

    def _begin(self, genesis: Sequence[Member], then: DoneCallback) -> None:
        host = self._host
        error = self._refusal(genesis)
        if error is not None or host.is_initialised:
            then(error)
            return
        self._initialise(cluster_id_of(genesis), genesis, genesis)
        host.when_written(then)

    def told(self, sender: NodeId, frame: Frame) -> None:
        """Hear what nodes of a cluster say to one that is in none."""
        if isinstance(frame, Welcome):
            if len(frame.cluster_id) == len(self._host.record.cluster_id):
                self._initialise(frame.cluster_id, frame.genesis, frame.members)
        elif isinstance(frame, Emptied):
            self._note_emptied(frame)
        elif isinstance(frame, MemberRemoved) and self.emptied_of:
            self.was_removed = True
        elif isinstance(frame, Blank) and self._asked:
            self._answered(sender)
        else:
            self._host.send(sender, Blank())

    def _note_emptied(self, told: Emptied) -> None:
        if not self.emptied_of:
            _log.error(
                "data_lost",
                node=self._host.node_id,
                cluster=told.cluster_id.hex(),
                advice="Start it with a node_id that was never used, let it join, then remove this"
                " one from the cluster.",
            )
        self.emptied_of, self.was_removed = told.cluster_id, told.is_removed

    def _initialise(
        self, cluster_id: bytes, genesis: Sequence[Member], members: Sequence[Member]
    ) -> None:
        record = genesis_record(self._host.node_id, cluster_id, genesis)
        record.incarnation = self._host.record.incarnation
        record.members |= {member.id: member for member in members}
        _log.info("cluster_joined", cluster=cluster_id.hex(), nodes=sorted(record.members))
        self._host.begin_with(record)

    # ── To them ───────────────────────────────────────────────────────────────────────────────

    def greet(self) -> None:
        """Tell nodes that are new which cluster they are in."""
        host, record = self._host, self._host.record
        if not host.is_leader and record.folded:
            return  # not the beginning, and not this node's business
        new = [node for node in record.members if node not in record.arrived]
        welcome = Welcome(record.cluster_id, record.genesis, tuple(record.members.values()))
        for node in new:
            if node != host.node_id and host.heard_s(node) is None:
                host.send(node, welcome)

    def found_blank(self, sender: NodeId) -> None:
        """Tell a node that knows of nothing, if it should."""
        record = self._host.record
        is_removed = sender in record.removed
        if is_removed or sender in record.arrived:
            self._host.send(sender, Emptied(record.cluster_id, is_removed))
        if sender in record.arrived:
            self._blank[sender] = self._clock()

    def is_blank(self, node: NodeId) -> bool:
        """Whether a member that took part said lately that it knows of nothing."""
        since = self._blank.get(node)
        return since is not None and self._clock() - since < 10 * self._patience_s
