"""``overview``: the broker at a glance.

Counters and gauges are there anyway. What has to be summed up over groups and topics is surveyed in
slices, at most every few seconds whatever the number of people who look.
"""

import asyncio
from itertools import islice
from typing import NamedTuple

from penstock import kernel
from penstock.admin.survey import Survey
from penstock.admin.view import BrokerView, JournalView
from penstock.api.call import Call
from penstock.api.documents.common import moment, name_of
from penstock.api.documents.overview import Numbers, Overview, Rates, Storage
from penstock.api.findings import Facts, GroupLag, Letters, findings
from penstock.api.health import cluster_line, health_of
from penstock.api.measurements import Measurements
from penstock.api.operations import Resource, operation
from penstock.api.parts import Parts
from penstock.api.reading.newest import busiest
from penstock.api.series import NAMES, mean
from penstock.config.schema import Config
from penstock.model.dead_letters import PREFIX, origin
from penstock.trust.rules import Action

SURVEYED_S = 5.0
RATES_OF_S = 10
LAGS_LOOKED_AT = 100
LETTERS_TOPICS_MAX = 1_000
TOPICS_COUNTED_MAX = 10_000
GROWTH_OF_S_MIN = 300.0  # a shorter time says nothing about days


class _Surveyed(NamedTuple):
    """What was summed up, and when."""

    at: float
    groups: int
    lag: int
    in_flight: int
    topics: int
    lags: list[GroupLag]
    letters: list[Letters]
    letter_count: int
    journal: JournalView


