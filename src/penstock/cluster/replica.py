"""One node's part in the cluster: puts the Raft core together with disk, time, peers and broker.

The journal is the log. A batch that the broker's pipeline submits becomes an entry of it, on this
node if it leads, else by way of the leader. When a quorum has the entry on disk it is applied here
and on every other node, in the same order.

========================  ==========================================================
``engine``, ``disk``      drive the core: one ``Ready`` after another
``applier``               what follows when entries are applied or roles change
``proposals``             batches on their way into the log (``forwarding`` explains why once)
``membership``            changes of the members (``membership_rules``)
``bootstrap``             how a node with an empty store joins a cluster
``reads``                 linearizable reads
``leadership``            who leads, and who wants to know
``asking``                questions to other nodes
``frame_handler``         frames of other nodes
``local_node``            what all of these share
========================  ==========================================================

A lone broker takes a short cut: its batch is written and applied in one step, and the core learns
of many such entries at once. No other node has a vote, so nothing else can enter the core.
"""

import asyncio
from collections.abc import Callable, Sequence

from penstock.cluster.applier import LogApplier
from penstock.cluster.asking import Asking
from penstock.cluster.bootstrap import Bootstrap
from penstock.cluster.consensus import DoneCallback, Leadership, LeadershipListener
from penstock.cluster.engine import Engine
from penstock.cluster.frame_handler import FrameHandler
from penstock.cluster.frames import ChangeKind, Member
from penstock.cluster.leadership import LeadershipTracker
from penstock.cluster.local_node import LocalNode, ReplicaEnvironment
from penstock.cluster.membership import Membership
from penstock.cluster.proposals import Proposals
from penstock.cluster.reads import ReadBarriers
from penstock.cluster.record import RaftRecord, prune_terms
from penstock.cluster.replicated_log import LogListener
from penstock.cluster.start import load_record
from penstock.cluster.status import ClusterCounts, ClusterStatus
from penstock.cluster.status_report import status_of
from penstock.cluster.ticker import Ticker
from penstock.raft.config import RaftConfig
from penstock.raft.types import NodeId, Role
from penstock.store.batch import Batch
from penstock.store.store import LOG_UNBOUND, LogStore

INFLIGHT_BYTES_MAX = 64 << 20  # entries in flight to one follower


