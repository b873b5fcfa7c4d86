"""The metrics: one table, from which both the exposition and the reference page are made.

Counting happens elsewhere, in plain integers (``obs.counters``); nothing here is touched until
somebody asks. A scrape walks the table, reads each number from the view and lets
``prometheus_client`` write the text. The registry is made for the one scrape: there is no global
state, two brokers in one process do not see each other, and a metric cannot be forgotten in a
second place. Every label value that can occur is always there, with 0 if need be, so that a rate
over a first event is not lost.

Names follow the Prometheus conventions: prefix, subject, unit last, ``_total`` for what only grows.
"""

import ast
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from itertools import accumulate
from typing import Literal

import msgspec
from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.core import Metric as Family
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from penstock.admin.view import View
from penstock.obs.counters import Counters, Histogram
from penstock.obs.reasons import DisconnectReason, DropReason

__all__ = ["CONTENT_TYPE", "METRICS", "Metric", "markdown", "render"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""The Prometheus text format, as old as the readers that may come."""

PROTOCOLS = ("mqtt", "http")
"""Values of the label ``protocol`` that are always present."""

Reading = float | Mapping[str, float] | Histogram
"""A number; or one number per value of the label; or a histogram."""


class Metric(msgspec.Struct, frozen=True):
    """One row of the table. ``label`` is set when ``read`` returns a mapping."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    read: Callable[[View], Reading]
    label: str = ""


def _counted(name: str, kind: Literal["counter", "histogram"], slot: str, text: str) -> Metric:
    """Make the row of a counter or histogram that is a slot of ``Counters`` and has no label."""
    assert slot in Counters.__slots__, slot
    return Metric(name, kind, text, lambda view: getattr(view.counters, slot))


def _by_protocol(view: View) -> Mapping[str, float]:
    return dict.fromkeys(PROTOCOLS, 0) | view.counters.connections_total


def _by_qos(counts: Iterable[int]) -> Mapping[str, float]:
    return {str(qos): count for qos, count in enumerate(counts)}


def _by_reason(
    counts: Mapping[DisconnectReason, int] | Mapping[DropReason, int],
) -> Mapping[str, float]:
    return {reason.value: count for reason, count in counts.items()}


METRICS: tuple[Metric, ...] = (
    # ── Connections
    Metric(
        "penstock_connections_total",
        "counter",
        "Connections accepted, by protocol.",
        _by_protocol,
        "protocol",
    ),
    Metric(
        "penstock_clients_connected",
        "gauge",
        "Clients connected now.",
        lambda view: view.counters.clients_connected,
    ),
    Metric(
        "penstock_disconnects_total",
        "counter",
        "Connections ended, by reason.",
        lambda view: _by_reason(view.counters.disconnects),
        "reason",
    ),
    # ── Messages
    Metric(
        "penstock_messages_received_total",
        "counter",
        "Messages accepted from publishers, by QoS.",
        lambda view: _by_qos(view.counters.messages_in_total),
        "qos",
    ),
    Metric(
        "penstock_messages_sent_total",
        "counter",
        "Messages sent to subscribers, by QoS of the delivery.",
        lambda view: _by_qos(view.counters.messages_out_total),
        "qos",
    ),
    _counted(
        "penstock_received_bytes_total", "counter", "bytes_in_total", "Bytes read from sockets."
    ),
    _counted(
        "penstock_sent_bytes_total", "counter", "bytes_out_total", "Bytes written to sockets."
    ),
    _counted(
        "penstock_redelivered_total",
        "counter",
        "redelivered_total",
        "Messages sent again to a client that came back without having acknowledged them.",
    ),
    Metric(
        "penstock_dropped_total",
        "counter",
        "Messages, or single copies of one, that went no further, by reason.",
        lambda view: _by_reason(view.counters.drops),
        "reason",
    ),
    _counted(
        "penstock_publish_seconds",
        "histogram",
        "publish_seconds",
        "From reading a QoS 1 or 2 publish to its acknowledgement.",
    ),
    # ── The journal
    _counted(
        "penstock_captured_total", "counter", "captured_total", "Messages written to the journal."
    ),
    _counted(
        "penstock_commit_seconds",
        "histogram",
        "commit_seconds",
        "One commit of the journal, from start to end.",
    ),
    _counted(
        "penstock_fsync_seconds",
        "histogram",
        "fsync_seconds",
        "The part of a commit spent waiting for the disk.",
    ),
    _counted("penstock_batch_messages", "histogram", "batch_messages", "Messages per commit."),
    _counted(
        "penstock_commit_failures_total",
        "counter",
        "commit_failures_total",
        "Commits that failed; their messages were refused or counted as dropped.",
    ),
    Metric(
        "penstock_pending_capture_bytes",
        "gauge",
        "Bytes of QoS 0 messages waiting to be journaled.",
        lambda view: view.pending_capture_bytes(),
    ),
    Metric(
        "penstock_journal_bytes",
        "gauge",
        "Disk used by the store.",
        lambda view: view.journal().bytes,
    ),
    Metric(
        "penstock_journal_map_bytes",
        "gauge",
        "Address space of the store; it grows before it is full.",
        lambda view: view.journal().map_bytes,
    ),
    Metric(
        "penstock_journal_entries",
        "gauge",
        "Entries (commits) in the journal.",
        lambda view: view.journal().entries,
    ),
    Metric(
        "penstock_journal_messages",
        "gauge",
        "Messages in the journal.",
        lambda view: view.journal().messages,
    ),
    Metric(
        "penstock_journal_first_sequence",
        "gauge",
        "Sequence of the oldest message in the journal; 0 if it is empty.",
        lambda view: view.journal().oldest_sequence,
    ),
    Metric(
        "penstock_journal_last_sequence",
        "gauge",
        "Sequence of the newest message in the journal; 0 if it is empty.",
        lambda view: view.journal().newest_sequence,
    ),
    # ── State
    Metric(
        "penstock_sessions",
        "gauge",
        "Sessions: connected, or kept for a client that is away.",
        lambda view: dict(zip(("connected", "away"), view.sessions(), strict=True)),
        "state",
    ),
    Metric(
        "penstock_queued_messages",
        "gauge",
        "Messages waiting in the queues of all sessions.",
        lambda view: view.queued(),
    ),
    Metric(
        "penstock_retained_messages",
        "gauge",
        "Retained messages.",
        lambda view: view.retained(),
    ),
    Metric(
        "penstock_subscriptions",
        "gauge",
        "Filters of all sessions.",
        lambda view: view.subscriptions(),
    ),
    Metric(
        "penstock_ready",
        "gauge",
        "1 while /ready says yes, else 0.",
        lambda view: view.ready()[0],
    ),
    Metric(
        "penstock_uptime_seconds",
        "gauge",
        "Time since the broker began to listen.",
        lambda view: view.uptime_s(),
    ),
    Metric(
        "penstock_build_info",
        "gauge",
        "Always 1; the label says which version runs.",
        lambda view: {view.version: 1},
        "version",
    ),
)


# ── The exposition ────────────────────────────────────────────────────────────────────────────


def render(view: View) -> bytes:
    """Return all metrics in the Prometheus text format."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Table(view))
    ProcessCollector(registry=registry)
    return generate_latest(registry)


class _Table(Collector):
    """Walks ``METRICS`` when the registry asks."""

    def __init__(self, view: View) -> None:
        self._view = view

    def collect(self) -> Iterator[Family]:
        for metric in METRICS:
            yield _family(metric, metric.read(self._view))


def _family(metric: Metric, reading: Reading) -> Family:
    if isinstance(reading, Histogram):
        return _histogram_family(metric, reading)
    make = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    if not isinstance(reading, Mapping):
        return make(metric.name, metric.help, value=reading)
    family = make(metric.name, metric.help, labels=[metric.label])
    for value, number in reading.items():
        family.add_metric([value], number)
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


# ── The reference page ────────────────────────────────────────────────────────────────────────

PAGE = """\
# Metrics

*Generated from `penstock.admin.metrics`; `make docs` writes it anew.*

`GET /metrics` on any listener answers in the Prometheus text format. What to watch, and when to
worry, is in [monitoring](../operating/monitoring.md).

{metrics}

Histograms have the usual series `_bucket`, `_sum` and `_count`. Every reason is always present, as
0 until it occurs.

## Reasons in `penstock_disconnects_total`

{disconnects}

## Reasons in `penstock_dropped_total`

{drops}

## The process

Where the system has `/proc`.

{process}
"""


def markdown() -> str:
    """Return the page ``docs/reference/metrics.md``."""
    rows = [(f"`{m.name}`", m.kind, m.label and f"`{m.label}`", m.help) for m in METRICS]
    return PAGE.format(
        metrics=_table(("metric", "type", "label", "meaning"), rows),
        disconnects=_table(("reason", "meaning"), _reasons(DisconnectReason)),
        drops=_table(("reason", "meaning"), _reasons(DropReason)),
        process=_table(("metric", "type", "meaning"), _process_rows()),
    )


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def _reasons(enum: type[Enum]) -> list[tuple[str, str]]:
    """Return each member's value and the sentence that stands under it in the source."""
    definition = ast.parse(inspect.getsource(enum)).body[0]
    assert isinstance(definition, ast.ClassDef)
    sentences = [
        ast.literal_eval(node.value) for node in definition.body[1:] if isinstance(node, ast.Expr)
    ]
    return [(f"`{m.value}`", text) for m, text in zip(enum, sentences, strict=True)]


def _process_rows() -> list[tuple[str, str, str]]:
    return [
        (
            f"`{family.name}{'_total' * (family.type == 'counter')}`",
            family.type,
            family.documentation,
        )
        for family in ProcessCollector(registry=None).collect()
    ]
