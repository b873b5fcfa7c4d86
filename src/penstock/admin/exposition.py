"""What a metric is, what a scrape reads, and how it becomes Prometheus text.

Each row of a table (``Metric``) reads its value from a ``Scrape``. A worker thread reads first what
may need the disk (``StoredFigures``); sums over topics and groups are gathered in slices
(``Survey``); everything else is read on the event loop, in one go. None grows with the journal.
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

TOPICS_SHOWN_MAX = 1_000  # topics with series of their own: a scraper keeps each forever
TOPICS_COUNTED_MAX = 10_000  # further topics that are counted as left out

Kind = Literal["counter", "gauge", "histogram"]

Reading = float | Mapping[str, float] | Mapping[tuple[str, ...], float] | Histogram
"""A number, one number per label value (or tuple of label values), or a histogram."""


class StoredFigures(NamedTuple):
    """What a worker thread has read; ``topics`` only on request."""

    journal: JournalView
    queue_pending: int
    topics: dict[bytes, int]  # messages ever journaled, for the first topics by name
    topics_left_out: int


class Scrape(NamedTuple):
    """What the rows of a table read from, on the event loop."""

    view: BrokerView
    stored: StoredFigures
    survey: Survey

    @property
    def counters(self) -> Counters:
        return self.view.counters


class Metric(msgspec.Struct, frozen=True):
    """One row of a table; ``label`` may be several names with commas: the keys are tuples then."""

    name: str
    kind: Kind
    help: str
    read: Callable[[Scrape], Reading]
    label: str = ""


def counter(name: str, text: str, read: Callable[[Scrape], Reading], label: str = "") -> Metric:
    return Metric(name, "counter", text, read, label)


def gauge(name: str, text: str, read: Callable[[Scrape], Reading], label: str = "") -> Metric:
    return Metric(name, "gauge", text, read, label)


def counted(slot: str, text: str, name: str = "") -> Metric:
    assert slot in Counters.__slots__, slot
    is_histogram = isinstance(getattr(Counters(), slot), Histogram)
    kind: Kind = "histogram" if is_histogram else "counter" if slot.endswith("_total") else "gauge"
    return Metric(
        name or f"penstock_{slot}", kind, text, lambda scrape: getattr(scrape.counters, slot)
    )


def read_stored(view: BrokerView, *, with_topics: bool) -> StoredFigures:
    topics = view.store.topics() if with_topics else iter(())
    shown = {info.name: info.next_offset for info in islice(topics, TOPICS_SHOWN_MAX)}
    left_out = sum(1 for _ in islice(topics, TOPICS_COUNTED_MAX))
    return StoredFigures(view.journal(), view.queue_pending(), shown, left_out)


def coarser(histogram: Histogram, bounds: tuple[float, ...]) -> Histogram:
    """The same observations in fewer buckets; ``bounds`` must be a subset of its own."""
    assert set(bounds) <= set(histogram.bounds)
    result = Histogram(bounds)
    for bound, count in zip((*histogram.bounds, float("inf")), histogram.counts, strict=True):
        result.counts[bisect_left(bounds, bound)] += count
    result.total = histogram.total
    return result


def families(table: Iterable[Metric], scrape: Scrape) -> list[Family]:
    return [_family(metric, metric.read(scrape)) for metric in table]


def exposition(found: list[Family]) -> bytes:
    """Return the Prometheus text, followed by the metrics of the process; in any thread."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Found(found))
    ProcessCollector(registry=registry)
    return generate_latest(registry)


class _Found(Collector):
    """Hands families that were read before to a registry."""

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
    # Summed from a copy: the writer thread may count on, and the buckets of one exposition must
    # be consistent.
    ends = accumulate(tuple(histogram.counts))
    names = [*map(floatToGoString, histogram.bounds), "+Inf"]
    buckets = list(zip(names, ends, strict=True))
    return HistogramMetricFamily(
        metric.name, metric.help, buckets=buckets, sum_value=histogram.total
    )
