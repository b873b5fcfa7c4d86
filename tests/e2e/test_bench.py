"""``penstock bench`` against a real broker: its figures are there, and its topics are gone."""

import json
import signal
import subprocess
import sys
from pathlib import Path

from penstock.client.mqtt.client import connect
from tests.e2e.process import TIMEOUT_S

PENSTOCK = str(Path(sys.executable).with_name("penstock"))
NAMES = ["durable_single", "durable_many", "qos0_paced", "qos0_flat_out", "jobs"]


def command(broker, *arguments):
    return [PENSTOCK, "bench", "-p", str(broker.port), *arguments]


def topics_left(broker):
    return broker.json("/api/v1/topics?prefix=bench/")[1]["items"]


def test_each_figure_is_measured_and_the_topics_are_deleted(start):
    broker = start()
    quick = command(broker, "--seconds", "0.3", "--clients", "2", "--rate", "200", "--json")
    done = subprocess.run(quick, check=False, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    figures = {one["name"]: one for one in report["figures"]}
    assert list(figures) == NAMES
    assert all(one["finished"] and one["messages"] and one["per_s"] for one in figures.values())
    assert all(figures[name]["latency"]["p50_ms"] > 0 for name in ("durable_single", "qos0_paced"))
    assert (figures["qos0_paced"]["sent"], figures["qos0_paced"]["lost"]) == (60, 0)
    flat = figures["qos0_flat_out"]
    assert flat["messages"] + flat["lost"] == flat["sent"]
    durable = sum(figures[name]["messages"] for name in ("durable_single", "durable_many", "jobs"))
    qos_1 = broker.metric('penstock_messages_received_total{qos="1"}')
    qos_0 = broker.metric('penstock_messages_received_total{qos="0"}')
    assert (durable, 60 + flat["sent"]) == (qos_1, qos_0)
    assert (report["topics_deleted"], report["topics_left"]) == (6, [])
    assert topics_left(broker) == []


def test_lost_messages_come_with_the_reason_that_the_broker_recorded(start):
    """The subscriber is stopped while its publisher, a process of its own, goes on."""
    limits = ("limits.outbound_bytes_max=64KiB", "limits.packet_bytes_max=64KiB")
    broker = start(*(word for limit in limits for word in ("--set", limit)))
    quick = command(broker, "--seconds", "2", "--clients", "1", "--payload", "8000")
    with subprocess.Popen(quick, stdout=subprocess.PIPE, text=True) as child:
        with connect(broker.host, broker.port) as client:
            client.subscribe([("bench/+/qos0_flat_out", 0)])
            assert client.receive(1, TIMEOUT_S)
            child.send_signal(signal.SIGSTOP)
        dropped = 'penstock_dropped_total{reason="slow_reader"}'
        before = broker.metric(dropped)
        while broker.metric(dropped) == before:
            pass
        child.send_signal(signal.SIGCONT)
        said = child.communicate(timeout=TIMEOUT_S)[0]
    assert child.returncode == 0
    flat = next(line for line in said.splitlines() if "flat out" in line)
    assert flat.endswith("lost (slow_reader)")
    assert "\nslow_reader: Make the subscriber faster" in said


def test_an_interrupt_prints_what_is_known_and_deletes_the_topics(start):
    broker = start()
    with connect(broker.host, broker.port) as client:
        client.subscribe([("bench/+/durable_many/+", 0)])
        with subprocess.Popen(
            command(broker, "--seconds", "2", "--clients", "1"), stdout=subprocess.PIPE, text=True
        ) as child:
            assert client.receive(1, TIMEOUT_S)  # the second measurement has begun
            child.send_signal(signal.SIGINT)
            said = child.communicate(timeout=TIMEOUT_S)[0]
    assert child.returncode == 130
    single, many = said.splitlines()[1:3]
    assert "p99" in single
    assert many.endswith("/s; interrupted")
    assert "the figures so far" in said
    assert topics_left(broker) == []


def test_who_may_not_do_everything_is_told_what_failed_and_what_is_left(start, tmp_path):
    """The jobs and the deletion need rights that a publisher lacks."""
    broker = start()
    at = ["-p", str(broker.port)]
    (secret := tmp_path / "secret").write_text("correct horse battery\n")
    secret.chmod(0o600)
    rules = ["--allow", "publish bench/#", "--allow", "subscribe bench/#"]
    for words in (
        ["roles", "add", "load", *rules],
        ["users", "add", "ann", "--role", "load", "--password-file", str(secret)],
    ):
        subprocess.run([PENSTOCK, *words, *at], check=True, timeout=TIMEOUT_S)
    own = ["--user", "ann", "--password-file", str(secret)]
    quick = command(broker, "--seconds", "0.1", "--clients", "2", "--json", *own)
    done = subprocess.run(quick, check=False, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.returncode == 1, done.stderr
    assert "not everything could be measured" in done.stderr
    report = json.loads(done.stdout)
    failed = [one["name"] for one in report["figures"] if one["error"]]
    assert failed == ["jobs"]
    assert f"bench/{report['plan']['run']}/durable_single" in report["topics_left"]
    assert report["why_left"]
