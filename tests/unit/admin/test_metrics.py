"""The exposition is complete, well-formed and true to the counters; the page lists the same."""

import asyncio
import re
import threading
from platform import python_version

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.metrics_page import markdown

from penstock import kernel
from penstock.admin.metrics import METRICS, render, render_off_loop
from penstock.admin.metrics_hermesmq import HERMESMQ
from penstock.admin.metrics_metricmq import METRICMQ, PER_TOPIC
from penstock.admin.metrics_queues import QUEUES
from penstock.core.commands import GroupMade
from penstock.obs.reasons import DisconnectReason, DropReason
from penstock.trust.faults import SignatureFault

OURS = (*METRICS, *QUEUES)


def samples(view):
    """Return ``{(series name, label value): number}`` as a scraper reads it."""
    families = text_string_to_metric_families(render(view).decode())
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in families
        for sample in family.samples
    }


def test_every_metric_of_the_table_is_exposed(view):
    view.queues.apply(GroupMade(b"mail", b"send", 0))  # without groups there is no series of one
    view.queues.apply(GroupMade(b"mail", b"spark", 0, reader=True))
    exposed = {series[0] for series in samples(view)}
    for metric in OURS:
        name = metric.name + ("_bucket" if metric.kind == "histogram" else "")
        assert name in exposed


def test_the_type_and_the_help_of_every_metric_are_told(view):
    text = render(view).decode()
    for metric in OURS:
        assert f"# TYPE {metric.name} {metric.kind}\n" in text
        assert f"# HELP {metric.name} {metric.help}\n" in text


def test_every_reason_is_present_from_the_start(view):
    shown = samples(view)
    for reason in DisconnectReason:
        assert shown["penstock_disconnects_total", reason.value] == 0
    for reason in DropReason:
        assert shown["penstock_dropped_total", reason.value] == 0


@pytest.mark.parametrize("protocol", ["mqtt", "binary", "resp", "http"])
def test_every_protocol_is_present_from_the_start(view, protocol):
    assert samples(view)["penstock_connections_total", protocol] == 0


@pytest.mark.parametrize("fault", SignatureFault)
def test_every_fault_of_signatures_is_present_from_the_start(view, fault):
    assert samples(view)["penstock_signature_failures_total", fault.value] == 0


def test_counters_show_what_was_counted(view):
    counters = view.counters
    counters.connections_total["mqtt"] = 31
    counters.clients_connected = 32
    counters.messages_in_total[:] = [33, 34, 35]
    counters.messages_out_total[:] = [36, 37, 38]
    counters.bytes_in_total = 39
    counters.bytes_out_total = 40
    counters.captured_total = 41
    counters.redelivered_total = 42
    counters.commit_failures_total = 43
    counters.acknowledged_total = 46
    view.gate.verifications_total = 47
    view.gate.failures[SignatureFault.STALE] = 48
    counters.drops[DropReason.SLOW_READER] = 44
    counters.disconnects[DisconnectReason.SLOW_READER] = 45
    assert (
        samples(view).items()
        >= {
            ("penstock_connections_total", "mqtt"): 31,
            ("penstock_clients_connected",): 32,
            ("penstock_messages_received_total", "0"): 33,
            ("penstock_messages_received_total", "2"): 35,
            ("penstock_messages_sent_total", "1"): 37,
            ("penstock_received_bytes_total",): 39,
            ("penstock_sent_bytes_total",): 40,
            ("penstock_captured_total",): 41,
            ("penstock_redelivered_total",): 42,
            ("penstock_commit_failures_total",): 43,
            ("penstock_acknowledgements_total",): 46,
            ("penstock_signature_verifications_total",): 47,
            ("penstock_signature_failures_total", "stale"): 48,
            ("penstock_dropped_total", "slow_reader"): 44,
            ("penstock_disconnects_total", "slow_reader"): 45,
        }.items()
    )


