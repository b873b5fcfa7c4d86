"""Writes docs/reference/metrics.md from the tables of metrics and the reasons."""

import ast
import inspect
from collections.abc import Iterable
from enum import Enum

from prometheus_client import ProcessCollector

from penstock.admin.exposition import Metric
from penstock.admin.metrics import METRICS
from penstock.admin.metrics_bridges import BRIDGES
from penstock.admin.metrics_cluster import CLUSTER
from penstock.admin.metrics_hermesmq import HERMESMQ
from penstock.admin.metrics_metricmq import METRICMQ, PER_TOPIC
from penstock.admin.metrics_queues import QUEUES
from penstock.obs.reasons import DisconnectReason, DropReason
from penstock.trust.faults import SignatureFault

__all__ = ["markdown", "reasons", "table"]

PAGE = """\
# Metrics

*Generated from `penstock.admin.metrics`; run `make docs` to update.*

`GET /metrics` on any listener answers in the Prometheus text format. What to watch, and when to
worry, is in [monitoring](../operating/monitoring.md).

{metrics}

## Queues and groups

{queues}

## The cluster

{cluster}

## Bridges

A broker without [bridges](../operating/bridges.md) has none of these.

{bridges}

Histograms have the usual series `_bucket`, `_sum` and `_count`. Every reason is always present, as
0 until it occurs.

## Under MetricMQ's names

For existing dashboards. What differs from MetricMQ's own figures, and what counts as an error, is
in [monitoring](../operating/monitoring.md#metricmqs-dashboards).

{metricmq}

Only in `/metrics?topics=1`:

{per_topic}

## Under HermesMQ's names

For existing dashboards. A standalone broker is a cluster of one, node 1.

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
        bridges=_metrics_table(BRIDGES),
        metricmq=_metrics_table(METRICMQ),
        per_topic=_metrics_table(PER_TOPIC),
        hermesmq=_metrics_table(HERMESMQ),
        disconnects=table(("reason", "meaning"), reasons(DisconnectReason)),
        drops=table(("reason", "meaning"), reasons(DropReason)),
        faults=table(("fault", "meaning"), reasons(SignatureFault)),
        process=table(("metric", "type", "meaning"), _process_rows()),
    )


def _metrics_table(found: Iterable[Metric]) -> str:
    rows = [(f"`{m.name}`", m.kind, m.label and f"`{m.label}`", m.help) for m in found]
    return table(("metric", "type", "label", "meaning"), rows)


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def reasons(enum: type[Enum]) -> list[tuple[str, str]]:
    """Return the value of each member and the sentence below it in the source."""
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
