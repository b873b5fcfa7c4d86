"""The metrics: one table, from which both the exposition and the reference page are made.

Counting happens elsewhere, in plain integers (``obs.counters``); nothing here is touched until
somebody asks. A scrape walks the table, reads each number and lets ``prometheus_client`` write the
text (:mod:`penstock.admin.exposition`). Two brokers in one process do not see each other, and a
metric cannot be forgotten in a second place. Every label value that can occur is always there, with
0 if need be, so that a rate over a first event is not lost. What concerns queues has a table of its
own (:mod:`penstock.admin.metrics_queues`), and so has the cluster
(:mod:`penstock.admin.metrics_cluster`). Behind ours come the same figures under the names of
MetricMQ (:mod:`~penstock.admin.metrics_metricmq`) and HermesMQ
(:mod:`~penstock.admin.metrics_hermesmq`).

Names follow the Prometheus conventions: prefix, subject, unit last, ``_total`` for what only grows.
"""

import ast
import asyncio
import inspect
from collections.abc import Iterable, Mapping
from enum import Enum

from prometheus_client import ProcessCollector
from starlette.concurrency import run_in_threadpool

from penstock.admin.exposition import (
    Metric,
    Scrape,
    counted,
    exposition,
    families,
    read_stored,
)
from penstock.admin.metrics_cluster import CLUSTER
from penstock.admin.metrics_hermesmq import HERMESMQ
from penstock.admin.metrics_metricmq import METRICMQ, PER_TOPIC
from penstock.admin.metrics_queues import QUEUES
from penstock.admin.survey import SERIES_DEFAULT, Survey
from penstock.admin.view import BrokerView
from penstock.obs.reasons import DisconnectReason, DropReason
from penstock.trust.faults import SignatureFault

