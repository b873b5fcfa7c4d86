"""A full disk: what needs the disk is refused, the rest continues, and the broker recovers.

The running process gets a limit on the size of its files, which is later lifted: to the broker that
looks like a disk that fills up and is then cleared.
"""

import contextlib
import http.client
import shlex
import signal
import subprocess
from collections.abc import Iterator

import pytest

from tests.conformance import packets5 as v5
from tests.conformance.client5 import Client5
from tests.conformance.wire_client import (
    WireClient,
    connack,
    connect_packet,
    puback,
    publish,
    wait_until,
)
from tests.e2e.process import BrokerProcess, serve_command
from tests.e2e.test_serve import connected

PAYLOAD = b"x" * 100_000
STORAGE_FULL = 'penstock_disconnects_total{reason="storage_full"}'


def numbered(number: int) -> bytes:
    return b"%06d" % number + PAYLOAD


def publish_until_closed(client: WireClient) -> int:
    """Publish at QoS 1 until the broker closes; return the number of acknowledgements."""
    for number in range(1_000):
        packet_id = number + 1
        with contextlib.suppress(ConnectionError):
            client.send(publish("t", numbered(number), qos=1, packet_id=packet_id))
        answer = client.receive()
        if not answer:
            return number
        assert answer == puback(packet_id)
    raise AssertionError("the disk was never full")


@pytest.fixture
def full(start) -> Iterator[tuple[BrokerProcess, int]]:
    """A broker whose disk is full, and how many messages wait for the session "away"."""
    broker = start()
    with connected(broker, "away", clean=False) as away:
        away.subscribe(("t", 1))
        away.disconnect()
    broker.limit_file_bytes((broker.data / "data.mdb").stat().st_size + 1_000_000)
    with connected(broker, "publisher") as publisher:
        count = publish_until_closed(publisher)
    return broker, count


def test_publishers_are_closed_for_a_reason_that_is_counted(full):
    broker, _ = full
    assert broker.metric(STORAGE_FULL) == 1
    assert broker.metric('penstock_dropped_total{reason="storage_full"}') == 1
    assert broker.metric("penstock_commit_failures_total") >= 1
    assert broker.page("/health")[0] == 200


def test_the_broker_says_that_it_is_not_ready_and_why(full):
    broker, _ = full
    status, answer = broker.json("/ready")
    assert status == 503
    assert "full" in answer["reason"]


def test_who_publishes_by_http_is_told(full):
    broker, _ = full
    answer = http.client.HTTPConnection(broker.host, broker.port, timeout=30)
    with contextlib.closing(answer):
        answer.request("POST", "/topics/t", PAYLOAD * 2)
        response = answer.getresponse()
        assert response.status == 503
        assert "the disk is full: the message is not stored" in response.read().decode()


def test_qos_0_still_flows_among_the_living(full):
    broker, _ = full
    with connected(broker, "subscriber") as subscriber, connected(broker, "publisher") as publisher:
        subscriber.subscribe(("live", 0))
        for _ in range(3):
            publisher.send(publish("live", b"still here"))
            subscriber.expect_publish("live", b"still here", qos=0)


def test_it_heals_by_itself_and_nothing_acknowledged_is_lost(full):
    broker, count = full
    assert count > 0
    broker.unlimit_file_bytes()
    with connected(broker, "publisher") as publisher:
        publisher.publish_acknowledged("t", numbered(count))
    assert broker.json("/ready")[0] == 200
    with connected(broker, "away", clean=False, session_present=True) as away:
        for number in range(count + 1):
            packet_id = away.expect_publish("t", numbered(number), qos=1)
            away.send(puback(packet_id))


def test_it_is_ready_again_although_nobody_publishes(full):
    """Otherwise a client that waits for /ready before sending work would wait forever."""
    broker, _ = full
    broker.unlimit_file_bytes()
    wait_until(lambda: broker.json("/ready")[0] == 200)


def test_a_disk_that_takes_nothing_at_all_not_even_a_log_line(start):
    """A persistent session cannot be opened, and gets an error; a clean one can."""
    broker = start()
    broker.limit_file_bytes(0)
    with WireClient(broker.host, broker.port) as client:
        client.send(connect_packet("newcomer", clean=False))
        client.expect(connack(code=3))
        client.expect_close()
    with connected(broker, "living") as living:
        living.subscribe(("t", 0))
        living.send(publish("t", b"x"))
        living.expect_publish("t", b"x", qos=0)
    broker.unlimit_file_bytes()
    with connected(broker, "newcomer", clean=False) as client:
        client.publish_acknowledged("t", b"x")
    broker.stop()


def test_what_was_acknowledged_before_survives_a_kill_on_a_full_disk(full, start):
    broker, count = full
    broker.kill()
    broker.wait_killed()
    again = start()
    with connected(again, "away", clean=False, session_present=True) as away:
        for number in range(count):
            away.expect_publish("t", numbered(number), qos=1)
        again.stop()


def test_a_start_without_room_ends_and_does_not_say_that_it_tries_again(tmp_path):
    command = shlex.join(serve_command(tmp_path / "data"))
    done = subprocess.run(
        ["bash", "-c", f"ulimit -f 4; exec {command}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "the disk of the data directory is full" in done.stderr
    assert "Free disk space, then start the broker again." in done.stderr
    assert "by itself" not in done.stderr


def test_a_stop_does_not_claim_that_all_is_on_disk_when_it_is_not(start):
    """With "interval" the acknowledgement comes first; if the disk fails for good, the exit says so."""
    broker = start("--durability", "interval", "--set", "shutdown.timeout_s=1")
    broker.limit_file_bytes(0)
    with connected(broker) as client:
        client.publish_acknowledged("t", b"x", retain=True)
        wait_until(lambda: broker.json("/ready")[0] == 503)
    broker.signal(signal.SIGTERM)
    _, output, _ = broker.wait_stopped()
    assert "Stopped" in output
    assert "All acknowledged messages are on disk" not in output


def test_a_publisher_of_mqtt_5_is_told_by_its_acks_and_goes_on_when_there_is_room(full):
    broker, _ = full
    with Client5("127.0.0.1", broker.port) as client:
        client.send(v5.connect("told"))
        client.expect_connack()
        client.send(
            v5.publish("t", PAYLOAD, qos=1, packet_id=1),
            v5.publish("t", PAYLOAD, qos=2, packet_id=2),
        )
        assert client.expect_ack(v5.PUBACK, 1, 0x97).value("reason_string")
        client.expect_ack(v5.PUBREC, 2, 0x97)
        client.ping()
        broker.unlimit_file_bytes()
        wait_until(lambda: broker.json("/ready")[0] == 200)
        client.publish_acknowledged("t", b"m", qos=1, packet_id=1)
        client.publish_acknowledged("t", b"m", qos=2, packet_id=2)
