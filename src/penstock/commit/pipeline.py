"""Group commit: what arrives while one commit runs is the next batch.

Commands come in, in order, from all connections. Those that must be durable join the open batch;
the writer thread commits one batch at a time, and when it is done the batch's commands are applied
and their effects carried out. Commands that need no disk keep their place in the line, but never
start a commit, and with nobody before them they are applied at once.

Two promises, by name:

``sync``      applied (and so acknowledged) after the commit that holds them is on disk
``interval``  applied at once, committed every so many milliseconds: a crash may take back what was
              acknowledged in the last interval. For flash that cannot stand an fsync per batch.

A commit that fails has nothing to undo under ``sync``: its commands are refused and counted, and
the next batch tries again. Commands nobody waits for (a connection that ended, a will) are kept and
tried again. Under ``interval`` the batch itself is kept and tried again.

No message may overtake an earlier one of its publisher because that one was refused. So what the
refused publishers have in the next batch is refused, too, and a batch that only holds some commands
of a former leader is submitted again without them, before anything newer.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from penstock.clock import Clock
from penstock.cluster.replicated_log import ReplicatedLog
from penstock.commit.checkpoint import Checkpointer
from penstock.commit.completion import Callback
from penstock.commit.feed import Feed
from penstock.commit.latency import CommitLatency
from penstock.commit.pending_batch import (
    OVERHEAD_BYTES,
    PendingBatch,
    Step,
    captured,
    retained_live,
)
from penstock.commit.pending_offsets import PendingOffsets, note_producers, tell_offsets
from penstock.commit.refusals import drop_of, reason_of
from penstock.commit.replay import commands_of, live_of
from penstock.commit.retries import RetryQueue
from penstock.commit.settings import PipelineSettings
from penstock.commit.withdrawal import behind, cut
from penstock.core.broker import Broker
from penstock.core.commands import Command, Published, Received, TopicGone, to_event
from penstock.core.completion import Completion, Journaled, Refusable
from penstock.core.effects import Effects, Outcome
from penstock.core.session import Publisher
from penstock.errors import LeadershipLost, PenstockError
from penstock.limits import (
    BATCH_BYTES_MAX,
    CAPTURE_BESIDE_WAITING_BYTES_MAX,
)
from penstock.model.message import FLAG_FIELDS, FLAG_RETAIN, Extras
from penstock.net.connections import PausedReader
from penstock.obs.counters import Counters
from penstock.obs.log import get_logger
from penstock.obs.reasons import DisconnectReason, DropReason
from penstock.store.batch import Batch
from penstock.store.store import Commit, Store

__all__ = ["Pipeline", "Step"]

WAITING_S = 1.0
"""How long after an acknowledged publish captured messages must leave room for the next."""

FOLLOWED_INTERVAL_S = 0.002
"""The same wait while somebody sees messages only after the commit: who follows the journal, and
the subscribers of other nodes."""

RETRY_S = 0.5
"""Pause before a commit is tried again for commands that nobody is there to repeat."""

_log = get_logger("pipeline")


class Pipeline:
    """The line in which commands stand, and the commits that move it on."""

    def __init__(
        self,
        *,
        broker: Broker,
        store: Store,
        log: ReplicatedLog,
        clock: Clock,
        counters: Counters,
        execute: Callable[[Effects], None],
        pass_on: Callable[[bytes, list[bytes]], None] = lambda _topic, _payloads: None,
        feed: Feed | None = None,
        settings: PipelineSettings | None = None,
    ) -> None:
        """``execute`` carries out effects, ``pass_on`` delivers live messages of other nodes."""
        settings = settings or PipelineSettings()
        self._broker = broker
        self._clock = clock
        self._counters = counters
        self._figures = CommitLatency(counters, clock.monotonic)
        self._execute = execute
        self._pass_on = pass_on
        self._settings = settings
        self._applies_first = settings.applies_first
        share = settings.share_bytes
        self._feed = feed or Feed()
        self._checkpointer = Checkpointer(broker, 2 * share)
        self._loop = asyncio.get_running_loop()
        self._log = log
        self._open = PendingBatch()
        self._in_flight: PendingBatch | None = None
        self._offsets = PendingOffsets(store)
        self.next_sequence = store.next_sequence
        """The sequence after the last message that was applied (or, first, after recovery)."""
        self.next_index = store.next_index
        """The entry after the last that was applied, where nothing comes in between."""
        self._waited_at = float("-inf")
        """When somebody last waited for the disk."""
        self._start_due = False
        self._is_closed = False
        self._commit_timer: asyncio.TimerHandle | None = None
        self._paused: dict[PausedReader, None] = {}
        self._on_commit: list[Callable[[], None]] = []
        self._kept = RetryQueue(self, broker.retained)
        self.receiving: set[tuple[bytes, int]] = set()
        """QoS 2 ids whose message is in the line: a repetition must not be taken for a new one."""
        self.is_congested = False
        """Whether publishers should be asked to wait for the disk."""
        self.failure: PenstockError | None = None
        """Why the last commit failed; None once one has succeeded."""
        log.begin(self)

    # ── joining the line ──────────────────────────────────────────────────────────────────────

    def submit(self, command: Command, waiter: Refusable | None, *, durable: bool) -> None:
        """Apply ``command`` when its turn comes; ``durable``: after it is journaled."""
        if durable:
            self._open.batch.add_event(to_event(command))  # type: ignore[arg-type]
            self._watch_congestion(OVERHEAD_BYTES)
        elif self._is_line_empty():
            self._apply([(command, waiter, False)])
            return
        self._join(command, waiter, durable=durable)

    def submit_patiently(self, command: Command, waiter: Refusable | None) -> None:
        """Journal and apply ``command``, but let it wait a little for company: nobody waits for it.

        Acknowledgements of subscribers come so. ``hurry`` ends the wait.
        """
        self._open.batch.add_event(to_event(command))  # type: ignore[arg-type]
        self._watch_congestion(OVERHEAD_BYTES)
        self._open.is_patient = True
        self._enqueue(command, waiter, durable=True)
        if self._applies_first:
            self._wake()
        elif self._in_flight is None:
            self._set_timer(FOLLOWED_INTERVAL_S)

    def _is_line_empty(self) -> bool:
        return not self._open.steps and not (self._in_flight and self._in_flight.steps)

    def pending_steps(self) -> list[Step]:
        return (self._in_flight.steps if self._in_flight else []) + self._open.steps

    def hurry(self) -> None:
        """Somebody waits for what was submitted patiently."""
        if self._open.is_patient:
            self._open.is_urgent = True
            self._wake()

    def barrier(self, done: Callable[[], None]) -> None:
        """Call back when everything submitted so far has been applied."""
        if self._is_line_empty():
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
    ) -> None:
        """Journal messages of one topic, then route them and acknowledge ``packet_ids``.

        ``keep``: if the commit fails, try again, for nobody else will (a will). ``is_fields``: the
        payloads are the fields of stream entries. ``marks``: flags for the priority and the
        content type.
        """
        flags = qos | (FLAG_RETAIN if retain else 0) | (FLAG_FIELDS if is_fields else 0) | marks
        position = self._open.batch.append(topic, payloads, now_ms, flags, extras)
        command = Published(topic, payloads, qos, retain, position, now_ms, packet_ids or [], keep)
        self._join(command, client, durable=True)
        self._watch_congestion((OVERHEAD_BYTES + len(topic)) * len(payloads))

    def tell_offsets(
        self,
        topic: bytes,
        count: int,
        waiter: Completion[Journaled],
        now_ms: int,
        *,
        on_disk: bool = False,
    ) -> None:
        """Tell ``waiter`` (``stored``) the offset of the first of the last ``count`` messages.

        To be called right after ``publish`` of as many. It is told when they are acknowledged, or
        if ``on_disk``, once they are that, whatever the durability. Then nobody's wait is counted.
        """
        place = len(self._open.batch.groups[topic].payloads) - count
        wanted = (topic, place, 0 if on_disk else count, waiter, now_ms)
        sent = self._in_flight.batch if self._in_flight else None
        if on_disk or not self._applies_first or not self._offsets.tell(wanted, sent):
            self._open.tell.append(wanted)

    def add_producer_run(self, topic: bytes, count: int, producer: bytes, seq: int) -> None:
        """The last ``count`` messages of a topic are this producer's, numbered from ``seq`` on.

        To be called right after ``publish`` of as many, within ``as_leader``.
        """
        place = len(self._open.batch.groups[topic].payloads) - count
        self._open.batch.add_producer_run(topic, place, count, producer, seq)

    @contextmanager
    def as_leader(self) -> Iterator[None]:
        """What joins the line within was decided as leader: it is void in another's term.

        The next leader may have decided the same meanwhile, from the same state. What else is in
        the batch is not affected.
        """
        group = self._open
        first = len(group.steps)
        yield
        group.bound.append(range(first, len(group.steps)))
        group.batch.term = group.batch.term or self._log.term

    def drop_topic(self, topic: bytes, command: TopicGone, waiter: Refusable | None) -> None:
        """Delete a topic with the next commit, before whatever else that commit has of it."""
        if self._applies_first and topic in self._open.batch.groups:  # their offsets were told
            if self._in_flight is not None:
                self._on_commit.append(lambda: self.drop_topic(topic, command, waiter))
                return
            self._seal()
        self._offsets.dropped(topic)
        self._open.batch.drop(topic)
        self.submit(command, waiter, durable=True)

    def is_dropping(self, topic: bytes) -> bool:
        """Whether the end of a topic is in the line: what the store has of it counts no more."""
        in_flight = self._in_flight.batch.drops if self._in_flight else ()
        return topic in self._open.batch.drops or topic in in_flight

    def receive(self, command: Received, waiter: Refusable | None, *, record: bool) -> None:
        """Remember the ids of QoS 2 messages, ``record``: in the journal; then ``publish`` them."""
        self.receiving |= {(command.client_id, packet_id) for packet_id in command.packet_ids}
        if record:
            self._open.batch.add_event(to_event(command))
        self._join(command, waiter, durable=True)

    def capture(self, topic: bytes, payloads: list[bytes], now_ms: int) -> None:
        """Journal messages that were delivered already; nobody waits for them."""
        self.begin_capture()(topic, payloads, now_ms, 0)
        self.end_capture()

    def begin_capture(self) -> Callable[[bytes, list[bytes], int, int], int]:
        """``capture`` in three steps, for many at once; then call ``end_capture``.

        What is returned takes topic, payloads, time and flags (0). While too much waits for the
        disk already, it counts them as dropped instead.
        """
        pending_bytes = self.pending_bytes
        if pending_bytes > self._settings.capture_pending_bytes_max or (
            pending_bytes > min(CAPTURE_BESIDE_WAITING_BYTES_MAX, self._settings.share_bytes // 2)
            and self._clock.monotonic() - self._waited_at < WAITING_S
        ):
            return self._drop_captured
        return self._open.batch.append

    def _drop_captured(
        self, _topic: bytes, payloads: list[bytes], _time_ms: int, _flags: int
    ) -> int:
        self._counters.drops[DropReason.CAPTURE_OVERFLOW] += len(payloads)
        return 0

    def end_capture(self) -> None:
        if self._in_flight is not None:
            return  # looked after when that commit is done
        if self._open.batch.payload_bytes >= self._settings.batch_bytes_target:
            self._wake()
        elif self._commit_timer is None and not self._open.batch.is_empty:
            self._set_timer(self._patience_s)

    @property
    def _patience_s(self) -> float:
        """How long captured messages may wait for company."""
        if self._feed.is_wanted or not self._log.is_lone:
            return min(FOLLOWED_INTERVAL_S, self._settings.capture_interval_s)
        return self._settings.capture_interval_s

    @property
    def settled_sequence(self) -> int:
        """Messages below this are on disk and applied; ``unsettled`` gives the others."""
        if self._applies_first and self._in_flight is not None:
            return self.next_sequence - self._in_flight.batch.count
        return self.next_sequence

    def unsettled(self, topic: bytes) -> list[bytes]:
        """Messages of a topic from ``settled_sequence`` on that live subscribers have had already.

        Whoever has read the journal up to there, takes these and becomes a live subscriber at once
        misses nothing and gets nothing twice: what is not among them is yet to be delivered.
        """
        if self._applies_first:
            self._apply_first()
        payloads: list[bytes] = []
        for pending in (self._in_flight, self._open):
            group = pending.batch.groups.get(topic) if pending else None
            if group is not None:
                payloads += group.payloads if self._applies_first else captured(group)
        return payloads

    def holds(self, topic: bytes) -> bool:
        in_flight = self._in_flight.batch.groups if self._in_flight else {}
        return topic in self._open.batch.groups or topic in in_flight

    @property
    def is_unsettled(self) -> bool:
        """Whether messages were acknowledged that cannot be read yet."""
        end = self.next_sequence + self._open.batch.count
        return self._applies_first and self.settled_sequence < end

    def when_readable(self, act: Callable[[], None], end: int = 0) -> None:
        """See ``Line``. What is not on disk, up to a sequence, is committed at once for it."""
        end = end or self.next_sequence + self._open.batch.count
        if self.settled_sequence >= end or self.failure is not None or not self._applies_first:
            act()
        else:
            self.when_committed(lambda: self.when_readable(act, end))

    def topics_to_retain(self) -> set[bytes]:
        """Topics that are about to get another retained message, which went out live already."""
        return retained_live(self.pending_steps())

    @property
    def pending_bytes(self) -> int:
        in_flight = self._in_flight.batch.payload_bytes if self._in_flight else 0
        return self._open.batch.payload_bytes + in_flight

    def _watch_congestion(self, overhead_bytes: int) -> None:
        group = self._open
        group.overhead_bytes += overhead_bytes
        bytes_max = min(BATCH_BYTES_MAX, self._settings.share_bytes)
        self.is_congested = group.batch.payload_bytes + group.overhead_bytes > bytes_max

    def when_drained(self, reader: PausedReader) -> None:
        """Call ``resume_reading`` when the next commit is done, or has failed."""
        self._paused[reader] = None

    def when_committed(self, callback: Callable[[], None]) -> None:
        """Call back after the next commit, and make one soon."""
        self._on_commit.append(callback)
        self._commit_soon()

    def _join(self, command: Command, waiter: Refusable | None, *, durable: bool) -> None:
        self._enqueue(command, waiter, durable=durable)
        if durable:
            self._waited_at = self._open.opened_at
            self._open.is_urgent = True
        self._wake()

    def _enqueue(self, command: Command | None, waiter: Refusable | None, *, durable: bool) -> None:
        group = self._open
        if not group.steps:
            group.opened_at = self._clock.monotonic()
        if durable and not group.began_at:
            group.began_at = group.opened_at
        group.steps.append((command, waiter, durable))

    # ── committing ────────────────────────────────────────────────────────────────────────────

    def _wake(self) -> None:
        """Start a commit when this turn of the loop has read what there is to read."""
        if not self._start_due:
            self._start_due = True
            self._loop.call_soon(self._start)

    def _set_timer(self, delay_s: float) -> None:
        if self._commit_timer is None:
            self._commit_timer = self._loop.call_later(delay_s, self._timer_fired)

    def _timer_fired(self) -> None:
        self._commit_timer = None
        if self._in_flight is None:
            self._seal()

    def _start(self) -> None:
        self._start_due = False
        if self._applies_first:
            self._start_interval()
        elif self._in_flight is None:
            large = self._open.batch.payload_bytes >= self._settings.batch_bytes_target
            if self._open.is_urgent or large:
                self._seal()
            elif self._open.is_patient:
                self._set_timer(FOLLOWED_INTERVAL_S)
            else:
                self._apply_open()

    def _start_interval(self) -> None:
        """Weaker promise: apply now, commit when the interval is over or the batch is large."""
        self._apply_first()
        if (
            self._open.batch.payload_bytes >= self._settings.batch_bytes_target
            and self._in_flight is None
        ):
            self._seal()
        elif not self._open.batch.is_empty:
            self._set_timer(self._settings.durability_interval_s)

    def _apply_first(self) -> None:
        self._broker.begin(self.next_index, self.next_sequence)
        while self._open.steps:  # what is applied may bring follow-ups into the line
            self._observe(self._open)
            sent, opened_at = self._figures.sent, self._open.opened_at
            self._apply_open()
            self._figures.delivered(opened_at, sent)
        self._open.is_urgent = False
        for offset, count, waiter, now_ms in self._offsets.take():
            self._figures.told(count, self._open.opened_at)
            waiter.done(Journaled(offset, now_ms))

    def _commit_soon(self) -> None:
        if self._in_flight is None:
            self._loop.call_soon(self._seal)

    def _seal(self) -> None:
        if self._in_flight is not None or self._is_closed:
            return
        if self._applies_first:
            self._apply_first()
        now = self._clock.monotonic()
        self._checkpointer.fill(self._open.batch, now)
        if self._open.batch.is_empty:
            self._apply_open()
            self._tell_committed()
            return
        if self._commit_timer is not None:
            self._commit_timer.cancel()
            self._commit_timer = None
        self._in_flight, self._open = self._open, PendingBatch()
        self.is_congested = False
        if self._applies_first:
            self._offsets.sealed(self._in_flight.batch)
            self.next_sequence += self._in_flight.batch.count
            self.next_index += 1
        self._log.submit(self._in_flight.batch)

    # ── what the log tells ────────────────────────────────────────────────────────────────────

    def committed(self, batch: Batch, commit: Commit) -> None:
        """See ``Line``."""
        if not self._is_closed:
            assert self._in_flight is not None and self._in_flight.batch is batch  # noqa: PT018
            self._committed(commit)
            if commit.ends_entry:
                self._go_on()
            else:  # the next batch may take rows with it, and rows contain whole entries
                self._loop.call_soon(self._go_on)

    def refused(self, batch: Batch, error: PenstockError) -> None:
        """See ``Line``."""
        if not self._is_closed:
            assert self._in_flight is not None and self._in_flight.batch is batch  # noqa: PT018
            self._failed(batch, error)
            self._go_on()

    def foreign(self, batch: Batch, commit: Commit) -> None:
        """See ``Line``."""
        if self._is_closed:
            return
        self._checkpointer.committed(commit.index, commit.bytes if commit.ends_entry else 0)
        self._checkpointer.changed(commit.index)
        if batch.count or batch.drops:
            self._feed.committed(batch, commit)
        for topic, payloads in live_of(batch):
            self._pass_on(topic, payloads)
        self._begin(commit)
        self._apply([(command, None, True) for command in commands_of(batch)])
        if batch.producers:
            note_producers(self._broker.producers, batch, commit)

    def _go_on(self) -> None:
        """After a commit: tell who waited for it, and begin the next if there is reason to."""
        if self._in_flight is not None:
            return
        self._tell_committed()
        self._start()
        if self._in_flight is None and not self._open.batch.is_empty:
            self._set_timer(self._patience_s)

    def _committed(self, commit: Commit) -> None:
        group, self._in_flight = self._in_flight, None
        assert group is not None
        self._figures.committed(commit)
        if self.failure is not None:
            _log.warning("storage_recovered")
            self.failure = None
        self._checkpointer.committed(commit.index, commit.bytes if commit.ends_entry else 0)
        if group.batch.count or group.batch.events:
            self._checkpointer.changed(commit.index)
        sent = self._figures.sent
        if group.batch.count or group.batch.drops:
            self._feed.committed(group.batch, commit)
        if group.tell:
            self._figures.told(sum([count for _, _, count, _, _ in group.tell]), group.opened_at)
            tell_offsets(group, commit)
        if not self._applies_first:
            self._begin(commit)
            self._observe(group)
            self._apply(group.steps)
        if group.batch.producers:
            note_producers(self._broker.producers, group.batch, commit)
        self._figures.delivered(group.began_at, sent)

    def _begin(self, commit: Commit) -> None:
        """What is applied next is at this place of the log."""
        self.next_sequence = commit.base_sequence + commit.count
        self.next_index = commit.index + 1
        self._broker.begin(commit.index, commit.base_sequence)

    def _apply_open(self) -> None:
        steps, self._open.steps = self._open.steps, []
        self._apply(steps)

    def _apply(self, steps: list[Step]) -> None:
        """Let the broker take the commands, and carry out what follows."""
        effects = Effects()
        apply, receiving = self._broker.apply, self.receiving
        for command, waiter, _durable in steps:
            if command is None:
                assert isinstance(waiter, Callback)  # see ``barrier``
                effects.controls.append(Outcome(waiter, None))
                continue
            try:
                apply(command, waiter, effects)
            except Exception:  # noqa: BLE001 - a bug of ours must cost its own client only
                _log.exception("apply_failed", command=type(command).__name__)
                if waiter is not None:
                    waiter.refused(DisconnectReason.INTERNAL_ERROR)
            if receiving and type(command) is Received:
                self._forget(command)
        self._execute(effects)

    def _forget(self, command: Received) -> None:
        """The messages of these ids have left the line."""
        self.receiving -= {(command.client_id, number) for number in command.packet_ids}

    def _observe(self, group: PendingBatch) -> None:
        self._figures.waited((command for command, _, _ in group.steps), group.opened_at)

    # ── failing ───────────────────────────────────────────────────────────────────────────────

    def _failed(self, batch: Batch, error: PenstockError) -> None:
        self._counters.commit_failures_total += 1
        if self.failure is None:
            _log.error("commit_failed", error=error.message, advice=error.advice)
        self.failure = error
        if self._applies_first:
            self._loop.call_later(RETRY_S, self._resubmit, batch)
            self._tell_committed()  # whoever waits for a commit must see that there was none
            return
        group, self._in_flight = self._in_flight, None
        assert group is not None
        self._checkpointer.failed(batch)
        if group.bound and isinstance(error, LeadershipLost):
            self._refuse_bound(group, error)
        else:
            withdrawn = self._withdraw(group)
            self._refuse_all(group, error)
            self._refuse_all(withdrawn, error)
        if self._kept:
            self._loop.call_later(RETRY_S, self._kept.try_again)

    def _refuse_bound(self, group: PendingBatch, error: PenstockError) -> None:
        """Refuse what was decided as leader; submit the rest again, before anything newer.

        The batch is in no log and never will be, so nothing of it is there twice.
        """
        rest, void = cut(group, group.bound_steps)
        if rest.batch.is_empty:
            self._apply(rest.steps)
            self._refuse_all(void, error)
            return
        self._in_flight = rest  # first: what the refused do next must not overtake it
        self._refuse_all(void, error)
        self._log.submit(rest.batch)

    def _withdraw(self, refused: PendingBatch) -> PendingBatch:
        """Take out of the open batch what publishers sent behind messages that are refused.

        They will send all of it again. If the later messages were written now, they would come
        before the earlier ones.
        """
        void = behind(refused, self._open)
        if not void:
            return PendingBatch()
        self._open, withdrawn = cut(self._open, void)
        self._watch_congestion(0)
        return withdrawn

    def _resubmit(self, batch: Batch) -> None:
        if not self._is_closed:
            self._log.submit(batch)

    def _refuse_all(self, group: PendingBatch, error: PenstockError) -> None:
        """Refuse what somebody can repeat; keep what nobody can."""
        drops = self._counters.drops
        reason = reason_of(error)
        refused = kept = 0
        self._feed.failed(group.batch)
        for *_, completion, _time in group.tell:
            completion.refused(reason)
        for command, waiter, durable in group.steps:
            count = len(command.payloads) if isinstance(command, Published) else 0
            if not durable:
                self._apply([(command, waiter, False)])
            elif type(command) is Received:
                self._forget(command)
            elif waiter is not None:
                refused += count
                waiter.refused(reason)
            elif isinstance(command, Published) and not command.keep:
                refused += count
            elif command is not None:
                kept += count
                self._kept.add(command, self.next_sequence)
        drops[drop_of(reason)] += refused
        drops[DropReason.CAPTURE_FAILED] += group.batch.count - refused - kept

    # ── others who depend on commits ──────────────────────────────────────────────────────────

    def _tell_committed(self) -> None:
        paused, self._paused = self._paused, {}
        for reader in paused:
            reader.resume_reading()
        callbacks, self._on_commit = self._on_commit, []
        for callback in callbacks:
            callback()

    def turn(self) -> None:
        """Called now and then: commit for the checkpoint's sake when nothing else asks for it."""
        if self._in_flight is None and self._checkpointer.is_due(self._clock.monotonic()):
            self._seal()

    def run_on_writer(self, job: Callable[[], None]) -> None:
        if not self._is_closed:
            self._log.run_on_writer(job)

    @property
    def is_idle(self) -> bool:
        """Whether everything that joined the line is committed and applied."""
        nothing_open = not self._open.steps and self._open.batch.is_empty
        return nothing_open and self._in_flight is None and not self._kept

    async def drain(self) -> None:
        """Wait until all that joined the line is committed and applied, or a commit failed."""
        while not self.is_idle:
            committed = asyncio.Event()
            self.when_committed(committed.set)
            await committed.wait()
            if self.failure is not None:
                return

    def close(self) -> None:
        """Stop the writer after what it was given; the open batch is not handed over."""
        self._is_closed = True
        if self._commit_timer is not None:
            self._commit_timer.cancel()
        self._log.close()
