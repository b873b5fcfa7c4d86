"""The same figures under MetricMQ's names, for existing dashboards.

They mean what its documentation says: a delivery is a message passed to one subscriber, gauges fall
when clients leave, and the histograms have MetricMQ's buckets.

**Connections** exclude HTTP: MetricMQ served its metrics on another port. **Errors** are requests
answered with an error, and connections that the broker closed because of what the client sent or
because a resource was exhausted. **Topics** have series of their own only in ``/metrics?topics=1``:
there may be thousands. Clients choose these labels, so they are escaped.
"""

from collections.abc import Mapping

from penstock.admin.exposition import (
    TOPICS_COUNTED_MAX,
    TOPICS_SHOWN_MAX,
    Metric,
    Scrape,
    coarser,
    counted,
    counter,
    gauge,
)
from penstock.admin.pages import text_of
from penstock.obs.reasons import DisconnectReason

LATENCY_S_BOUNDS = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1)  # a subset of our own

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
    counter(
        "metricmq_messages_published_total",
        "Messages accepted from publishers.",
        lambda s: sum(s.counters.messages_in_total),
    ),
    counter(
        "metricmq_messages_delivered_total",
        "Messages passed to subscribers, once for each.",
        lambda s: sum(s.counters.messages_out_total),
    ),
    counted(
        "subscribed_total",
        "Topics, filters and patterns that clients subscribed to.",
        "metricmq_subscriptions_total",
    ),
    counted("unsubscribed_total", "Unsubscribe requests.", "metricmq_unsubscriptions_total"),
    counter("metricmq_connections_total", "Client connections.", _accepted),
    counter(
        "metricmq_disconnections_total",
        "Client connections that were closed.",
        lambda s: _accepted(s) - s.view.connections(),
    ),
    counted("acknowledged_total", "Acknowledgements from clients.", "metricmq_acks_total"),
    counter(
        "metricmq_errors_total",
        "Requests answered with an error, and connections closed because of one.",
        _errors,
    ),
    counted("bytes_in_total", "Bytes read from sockets.", "metricmq_bytes_in_total"),
    counted("bytes_out_total", "Bytes written to sockets.", "metricmq_bytes_out_total"),
    counter(
        "metricmq_signature_verifications_total",
        "Signed publishes that were verified.",
        lambda s: s.view.gate.verifications_total,
    ),
    counter(
        "metricmq_signature_failures_total",
        "Publishes refused for a bad or missing signature.",
        lambda s: sum(s.view.gate.failures.values()),
    ),
    gauge("metricmq_active_connections", "Clients connected now.", lambda s: s.view.connections()),
    gauge(
        "metricmq_active_subscribers",
        "Subscriptions of all clients.",
        lambda s: s.view.subscriptions(),
    ),
    gauge(
        "metricmq_topics",
        "Topics and filters with subscribers.",
        lambda s: s.view.topics_subscribed(),
    ),
    gauge(
        "metricmq_active_topics",
        "The same as `metricmq_topics`.",
        lambda s: s.view.topics_subscribed(),
    ),
    gauge(
        "metricmq_queue_pending",
        "Jobs waiting in queues or in progress.",
        lambda s: s.stored.queue_pending,
    ),
    Metric(
        "metricmq_publish_latency_seconds",
        "histogram",
        "Time from reading a publish that waits for the disk to its acknowledgement.",
        lambda s: coarser(s.counters.publish_seconds, LATENCY_S_BOUNDS),
    ),
    Metric(
        "metricmq_delivery_latency_seconds",
        "histogram",
        "Time from reading a publish that waits for the disk to passing it to a subscriber.",
        lambda s: coarser(s.counters.delivery_seconds, LATENCY_S_BOUNDS),
    ),
)


def _subscribers(scrape: Scrape) -> Mapping[str, float]:
    topics = dict.fromkeys([*scrape.stored.topics, *scrape.view.filters(TOPICS_SHOWN_MAX)])
    return {text_of(topic): scrape.view.subscribers(topic) for topic in topics}


PER_TOPIC: tuple[Metric, ...] = (
    counter(
        "metricmq_topic_messages_total",
        f"Messages ever journaled, for the first {TOPICS_SHOWN_MAX:,} topics by name.",
        lambda s: {text_of(topic): count for topic, count in s.stored.topics.items()},
        "topic",
    ),
    gauge(
        "metricmq_topic_subscribers",
        f"Subscribers of the same topics, and of up to {TOPICS_SHOWN_MAX:,} filters.",
        _subscribers,
        "topic",
    ),
    gauge(
        "metricmq_topics_left_out",
        f"Topics beyond those in `metricmq_topic_messages_total`, up to {TOPICS_COUNTED_MAX:,}.",
        lambda s: s.stored.topics_left_out,
    ),
)