class Replica:
    """The ``ReplicatedLog`` and the ``Consensus`` of a broker. Belongs to the event loop."""

    def __init__(self, store: LogStore, environment: ReplicaEnvironment) -> None:
        settings = environment.settings
        record = load_record(store, settings, environment.member, environment.roll)
        now_ms = environment.hooks.now_ms
        self._store = store
        self._settings = settings
        self._engine = Engine(store, record, environment.peers.send, now_ms)
        self.node = node = LocalNode(self._engine, store, environment)
        self._leadership = leadership = LeadershipTracker(node)
        self._reads = ReadBarriers(
            record.node_id, record.incarnation, self._ask_index, retry_ticks=settings.election_ticks
        )
        self.proposals = proposals = Proposals(node, leadership)
        self._membership = membership = Membership(node)
        self.bootstrapping = Bootstrap(node, self._begin_with)
        self._applier = LogApplier(node, leadership, proposals, membership, self._reads)
        self.asking = Asking(node)
        self.frames = FrameHandler(
            node, self._applier, proposals, membership, self.bootstrapping, self.asking
        )
        triggers = self._applier.triggers
        self.at_index, self.off_index = triggers.add, triggers.remove
        self.broadcast = self.frames.broadcast
        self._ticks = 0
        self._ticker = Ticker(environment.monotonic, settings.tick_ms / 1000, self._tick)

    # ── Status ────────────────────────────────────────────────────────────────────────────────

    @property
    def record(self) -> RaftRecord:
        return self._engine.record

    @property
    def node_id(self) -> NodeId:
        return self.record.node_id

    @property
    def counts(self) -> ClusterCounts:
        return self.node.counts

    @property
    def is_lone(self) -> bool:
        return self.record.is_alone()

    @property
    def is_clustered(self) -> bool:
        return self.node.is_clustered

    @property
    def is_leader(self) -> bool:
        return self._engine.is_leader and not self.node.is_removed

    @property
    def leader(self) -> NodeId:
        return self.node.leader

    @property
    def leader_addr(self) -> str:
        return self.node.leader_addr

    @property
    def leadership(self) -> Leadership:
        return self.node.leadership

    @property
    def term(self) -> int:
        return self.record.term

    @property
    def applied_index(self) -> int:
        return self.record.applied

    @property
    def is_writable(self) -> bool:
        return self._leadership.write_refusal() is None

    @property
    def has_room(self) -> bool:
        return self.proposals.has_room

    def own(self) -> Member:
        return self.node.member

    def present(self) -> frozenset[NodeId]:
        activity, members = self.node.activity, self.record.members
        return activity.present(members, self.node_id, is_leader=self.is_leader)

    def status(self) -> ClusterStatus:
        self._engine.catch_up()
        first_index = self._store.first_index
        log_bytes = self._applier.kept_log.bytes_after(first_index - 1)
        return status_of(self.node, self.bootstrapping, first_index, log_bytes)

    def on_leadership(self, listener: LeadershipListener) -> None:
        self._leadership.add_listener(listener)

    # ── Start and stop ────────────────────────────────────────────────────────────────────────

    def begin(self, listener: LogListener) -> None:
        node = self.node
        node.begin(listener)
        self._engine.begin(self._applier)
        if self.record.is_initialised:
            self._start_core()
        if node.node_id in self.record.removed:
            self._applier.leave()
        self._ticker.start()

    def _begin_with(self, record: RaftRecord) -> None:
        self._engine.record = record
        self._leadership.restart_patience()
        self._start_core()

    def _start_core(self) -> None:
        config = RaftConfig(
            node_id=self.node_id,
            roll=self.node.environment.roll,
            election_ticks=self._settings.election_ticks,
            inflight_bytes_max=INFLIGHT_BYTES_MAX,
            tells_commits=True,
            applied=self.record.applied,
        )
        self._engine.start(config)
        self.node.peers.set_members(self.record.members)
        self._update_log_floors()  # the first write may already be followed by a fold

    def close(self) -> None:
        self.node.is_closed = True
        self.asking.close()
        self._ticker.stop()
        self._engine.close()

    def run_on_writer(self, job: Callable[[], None]) -> None:
        if not self.node.is_closed:
            self._engine.disk.run(job)

    # ── Requests ──────────────────────────────────────────────────────────────────────────────

    def submit(self, batch: Batch) -> None:
        """See ``ReplicatedLog``. A lone, idle node writes the batch right away."""
        if self._engine.may_commit_alone:
            self._engine.disk.commit(batch, at_once=True)
        else:
            self.proposals.submit(batch)

    def read_barrier(self, done: DoneCallback) -> None:
        if self.node.is_initialised and self.is_lone and self.is_leader:
            self.node.listener.when_readable(lambda: done(None))
        elif (error := self._leadership.write_refusal()) is not None:
            asyncio.get_running_loop().call_soon(done, error)
        else:
            self._reads.add(done)

    def _ask_index(self, context: bytes) -> None:
        raw = self._engine.raw
        if raw is not None:
            raw.read_index(context)
            self._engine.wake()

    def bootstrap(self, members: Sequence[Member], done: DoneCallback) -> None:
        self.bootstrapping.start(members, done)

    def add(self, member: Member, done: DoneCallback) -> None:
        self._membership.request(ChangeKind.ADD, member, done)

    def remove(self, node_id: NodeId, done: DoneCallback) -> None:
        self._membership.request(ChangeKind.REMOVE, Member(node_id), done)

    def transfer(self, node_id: NodeId, done: DoneCallback) -> None:
        self._membership.transfer(node_id, done)

    def hand_over(self) -> None:
        self._membership.hand_over()

    def _tick(self) -> None:
        engine = self._engine
        raw = engine.raw
        if raw is None or self.node.is_closed:
            return
        if self.node.is_removed:
            engine.guarded(raw.tick)  # so that a leader that went silent is forgotten
            self._membership.expire()
            engine.wake()
            return
        self._ticks += 1
        if self.is_lone and raw.role is Role.FOLLOWER:
            raw.campaign()  # the leader was removed, and no other node is left
        if not self.is_lone:
            engine.guarded(raw.tick)
            self.proposals.tick()
        self._reads.tick(self.proposals.patience_ticks)
        if self._ticks % self._settings.election_ticks == 0:
            self.bootstrapping.greet()
            self._update_log_floors()
        self._membership.tick()
        engine.wake()

    def _update_log_floors(self) -> None:
        """Tell retention which entries a start, or other nodes, may still need."""
        store, record, raw = self._store, self.record, self._engine.raw
        if self.is_lone:
            store.log_floor = store.start_floor = LOG_UNBOUND
            return
        durable, live = self._engine.durable_applied, self._membership.live
        store.start_floor = max(durable, 0) + 1
        progress = raw.status().progress if raw is not None else {}  # empty unless this node leads
        matches = [peer.match for node, peer in progress.items() if node in live]
        needed = self._applier.kept_log.needed(record.applied, matches)
        store.log_floor = max(min(needed, durable), 0) + 1
        record.terms = prune_terms(record.terms, store.first_index)
