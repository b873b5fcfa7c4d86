"""Publishes what is scheduled, as the leader.

The times at which schedules are due are in a heap, so a turn looks at the next one, however many
there are. A time in it counts only while the schedule still waits for it.

A firing is one commit: its messages, and **Fired**, which moves the schedule on. While that is
under way the schedule fires no further. If it is refused, it is tried again from the state of that
time; where a refused batch may turn up in the log all the same, the second one is refused there
(``core.stale_publishes``).

Whether the owner may publish is judged at every firing, and so is whether the topic demands
signatures. A firing that is refused counts as made.
"""

from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from penstock.access.admission import Admission, Refusal, TopicRoute
from penstock.clock import Clock
from penstock.cluster.consensus import Leadership
from penstock.commit.completion import Callback
from penstock.commit.pipeline import Pipeline
from penstock.core.broker import Broker
from penstock.core.commands import ScheduleFired
from penstock.core.effects import ScheduleChanged
from penstock.core.schedules import ACTIVE, Schedule
from penstock.model.schedule import DUE_HEADER, NAME_HEADER
from penstock.node.decided import DecidedMessage, DecidedPublisher
from penstock.obs.counters import Counters
from penstock.obs.log import get_logger
from penstock.obs.printable import printable
from penstock.obs.reasons import DisconnectReason
from penstock.schedules.plan import Plan, plan
from penstock.trust.principal import Principal

FIRE_AT_ONCE = 16  # schedules; then others have the event loop
RETRY_MS = 1_000  # after a firing was refused: the disk is full, there is no quorum
SOON_MS = 300  # what is due before the next turn has a timer of its own

_log = get_logger("schedules")


class _Due(NamedTuple):
    """When to look at a schedule, and the firing that it waits for: tried again if that is past."""

    at_ms: int
    name: bytes
    due_ms: int


