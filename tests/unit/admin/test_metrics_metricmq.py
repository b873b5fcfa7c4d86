"""MetricMQ's names are served, with the meaning that its documentation gives them."""

import asyncio

import pytest
from prometheus_client.parser import text_string_to_metric_families

from penstock.admin import exposition
from penstock.admin.exposition import coarser
from penstock.admin.metrics import render, render_off_loop
from penstock.admin.metrics_metricmq import LATENCY_S_BOUNDS, METRICMQ, PER_TOPIC
from penstock.obs.counters import Histogram
from penstock.obs.reasons import DisconnectReason
from penstock.trust.faults import SignatureFault

REAL = """
    messages_published_total messages_delivered_total subscriptions_total unsubscriptions_total
    connections_total disconnections_total acks_total errors_total active_connections
    active_subscribers topics publish_latency_seconds delivery_latency_seconds
"""
PROMISED = """
    bytes_in_total bytes_out_total signature_verifications_total signature_failures_total
    queue_pending active_topics
"""


def parsed(text):
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def samples(view):
    return parsed(render(view))


def topic_samples(view):
    return parsed(asyncio.run(render_off_loop(view, asyncio.Lock(), with_topics=True)))


def test_the_names_are_those_of_its_broker_and_of_its_dashboards():
    assert {metric.name for metric in METRICMQ} == {
        f"metricmq_{name}" for name in (REAL + PROMISED).split()
    }


def test_every_name_is_served(view):
    shown = {series[0] for series in samples(view)}
    for metric in METRICMQ:
        assert metric.name + ("_bucket" if metric.kind == "histogram" else "") in shown


def test_figures_are_ours_under_other_names(view):
    counters = view.counters
    counters.messages_in_total[:] = [1, 10, 100]
    counters.messages_out_total[:] = [2, 20, 200]
    counters.bytes_in_total = 3
    counters.bytes_out_total = 4
    counters.acknowledged_total = 5
    counters.subscribed_total = 6
    counters.unsubscribed_total = 8
    view.gate.verifications_total = 9
    view.gate.failures[SignatureFault.UNSIGNED] = 10
    view.gate.failures[SignatureFault.STALE] = 11
    assert (
        samples(view).items()
        >= {
            ("metricmq_messages_published_total",): 111,
            ("metricmq_messages_delivered_total",): 222,
            ("metricmq_bytes_in_total",): 3,
            ("metricmq_bytes_out_total",): 4,
            ("metricmq_acks_total",): 5,
            ("metricmq_subscriptions_total",): 6,
            ("metricmq_unsubscriptions_total",): 8,
            ("metricmq_signature_verifications_total",): 9,
            ("metricmq_signature_failures_total",): 21,
            ("metricmq_active_subscribers",): 7,
            ("metricmq_topics",): 16,
            ("metricmq_active_topics",): 16,
            ("metricmq_queue_pending",): 17,
        }.items()
    )


def test_connections_that_ended_and_those_that_are_open_add_up(view):
    """HTTP requests, such as scrapes, do not count as connections."""
    view.counters.connections_total.update(mqtt=3, binary=4, resp=5, http=600)
    shown = samples(view)
    assert shown["metricmq_connections_total",] == 12
    assert shown["metricmq_active_connections",] == 2
    assert shown["metricmq_disconnections_total",] == 10


@pytest.mark.parametrize(
    ("reason", "is_error"),
    [
        (DisconnectReason.CLIENT_DISCONNECT, False),
        (DisconnectReason.CONNECTION_LOST, False),
        (DisconnectReason.IDLE_TIMEOUT, False),
        (DisconnectReason.SERVER_SHUTDOWN, False),
        (DisconnectReason.MALFORMED_PACKET, True),
        (DisconnectReason.TOPIC_INVALID, True),
        (DisconnectReason.SIGNATURE_REFUSED, True),
        (DisconnectReason.STORAGE_FULL, True),
        (DisconnectReason.INTERNAL_ERROR, True),
    ],
)
def test_errors_are_requests_refused_and_connections_ended_for_a_fault(view, reason, is_error):
    view.counters.refused_total = 5
    view.counters.disconnects[reason] += 1
    assert samples(view)["metricmq_errors_total",] == 5 + is_error


@pytest.mark.parametrize(
    ("name", "slot"), [("publish", "publish_seconds"), ("delivery", "delivery_seconds")]
)
def test_histograms_have_the_buckets_of_its_dashboards(view, name, slot):
    histogram = getattr(view.counters, slot)
    for value in (0.0001, 0.0002, 0.0005, 0.003, 0.02, 0.1, 0.2, 9.0):
        histogram.observe(value)
    shown = samples(view)
    buckets = {
        series[1]: count
        for series, count in shown.items()
        if series[0] == f"metricmq_{name}_latency_seconds_bucket"
    }
    assert buckets == {
        "0.0001": 1,
        "0.0005": 3,
        "0.001": 3,
        "0.005": 4,
        "0.01": 4,
        "0.05": 5,
        "0.1": 6,
        "+Inf": 8,
    }
    assert shown[f"metricmq_{name}_latency_seconds_count",] == 8
    assert shown[f"metricmq_{name}_latency_seconds_sum",] == pytest.approx(9.3238)


def test_fewer_buckets_need_bounds_that_are_there():
    with pytest.raises(AssertionError):
        coarser(Histogram((1.0, 2.0)), (1.5,))


def test_its_bounds_are_bounds_of_ours(view):
    assert set(LATENCY_S_BOUNDS) <= set(view.counters.publish_seconds.bounds)


# ── by topic ──────────────────────────────────────────────────────────────────────────────────


def test_topics_have_no_series_unless_asked_for(view):
    view.store.counts = {b"a": 1}
    shown = {series[0] for series in samples(view)}
    assert not shown & {metric.name for metric in PER_TOPIC}


def test_topics_show_their_messages_and_subscribers(view):
    view.store.counts = {b"a": 3, b"b": 4}
    view.audiences = {b"b": 2, b"#": 1}
    shown = topic_samples(view)
    assert (
        shown.items()
        >= {
            ("metricmq_topic_messages_total", "a"): 3,
            ("metricmq_topic_messages_total", "b"): 4,
            ("metricmq_topic_subscribers", "a"): 0,
            ("metricmq_topic_subscribers", "b"): 2,
            ("metricmq_topic_subscribers", "#"): 1,
            ("metricmq_topics_left_out",): 0,
        }.items()
    )
    assert ("metricmq_topic_messages_total", "#") not in shown


def test_labels_are_escaped(view):
    name = 'quoted "back\\slash" new\nline ünï'
    view.store.counts = {name.encode(): 5}
    assert topic_samples(view)["metricmq_topic_messages_total", name] == 5


def test_a_filter_that_is_no_text_does_not_break_the_page(view):
    view.audiences = {b"\xff\xfe": 1}
    assert topic_samples(view)["metricmq_topic_subscribers", "\\xff\\xfe"] == 1


@pytest.mark.parametrize(("more", "left_out"), [(0, 0), (1, 1), (5, 5), (6, 5)])
def test_topics_with_series_are_bounded_and_the_rest_counted_up_to_a_bound(
    view, monkeypatch, more, left_out
):
    monkeypatch.setattr(exposition, "TOPICS_SHOWN_MAX", 3)
    monkeypatch.setattr(exposition, "TOPICS_COUNTED_MAX", 5)
    view.store.counts = {b"t%d" % number: 1 for number in range(3 + more)}
    shown = topic_samples(view)
    assert sum(series[0] == "metricmq_topic_messages_total" for series in shown) == 3
    assert shown["metricmq_topics_left_out",] == left_out
