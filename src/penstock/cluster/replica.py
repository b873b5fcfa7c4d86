"""One node's part in agreeing on the journal: drives the consensus core with a real disk and time.

The journal is the log. A batch that the line (the broker's pipeline) submits becomes an entry of
it, on this node if it leads, else by way of the leader; when a quorum has the entry on disk it is
applied here and on every other node, in the same order. The line is told of each batch once: its
own as ``committed`` or ``refused``, those of others as ``foreign``.

``engine`` turns the loop of core and disk, ``batches`` and ``forwarding`` bring batches into the
log, ``members`` and ``membership`` see to who takes part, ``newcomers`` to how that begins,
``reads`` to reads that must be current. Here all of it is put together, with time, other nodes, and
the line.

A broker that is alone takes the short way: its batch is written and folded in one step, and the
core is told afterwards, of many at once. Nothing else may enter the core meanwhile, and nothing
does: nobody else has anything to say.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from penstock.cluster.applying import commit_of, parts
from penstock.cluster.bootstrap import Bootstrap
from penstock.cluster.consensus import Leadership, LeadershipListener
from penstock.cluster.engine import Engine
from penstock.cluster.exit import exit_process
from penstock.cluster.frames import (
    Blank,
    ChangeKind,
    ChangeRefused,
    ChangeRequest,
    Forward,
    ForwardRefused,
    Frame,
    LiveMessages,
    Member,
    MemberRemoved,
    RaftFrame,
)
from penstock.cluster.index_triggers import IndexTriggers
from penstock.cluster.kept_log import KeptLog
from penstock.cluster.membership import Membership
from penstock.cluster.peer_activity import PeerActivity
from penstock.cluster.peer_stats import TransportStats
from penstock.cluster.proposals import Proposals
from penstock.cluster.reads import DoneCallback, ReadBarriers
from penstock.cluster.record import RaftRecord, prune_terms
from penstock.cluster.replicated_log import LogListener
from penstock.cluster.start import load_record
from penstock.cluster.status import ClusterCounts, ClusterStatus
from penstock.cluster.status_report import status_of
from penstock.config.schema import Cluster
from penstock.errors import (
    ClusterError,
    NoQuorum,
    PenstockError,
    StorageBroken,
    StorageError,
    StorageFull,
)
from penstock.obs.log import get_logger
from penstock.raft.raw_node import RaftConfig, RawNode, SoftState
from penstock.raft.types import NO_NODE, MessageKind, NodeId, RaftEntry, ReadState, Role
from penstock.store.batch import Batch
from penstock.store.entry import Entry as JournalEntry
from penstock.store.segments import batch_of
from penstock.store.store import LOG_UNBOUND, Commit, LogStore, Written

INFLIGHT_BYTES_MAX = 64 << 20
"""Entries on their way to one follower."""

_log = get_logger("cluster")


class Peers(Protocol):
    """The way to other nodes. Nothing blocks; what cannot be sent is dropped, and told."""

    def send(self, to: NodeId, frame: Frame) -> None:
        """Send a frame, or call ``Replica.unreachable`` later."""

    def set_members(self, members: Mapping[NodeId, Member]) -> None:
        """Speak to these from now on."""

    @property
    def figures(self) -> TransportStats:
        """What went that way, and came."""


class Clock(Protocol):
    """Durations only."""

    def monotonic(self) -> float:
        """Seconds since some fixed moment; never goes back."""


class Replica:
    """The ``Log`` of a broker that may have company. All of it belongs to the event loop.

    ``now_ms`` is the steady time that a leader tells its followers; ``timed`` is told the leader's.
    ``live`` is told messages that other nodes pass on without journaling them. ``is_late`` is asked
    by a leader, on the writer thread, whether a batch must not be in the log any more. ``ended`` is
    called if this node must not go on, and should not return.
    """

    def __init__(
        self,
        *,
        store: LogStore,
        settings: Cluster,
        identity: Member,
        peers: Peers,
        clock: Clock,
        roll: Callable[[int], int],
        now_ms: Callable[[], int] = lambda: 0,
        timed: Callable[[int], None] = lambda _now_ms: None,
        live: Callable[[bytes, Sequence[bytes]], None] = lambda _topic, _payloads: None,
        is_late: Callable[[Batch], bool] = lambda _batch: False,
        ended: Callable[[BaseException], None] = exit_process,
    ) -> None:
        self._store = store
        self._settings = settings
        self._peers = peers
        self._clock = clock
        self._roll = roll
        self.now_ms = now_ms
        self._timed = timed
        self._live = live
        self.is_late = is_late
        self._ended = ended
        self._loop = asyncio.get_running_loop()
        self._line: LogListener
        self.counts = ClusterCounts()
        self._own_member = identity
        record = load_record(store, settings, identity, roll)
        self._engine = Engine(store, record, self, self._loop)
        self._batches = Proposals(self, self._engine, self._loop.call_soon, settings.election_ticks)
        self._reads = ReadBarriers(
            record.node_id, record.incarnation, self._ask_index, retry_ticks=settings.election_ticks
        )
        self._members = Membership(
            self,
            clock.monotonic,
            election_ticks=settings.election_ticks,
            tick_s=settings.tick_ms / 1000,
        )
        self._newcomers = Bootstrap(
            self, clock.monotonic, settings.election_ticks * settings.tick_ms / 1000
        )
        self._is_removed = False
        self._is_closed = False
        self._leaderless_at: float | None = clock.monotonic()
        self._leadership = Leadership(NO_NODE, 0, is_leader=False)
        self._leadership_listeners: list[LeadershipListener] = []
        self._moments = IndexTriggers()
        self.at_index, self.off_index = self._moments.wait, self._moments.forget
        self._kept_log = KeptLog(settings.log_kept_entries, settings.log_kept_bytes)
        self._presence = PeerActivity(clock.monotonic, settings.node_grace_s)
        self._patience_ticks = int(settings.no_leader_timeout_s * 1000 / settings.tick_ms)
        self._ticks = 0
        self._ticked_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._handlers: dict[type, Callable[[NodeId, Frame], None]] = {
            RaftFrame: self._step,
            Forward: self._batches.forwarded,
            ForwardRefused: self._batches.forward_refused,
            LiveMessages: self._passed_on,
            ChangeRequest: self._members.asked_elsewhere,
            ChangeRefused: self._members.refused_elsewhere,
            MemberRemoved: self._told_removed,
        }

    # ── What others may know ──────────────────────────────────────────────────────────────────

    @property
    def node_id(self) -> NodeId:
        return self.record.node_id

    @property
    def incarnation(self) -> int:
        """Which start of this node it is."""
        return self.record.incarnation

    @property
    def cluster_id(self) -> bytes:
        """The cluster that this node is in; zeros: none yet."""
        return self.record.cluster_id

    @property
    def record(self) -> RaftRecord:
        """What this node remembers; not to be changed by others."""
        return self._engine.record

    @property
    def raw(self) -> RawNode | None:
        """The core; None while this node is in no cluster."""
        return self._engine.raw

    @property
    def is_initialised(self) -> bool:
        return self.raw is not None

    @property
    def is_listening(self) -> bool:
        return bool(self._settings.peer_listen)

    @property
    def is_removed(self) -> bool:
        return self._is_removed

    @property
    def is_lone(self) -> bool:
        """Whether nobody else has a say, or a copy."""
        return self.record.is_alone()

    @property
    def is_clustered(self) -> bool:
        """Whether there are, or may soon be, other nodes."""
        is_open = bool(self._settings.peer_listen) and self.record.is_initialised
        return is_open or len(self.record.members) > 1

    @property
    def is_leader(self) -> bool:
        """Whether this node leads, and knows all that was decided before."""
        return self._engine.is_leader and not self._is_removed

    @property
    def leader(self) -> NodeId:
        """Who leads, as far as is known; 0: nobody."""
        raw = self.raw
        return raw.lead if raw is not None and not self._is_removed else NO_NODE

    @property
    def leader_addr(self) -> str:
        """Where clients find the leader; empty if that is not known."""
        member = self.record.members.get(self.leader)
        return member.client_addr if member else ""

    @property
    def term(self) -> int:
        """The term of this node: what leader-only content is sealed with."""
        return self.record.term

    @property
    def leadership(self) -> Leadership:
        return Leadership(self.leader, self.term, self.is_leader)

    def on_leadership(self, listener: LeadershipListener) -> None:
        self._leadership_listeners.append(listener)

    def _announce_leadership(self) -> None:
        leadership = self.leadership
        if leadership == self._leadership or self._is_closed:
            return
        self._leadership = leadership
        for listener in self._leadership_listeners:
            listener(leadership)

    @property
    def applied_index(self) -> int:
        return self.record.folded

    @property
    def first_index(self) -> int:
        """From this entry on the log is whole here."""
        return self._store.first_index

    @property
    def log_bytes(self) -> int:
        """About how many bytes of the log, of entries of this incarnation, are kept."""
        return self._kept_log.bytes_after(self.first_index - 1)

    @property
    def is_writable(self) -> bool:
        """Whether a batch that is submitted now would be taken, or wait for an election."""
        return self._refusal() is None

    def heard_s(self, node: NodeId) -> float | None:
        """Seconds since a node was heard of; None: never."""
        return self._presence.heard_s(node)

    def own(self) -> Member:
        return self._own_member

    @property
    def figures(self) -> TransportStats:
        return self._peers.figures

    def present(self) -> frozenset[NodeId]:
        """Members that spoke within the grace; all while we are too new to have heard of them."""
        return self._presence.present(self.record.members, self.node_id, is_leader=self.is_leader)

    def status(self) -> ClusterStatus:
        self._engine.catch_up()
        return status_of(self, self._settings)

    # ── Beginning and end ─────────────────────────────────────────────────────────────────────

    def begin(self, line: LogListener) -> None:
        self._line = line
        self._engine.disk.start()
        if self.record.is_initialised:
            self._start_core()
        if self.node_id in self.record.removed:
            self.left()
        self._ticked_at = self._clock.monotonic()
        self._set_timer()

    def _start_core(self) -> None:
        config = RaftConfig(
            node_id=self.node_id,
            roll=self._roll,
            election_ticks=self._settings.election_ticks,
            inflight_bytes_max=INFLIGHT_BYTES_MAX,
            tells_commits=True,
            applied=self.record.folded,
        )
        self._engine.start(config)
        self._peers.set_members(self.record.members)

    def close(self) -> None:
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._engine.close()

    def hand_over(self) -> None:
        """Let another node lead, if there is one: this one is about to stop."""
        self._members.hand_over()

    def run_on_writer(self, job: Callable[[], None]) -> None:
        if not self._is_closed:
            self._engine.disk.run(job)

    def failed(self, error: BaseException) -> None:
        """The disk, or the log, is not what it should be: to go on could lose what others have."""
        if not self._is_closed:
            self._is_closed = True
            self._ended(error)

    # ── Becoming part of a cluster ────────────────────────────────────────────────────────────

    def bootstrap(self, genesis: Sequence[Member], then: DoneCallback) -> None:
        """Begin a cluster with these nodes, of which this is one. Idempotent.

        ``then`` is told when it is written here. The other nodes are told by this one.
        """
        self._newcomers.bootstrap(genesis, then)

    def meet(self, members: Mapping[NodeId, Member]) -> None:
        self._peers.set_members(members)

    def begin_with(self, record: RaftRecord) -> None:
        """See ``newcomers.Host``. Nobody can have led yet: those who ask wait for an election."""
        self._engine.record = record
        self._leaderless_at = self._clock.monotonic()
        self._start_core()

    @property
    def emptied_of(self) -> str:
        """The cluster that this node was part of, as others say, before it lost its data."""
        return self._newcomers.emptied_of.hex()

    @property
    def was_removed(self) -> bool:
        """Whether that cluster has removed this node since."""
        return self._newcomers.was_removed

    def is_blank(self, node: NodeId) -> bool:
        """Whether a member has lost its data, as it says itself."""
        return self._newcomers.is_blank(node)

    # ── Batches ───────────────────────────────────────────────────────────────────────────────

    def submit(self, batch: Batch) -> None:
        """See ``Log``. Alone, with nothing else to do, it is written without further ado."""
        engine = self._engine
        self._batches.submit(batch, self._refusal())
        if not engine.is_quiet or self._members.is_waiting:
            engine.wake()
        elif engine.is_leader and self.is_lone:
            engine.disk.commit(batch)

    def _refusal(self) -> PenstockError | None:
        """Why nothing can be written now, not even after a moment."""
        if self._is_removed:
            return ClusterError("this node was removed from the cluster", "Use another node.")
        if not self.is_initialised:
            return NoQuorum("this node is in no cluster yet", "Run penstock cluster init, or join.")
        since = self._leaderless_at
        if since is None or self._clock.monotonic() - since < self._settings.no_leader_timeout_s:
            return None
        return NoQuorum(
            "no node leads the cluster: too few of them are up",
            "Start the others; it goes on by itself.",
        )

    def refused(self, batch: Batch, error: PenstockError) -> None:
        if not self._is_closed:
            self._line.refused(batch, error)

    def idle(self) -> None:
        """See ``Owner``: begin what had to wait until nothing is under way."""
        own = self._batches.own
        if self._is_removed:
            return
        if self._members.propose():
            self.wake()
        elif not self.is_lone:
            self._batches.draw_next()
        elif own is not None and self.is_leader:
            self._engine.disk.commit(own.batch)

    def apply(self, entry: JournalEntry) -> None:
        """See ``Owner``: tell the line of each batch that an entry holds."""
        self._kept_log.add(entry.index, len(entry.buffer))
        for span in parts(entry):
            segment = span.segment
            if segment is not None:
                self.record.origins[segment.node] = (segment.incarnation, segment.number)
            own = self._batches.take_own(segment)
            batch = own if own is not None else batch_of(entry, span)
            commit = commit_of(entry, span, batch, self._engine.last_write)
            if own is not None:
                self._line.committed(batch, commit)
            else:
                self._line.foreign(batch, commit)
        self._moments.reached(entry.index)

    def rows_written(self, batch: Batch, written: Written) -> None:
        own = self._batches.own
        if own is not None and own.batch is batch:
            self._batches.own = None
            index, sequence = self.applied_index, self._store.next_sequence
            self._line.committed(batch, Commit(index, sequence, 0, 0, *written, ()))

    def committed_alone(self, batch: Batch, outcome: Commit | StorageError) -> None:
        """See ``Owner``: tell who waits, then the core."""
        if self._is_closed:
            return
        self._batches.own = None
        if isinstance(outcome, StorageError):
            is_fatal = self.is_clustered and not isinstance(outcome, StorageFull)
            if is_fatal or isinstance(outcome, StorageBroken):
                self.failed(outcome)
                return
            self._line.refused(batch, outcome)
        else:
            try:
                self._line.committed(batch, outcome)
            finally:
                self._engine.committed_alone(outcome.index)
        if self._members.is_waiting or not self._engine.work.is_void:
            self.wake()  # else the next batch, if there is one, is with the writer already

    # ── What the engine tells ─────────────────────────────────────────────────────────────────

    def wake(self) -> None:
        self._engine.wake()

    def apply_change(self, entry: RaftEntry) -> None:
        self._members.apply(entry)

    def applied(self, index: int) -> None:
        self._members.applied(index)
        self._reads.applied(index)

    def answered(self, state: ReadState) -> None:
        self._reads.answered(state, self.applied_index)

    def settled(self) -> None:
        self._announce_leadership()

    # ── Others ────────────────────────────────────────────────────────────────────────────────

    def received(self, sender: NodeId, frame: Frame) -> None:
        """A frame came from a node that has proven to be ``sender``."""
        if self._is_closed:
            return
        if self._is_removed:
            self._answer(sender, frame)
            return
        if self.raw is None:
            self._newcomers.told(sender, frame)
            return
        if isinstance(frame, Blank):  # it is there, and is of no use
            self._newcomers.found_blank(sender)
            return
        self._presence.heard(sender)
        if sender in self.record.removed:
            self._members.tell_removed(sender)
            self.wake()
            return
        handle = self._handlers.get(type(frame))
        if handle is not None:  # else it is for those who are in no cluster
            handle(sender, frame)

    def _answer(self, sender: NodeId, frame: Frame) -> None:
        """Go on voting and knowing, though removed.

        The others may not all know of the removal. Until they do, they count this node, and may
        need its vote or what it knows to be committed.
        """
        if isinstance(frame, MemberRemoved):
            self._told_removed(sender, frame)
        elif isinstance(frame, RaftFrame) and sender not in self.record.removed:
            self._step(sender, frame)

    def _step(self, sender: NodeId, frame: Frame) -> None:
        assert isinstance(frame, RaftFrame)
        message, raw = frame.message, self.raw
        is_ours = (message.sender, message.to) == (sender, self.node_id)
        if raw is None or not is_ours or message.kind is MessageKind.SNAPSHOT:
            return  # a snapshot comes by its own way, and this node starts anew with it
        if self.is_lone:
            return  # nobody else has a say
        self._engine.guarded(lambda: raw.step(message))
        if frame.now_ms and sender == raw.lead:
            self._timed(frame.now_ms)
        self.wake()

    def unreachable(self, node: NodeId) -> None:
        """Something that was sent to a node did not get there."""
        raw = self.raw
        if raw is None or self._is_closed:
            return
        raw.report_unreachable(node)
        if node == raw.lead:
            self._batches.unreachable()
        self.wake()

    def report_snapshot(self, node: NodeId, *, is_ok: bool) -> None:
        """Sending a snapshot to a node has ended."""
        if is_ok:
            self.counts.snapshots_sent += 1
        else:
            self.counts.snapshots_failed += 1
        if self.raw is not None:
            self.raw.report_snapshot(node, is_ok)
            self.wake()

    def broadcast(self, topic: bytes, payloads: Sequence[bytes]) -> None:
        """Pass messages that nobody journals on to all other nodes, as far as they are there."""
        frame = LiveMessages(topic, tuple(payloads))
        for node in self.record.members:
            if node != self.node_id:
                self._peers.send(node, frame)

    def _passed_on(self, sender: NodeId, frame: Frame) -> None:
        assert isinstance(frame, LiveMessages)
        if sender in self.record.members:
            self._live(frame.topic, frame.payloads)

    def send(self, to: NodeId, frame: Frame) -> None:
        self._peers.send(to, frame)

    def _told_removed(self, sender: NodeId, _frame: Frame) -> None:
        if sender in self.record.members:
            self.left()
            self._members.left()

    def left(self) -> None:
        """Take no more part, save for votes: this node was removed."""
        if self._is_removed:
            return
        self._is_removed = True
        _log.warning("node_removed", node=self.node_id, advice="Stop it, and use another one.")
        error = ClusterError("this node was removed from the cluster", "Use another node.")
        self._reads.fail(error)
        if self._batches.own is not None:
            self._loop.call_soon(self._batches.refuse, self._batches.own, error)
        self._announce_leadership()

    def when_written(self, then: DoneCallback) -> None:
        self._engine.work.thens.append(then)

    def conf_changed(self) -> None:
        """Who takes part has changed: speak to those who do."""
        self._peers.set_members(self.record.members)
        self._batches.conf_changed()

    def roles_changed(self, state: SoftState) -> None:
        if state.role is Role.CANDIDATE or state.lead not in {NO_NODE, self.node_id}:
            self.counts.elections += 1
        is_lost = state.lead == NO_NODE and self._leaderless_at is None
        if state.lead != NO_NODE:
            self._leaderless_at = None
        elif is_lost:
            self._leaderless_at = self._clock.monotonic()
        if state.role is not Role.LEADER:
            self._batches.follow()
        if is_lost and not self.is_lone:
            _log.warning("leader_lost", term=self.term, advice="Writes wait for an election.")
        tell = _log.debug if self.is_lone else _log.info
        tell("role", role=state.role.name.lower(), term=self.term, leader=state.lead)
        self._members.led()
        self._batches.bring()
        self._announce_leadership()

    # ── Reads ─────────────────────────────────────────────────────────────────────────────────

    def read_barrier(self, then: DoneCallback) -> None:
        """Call ``then`` when all that was acknowledged before this call is applied here."""
        if self.raw is not None and self.is_lone and self.is_leader:
            self._line.when_readable(lambda: then(None))
        elif (error := self._refusal()) is not None:
            self._loop.call_soon(then, error)
        else:
            self._reads.add(then)

    def _ask_index(self, context: bytes) -> None:
        if self.raw is not None:
            self.raw.read_index(context)
            self.wake()

    # ── Members ───────────────────────────────────────────────────────────────────────────────

    def add(self, member: Member, then: DoneCallback) -> None:
        """Let a node join: as a learner first, promoted when it has caught up. Any node."""
        self._members.ask(ChangeKind.ADD, member, then)

    def remove(self, node: NodeId, then: DoneCallback) -> None:
        """Remove a node for good. Any node."""
        self._members.ask(ChangeKind.REMOVE, Member(node), then)

    def transfer(self, to: NodeId, then: DoneCallback) -> None:
        """Have another node lead. The leader only; ``then`` is told when it does."""
        self._members.transfer(to, then)

    # ── Time ──────────────────────────────────────────────────────────────────────────────────

    def _set_timer(self) -> None:
        self._timer = self._loop.call_later(self._settings.tick_ms / 1000, self._timer_fired)

    def _timer_fired(self) -> None:
        """Tick; after a pause of the loop once more, not as often as was missed."""
        if self._is_closed:
            return
        self._set_timer()
        now = self._clock.monotonic()
        is_late = now - self._ticked_at > 2 * self._settings.tick_ms / 1000
        self._ticked_at = now
        for _ in range(2 if is_late else 1):
            self._tick()

    def _tick(self) -> None:
        raw = self.raw
        if raw is None:
            return
        if self._is_removed:
            self._engine.guarded(raw.tick)  # a leader that is not heard of any more is forgotten
            self._members.expire()
            self.wake()
            return
        self._ticks += 1
        if self.is_lone and raw.role is Role.FOLLOWER:
            raw.campaign()  # who led was removed: nobody else is left
        if not self.is_lone:
            self._engine.guarded(raw.tick)
            self._give_up()
            self._batches.tick()
        self._reads.tick(self._patience_ticks)
        if self._ticks % self._settings.election_ticks == 0:
            self._newcomers.greet()
            self._keep_log()
        self._members.tick()
        self.wake()

    def _give_up(self) -> None:
        """Refuse what waits if nobody has led for too long. It may turn up in the log later.

        Or if somebody leads, and nothing that is sent there arrives: clients wait no longer for one
        fault than for the other.
        """
        own = self._batches.own
        if own is None:
            return
        error = self._refusal()
        if error is None and own.forwarded_ticks >= self._patience_ticks:
            error = NoQuorum(
                f"node {self.leader} leads, but does not take what this node sends it",
                "Look at the network between them; clients may use another node.",
            )
        if error is not None:
            self._batches.refuse(own, error)

    def _keep_log(self) -> None:
        """Tell retention which entries a start, or others, may still need."""
        if self.is_lone:
            self._store.log_floor = self._store.start_floor = LOG_UNBOUND
            return
        self._store.start_floor = max(self._engine.durable_folded, 0) + 1
        needed = self._members.needed(self._kept_log)
        self._store.log_floor = max(min(needed, self._engine.durable_folded), 0) + 1
        self.record.terms = prune_terms(self.record.terms, self._store.first_index)