def test_gauges_show_the_state_of_the_broker(view):
    assert (
        samples(view).items()
        >= {
            ("penstock_sessions", "connected"): 3,
            ("penstock_sessions", "away"): 4,
            ("penstock_queued_messages",): 5,
            ("penstock_retained_messages",): 6,
            ("penstock_subscriptions",): 7,
            ("penstock_followers",): 14,
            ("penstock_durable_subscribers",): 15,
            ("penstock_queue_pending",): 17,
            ("penstock_journal_bytes",): 8_192,
            ("penstock_journal_map_bytes",): 1_048_576,
            ("penstock_journal_entries",): 9,
            ("penstock_journal_messages",): 10,
            ("penstock_journal_first_sequence",): 11,
            ("penstock_journal_last_sequence",): 20,
            ("penstock_pending_capture_bytes",): 12,
            ("penstock_uptime_seconds",): 13.5,
            ("penstock_ready",): 1,
            ("penstock_build_info", python_version(), kernel.speed, "9.8.7"): 1,
        }.items()
    )


def test_readiness_turns_to_zero(view):
    view.readiness = (False, "storage full")
    assert samples(view)["penstock_ready",] == 0


@pytest.mark.parametrize(
    "slot", ["publish_seconds", "delivery_seconds", "commit_seconds", "fsync_seconds"]
)
def test_histograms_are_cumulative(view, slot):
    histogram = getattr(view.counters, slot)
    histogram.observe(0.0001)
    histogram.observe(0.002, times=3)
    histogram.observe(60.0)
    shown = samples(view)
    assert shown[f"penstock_{slot}_bucket", "0.0001"] == 1
    assert shown[f"penstock_{slot}_bucket", "0.001"] == 1
    assert shown[f"penstock_{slot}_bucket", "0.0025"] == 4
    assert shown[f"penstock_{slot}_bucket", "2.5"] == 4
    assert shown[f"penstock_{slot}_bucket", "+Inf"] == 5
    assert shown[f"penstock_{slot}_count",] == 5
    assert shown[f"penstock_{slot}_sum",] == pytest.approx(60.0061)


def test_batch_sizes_have_their_own_buckets(view):
    view.counters.batch_messages.observe(250.0)
    shown = samples(view)
    assert shown["penstock_batch_messages_bucket", "100.0"] == 0
    assert shown["penstock_batch_messages_bucket", "300.0"] == 1


def test_the_process_is_measured(view):
    shown = samples(view)
    assert shown["process_resident_memory_bytes",] > 1_000_000
    assert shown["process_open_fds",] > 2
    assert ("process_cpu_seconds_total",) in shown


def test_the_store_is_read_beside_the_event_loop(view):
    """The loop reads what is its own, and only that."""
    threads = {}

    def note(name, value):
        threads[name] = threading.get_ident()
        return value

    journal = view.journal()
    view.journal = lambda: note("journal", journal)
    view.queue_pending = lambda: note("queues", 1)
    view.store.topics = lambda: note("topics", iter(()))
    view.subscriptions = lambda: note("memory", 1)
    asyncio.run(render_off_loop(view, asyncio.Lock(), with_topics=True))
    assert threads.pop("memory") == threading.get_ident()
    assert set(threads) == {"journal", "queues", "topics"}
    assert threading.get_ident() not in threads.values()


def test_two_brokers_do_not_see_each_other(view):
    """Nothing is registered in a place that outlives the scrape."""
    first = render(view).count(b"\n")
    assert render(view).count(b"\n") == first


def test_names_follow_the_conventions():
    for metric in OURS:
        assert re.fullmatch(r"penstock_[a-z_]+", metric.name)
        assert metric.name.endswith("_total") == (metric.kind == "counter")
        assert metric.help.endswith(".")
    assert len({metric.name for metric in OURS}) == len(OURS)


def test_the_page_explains_every_metric_and_every_reason():
    page = markdown()
    for metric in OURS:
        assert f"| `{metric.name}` | {metric.kind} |" in page
    for metric in [*METRICMQ, *PER_TOPIC, *HERMESMQ]:
        assert f"| `{metric.name}` | {metric.kind} |" in page
    for reason in [*DisconnectReason, *DropReason, *SignatureFault]:
        assert re.search(rf"^\| `{reason.value}` \| \w.+\. \|$", page, re.MULTILINE)
    assert "| `slow_reader` | QoS 0: the subscriber reads too slowly. |" in page
