"""The same figures under the names of MetricMQ, for those who have dashboards for it.

All names that MetricMQ really served are here, and those that its documentation only promised and
its dashboards ask for. They mean what that documentation says: a delivery is a message handed to
one subscriber, gauges fall when clients leave, the histograms record, with MetricMQ's own buckets.

**Connections** are those of clients; who asks by HTTP is none, as MetricMQ served its metrics on a
port of their own. One that has ended was accepted and is open no more, so the three figures always
add up.

**Errors** are requests that were answered with an error, and connections that the broker ended for
what the client sent or for want of something it needs. A client that goes, or is silent for too
long, is no error.

**Topics** have series of their own only in ``/metrics?topics=1``: a scraper that did not ask must
not be given thousands. Labels are whatever clients chose, hence escaped.
"""

from collections.abc import Mapping

from penstock.admin.exposition import (
    TOPICS_COUNTED_MAX,
    TOPICS_SHOWN_MAX,
    Metric,
    Scrape,
    coarser,
    counted,
)
from penstock.obs.reasons import DisconnectReason

LATENCY_S_BOUNDS = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1)
"""MetricMQ's buckets, all of them bounds of ours too."""

_NO_ERRORS = {
    DisconnectReason.CLIENT_DISCONNECT,
    DisconnectReason.CONNECTION_LOST,
    DisconnectReason.CONNECT_TIMEOUT,
    DisconnectReason.KEEP_ALIVE_TIMEOUT,
    DisconnectReason.IDLE_TIMEOUT,
    DisconnectReason.SESSION_TAKEN_OVER,
    DisconnectReason.SERVER_SHUTDOWN,
}


def _accepted(scrape: Scrape) -> int:
    totals = scrape.counters.connections_total
    return sum(totals.values()) - totals.get("http", 0)


def _errors(scrape: Scrape) -> int:
    disconnects = scrape.counters.disconnects.items()
    ended = sum(count for reason, count in disconnects if reason not in _NO_ERRORS)
    return scrape.counters.refused_total + ended


METRICMQ: tuple[Metric, ...] = (
    Metric(
        "metricmq_messages_published_total",
        "counter",
        "Messages accepted from publishers.",
        lambda scrape: sum(scrape.counters.messages_in_total),
    ),
    Metric(
        "metricmq_messages_delivered_total",
        "counter",
        "Messages handed to subscribers, once for each.",
        lambda scrape: sum(scrape.counters.messages_out_total),
    ),
    counted(
        "metricmq_subscriptions_total",
        "counter",
        "subscribed_total",
        "Topics, filters and patterns that clients subscribed to.",
    ),
    counted(
        "metricmq_unsubscriptions_total",
        "counter",
        "unsubscribed_total",
        "Requests of clients to unsubscribe.",
    ),
    Metric("metricmq_connections_total", "counter", "Connections of clients.", _accepted),
    Metric(
        "metricmq_disconnections_total",
        "counter",
        "Connections of clients that have ended.",
        lambda scrape: _accepted(scrape) - scrape.view.connections(),
    ),
    counted("metricmq_acks_total", "counter", "acknowledged_total", "Acknowledgements of clients."),
    Metric(
        "metricmq_errors_total",
        "counter",
        "Requests answered with an error, and connections ended for a fault.",
        _errors,
    ),
    counted("metricmq_bytes_in_total", "counter", "bytes_in_total", "Bytes read from sockets."),
    counted("metricmq_bytes_out_total", "counter", "bytes_out_total", "Bytes written to sockets."),
    Metric(
        "metricmq_signature_verifications_total",
        "counter",
        "Signed publishes that were judged.",
        lambda scrape: scrape.view.gate.verifications_total,
    ),
    Metric(
        "metricmq_signature_failures_total",
        "counter",
        "Publishes refused by their signature, or for the lack of one.",
        lambda scrape: sum(scrape.view.gate.failures.values()),
    ),
    Metric(
        "metricmq_active_connections",
        "gauge",
        "Clients connected now.",
        lambda scrape: scrape.view.connections(),
    ),
    Metric(
        "metricmq_active_subscribers",
        "gauge",
        "Subscriptions of all clients.",
        lambda scrape: scrape.view.subscriptions(),
    ),
    Metric(
        "metricmq_topics",
        "gauge",
        "Topics and filters that somebody subscribes to.",
        lambda scrape: scrape.view.topics_subscribed(),
    ),
    Metric(
        "metricmq_active_topics",
        "gauge",
        "The same as `metricmq_topics`.",
        lambda scrape: scrape.view.topics_subscribed(),
    ),
    Metric(
        "metricmq_queue_pending",
        "gauge",
        "Jobs that wait in queues or are being done.",
        lambda scrape: scrape.stored.queue_pending,
    ),
    Metric(
        "metricmq_publish_latency_seconds",
        "histogram",
        "From reading a publish that waits for the disk to its acknowledgement.",
        lambda scrape: coarser(scrape.counters.publish_seconds, LATENCY_S_BOUNDS),
    ),
    Metric(
        "metricmq_delivery_latency_seconds",
        "histogram",
        "From reading a publish that waits for the disk to handing it to a subscriber.",
        lambda scrape: coarser(scrape.counters.delivery_seconds, LATENCY_S_BOUNDS),
    ),
)


# ── by topic ──────────────────────────────────────────────────────────────────────────────────


def _messages(scrape: Scrape) -> Mapping[str, float]:
    return {_label(topic): count for topic, count in scrape.stored.topics.items()}


def _subscribers(scrape: Scrape) -> Mapping[str, float]:
    """By topic, 0 where nobody is; and by what else is subscribed to, filters included."""
    topics = dict.fromkeys([*scrape.stored.topics, *scrape.view.filters(TOPICS_SHOWN_MAX)])
    return {_label(topic): scrape.view.subscribers(topic) for topic in topics}


def _label(topic: bytes) -> str:
    return topic.decode("utf-8", "backslashreplace")


PER_TOPIC: tuple[Metric, ...] = (
    Metric(
        "metricmq_topic_messages_total",
        "counter",
        f"Messages ever journaled, of the first {TOPICS_SHOWN_MAX:,} topics by name.",
        _messages,
        "topic",
    ),
    Metric(
        "metricmq_topic_subscribers",
        "gauge",
        f"Subscribers of the same topics, and of {TOPICS_SHOWN_MAX:,} filters at most, each under"
        " its own spelling.",
        _subscribers,
        "topic",
    ),
    Metric(
        "metricmq_topics_left_out",
        "gauge",
        f"Topics beyond those in `metricmq_topic_messages_total`, up to {TOPICS_COUNTED_MAX:,}.",
        lambda scrape: scrape.stored.topics_left_out,
    ),
)