__all__ = ["CONTENT_TYPE", "METRICS", "Metric", "markdown", "render", "render_off_loop"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""The Prometheus text format, as old as the readers that may come."""

PROTOCOLS = ("mqtt", "binary", "resp", "http")
"""Values of the label ``protocol`` that are always present."""


def _by_protocol(scrape: Scrape) -> Mapping[str, float]:
    return dict.fromkeys(PROTOCOLS, 0) | scrape.counters.connections_total


def _by_qos(counts: Iterable[int]) -> Mapping[str, float]:
    return {str(qos): count for qos, count in enumerate(counts)}


def _by_reason(
    counts: Mapping[DisconnectReason, int]
    | Mapping[DropReason, int]
    | Mapping[SignatureFault, int],
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
        lambda scrape: scrape.counters.clients_connected,
    ),
    Metric(
        "penstock_disconnects_total",
        "counter",
        "Connections ended, by reason.",
        lambda scrape: _by_reason(scrape.counters.disconnects),
        "reason",
    ),
    # ── Messages
    Metric(
        "penstock_messages_received_total",
        "counter",
        "Messages accepted from publishers, by QoS.",
        lambda scrape: _by_qos(scrape.counters.messages_in_total),
        "qos",
    ),
    Metric(
        "penstock_messages_sent_total",
        "counter",
        "Messages sent to subscribers, by QoS of the delivery.",
        lambda scrape: _by_qos(scrape.counters.messages_out_total),
        "qos",
    ),
    counted(
        "penstock_received_bytes_total", "counter", "bytes_in_total", "Bytes read from sockets."
    ),
    counted("penstock_sent_bytes_total", "counter", "bytes_out_total", "Bytes written to sockets."),
    counted(
        "penstock_redelivered_total",
        "counter",
        "redelivered_total",
        "Messages sent again to a client that came back without having acknowledged them.",
    ),
    Metric(
        "penstock_outgoing_bytes",
        "gauge",
        "Bytes that wait to be sent to clients of all protocols but HTTP.",
        lambda scrape: scrape.view.outgoing()[0],
    ),
    Metric(
        "penstock_outgoing_bytes_max",
        "gauge",
        "The most that they may be: `limits.outgoing_bytes_max`.",
        lambda scrape: scrape.view.outgoing()[1],
    ),
    Metric(
        "penstock_outgoing_waiting",
        "gauge",
        "Connections that have something to send and wait because all together hold too much.",
        lambda scrape: scrape.view.outgoing()[2],
    ),
    Metric(
        "penstock_dropped_total",
        "counter",
        "Messages, or single copies of one, that went no further, by reason.",
        lambda scrape: _by_reason(scrape.counters.drops),
        "reason",
    ),
    counted(
        "penstock_publish_seconds",
        "histogram",
        "publish_seconds",
        "From reading a QoS 1 or 2 or binary publish to its acknowledgement.",
    ),
    counted(
        "penstock_delivery_seconds",
        "histogram",
        "delivery_seconds",
        "From reading a publish that waits for the disk to handing it to a subscriber; once each.",
    ),
    counted(
        "penstock_acknowledgements_total",
        "counter",
        "acknowledged_total",
        "Acknowledgements of durable subscribers and of workers.",
    ),
    # ── Signatures
    Metric(
        "penstock_signature_verifications_total",
        "counter",
        "Signed publishes that were judged, accepted or not.",
        lambda scrape: scrape.view.gate.verifications_total,
    ),
    Metric(
        "penstock_signature_failures_total",
        "counter",
        "Publishes refused by their signature, or for the lack of one, by fault.",
        lambda scrape: _by_reason(scrape.view.gate.failures),
        "fault",
    ),
    # ── The journal
    counted(
        "penstock_captured_total", "counter", "captured_total", "Messages written to the journal."
    ),
    counted(
        "penstock_commit_seconds",
        "histogram",
        "commit_seconds",
        "One commit of the journal, from start to end.",
    ),
    counted(
        "penstock_fsync_seconds",
        "histogram",
        "fsync_seconds",
        "The part of a commit spent waiting for the disk.",
    ),
    counted("penstock_batch_messages", "histogram", "batch_messages", "Messages per commit."),
    counted(
        "penstock_read_failures_total",
        "counter",
        "read_failures_total",
        "Reads of the journal that failed; `penstock store verify` tells how far damage goes.",
    ),
    counted(
        "penstock_commit_failures_total",
        "counter",
        "commit_failures_total",
        "Commits that failed; their messages were refused or counted as dropped.",
    ),
    Metric(
        "penstock_pending_capture_bytes",
        "gauge",
        "Bytes of QoS 0 messages waiting to be journaled.",
        lambda scrape: scrape.view.pending_capture_bytes(),
    ),
    Metric(
        "penstock_journal_bytes",
        "gauge",
        "Disk used by the store.",
        lambda scrape: scrape.stored.journal.bytes,
    ),
    Metric(
        "penstock_journal_map_bytes",
        "gauge",
        "Address space of the store; it grows before it is full.",
        lambda scrape: scrape.stored.journal.map_bytes,
    ),
    Metric(
        "penstock_journal_entries",
        "gauge",
        "Entries (commits) in the journal.",
        lambda scrape: scrape.stored.journal.entries,
    ),
    Metric(
        "penstock_journal_messages",
        "gauge",
        "Messages in the journal.",
        lambda scrape: scrape.stored.journal.messages,
    ),
    Metric(
        "penstock_journal_first_sequence",
        "gauge",
        "Sequence of the oldest message in the journal; 0 if it is empty.",
        lambda scrape: scrape.stored.journal.oldest_sequence,
    ),
    Metric(
        "penstock_journal_last_sequence",
        "gauge",
        "Sequence of the newest message in the journal; 0 if it is empty.",
        lambda scrape: scrape.stored.journal.newest_sequence,
    ),
    # ── State
    Metric(
        "penstock_sessions",
        "gauge",
        "Sessions: connected, or kept for a client that is away.",
        lambda scrape: dict(zip(("connected", "away"), scrape.view.sessions(), strict=True)),
        "state",
    ),
    Metric(
        "penstock_queued_messages",
        "gauge",
        "Messages waiting in the queues of all sessions.",
        lambda scrape: scrape.view.queued(),
    ),
    Metric(
        "penstock_retained_messages",
        "gauge",
        "Retained messages.",
        lambda scrape: scrape.view.retained(),
    ),
    Metric(
        "penstock_subscriptions",
        "gauge",
        "Filters of all clients, by any protocol; workers of queues, too.",
        lambda scrape: scrape.view.subscriptions(),
    ),
    Metric(
        "penstock_followers",
        "gauge",
        "Those of them that follow the journal: subscriptions of binary clients.",
        lambda scrape: scrape.view.followers(),
    ),
    Metric(
        "penstock_durable_subscribers",
        "gauge",
        "Client ids of the binary protocol whose acknowledgements are kept.",
        lambda scrape: scrape.view.durable_subscribers(),
    ),
    Metric(
        "penstock_queue_pending",
        "gauge",
        "Jobs that wait in queues or are being done, of 1,000 queues at most.",
        lambda scrape: scrape.stored.queue_pending,
    ),
    Metric(
        "penstock_ready",
        "gauge",
        "1 while /ready says yes, else 0.",
        lambda scrape: scrape.view.ready()[0],
    ),
    Metric(
        "penstock_uptime_seconds",
        "gauge",
        "Time since the broker began to listen.",
        lambda scrape: scrape.view.uptime_s(),
    ),
    Metric(
        "penstock_build_info",
        "gauge",
        "Always 1; the label says which version runs.",
        lambda scrape: {scrape.view.version: 1},
        "version",
    ),
)


_ALWAYS = (*METRICS, *QUEUES, *CLUSTER, *METRICMQ, *HERMESMQ)


# ── The exposition ────────────────────────────────────────────────────────────────────────────


def render(view: BrokerView) -> bytes:
    """Return all metrics in the Prometheus text format, at once; for tests and small programs."""
    stored = read_stored(view, with_topics=False)
    survey = Survey(view.queues)
    for _ in survey.slices():
        pass
    return exposition(families(_ALWAYS, Scrape(view, stored, survey)))


async def render_off_loop(
    view: BrokerView,
    surveying: asyncio.Lock,
    *,
    with_topics: bool = False,
    group_series: int = SERIES_DEFAULT,
) -> bytes:
    """Return the same, and series by topic if asked for; the event loop goes on meanwhile.

    One survey at a time: a hundred of them, a slice each, would be a long turn together.
    """
    table = (*_ALWAYS, *PER_TOPIC) if with_topics else _ALWAYS
    stored = await run_in_threadpool(read_stored, view, with_topics=with_topics)
    survey = Survey(view.queues, group_series)
    async with surveying:
        for _ in survey.slices():
            await asyncio.sleep(0)
    return await run_in_threadpool(exposition, families(table, Scrape(view, stored, survey)))


# ── The reference page ────────────────────────────────────────────────────────────────────────

PAGE = """\
# Metrics

*Generated from `penstock.admin.metrics`; `make docs` writes it anew.*

`GET /metrics` on any listener answers in the Prometheus text format. What to watch, and when to
worry, is in [monitoring](../operating/monitoring.md).

{metrics}

## Queues and groups

{queues}

## The cluster

{cluster}

Histograms have the usual series `_bucket`, `_sum` and `_count`. Every reason is always present, as
0 until it occurs.

## Under MetricMQ's names

For those who have dashboards for it. What differs from MetricMQ's own figures, and what counts as
an error, is in [monitoring](../operating/monitoring.md#metricmqs-dashboards).

{seed}

Only in `/metrics?topics=1`:

{per_topic}

## Under HermesMQ's names

For those who have dashboards for it. A broker that stands alone is a cluster of one, the node 1.

{hermesmq}

## Reasons in `penstock_disconnects_total`

{disconnects}

## Reasons in `penstock_dropped_total`

{drops}

## Faults in `penstock_signature_failures_total`

{faults}

## The process

Where the system has `/proc`.

{process}
"""


def markdown() -> str:
    """Return the page ``docs/reference/metrics.md``."""
    return PAGE.format(
        metrics=_metrics_table(METRICS),
        queues=_metrics_table(QUEUES),
        cluster=_metrics_table(CLUSTER),
        seed=_metrics_table(METRICMQ),
        per_topic=_metrics_table(PER_TOPIC),
        hermesmq=_metrics_table(HERMESMQ),
        disconnects=_table(("reason", "meaning"), _reasons(DisconnectReason)),
        drops=_table(("reason", "meaning"), _reasons(DropReason)),
        faults=_table(("fault", "meaning"), _reasons(SignatureFault)),
        process=_table(("metric", "type", "meaning"), _process_rows()),
    )


def _metrics_table(table: Iterable[Metric]) -> str:
    rows = [(f"`{m.name}`", m.kind, m.label and f"`{m.label}`", m.help) for m in table]
    return _table(("metric", "type", "label", "meaning"), rows)


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