class OverviewPages(Resource):
    """The broker at a glance."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._surveying = asyncio.Lock()
        self._surveyed: _Surveyed | None = None

    @operation("GET", "overview", Action.MONITOR)
    async def show(self, call: Call) -> Overview:
        """Show the broker at a glance, as the asked node sees it."""
        view, config, measurements = self._sources()
        surveyed = await self._survey(call)
        clock = self.parts.beat.clock
        _, why_not = view.ready()
        status = view.cluster()
        recent = measurements.recent_counts()
        facts = Facts(
            health=health_of(status, why_not, config),
            rates=rates_of(measurements),
            storage=storage_of(surveyed.journal, measurements, config),
            journal=surveyed.journal,
            lags=surveyed.lags,
            letters=surveyed.letters,
            recent=recent,
            certificates=view.certificate_expiry(),
        )
        may_read = call.rights_to(Action.READ)
        return Overview(
            at=moment(clock.wall_ms()),
            version=view.version,
            speed=kernel.speed,
            uptime_s=round(view.uptime_s(), 1),
            health=facts.health,
            rates=facts.rates,
            numbers=_numbers(view, surveyed),
            ends={reason: count for reason, count in recent.ends.items() if count},
            drops={reason: count for reason, count in recent.drops.items() if count},
            findings=findings(facts),
            storage=facts.storage,
            busiest=(await call.read(busiest, view.store, may_read)).items,
            cluster=cluster_line(status),
        )

    def _sources(self) -> tuple[BrokerView, Config, Measurements]:
        assert self.parts.measurements is not None
        return self.parts.view, self.parts.configured.config(), self.parts.measurements

    async def _survey(self, call: Call) -> _Surveyed:
        monotonic = self.parts.beat.clock.monotonic
        async with self._surveying:
            found = self._surveyed
            if found is None or monotonic() - found.at >= SURVEYED_S:
                found = self._surveyed = await self._survey_now(call, monotonic())
        return found

    async def _survey_now(self, call: Call, now: float) -> _Surveyed:
        view = self.parts.view
        survey = Survey(view.queues, LAGS_LOOKED_AT)
        for _ in survey.slices():
            await asyncio.sleep(0)
        letters = _letters(view)
        journal, topics = await call.read(lambda: (view.journal(), _topics(view)))
        return _Surveyed(
            at=now,
            groups=survey.groups,
            lag=survey.lag,
            in_flight=survey.in_flight,
            topics=topics,
            lags=_lags(view, survey),
            letters=letters,
            letter_count=sum(found.letters for found in letters),
            journal=journal,
        )


def _topics(view: BrokerView) -> int:
    return sum(1 for _ in islice(view.store.topics(), TOPICS_COUNTED_MAX))


def _lags(view: BrokerView, survey: Survey) -> list[GroupLag]:
    """Groups of readers of their own pace (Spark) have no workers."""
    found = []
    for topic, group, lag in survey.largest():
        known = view.queues.groups.get(topic, group)
        if known is not None and not known.reader:
            workers = view.queues.consumers(topic, group)
            found.append(GroupLag(name_of(topic), name_of(group), lag, workers))
    return found


def _letters(view: BrokerView) -> list[Letters]:
    names = (name for name in view.queues.topics.by_name if name.startswith(PREFIX))
    found = []
    for name in islice(names, LETTERS_TOPICS_MAX):
        count = view.queues.letter_count(name)
        if count:
            topic, group = origin(name)
            found.append(Letters(name_of(topic), name_of(group), count))
    return sorted(found, key=lambda found: -found.letters)


def rates_of(measurements: Measurements) -> Rates:
    rows = measurements.seconds.last(RATES_OF_S)

    def average(name: str) -> float:
        place = NAMES.index(name)
        return mean(row[place] for row in rows) or 0.0

    def measured(name: str) -> float | None:
        place = NAMES.index(name)
        return mean(row[place] for row in rows)

    return Rates(
        messages_in=average("messages_in"),
        messages_out=average("messages_out"),
        bytes_in=average("bytes_in"),
        bytes_out=average("bytes_out"),
        commits=average("commits"),
        drops=average("drops"),
        ends=average("ends"),
        acknowledge_p50_ms=measured("acknowledge_p50"),
        acknowledge_p99_ms=measured("acknowledge_p99"),
        commit_p99_ms=measured("commit_p99"),
        fsync_p99_ms=measured("fsync_p99"),
    )


def storage_of(journal: JournalView, measurements: Measurements, config: Config) -> Storage:
    bytes_max = config.journal.total_bytes_max
    growth = measurements.growth_bytes_per_s(GROWTH_OF_S_MIN)
    full_in_s, full_means = _full(journal, bytes_max, growth)
    return Storage(
        bytes=journal.bytes,
        bytes_max=bytes_max,
        disk_free_bytes=journal.disk_free_bytes,
        messages=journal.messages,
        oldest_sequence=journal.oldest_sequence,
        newest_sequence=journal.newest_sequence,
        growth_bytes_per_s=growth,
        full_in_s=full_in_s,
        full_means=full_means,
    )


def _full(journal: JournalView, bytes_max: int, growth: float | None) -> tuple[float | None, str]:
    """When, and what it means; whichever comes first."""
    limit = "the limit of the journal is reached: the oldest messages are removed"
    disk = "the disk is full: publishes that need it are refused"
    room = bytes_max - journal.bytes
    is_limit_first = bool(bytes_max) and room <= journal.disk_free_bytes
    means = limit if is_limit_first else disk
    if growth is None or growth <= 0:
        return None, means
    return round(max(room if is_limit_first else journal.disk_free_bytes, 0) / growth), means


def _numbers(view: BrokerView, surveyed: _Surveyed) -> Numbers:
    connected, away = view.sessions()
    return Numbers(
        connections=view.connections(),
        sessions=connected,
        away=away,
        subscriptions=view.subscriptions(),
        queued=view.queued(),
        retained=view.retained(),
        topics=surveyed.topics,
        groups=surveyed.groups,
        lag=surveyed.lag,
        in_flight=surveyed.in_flight,
        dead_letters=surveyed.letter_count,
        output_bytes=view.outgoing()[0],
        pending_capture_bytes=view.pending_capture_bytes(),
    )
