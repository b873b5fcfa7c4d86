"""One look at the broker's numbers each second, for all who want to see them.

``turn`` is called several times a second by the periodic tasks of the broker; it needs no task of
its own. Once a minute the size of the journal is asked for in a thread, as that reads the disk.
The event for streams is encoded when the first stream asks for it, and once for all.
"""

import asyncio
from array import array
from collections import deque
from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple, TypeVar

import msgspec

from penstock.admin.view import BrokerView, JournalView
from penstock.api.beat import Beat
from penstock.api.documents.common import moment
from penstock.api.documents.history import RatesEvent
from penstock.api.findings import Recent
from penstock.api.series import (
    MINUTES_KEPT,
    NAMES,
    SECONDS_KEPT,
    Meter,
    Ring,
    known,
)
from penstock.obs.reasons import DisconnectReason, DropReason

EVENTS_KEPT = 120  # for streams that come back: two minutes
MINUTE = 60
WINDOW_MINUTES = 5

Reason = TypeVar("Reason", bound=Enum)


class Sample(NamedTuple):
    """One second. ``number`` grows, also over restarts: it is the time of the wall clock."""

    number: int
    time_ms: int
    row: "array[float]"


class _Counted(NamedTuple):
    """Counters by reason, as they were once."""

    at: float
    ends: Mapping[DisconnectReason, int]
    drops: Mapping[DropReason, int]
    commit_failures: int


class Measurements:
    """The last quarter of an hour by seconds, and the last day by minutes."""

    def __init__(self, view: BrokerView, beat: Beat) -> None:
        self._view = view
        self._beat = beat
        self._clock = clock = beat.clock
        now = clock.monotonic()
        self._started_at = now
        self._base_s = clock.wall_ms() // 1000
        self._taken = 0  # seconds since the start
        self._meter = Meter(view, now)
        self._minute_meter = Meter(view, now)
        self.seconds = Ring(SECONDS_KEPT, 1)
        self.minutes = Ring(MINUTES_KEPT, MINUTE)
        self.recent: deque[Sample] = deque(maxlen=EVENTS_KEPT)
        self._encoded: dict[int, bytes] = {}
        self.journal: deque[tuple[float, JournalView]] = deque(maxlen=MINUTES_KEPT)
        self._counted: deque[_Counted] = deque([self._count(now)], maxlen=WINDOW_MINUTES)
        self._asking: asyncio.Future[None] | None = None

    def turn(self) -> None:
        """Take a sample if a second has passed since the last one."""
        now = self._clock.monotonic()
        second = int(now - self._started_at)
        if second <= self._taken:
            return
        row = self._meter.row(now)
        self.seconds.add(row, second - self._taken - 1)
        minutes = second // MINUTE - self._taken // MINUTE
        if minutes:
            self._counted.append(self._count(now))
            self.minutes.add(self._minute_meter.row(now), minutes - 1)
        if minutes or not self._taken:
            self._ask_for_journal(now)
        self._taken = second
        self.recent.append(Sample(self._base_s + second, self._clock.wall_ms(), row))
        self._beat.strike()

    def _ask_for_journal(self, now: float) -> None:
        if self._asking is not None and not self._asking.done():
            return

        async def ask() -> None:
            found = await asyncio.to_thread(self._view.journal)
            self.journal.append((now, found))

        self._asking = asyncio.ensure_future(ask())
        self._asking.add_done_callback(_note_failure)

    def ended_ms(self, ring: Ring) -> int:
        """When the last row of a ring was taken, by the wall clock."""
        past_s = (
            self._clock.monotonic() - self._started_at - self._taken // ring.step_s * ring.step_s
        )
        return self._clock.wall_ms() - int(past_s * 1000)

    # ── the last minutes ──────────────────────────────────────────────────────────────────────

    def recent_counts(self) -> Recent:
        """Ends, drops and failures within the last minutes: a window of four to five."""
        counters, now = self._view.counters, self._clock.monotonic()
        before = self._counted[0]
        return Recent(
            window_s=max(now - before.at, 1.0),
            ends=_grown(counters.disconnects, before.ends),
            drops=_grown(counters.drops, before.drops),
            commit_failures=counters.commit_failures_total - before.commit_failures,
        )

    def _count(self, now: float) -> _Counted:
        counters = self._view.counters
        ends, drops = counters.disconnects.copy(), counters.drops.copy()
        return _Counted(now, ends, drops, counters.commit_failures_total)

    def growth_bytes_per_s(self, least_s: float) -> float | None:
        """How fast the journal grows, over up to a day; None: it is too early to say."""
        if not self.journal:
            return None
        (began, first), (ended, last) = self.journal[0], self.journal[-1]
        if ended - began < least_s:
            return None
        return round((last.bytes - first.bytes) / (ended - began), 3)

    def event(self, sample: Sample) -> bytes:
        """A sample as the event ``rates``."""
        found = self._encoded.get(sample.number)
        if found is None:
            values = dict(zip(NAMES, map(known, sample.row), strict=True))
            found = msgspec.json.encode(RatesEvent(at=moment(sample.time_ms), values=values))
            oldest = self.recent[0].number
            self._encoded = {n: data for n, data in self._encoded.items() if n >= oldest}
            self._encoded[sample.number] = found
        return found

    def close(self) -> None:
        if self._asking is not None:
            self._asking.cancel()


def _grown(now: Mapping[Reason, int], before: Mapping[Reason, int]) -> dict[str, int]:
    return {reason.value: count - before.get(reason, 0) for reason, count in now.items()}


def _note_failure(asked: asyncio.Future[None]) -> None:
    if not asked.cancelled():
        asked.exception()  # the disk: commits will meet it, and tell