class ScheduleRunner:
    """Fires schedules while this node leads."""

    def __init__(
        self,
        broker: Broker,
        admission: Admission,
        publisher: DecidedPublisher,
        pipeline: Pipeline,
        clock: Clock,
        counters: Counters,
        loop: AbstractEventLoop,
    ) -> None:
        self._schedules = broker.schedules
        self._owners = broker.owners
        self._admission = admission
        self._publisher = publisher
        self._pipeline = pipeline
        self._wall_ms = clock.wall_ms
        self._counters = counters
        self._loop = loop
        self._heap: list[_Due] = []
        self._firing: dict[bytes, int] = {}  # ``Fired`` is under way; by the firing that was due
        self._held: set[bytes] = set()  # being cancelled
        self._timer: TimerHandle | None = None
        self._is_leading = False

    # ── when ──────────────────────────────────────────────────────────────────────────────────

    def led(self, leadership: Leadership) -> None:
        """Begin with what is due now, or stop."""
        if leadership.is_leader == self._is_leading:
            return
        self._is_leading = leadership.is_leader
        self._firing, self._heap = {}, []
        if self._is_leading:
            waiting = (one for one in self._schedules if one.state == ACTIVE)
            self._heap = [_Due(one.next_ms, one.name, one.next_ms) for one in waiting]
            heapify(self._heap)

    def changed(self, effect: ScheduleChanged) -> None:
        """A schedule was created or has fired."""
        schedule = self._schedules.get(effect.name)
        if self._is_leading and schedule is not None and schedule.next_ms:
            self._await(_Due(schedule.next_ms, schedule.name, schedule.next_ms))

    def hold(self, name: bytes) -> None:
        """Do not fire a schedule whose cancellation is under way."""
        self._held.add(name)

    def release(self, name: bytes) -> None:
        self._held.discard(name)
        self.changed(ScheduleChanged(name))

    def turn(self) -> None:
        """Called periodically. A wall clock that was set is noticed here."""
        if self._heap and self._heap[0].at_ms <= self._wall_ms():
            self._fire_due()
        elif self._heap:
            self._set_timer()

    def _await(self, due: _Due) -> None:
        heappush(self._heap, due)
        if self._heap[0] is due:
            self._set_timer()

    def _set_timer(self) -> None:
        """Wake up when the next one is due, if that is before the next turn."""
        wait_ms = self._heap[0].at_ms - self._wall_ms()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if wait_ms <= SOON_MS:
            self._timer = self._loop.call_later(max(wait_ms, 0) / 1000, self._fire_due)

    def _fire_due(self) -> None:
        self._timer = None
        for _ in range(FIRE_AT_ONCE):
            if not self._heap or self._heap[0].at_ms > self._wall_ms():
                break
            self._fire_if_it_waits(heappop(self._heap))
        if self._heap:
            self._set_timer()

    def _fire_if_it_waits(self, due: _Due) -> None:
        schedule = self._schedules.get(due.name)
        if schedule is None or schedule.next_ms != due.due_ms or due.name in self._held:
            return
        if self._firing.get(due.name) == due.due_ms:
            return
        if self._pipeline.is_congested:
            heappush(self._heap, due._replace(at_ms=self._wall_ms() + RETRY_MS))
            return
        self._fire(schedule)

    # ── what ──────────────────────────────────────────────────────────────────────────────────

    def _fire(self, schedule: Schedule) -> None:
        now_ms, due_ms = self._wall_ms(), schedule.next_ms
        planned = plan(schedule.timing, schedule.missed, due_ms, now_ms)
        route = self._admitted(schedule, planned)
        refusal = route if isinstance(route, Refusal) else None
        fired = _fired(schedule, planned, refusal, now_ms)
        messages = [self._message(schedule, at_ms, now_ms) for at_ms in planned.firings]
        self._firing[schedule.name] = due_ms
        done = partial(self._done, fired, [] if refusal else messages)
        completion = Callback(done, partial(self._refused, fired))
        with self._pipeline.as_leader():
            if route is not None and not isinstance(route, Refusal):
                for message in messages:
                    self._publisher.journal(route, message, now_ms)
            self._pipeline.submit(fired, completion, durable=True)

    def _admitted(self, schedule: Schedule, planned: Plan) -> TopicRoute | Refusal | None:
        """None: there is nothing to publish."""
        if not planned.firings:
            return None
        principal = self._principal(schedule)
        count = len(planned.firings)
        return self._admission.admit_unsigned(principal, schedule.message.topic, count)

    def _principal(self, schedule: Schedule) -> Principal:
        rights = self._owners.rights(schedule)
        return Principal(schedule.user, rights, "schedule", via=schedule.via)

    def _message(self, schedule: Schedule, due_ms: int, now_ms: int) -> DecidedMessage:
        message = schedule.message
        at = datetime.fromtimestamp(due_ms / 1000, UTC).isoformat(timespec="milliseconds")
        about = ((NAME_HEADER, schedule.name), (DUE_HEADER, at.replace("+00:00", "Z").encode()))
        return DecidedMessage(
            message.topic,
            message.payload,
            message.qos,
            message.retain,
            (*message.headers, *about),
            now_ms + message.expiry_ms if message.expiry_ms else 0,
            self._principal(schedule).author,
            priority=message.priority,
        )

    def _done(
        self, fired: ScheduleFired, messages: Sequence[DecidedMessage], fault: object
    ) -> None:
        self._forget(fired)
        if fault:
            return
        counts = self._counters.schedule_firings_total
        counts["published"] += fired.published
        counts["refused"] += fired.refused
        counts["skipped"] += fired.skipped
        name = printable(fired.name)
        if fired.refused:
            _log.warning("schedule_refused", schedule=name, why=printable(fired.detail))
        if fired.skipped:
            _log.warning("schedule_missed", schedule=name, count=fired.skipped)
        for message in messages:
            self._publisher.forward(message)

    def _refused(self, fired: ScheduleFired, _reason: DisconnectReason, _detail: str) -> None:
        self._forget(fired)
        if self._is_leading:
            self._await(_Due(self._wall_ms() + RETRY_MS, fired.name, fired.due_ms))

    def _forget(self, fired: ScheduleFired) -> None:
        if self._firing.get(fired.name) == fired.due_ms:
            del self._firing[fired.name]


def _fired(
    schedule: Schedule, planned: Plan, refusal: Refusal | None, now_ms: int
) -> ScheduleFired:
    count = len(planned.firings)
    return ScheduleFired(
        schedule.name,
        schedule.revision,
        schedule.next_ms,
        planned.last_ms,
        now_ms,
        planned.next_ms,
        published=0 if refusal else count,
        refused=count if refusal else 0,
        skipped=planned.skipped,
        reason=refusal.reason.value if refusal else "",
        detail=refusal.text if refusal else "",
    )
