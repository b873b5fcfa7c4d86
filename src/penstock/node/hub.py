"""What all connections share: the broker, the line to the disk, the clock, the pens that write.

The hub carries out effects, flushes each connection at most once per turn of the loop, reads from
the journal what a session had waiting, and keeps the account of who is connected.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import sleep
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from penstock.access.admission import (
    CAPTURED,
    ENVELOPE_PREFIX,
    ENVELOPES,
    FORBIDDEN,
    SIGNED_ONLY,
    topic_refusal,
)
from penstock.clock import Clock, SteadyClock
from penstock.cluster.consensus import Consensus
from penstock.cluster.replicated_log import ReplicatedLog
from penstock.commit.erasing import erase
from penstock.commit.pipeline import Pipeline
from penstock.config.schema import Config
from penstock.core.broker import SUBSCRIBE_FAILED, Broker
from penstock.core.commands import WillMessage
from penstock.core.effects import (
    Accepted,
    Control,
    Delivery,
    Effects,
    Ended,
    Erasing,
    FollowUp,
    GroupChanged,
    IdentityTaken,
    OpenedForNobody,
    Outcome,
    PageTurned,
    PortionSent,
    SubscribeAnswer,
    TakenOver,
    TopicEnded,
    Unkept,
    UnsubscribeAnswer,
)
from penstock.core.routes import UNKNOWN_POLICY, Route
from penstock.core.session import Session
from penstock.core.stale_publishes import has_stale_publish
from penstock.delivery.live import Live
from penstock.doors.mqtt.connect_queue import ConnectQueue
from penstock.doors.mqtt.fetch_queue import FetchQueue
from penstock.errors import StorageError
from penstock.limits import KIB
from penstock.model.message import Message
from penstock.net.budget import Budget
from penstock.net.incomplete import Incomplete
from penstock.net.stalls import StallDetector
from penstock.net.takeovers import Takeovers
from penstock.net.timers import Deadlines
from penstock.net.turns import SharedTurns, in_turns
from penstock.node.connection_ids import NODE_BITS
from penstock.obs.counters import Counters
from penstock.obs.log import ThrottledLogger, get_logger
from penstock.obs.reasons import DisconnectReason, DropReason
from penstock.obs.summarized_log import SummarizedLog
from penstock.reading.changes import Changes
from penstock.reading.feed import Feed
from penstock.store.batch import Batch
from penstock.store.store import Store
from penstock.trust.gate import Gate
from penstock.trust.policy import Policy
from penstock.trust.replay import ReplayWindow

if TYPE_CHECKING:
    from penstock.commit.produce import Producing
    from penstock.dispatch.dispatchers import Dispatchers
    from penstock.node.housekeeping import Housekeeping
    from penstock.staging.sinks import Sinks


QUIET_S = 0.0001
"""Time since the last flush after which a message is taken to be alone."""

NAP_S = 0.00005
"""Shortest time between two turns that brought little; unnoticeable beside a network."""

NAP_BYTES_MAX = 16 * KIB
"""A turn that read this much was worth its while."""

READERS = 2
"""Threads that read the journal for sessions that had messages waiting."""

READS_MAX = 2 * READERS
"""Reads that are under way, or done and not passed on: the threads are quicker than the loop."""

READ_AT_ONCE = 8
"""Messages read before it is looked at how many bytes they have."""

SEARCHERS = 1
"""Threads that look for something in it: they may take long, and those who read do not wait."""

Targets = tuple[tuple[Session, int], ...]
"""Sessions a topic goes to, each with its QoS."""

Result = TypeVar("Result")

_log = get_logger("hub")


class Outlet(Protocol):
    """A connection as the hub sees it. Each protocol has its own way to say these things."""

    def accept(self, session: Session, *, session_present: bool) -> None:
        """The client has its session."""
        ...

    def subscribed(self, packet_id: int, return_codes: list[int]) -> None:
        """Answer a subscription."""
        ...

    def topic_deleted(self, topic: bytes) -> None:
        """What is remembered by a topic's offsets is void."""
        ...

    def leadership_lost(self) -> None:
        """Another node leads from now on: what only the leader does is not done here."""
        ...

    def unsubscribed(self, packet_id: int) -> None:
        """Answer the end of a subscription."""
        ...

    def deliver(self, deliveries: list[Delivery]) -> None:
        """Send messages."""
        ...

    def acknowledge(self, kind: int, packet_ids: list[int]) -> None:
        """Acknowledge packets of the client."""
        ...

    def forward(self, live: Live) -> None:
        """Send live messages, droppable if the reader is slow."""
        ...

    def close(self, reason: DisconnectReason, detail: str = "") -> None:
        """End the connection."""
        ...

    def pause(self) -> None:
        """Take nothing more from the client."""
        ...

    def resume_reading(self) -> None:
        """The line to the disk has moved on."""
        ...

    def forgive(self, stalled_s: float) -> None:
        """The broker stood still: silence in that time does not count."""
        ...

    def offer_more(self, *, is_page_done: bool = False) -> None:
        """There may be retained messages to send, and room for them."""
        ...


