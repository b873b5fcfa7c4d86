"""Group commit: what arrives during one commit goes into the next batch.

Commands arrive in order from all connections. Durable commands join the open batch; the writer
thread commits one batch at a time, and after the commit the commands of the batch are applied and
their effects carried out. In a cluster with distant nodes several batches are in flight, as many as
the log has room for; they are committed, and applied, in order. Commands that need no disk keep
their order but never start a commit; in an empty pipeline they are applied at once.

There are two durability modes:

``sync``      commands are applied (and so acknowledged) after their commit is on disk
``interval``  commands are applied at once and committed at intervals: a crash may lose what was
              acknowledged in the last interval. For flash that cannot endure an fsync per batch.

After a failed commit there is nothing to undo under ``sync``: its commands are refused and counted,
and the next batch tries again. Commands without a client to repeat them (the end of a connection, a
will) are retried. Under ``interval`` the whole batch is retried.

No message may overtake an earlier one of its publisher because that one was refused. So the batches
in flight after a refused one are refused with it: the log takes none without the one before. And so
is what the refused publishers have in the open batch. A batch that is void only in part,
because its term has ended, is submitted again without the void commands before anything newer.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from penstock.clock import Clock
from penstock.cluster.replicated_log import ReplicatedLog
from penstock.commit.capture_bound import Capture, CaptureBound, CaptureRoom, EachMessage
from penstock.commit.capture_drops import CaptureDrops
from penstock.commit.checkpoint import Checkpointer
from penstock.commit.completion import Callback
from penstock.commit.feed import Feed
from penstock.commit.latency import CommitLatency
from penstock.commit.pending_batch import (
    OVERHEAD_BYTES,
    PendingBatch,
    PendingBatches,
    Step,
    captured,
)
from penstock.commit.pending_offsets import PendingOffsets, complete_offsets, note_producers
from penstock.commit.refusals import Refusals, RetryQueue
from penstock.commit.replay import commands_of, live_of
from penstock.commit.settings import PipelineSettings
from penstock.commit.withdrawal import cut, withdraw
from penstock.core.broker import Broker
from penstock.core.commands import Authored, Command, Published, Received, TopicGone, to_event
from penstock.core.completion import Completion, Journaled, Refusable
from penstock.core.effects import Effects, Outcome
from penstock.core.session import Publisher
from penstock.errors import LeadershipLost, PenstockError
from penstock.limits import BATCH_BYTES_MAX
from penstock.model.message import FLAG_FIELDS, FLAG_RETAIN, Extras
from penstock.net.connections import PausedReader
from penstock.obs.counters import Counters
from penstock.obs.log import get_logger
from penstock.obs.reasons import DisconnectReason
from penstock.store.batch import Batch
from penstock.store.store import Commit, Store

WAITING_S = 10.0
"""How long after an acknowledged publish captured messages must leave room for the next."""

FOLLOWED_INTERVAL_S = 0.002
"""Capture interval while clients of this or another node see messages only after the commit."""

PassOn = Callable[[bytes, list[bytes], list[Extras | None] | None, int], None]

RETRY_S = 0.5  # pause before a failed commit is retried
_log = get_logger("pipeline")


class Pipeline(PendingBatches):
    """Takes commands in order, commits them in batches, and applies them."""

    def __init__(
        self,
        *,
        broker: Broker,
        store: Store,
        log: ReplicatedLog,
        clock: Clock,
        counters: Counters,
        execute: Callable[[Effects], None],
        pass_on: PassOn = lambda _topic, _payloads, _extras, _flags: None,
        feed: Feed | None = None,
        settings: PipelineSettings | None = None,
    ) -> None:
        """``execute`` carries out effects, ``pass_on`` delivers live messages of other nodes.

        It gets topic, payloads, their extras if any has some, and flags of the journal.
        """
        settings = settings or PipelineSettings()
        share_bytes = settings.share_bytes
        super().__init__(store.next_sequence, applies_first=settings.applies_first)
        self._monotonic = clock.monotonic
        self._batch_bytes_max = min(BATCH_BYTES_MAX, share_bytes)
        self._broker = broker
        self._counters = counters
        self._latency = CommitLatency(counters, clock.monotonic)
        self._capture_bound = CaptureBound(share_bytes // 2)
        self.capture_room = CaptureRoom()
        self._capture_drops = CaptureDrops(counters, clock.monotonic)
        self._pass_on = pass_on
        self._settings = settings
        self._feed = feed or Feed()
        self._checkpointer = Checkpointer(broker, 2 * share_bytes)
        self._loop = asyncio.get_running_loop()
        self._log = log
        self._offsets = PendingOffsets(store)
        self.next_index = store.next_index  # after the last entry that was applied
        self._waited_at = float("-inf")  # when a client last waited for the disk
        self._start_due = False
        self._is_closed = False
        self.is_congested = False  # whether publishers should wait for the disk
        self._commit_timer: asyncio.TimerHandle | None = None
        self._paused: dict[PausedReader, None] = {}
        self._on_commit: list[Callable[[], None]] = []
        self._applier = Applier(broker, execute)
        self.receiving = self._applier.receiving
        self._retries = RetryQueue(self, broker.retained)
        self._refusals = Refusals(counters, self._feed, self._applier, self._retries)
        self.failure: PenstockError | None = None  # of the last commit; None: it succeeded
        log.begin(self)

    # ── submitting ────────────────────────────────────────────────────────────────────────────

    def submit(self, command: Command, waiter: Refusable | None, *, durable: bool) -> None:
        """Apply ``command`` after those before it; if ``durable``, after it is journaled."""
        if durable:
            self._open.batch.add_event(to_event(command))  # type: ignore[arg-type]
            self._add_overhead(OVERHEAD_BYTES)
        elif not self._has_steps():
            self._applier.apply([(command, waiter, False)])
            return
        self._join(command, waiter, durable=durable)

    def submit_patiently(self, command: Command, waiter: Refusable | None) -> None:
        """``submit`` what no client waits for, such as acknowledgements of subscribers.

        It waits a little for other commands to share the commit. ``hurry`` ends the wait.
        """
        self._open.batch.add_event(to_event(command))  # type: ignore[arg-type]
        self._add_overhead(OVERHEAD_BYTES)
        self._open.is_patient = True
        self._enqueue(command, waiter, durable=True)
        if self._applies_first:
            self._wake()
        elif self._may_seal:
            self._set_timer(FOLLOWED_INTERVAL_S)

    def hurry(self) -> None:
        """Commit what was submitted patiently now: a client waits for it."""
        if self._open.is_patient:
            self._open.is_urgent = True
            self._wake()

    def barrier(self, done: Callable[[], None]) -> None:
        """Call back when everything submitted so far has been applied."""
        if not self._has_steps():
            done()
            return
        self._enqueue(None, Callback(lambda _result: done()), durable=False)
        self.hurry()
        self._wake()

    def publish(
        self,
        topic: bytes,
        payloads: list[bytes],
        now_ms: int,
        *,
        qos: int,
        retain: bool,
        packet_ids: list[int] | None = None,
        client: Publisher | None = None,
        keep: bool = False,
        extras: list[Extras | None] | None = None,
        is_fields: bool = False,
        marks: int = 0,
        author: str = "",
    ) -> None:
        """Journal messages of one topic, then route them and acknowledge ``packet_ids``.

        ``keep``: retry a failed commit, as there is no client to repeat it (a will).
        ``is_fields``: the payloads are the fields of stream entries. ``marks``: flags for the
        priority, the content type, a RETAIN that is not kept. ``author``: the user, remembered
        with a retained message.
        """
        flags = qos | (FLAG_RETAIN if retain else 0) | (FLAG_FIELDS if is_fields else 0) | marks
        pending = self._open
        batch = pending.batch
        position = batch.append(topic, payloads, now_ms, flags, extras)
        command = Published(
            topic, payloads, qos, retain, position, now_ms, packet_ids or [], keep, extras, marks
        )
        # as ``_join`` and ``_add_overhead``, without the calls: this is done for every message
        if not pending.steps:
            pending.opened_at = self._monotonic()
        if not pending.began_at:
            pending.began_at = pending.opened_at
        pending.steps.append((command, client, True))
        self._waited_at = pending.opened_at
        pending.is_urgent = True
        if not self._start_due:
            self._wake()
        pending.overhead_bytes += (OVERHEAD_BYTES + len(topic)) * len(payloads)
        used_bytes = batch.payload_bytes + pending.overhead_bytes
        self.is_congested = used_bytes > self._batch_bytes_max
        if retain and author:
            self.submit(Authored(topic, author), client, durable=True)

    def tell_offsets(
        self,
        topic: bytes,
        count: int,
        waiter: Completion[Journaled],
        now_ms: int,
        *,
        on_disk: bool = False,
    ) -> None:
        """Complete ``waiter`` with the offset of the first of the last ``count`` messages.

        Call it right after ``publish`` of these messages. ``waiter`` completes when they are
        acknowledged or, if ``on_disk``, when they are on disk in either mode; then the wait is not
        counted as a publisher's.
        """
        place = self._open.batch.messages_of(topic) - count
        wanted = (topic, place, 0 if on_disk else count, waiter, now_ms)
        sent = self._in_flight[0].batch if self._in_flight else None
        if on_disk or not self._applies_first or not self._offsets.add(wanted, sent):
            self._open.offset_waiters.append(wanted)

    def add_producer_run(self, topic: bytes, count: int, producer: bytes, seq: int) -> None:
        """The last ``count`` messages of a topic have a producer and numbers from ``seq`` on.

        Call it right after ``publish`` of these messages, within ``as_leader``.
        """
        place = self._open.batch.messages_of(topic) - count
        self._open.batch.add_producer_run(topic, place, count, producer, seq)

    @contextmanager
    def as_leader(self) -> Iterator[None]:
        """Submit commands that are void in another term: this node decided them as leader.

        The next leader may have decided the same from the same state. Other commands of the batch
        are not affected.
        """
        pending = self._open
        first = len(pending.steps)
        yield
        pending.bound.append(range(first, len(pending.steps)))
        pending.batch.term = pending.batch.term or self._log.term

    def drop_topic(self, topic: bytes, command: TopicGone, waiter: Refusable | None) -> None:
        """Delete a topic with the next commit, before any messages of it in that commit."""
        if self._applies_first and topic in self._open.batch.topics:  # their offsets are known
            if self._in_flight:
                self._on_commit.append(lambda: self.drop_topic(topic, command, waiter))
                return
            self._seal()
        self._offsets.dropped(topic)
        self._open.batch.drop(topic)
        self.submit(command, waiter, durable=True)

    def receive(self, command: Received, waiter: Refusable | None, *, record: bool) -> None:
        """Remember the ids of QoS 2 messages, before their ``publish``.

        ``record``: journal the ids, for a persistent session. Otherwise they live in memory.
        """
        self.receiving |= {(command.client_id, packet_id) for packet_id in command.packet_ids}
        if record:
            self._open.batch.add_event(to_event(command))
        self._join(command, waiter, durable=True)

    def capture(
        self,
        topic: bytes,
        payloads: list[bytes],
        now_ms: int,
        marks: int = 0,
        extras: Sequence[Extras | None] | None = None,
    ) -> None:
        """Journal delivered messages in the background; ``marks``: flags for the content type."""
        self.begin_capture()(topic, payloads, now_ms, marks, extras)
        self.end_capture()

    def begin_capture(self) -> Capture:
        """``capture`` for many topics at once, until ``end_capture``.

        Returns a function of topic, payloads, time, flags (of the content type) and extras. While
        too much waits for the disk, it drops the messages and counts them.
        """
        if self._is_capture_full():
            return self._capture_drops.drop_instead(self.pending_bytes)
        return self._open.batch.append

    def capturing_batch(self) -> Batch | None:
        """The batch for messages to capture, until ``end_capturing``; None if too much waits."""
        return None if self._is_capture_full() else self._open.batch

    def end_capturing(self, batch: Batch | None, count: int) -> None:
        if batch is None:
            self._capture_drops.add(count, b"", self.pending_bytes)
        self.end_capture()

    def capture_each(
        self, messages: EachMessage, topics: Mapping[bytes, bytes] | None, now_ms: int
    ) -> None:
        batch = self.capturing_batch()
        if batch is not None:
            messages.append_to(batch, topics, now_ms)
        self.end_capturing(batch, messages.count)

    def _is_capture_full(self) -> bool:
        pending_bytes = self.pending_bytes
        return pending_bytes > self._settings.capture_pending_bytes_max or (
            pending_bytes > self._capture_bound.bytes
            and self._monotonic() - self._waited_at < WAITING_S
        )

    def end_capture(self) -> None:
        batch = self._open.batch
        if self._in_flight:
            pass  # ``_go_on`` sets the timer after that commit
        elif batch.payload_bytes >= self._settings.batch_bytes_target:
            self._wake()
        elif self._commit_timer is None and not batch.is_empty:
            self._set_timer(self._patience_s)
        if batch.count and self.capture_room.batch is not batch:
            others = self.pending_bytes - batch.payload_bytes
            bound = min(self._settings.capture_pending_bytes_max, self._capture_bound.bytes)
            self.capture_room.grant(batch, min(bound - others, self._settings.batch_bytes_target))

    @property
    def _patience_s(self) -> float:
        """How long captured messages may wait for a commit."""
        if self._feed.is_wanted or not self._log.is_lone:
            return min(FOLLOWED_INTERVAL_S, self._settings.capture_interval_s)
        return self._settings.capture_interval_s

    def unsettled(self, topic: bytes) -> list[bytes]:
        """Messages of a topic from ``settled_sequence`` on that were delivered live already.

        A client that reads the journal up to there, takes these, and subscribes live in the same
        turn of the loop misses nothing and gets nothing twice.
        """
        if self._applies_first:
            self._apply_first()
        payloads: list[bytes] = []
        for pending in (*self._in_flight, self._open):
            group = pending.batch.group(topic)
            if group is not None:
                payloads += group.payloads if self._applies_first else captured(group)
        return payloads

    def when_readable(self, act: Callable[[], None], end: int = 0) -> None:
        """See ``LogListener``. Under ``interval``, commit first what is below ``end``."""
        end = end or self.next_sequence + self._open.batch.count
        if self.settled_sequence >= end or self.failure is not None or not self._applies_first:
            act()
        else:
            self.when_committed(lambda: self.when_readable(act, end))

    def when_drained(self, reader: PausedReader) -> None:
        """Call ``resume_reading`` when the next commit is done, or has failed."""
        self._paused[reader] = None

    def when_committed(self, callback: Callable[[], None]) -> None:
        """Call back after the next commit, successful or not; make one soon. See ``failure``."""
        self._on_commit.append(callback)
        if not self._in_flight:
            self._loop.call_soon(self._seal)

    def _join(self, command: Command, waiter: Refusable | None, *, durable: bool) -> None:
        self._enqueue(command, waiter, durable=durable)
        if durable:
            self._waited_at = self._open.opened_at
            self._open.is_urgent = True
        self._wake()

    def _enqueue(self, command: Command | None, waiter: Refusable | None, *, durable: bool) -> None:
        pending = self._open
        if not pending.steps:
            pending.opened_at = self._monotonic()
        if durable and not pending.began_at:
            pending.began_at = pending.opened_at
        pending.steps.append((command, waiter, durable))

    def _add_overhead(self, overhead_bytes: int) -> None:
        pending = self._open
        pending.overhead_bytes += overhead_bytes
        used_bytes = pending.batch.payload_bytes + pending.overhead_bytes
        self.is_congested = used_bytes > self._batch_bytes_max

    # ── committing ────────────────────────────────────────────────────────────────────────────

    @property
    def _may_seal(self) -> bool:
        """Whether a batch may be submitted now: none is in flight, or the log takes another."""
        return not self._in_flight or (not self._applies_first and self._log.has_room)

    def _wake(self) -> None:
        """Start a commit at the end of this turn of the loop, which may read more commands."""
        if not self._start_due:
            self._start_due = True
            self._loop.call_soon(self._start)

    def _set_timer(self, delay_s: float) -> None:
        if self._commit_timer is None:
            self._commit_timer = self._loop.call_later(delay_s, self._timer_fired)

    def _timer_fired(self) -> None:
        self._commit_timer = None
        self._seal()

    def _start(self) -> None:
        self._start_due = False
        if self._applies_first:
            self._start_interval()
        elif self._may_seal:
            large = self._open.batch.payload_bytes >= self._settings.batch_bytes_target
            if self._open.is_urgent or large:
                self._seal()
            elif self._open.is_patient:
                self._set_timer(FOLLOWED_INTERVAL_S)
            elif not self._in_flight and self._open.steps:
                self._apply_open()

    def _start_interval(self) -> None:
        """Apply now; commit when the interval is over or the batch is large."""
        self._apply_first()
        if (
            self._open.batch.payload_bytes >= self._settings.batch_bytes_target
            and not self._in_flight
        ):
            self._seal()
        elif not self._open.batch.is_empty:
            self._set_timer(self._settings.durability_interval_s)

    def _apply_first(self) -> None:
        self._broker.begin(self.next_index, self.next_sequence)
        while self._open.steps:  # applying may submit further commands
            self._latency.waited(self._open)
            sent, opened_at = self._latency.sent, self._open.opened_at
            self._apply_open()
            self._latency.delivered(opened_at, sent)
        self._open.is_urgent = False
        for offset, count, waiter, now_ms in self._offsets.take():
            self._latency.acknowledged(count, self._open.opened_at)
            waiter.done(Journaled(offset, now_ms))

    def _seal(self) -> None:
        if self._is_closed or not self._may_seal:
            return
        if self._in_flight and not self._open.batch.has_content:
            return  # rows alone would overtake what is in flight
        if self._applies_first:
            self._apply_first()
        now = self._monotonic()
        self._checkpointer.fill(self._open.batch, now)
        if self._open.batch.is_empty:
            self._apply_open()
            self._notify_committed()
            return
        if self._commit_timer is not None:
            self._commit_timer.cancel()
            self._commit_timer = None
        self.capture_room.withdraw()
        sealed, self._open = self._open, PendingBatch()
        self._in_flight.append(sealed)
        self.is_congested = False
        if self._applies_first:
            self._offsets.sealed(sealed.batch)
            self.next_sequence += sealed.batch.count
            self.next_index += 1
        self._log.submit(sealed.batch)

    # ── LogListener ───────────────────────────────────────────────────────────────────────────

    def committed(self, batch: Batch, commit: Commit) -> None:
        if not self._is_closed:
            assert self._in_flight and self._in_flight[0].batch is batch  # noqa: PT018
            self._committed(commit)
            if commit.ends_entry:
                self._go_on()
            else:  # the next batch may have checkpoint rows, which contain whole entries
                self._loop.call_soon(self._go_on)

    def refused(self, batch: Batch, error: PenstockError) -> None:
        if not self._is_closed:
            self._failed(batch, error)
            if not self._in_flight:
                self._go_on()

    def made_room(self) -> None:
        if not (self._is_closed or self._applies_first):
            self._start()

    def foreign(self, batch: Batch, commit: Commit) -> None:
        if self._is_closed:
            return
        self._checkpointer.committed(commit.index, commit.bytes if commit.ends_entry else 0)
        self._checkpointer.changed(commit.index)
        if batch.count or batch.drops:
            self._feed.committed(batch, commit)
        for topic, payloads, extras, flags in live_of(batch):
            self._pass_on(topic, payloads, extras, flags)
        self._begin(commit)
        self._applier.apply([(command, None, True) for command in commands_of(batch)])
        if batch.producers:
            note_producers(self._broker.producers, batch, commit)

    def _go_on(self) -> None:
        """After a commit: notify those who waited for it, and start the next if one is due."""
        self._notify_committed()
        self._start()
        if not self._in_flight and not self._open.batch.is_empty:
            self._set_timer(self._patience_s)

    def _committed(self, commit: Commit) -> None:
        self.capture_room.withdraw()
        pending = self._in_flight.popleft()
        batch = pending.batch
        self._latency.committed(commit)
        self._capture_bound.committed(commit.bytes, commit.commit_s)
        if self.failure is not None:
            _log.warning("storage_recovered")
            self.failure = None
        self._checkpointer.committed(commit.index, commit.bytes if commit.ends_entry else 0)
        if batch.count or batch.events:
            self._checkpointer.changed(commit.index)
        sent = self._latency.sent
        if batch.count or batch.drops:
            self._feed.committed(batch, commit, is_own=True)
        if pending.offset_waiters:
            count = sum([count for _, _, count, _, _ in pending.offset_waiters])
            self._latency.acknowledged(count, pending.opened_at)
            complete_offsets(pending, commit)
        if not self._applies_first:
            self._begin(commit)
            self._latency.waited(pending)
            self._applier.apply(pending.steps)
        if batch.producers:
            note_producers(self._broker.producers, batch, commit)
        self._latency.delivered(pending.began_at, sent)

    def _begin(self, commit: Commit) -> None:
        """Set the position of the log at which commands are applied next."""
        self.next_sequence = commit.base_sequence + commit.count
        self.next_index = commit.index + 1
        self._broker.begin(commit.index, commit.base_sequence)

    def _apply_open(self) -> None:
        steps, self._open.steps = self._open.steps, []
        self._applier.apply(steps)

    # ── failures ──────────────────────────────────────────────────────────────────────────────

    def _failed(self, batch: Batch, error: PenstockError) -> None:
        self._counters.commit_failures_total += 1
        if self.failure is None:
            _log.error("commit_failed", error=error.message, advice=error.advice)
        self.failure = error
        self.capture_room.withdraw()
        if self._applies_first:
            self._loop.call_later(RETRY_S, self._resubmit, batch)
            self._notify_committed()  # they find ``failure`` set
            return
        refused = self._take_from(batch)
        for pending in refused:
            self._checkpointer.failed(pending.batch)
        if refused[0].bound and isinstance(error, LeadershipLost):
            self._refuse_bound(refused, error)
        else:
            self._refuse(refused, error)
        if self._retries:
            self._loop.call_later(RETRY_S, self._retries.submit_all)

    def _take_from(self, batch: Batch) -> list[PendingBatch]:
        """Take a batch, and those after it, out of flight."""
        taken: list[PendingBatch] = []
        while not taken or taken[0].batch is not batch:
            taken.insert(0, self._in_flight.pop())
        return taken

    def _refuse(self, refused: list[PendingBatch], error: PenstockError) -> None:
        """Refuse batches, and what their publishers have sent since."""
        withdrawn = []
        for pending in refused if self._in_flight else ():  # what needs no disk keeps its place
            self._in_flight[-1].steps += [step for step in pending.steps if not step[2]]
            pending.steps = [step for step in pending.steps if step[2]]
        for pending in refused:
            self._open, later = withdraw(pending, self._open)
            withdrawn.append(later)
        if any(later.steps for later in withdrawn):
            self._add_overhead(0)
        for pending in (*refused, *withdrawn):
            self._refusals.refuse(pending, error, self.next_sequence)

    def _refuse_bound(self, refused: list[PendingBatch], error: PenstockError) -> None:
        """Refuse what was decided as leader; submit the rest again, before anything newer.

        The first batch is in no log and never will be, nor are those after it, which the log does
        not take without it. So nothing is written twice.
        """
        term, voids = refused[0].batch.term, []
        kept: list[PendingBatch] = []
        for pending in refused:
            rest, void = cut(pending, pending.bound_steps if pending.batch.term == term else set())
            voids.append(void)
            if not rest.batch.is_empty:
                kept.append(rest)
            elif self._in_flight or kept:  # what needs no disk keeps its place
                (kept or self._in_flight)[-1].steps += rest.steps
            else:
                self._applier.apply(rest.steps)
        self._in_flight += kept  # first: what refused clients send next must not overtake it
        for void in voids:
            self._refusals.refuse(void, error, self.next_sequence)
        for pending in kept:
            self._log.submit(pending.batch)

    def _resubmit(self, batch: Batch) -> None:
        if not self._is_closed:
            self._log.submit(batch)

    # ── waiting for commits, shutdown ─────────────────────────────────────────────────────────

    def _notify_committed(self) -> None:
        paused, self._paused = self._paused, {}
        for reader in paused:
            reader.resume_reading()
        callbacks, self._on_commit = self._on_commit, []
        for callback in callbacks:
            callback()

    def turn(self) -> None:
        """Called periodically: commit checkpoint rows when no other commit takes them."""
        if not self._in_flight and self._checkpointer.is_due(self._monotonic()):
            self._seal()

    def run_on_writer(self, job: Callable[[], None]) -> None:
        if not self._is_closed:
            self._log.run_on_writer(job)

    @property
    def is_idle(self) -> bool:
        nothing_open = not self._open.steps and self._open.batch.is_empty
        return nothing_open and not self._in_flight and not self._retries

    async def drain(self) -> None:
        """Wait until everything submitted is committed and applied, or a commit failed."""
        while not self.is_idle:
            committed = asyncio.Event()
            self.when_committed(committed.set)
            await committed.wait()
            if self.failure is not None:
                return

    def close(self) -> None:
        """Stop the writer after the batch in flight; the open batch is lost."""
        self._is_closed = True
        if self._commit_timer is not None:
            self._commit_timer.cancel()
        self._log.close()


class Applier:
    """Applies the commands of a pipeline."""

    def __init__(self, broker: Broker, execute: Callable[[Effects], None]) -> None:
        self._broker = broker
        self.execute = execute
        # QoS 2 ids whose message is in the pipeline: a repetition must not be taken for a new one
        self.receiving: set[tuple[bytes, int]] = set()

    def apply(self, steps: list[Step]) -> None:
        effects = Effects()
        apply, receiving = self._broker.apply, self.receiving
        for command, waiter, _durable in steps:
            if command is None:
                assert isinstance(waiter, Callback)  # see ``Pipeline.barrier``
                effects.controls.append(Outcome(waiter, None))
                continue
            try:
                apply(command, waiter, effects)
            except Exception:  # noqa: BLE001 - an internal error must affect its own client only
                _log.exception("apply_failed", command=type(command).__name__)
                if waiter is not None:
                    waiter.refused(DisconnectReason.INTERNAL_ERROR)
            if receiving and type(command) is Received:
                self.forget(command)
        self.execute(effects)

    def forget(self, command: Received) -> None:
        self.receiving -= {(command.client_id, number) for number in command.packet_ids}
