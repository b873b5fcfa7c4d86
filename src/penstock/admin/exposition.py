"""What a metric is, what a scrape looks at, and how one becomes text.

A table of metrics is a tuple of ``Metric`` rows; each says how to read its number from a
``Scrape``. A scrape has three sides:

* **what is stored** (``StoredFigures``) may need the disk, so a worker thread reads it, first;
* **what is in memory** belongs to the event loop, which reads it in one go, without waiting; but
  groups can be many, so what is to be known of them is gathered before, in slices (``Survey``).

All are bounded: none grows with what the journal holds. The text is made in a worker thread
again, from numbers that nobody changes any more.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate, islice
from typing import Literal, NamedTuple

import msgspec
from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.core import Metric as Family
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from penstock.admin.survey import Survey
from penstock.admin.view import BrokerView, JournalView
from penstock.obs.counters import Counters, Histogram

TOPICS_SHOWN_MAX = 1_000
"""Topics that have series of their own: a scraper keeps each of those for ever."""

TOPICS_COUNTED_MAX = 10_000
"""Topics beyond those that are counted as left out, and no further."""

Kind = Literal["counter", "gauge", "histogram"]

Reading = float | Mapping[str, float] | Mapping[tuple[str, ...], float] | Histogram
"""A number; or one number per value of the label (or values of the labels); or a histogram."""


class StoredFigures(NamedTuple):
    """What a worker thread has read; ``topics`` only if it was asked for."""

    journal: JournalView
    queue_pending: int
    topics: dict[bytes, int]
    """Messages ever journaled, by topic: the first topics in the order of the store."""
    topics_left_out: int


class Scrape(NamedTuple):
    """What the rows of a table read from, on the event loop."""

    view: BrokerView
    stored: StoredFigures
    survey: Survey

    @property
    def counters(self) -> Counters:
        """All that is counted."""
        return self.view.counters


class Metric(msgspec.Struct, frozen=True):
    """One row of a table. ``label`` is set when ``read`` returns a mapping.

    It is one name, or several by commas; keys of the mapping are tuples then.
    """

    name: str
    kind: Kind
    help: str
    read: Callable[[Scrape], Reading]
    label: str = ""


def counted(name: str, kind: Kind, slot: str, text: str) -> Metric:
    """Make the row of a number or histogram that is a slot of ``Counters`` and has no label."""
    assert slot in Counters.__slots__, slot
    return Metric(name, kind, text, lambda scrape: getattr(scrape.counters, slot))


# ── taking ────────────────────────────────────────────────────────────────────────────────────


def read_stored(view: BrokerView, *, with_topics: bool) -> StoredFigures:
    """Read what may need the disk; for a worker thread."""
    topics = view.store.topics() if with_topics else iter(())
    shown = {info.name: info.next_offset for info in islice(topics, TOPICS_SHOWN_MAX)}
    left_out = sum(1 for _ in islice(topics, TOPICS_COUNTED_MAX))
    return StoredFigures(view.journal(), view.queue_pending(), shown, left_out)


def coarser(histogram: Histogram, bounds: tuple[float, ...]) -> Histogram:
    """The same observations in fewer buckets; exact, as ``bounds`` are some of its own."""
    assert set(bounds) <= set(histogram.bounds)
    result = Histogram(bounds)
    for bound, count in zip((*histogram.bounds, float("inf")), histogram.counts, strict=True):
        result.counts[bisect_left(bounds, bound)] += count
    result.total = histogram.total
    return result


# ── the exposition ────────────────────────────────────────────────────────────────────────────


def families(table: Iterable[Metric], scrape: Scrape) -> list[Family]:
    """Read every row, on the event loop; what is returned changes no more."""
    return [_family(metric, metric.read(scrape)) for metric in table]


def exposition(found: list[Family]) -> bytes:
    """Return the Prometheus text format, the figures of the process behind; in any thread.

    The registry is made for the one scrape: there is no global state.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Found(found))
    ProcessCollector(registry=registry)
    return generate_latest(registry)


class _Found(Collector):
    """Hands out what was found when the registry asks."""

    def __init__(self, found: list[Family]) -> None:
        self._found = found

    def collect(self) -> Iterator[Family]:
        return iter(self._found)


def _family(metric: Metric, reading: Reading) -> Family:
    if isinstance(reading, Histogram):
        return _histogram_family(metric, reading)
    make = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    if not isinstance(reading, Mapping):
        return make(metric.name, metric.help, value=reading)
    family = make(metric.name, metric.help, labels=metric.label.split(", "))
    for values, number in reading.items():
        family.add_metric([values] if isinstance(values, str) else values, number)
    return family


def _histogram_family(metric: Metric, histogram: Histogram) -> Family:
    # Summed from one copy: the writer thread may count on meanwhile, and the buckets of one
    # exposition must agree with each other.
    ends = accumulate(tuple(histogram.counts))
    names = [*map(floatToGoString, histogram.bounds), "+Inf"]
    return HistogramMetricFamily(
        metric.name,
        metric.help,
        buckets=list(zip(names, ends, strict=True)),
        sum_value=histogram.total,
    )
