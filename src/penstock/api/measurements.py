"""One look at the broker's numbers each second, for all who want to see them.

``turn`` is called several times a second by the periodic tasks of the broker; it needs no task of
its own. Once a minute the size of the journal is asked for in a thread, as that reads the disk.
The event for streams is encoded when the first stream asks for it, and once for all.
"""

import asyncio
from array import array
from collections import deque
from typing import NamedTuple

import msgspec

from penstock.admin.view import BrokerView, JournalView
from penstock.api.beat import Beat
from penstock.api.documents.common import moment
from penstock.api.documents.history import RatesEvent
from penstock.api.series import (
    MINUTES_KEPT,
    NAMES,
    SECONDS_KEPT,
    Meter,
    Ring,
    known,
)

EVENTS_KEPT = 120  # for streams that come back: two minutes
MINUTE = 60


class Sample(NamedTuple):
    """One second. ``number`` grows, also over restarts: it is the time of the wall clock."""

    number: int
    time_ms: int
    row: "array[float]"


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


def _note_failure(asked: asyncio.Future[None]) -> None:
    if not asked.cancelled():
        asked.exception()  # the disk: commits will meet it, and tell