def peer_of(transport: asyncio.BaseTransport) -> str:
    """Who is at the other end, as ``ip:port``; for the log."""
    name = transport.get_extra_info("peername")
    return f"{name[0]}:{name[1]}" if name else "unknown"


class LiveSubscriber:
    """A subscriber without a session, as routes see it: live messages go to its outlet."""

    __slots__ = ("outlet",)

    def __init__(self, outlet: Any) -> None:
        self.outlet = outlet


class Flushable(Protocol):
    """Something that gathers output during a turn of the loop."""

    def flush(self) -> None:
        """Write what has gathered."""
        ...


class Hub:
    """The shared side of every connection of one broker."""

    dispatchers: "Dispatchers"
    """Set by whoever builds the broker, as what follows: dispatchers need a hub."""
    producing: "Producing"
    sinks: "Sinks"
    housekeeping: "Housekeeping"

    def __init__(
        self,
        *,
        config: Config,
        broker: Broker,
        store: Store,
        clock: Clock,
        counters: Counters,
        is_captured: Callable[[bytes], bool],
        log: ReplicatedLog,
        cluster: Consensus,
        signed_until_ms: int = 0,
    ) -> None:
        self.config = config
        self.limits = config.limits
        self.broker = broker
        self.store = store
        self.clock = clock
        self.monotonic = clock.monotonic
        self.wall_ms = clock.wall_ms
        self.steady = SteadyClock(clock)
        self.steady_ms = self.steady.now_ms
        self.counters = counters
        self.is_captured = is_captured
        """Whether the journal wants QoS 0 messages of a topic; asked once per cached route."""
        self.loop = asyncio.get_running_loop()
        self.deadlines = Deadlines()
        self.connections: set[Any] = set()
        """All that is open and known: clients, and whoever asks by HTTP."""
        self.clients: set[Outlet] = set()
        self.identities: dict[bytes, Any] = {}
        """Client ids of the binary protocol, and the connection that has each."""
        self.cluster = cluster
        """What there is beside us. Who needs to know when that changes is told by ``on_led``."""
        self._listeners: dict[Any, Any] = {}
        self.listening_count = 0
        """Subscriptions that are followers' second ones, for what the journal does not keep."""
        self.is_stopping = False
        self._is_closed = False
        self.complaints = ThrottledLogger(get_logger("net"), clock=clock.monotonic)
        """For lines that clients can cause: a flood of bad ones must not flood the log."""
        self._last_connection = 0
        self._due: list[Flushable] = []
        self._is_holding = False
        self._is_flush_scheduled = False
        self._flushed_at = 0.0
        self._received_at_flush = 0
        self._reads: deque[Callable[[], None]] = deque()
        """Jobs for the threads that read, beyond those that were given to them."""
        self._reading = 0
        self._make_lines()
        self.incomplete = Incomplete(config.limits.incomplete_bytes_max)
        self.changes = Changes(
            clock.wall_ms(),
            store.next_index,
            lambda work: self.loop.call_soon(in_turns, self, work),
        )
        self.feed = Feed()
        self.feed.on_committed = self.changes.committed
        self.gate = _gate(config, broker, max(clock.wall_ms(), signed_until_ms + 1))
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="penstock-read")
        self._searchers = ThreadPoolExecutor(SEARCHERS, thread_name_prefix="penstock-search")
        self.pipeline = self._make_pipeline(log)
        self._controls = self._make_controls()
        self.on_group_changed: list[Callable[[bytes, bytes], None]] = []
        """Who else is told that another node has changed something of a group."""

    def _make_lines(self) -> None:
        """Where clients wait for their turn, and what they share."""
        self.stalls = StallDetector(self.loop.time, self.monotonic)
        self.shared_turns = SharedTurns(self)
        self.budget = Budget(self.limits.outgoing_bytes_max, self.loop.call_soon)
        self.fetch_queue = FetchQueue(self)
        self.connect_queue = ConnectQueue(self)
        log = get_logger("net")
        self.takeovers = Takeovers(log, self.monotonic)
        self.other_versions = SummarizedLog(log, "version_refused", self.monotonic)
        """Clients that asked for a version of MQTT that is not spoken here."""

    def _make_controls(self) -> dict[type, Callable[[Any], None]]:
        """What is done about which effect."""
        return {
            Accepted: self._accepted,
            TakenOver: self._taken_over,
            Ended: self._session_ended,
            SubscribeAnswer: self._subscribed,
            UnsubscribeAnswer: self._unsubscribed,
            Unkept: lambda c: c.outlet.close(DisconnectReason.STORAGE_FAILED),
            Outcome: lambda c: c.outlet.outcome(c.value),
            FollowUp: lambda c: self.pipeline.submit(c.command, c.outlet, durable=True),
            PageTurned: lambda c: c.outlet.offer_more(is_page_done=c.is_done),
            PortionSent: lambda c: c.outlet.drain_more(),
            OpenedForNobody: lambda c: self.housekeeping.opened_for_nobody(
                c.client_id, c.connection
            ),
            IdentityTaken: self._identity_taken,
            GroupChanged: self._group_changed,
            TopicEnded: lambda c: self.dispatchers.topic_ended(c.topic),
            Erasing: lambda c: erase(self, c.command, c.outlet),
        }

    def _make_pipeline(self, log: ReplicatedLog) -> Pipeline:
        config, journal = self.config, self.config.journal
        return Pipeline(
            broker=self.broker,
            store=self.store,
            log=log,
            clock=self.clock,
            counters=self.counters,
            execute=self.execute,
            refuse=self._refuse,
            pass_on=self.pass_on,
            durability=config.durability,
            durability_interval_ms=config.durability_interval_ms,
            capture_interval_ms=journal.capture_interval_ms,
            capture_pending_bytes_max=journal.capture_pending_bytes_max,
            batch_bytes_target=journal.batch_bytes_target,
            journal_bytes_max=journal.total_bytes_max,
            feed=self.feed,
        )

    def next_connection(self) -> int:
        """A number no connection had before, at this node or another, in this life or an earlier.

        Its upper part is the time of the connect, so nothing needs to be remembered on disk; the
        lowest bits are the node's id.
        """
        self._last_connection = max(self._last_connection + 1, self.clock.wall_ms() << 6)
        return self._last_connection << NODE_BITS | self.cluster.node_id

    def publish_will(self, will: WillMessage) -> None:
        """Publish for a client that vanished; nobody waits for an acknowledgement."""
        route = self.route(will.topic)
        if route.policy > CAPTURED:  # since a start with other rules; nobody can sign it now
            self.gate.admit_unsigned(will.topic)
            self.counters.drops[DropReason.SIGNATURE_REFUSED] += 1
            return
        if not will.qos:
            self.forward(route.targets, Live.of(will.topic, [will.payload]))
            if not route.policy and not will.retain:
                self.broadcast(will.topic, [will.payload])
        now_ms = self.clock.wall_ms()
        if will.qos or will.retain:
            retain = will.retain and self.may_retain(will.topic, will.payload)
            self.pipeline.publish(
                will.topic, [will.payload], now_ms, qos=will.qos, retain=retain, keep=True
            )
        elif self.is_captured(will.topic):
            self.pipeline.capture(will.topic, [will.payload], now_ms)

    def policy(self, topic: bytes) -> int:
        """Flags of a topic (``access.admission``); worked out once per cached route."""
        if topic.startswith(ENVELOPE_PREFIX):
            return ENVELOPES
        if topic_refusal(topic, self.limits) is not None:
            return FORBIDDEN  # a topic of the broker's own: its route is cached all the same
        signed_only = SIGNED_ONLY if self.gate.demands_signature(topic) else 0
        return signed_only | (CAPTURED if self.is_captured(topic) else 0)

    def route(self, topic: bytes) -> Route[Session]:
        """Where a topic goes, its policy worked out."""
        routes = self.broker.routes
        route = routes.cached.get(topic) or routes.resolve(topic)
        if route.policy == UNKNOWN_POLICY:
            route.policy = self.policy(topic)
        return route

    def listen(self, topic_filter: bytes, outlet: Any) -> None:
        """Let a follower of the journal hear what the journal does not keep, too."""
        if self._may_be_uncaptured(topic_filter):
            listener = self._listeners.setdefault(outlet, LiveSubscriber(outlet))
            self.listening_count += self.broker.routes.subscribe(topic_filter, listener, 0)

    def unlisten(self, topic_filter: bytes, outlet: Any) -> None:
        """Undo ``listen``."""
        listener = self._listeners.get(outlet)
        if listener is not None:
            self.listening_count -= self.broker.routes.unsubscribe(topic_filter, listener)

    def forget(self, outlet: Any) -> None:
        """The outlet listens to nothing more."""
        self._listeners.pop(outlet, None)

    def _may_be_uncaptured(self, topic_filter: bytes) -> bool:
        journal = self.config.journal
        return topic_filter.startswith(b"$") or not journal.capture or bool(journal.capture_exclude)

    def may_retain(self, topic: bytes, payload: bytes) -> bool:
        """Whether a message may be retained; if not it is delivered only, and counted."""
        if not payload or self.broker.retained.admits(topic):
            return True
        self.counters.drops[DropReason.RETAINED_LIMIT] += 1
        return False

    def forward(self, targets: Targets, live: Live) -> None:
        """Give live messages to whoever is connected; each protocol takes the form it needs."""
        for session, _granted in targets:
            outlet = session.outlet
            if outlet is not None:
                outlet.forward(live)

    def pass_on(self, topic: bytes, payloads: list[bytes]) -> None:
        """Give live messages that came to another node to whoever is connected to this one."""
        self.forward(self.route(topic).targets, Live.of(topic, payloads))

    def is_late(self, batch: Batch) -> bool:
        """Whether a batch holds what a client has repeated at another node by now. Any thread."""
        return bool(batch.events) and has_stale_publish(batch.events, self.broker.sessions)

    def broadcast(self, topic: bytes, payloads: list[bytes]) -> None:
        """Messages that were forwarded here and that no journal keeps: for other nodes, too."""
        if self.cluster.is_clustered:
            self.cluster.broadcast(topic, payloads)

    def set_cluster_time(self, now_ms: int) -> None:
        """It is so late at the leader."""
        self.steady.follow(now_ms)

    # ── effects ───────────────────────────────────────────────────────────────────────────────

    def execute(self, effects: Effects) -> None:
        """Carry out what applied commands brought about; one client's trouble stays its own."""
        was_holding, self._is_holding = self._is_holding, True
        for control in effects.controls:
            self._guarded(control.outlet, self._control, control)
        for outlet, deliveries in effects.deliveries.items():
            self._guarded(outlet, outlet.deliver, deliveries)
        for (outlet, kind), packet_ids in effects.acks.items():
            self._guarded(outlet, outlet.acknowledge, kind, packet_ids)
        self._is_holding = was_holding
        if self._due and not was_holding:
            self._flush()

    def _control(self, control: Control) -> None:
        self._controls[type(control)](control)

    def _accepted(self, control: Accepted) -> None:
        control.outlet.accept(control.session, session_present=control.session_present)

    def _subscribed(self, control: SubscribeAnswer) -> None:
        refused = control.return_codes.count(SUBSCRIBE_FAILED)
        self.counters.refused_total += refused
        self.counters.subscribed_total += len(control.return_codes) - refused
        control.outlet.subscribed(control.packet_id, control.return_codes)

    def _unsubscribed(self, control: UnsubscribeAnswer) -> None:
        self.counters.unsubscribed_total += 1
        control.outlet.unsubscribed(control.packet_id)

    def _taken_over(self, control: TakenOver) -> None:
        if not control.is_will_due:
            control.outlet.drop_will()
        control.outlet.close(DisconnectReason.SESSION_TAKEN_OVER)

    def _session_ended(self, control: Ended) -> None:
        """Whoever ended the session has published its will; a connection that left has its own."""
        control.outlet.drop_will()
        control.outlet.close(DisconnectReason.SESSION_ENDED)

    def _identity_taken(self, control: IdentityTaken) -> None:
        """Another node has a client with this id. If ours is in the line, it comes after it."""
        holder = self.identities.get(control.client_id)
        if holder is not None and holder.is_identified and holder.number != control.connection:
            holder.close(DisconnectReason.SESSION_TAKEN_OVER)

    def _group_changed(self, control: GroupChanged) -> None:
        self.dispatchers.group_changed(control.topic, control.group, control.workers)
        if control.group is not None:
            for tell in self.on_group_changed:
                tell(control.topic, control.group)

    def _guarded(self, outlet: Outlet | None, act: Callable[..., None], *arguments: Any) -> None:
        try:
            act(*arguments)
        except Exception:  # noqa: BLE001 - a bug met while serving one client must not reach another
            _log.exception("delivery_failed")
            if outlet is not None:
                outlet.close(DisconnectReason.INTERNAL_ERROR)

    def _refuse(self, outlet: Outlet, reason: DisconnectReason) -> None:
        outlet.close(reason)

    # ── writing ───────────────────────────────────────────────────────────────────────────────

    def flush_soon(self, outbox: Flushable) -> None:
        """Flush ``outbox`` once, when this turn or this chunk is done with."""
        self._due.append(outbox)
        if not self._is_holding and not self._is_flush_scheduled:
            self._is_flush_scheduled = True
            self.loop.call_soon(self._flush_turn)

    def hold(self) -> None:
        """What is about to be written will be followed by more: wait for ``release``."""
        self._is_holding = True

    def release(self, now: float) -> None:
        """Write what has gathered: at once if little is going on, else once for this turn.

        Waiting for the end of the turn joins what many publishers sent into one write per
        subscriber, but costs a round of the loop: not worth it for a message that is alone.
        """
        self._is_holding = False
        if self._due and not self._is_flush_scheduled:
            if now - self._flushed_at > QUIET_S:
                self._flush()
            else:
                self._is_flush_scheduled = True
                self.loop.call_soon(self._flush_turn)

    def _flush_turn(self) -> None:
        """The scheduled flush: once per turn, and not too many turns when each brings little.

        A client that writes message by message wakes us for each, and then all the work of a turn
        is done for one message. Napping lets a few arrive, and the writer thread work; large reads
        need no such help.
        """
        if not self._is_flush_scheduled:
            return  # done meanwhile: a commit's effects are flushed as soon as they are carried out
        since_last = self.monotonic() - self._flushed_at
        received = self.counters.bytes_in_total - self._received_at_flush
        self._flush()
        if since_last < NAP_S and received < NAP_BYTES_MAX:
            sleep(NAP_S - since_last)

    def _flush(self) -> None:
        self._is_flush_scheduled = False
        self._flushed_at = self.monotonic()
        self._received_at_flush = self.counters.bytes_in_total
        due, self._due = self._due, []
        for outbox in due:
            try:
                outbox.flush()
            except Exception:  # noqa: BLE001 - the others must be flushed all the same
                _log.exception("flush_failed")

    # ── reading from the journal ──────────────────────────────────────────────────────────────

    def read(
        self,
        sequences: list[int],
        deliver: Callable[[dict[int, Message | None]], None],
        fail: Callable[[StorageError], None],
        bytes_max: float = float("inf"),
    ) -> None:
        """Read messages off the loop; ``deliver`` gets them, None for those that are gone.

        Not all if they have more than ``bytes_max``, but one at least.
        """
        wanted = sorted(set(sequences))
        if wanted[-1] >= self.store.next_sequence:
            # Applied before committed (durability "interval"): wait for the disk to have it.
            self.pipeline.when_committed(lambda: self.read(wanted, deliver, fail, bytes_max))
            return
        self.run_off_loop(lambda: _read_some(self.store, wanted, bytes_max), deliver, fail)

    def run_off_loop(
        self,
        job: Callable[[], Result],
        deliver: Callable[[Result], None],
        fail: Callable[[StorageError], None],
        *,
        is_search: bool = False,
    ) -> None:
        """Run a job that reads the store in a thread; ``deliver`` gets what it returns.

        ``is_search``: it goes through much to find little. Clients choose how much, and nobody who
        waits for messages should wait for that.
        """

        def done(future: "asyncio.Future[Result]") -> None:
            if future.cancelled() or self._is_closed:
                return
            error = future.exception()
            if error is None:
                deliver(future.result())
            elif isinstance(error, StorageError):
                self._unreadable(error)
                fail(error)
            else:
                _log.error("read_failed", exc_info=error)
                fail(StorageError(f"reading the journal failed on a bug of ours: {error!r}"))

        if is_search:
            self.loop.run_in_executor(self._searchers, job).add_done_callback(done)
            return

        def begin() -> None:
            self.loop.run_in_executor(self._readers, job).add_done_callback(read)

        def read(future: "asyncio.Future[Result]") -> None:
            self._reading -= 1
            if not self._is_closed:
                self._begin_reads()
            done(future)

        self._reads.append(begin)
        self._begin_reads()

    def _begin_reads(self) -> None:
        """Give the threads something to read: what was read and not passed on takes memory."""
        while self._reads and self._reading < READS_MAX:
            self._reading += 1
            self._reads.popleft()()

    def _unreadable(self, error: StorageError) -> None:
        """Something stored cannot be read: the operator must know, whoever met it."""
        self.counters.read_failures_total += 1
        values = {"error": error.message, "advice": "penstock store verify tells how far it goes"}
        self.complaints.log(logging.ERROR, "journal_unreadable", error.message, **values)

    def close(self) -> None:
        """Stop the threads, after what they are doing; whoever waits for it waits no more."""
        self._is_closed = True
        self._readers.shutdown()
        self._searchers.shutdown(cancel_futures=True)
        self.pipeline.close()


def _read_some(store: Store, sequences: list[int], bytes_max: float) -> dict[int, Message | None]:
    """Messages by sequence, in order, until they have so many bytes."""
    found: dict[int, Message | None] = {}
    for first in range(0, len(sequences), READ_AT_ONCE):
        some = sequences[first : first + READ_AT_ONCE]
        messages = store.read(some)
        found.update(zip(some, messages, strict=True))
        bytes_max -= sum([len(message.payload) for message in messages if message is not None])
        if bytes_max <= 0:
            break
    return found


def _gate(config: Config, broker: Broker, started_ms: int) -> Gate:
    signing = config.signing
    window = ReplayWindow(signing.window_s * 1000, signing.nonces_max, started_ms)
    return Gate(broker.keys, Policy(signing), window)
