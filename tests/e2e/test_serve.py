"""What ``penstock serve`` prints, whom it serves, and when it refuses to start."""

import json
import re
import socket
import subprocess
import sys

import pytest

from tests.conformance.wire_client import WireClient, connack, connect_packet, subscribe
from tests.e2e.process import TIMEOUT_S, serve_command


def connected(broker, client_id="", *, port=None, session_present=False, **options):
    client = WireClient(broker.host, port or broker.port)
    try:
        client.send(connect_packet(client_id, **options))
        client.expect(connack(session_present=session_present))
    except BaseException:
        client.abort()  # a socket left open would fail whichever test runs when it is collected
        raise
    return client


def refused(command, status=1):
    """Run a broker that must fail to start; return its error, which has no traceback."""
    result = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert result.returncode == status, result
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    assert result.stderr.startswith("penstock: ")
    return result.stderr


# ── What it prints ────────────────────────────────────────────────────────────────────────────


def test_the_greeting_says_ports_clients_data_and_what_an_ack_means(start, tmp_path):
    broker = start()
    assert f"127.0.0.1:{broker.port}, 127.0.0.1:{broker.http_port}" in broker.greeting
    assert "anyone on this machine, without a password" in broker.greeting
    assert f"{tmp_path / 'data'} (0 messages" in broker.greeting
    assert "on disk, fsynced (durability = sync)" in broker.greeting
    assert f"http://127.0.0.1:{broker.http_port}/console/" in broker.greeting


def test_the_greeting_of_a_second_life_counts_what_is_there(start):
    broker = start("--set", "journal.client_events=false")
    with connected(broker) as client:
        for _ in range(3):
            client.publish_acknowledged("t", b"x")
    broker.stop()
    assert "(3 messages" in start().greeting


def test_the_greeting_speaks_of_one_message_and_one_address_in_the_singular(start):
    silent = ("--set", "journal.client_events=false")
    broker = start("--listen", "127.0.0.1:0", *silent, listen=False)
    with connected(broker) as client:
        client.publish_acknowledged("t", b"x")
    broker.stop()
    greeting = start("--listen", "127.0.0.1:0", listen=False).greeting
    assert "(1 message, " in greeting
    assert re.search(r"listening  127\.0\.0\.1:\d+ \(every protocol\)\n", greeting)


def test_every_port_speaks_http_and_mqtt(start):
    broker = start()
    for port in (broker.port, broker.http_port):
        assert broker.page("/health", port=port) == (200, '{"status":"ok"}\n')
        assert broker.page("/ready", port=port) == (200, '{"status":"ready"}\n')
        status, metrics = broker.page("/metrics", port=port)
        assert status == 200
        assert "penstock_clients_connected 0" in metrics
        with connected(broker, port=port) as client:
            client.publish_acknowledged("t", b"x", qos=2)
            assert "penstock_clients_connected 1" in broker.page("/metrics", port=port)[1]
            client.disconnect()


def test_a_message_goes_from_one_port_to_another(start):
    broker = start()
    with connected(broker) as subscriber, connected(broker, port=broker.http_port) as publisher:
        subscriber.subscribe(("t", 1))
        publisher.publish_acknowledged("t", b"x")
        subscriber.expect_publish("t", b"x", qos=1)


def test_who_connects_and_leaves_is_logged_at_level_debug(start):
    broker = start("--log-level", "debug")
    with connected(broker, "pump-7") as client:
        client.disconnect()
    broker.stop()
    lines = [json.loads(line) for line in broker.log_path.read_text().splitlines()]
    events = {line["event"]: line for line in lines if "peer" in line}
    assert events["connected"]["protocol"] == "mqtt"
    assert events["accepted"]["client_id"] == events["disconnected"]["client_id"] == "pump-7"
    assert len({line["peer"] for line in events.values()}) == 1


# ── The weaker promise ────────────────────────────────────────────────────────────────────────


def test_durability_interval_works_and_says_what_it_does_not_promise(start):
    broker = start("--durability", "interval", "--set", "durability_interval_ms=50")
    assert "on disk within 50 ms" in broker.greeting
    assert "a crash can lose that much (durability = interval)" in broker.greeting
    with connected(broker, "stays", clean=False) as client:
        client.subscribe(("t", 2))
        for qos in (1, 2):
            client.publish_acknowledged("other", b"kept", qos=qos, retain=True)
    broker.stop()
    broker = start("--durability", "interval")
    with connected(broker, "stays", clean=False, session_present=True) as client:
        client.subscribe(("other", 0))
        client.expect_publish("other", b"kept", qos=0, retain=True)


# ── What it refuses ───────────────────────────────────────────────────────────────────────────


def test_a_second_broker_on_the_same_data_is_told_who_has_it(start):
    broker = start()
    said = refused(serve_command(broker.data))
    assert f"{broker.data} is in use by another broker (process {broker.pid})" in said
    with connected(broker) as client:  # and the first one never noticed
        client.publish_acknowledged("t", b"x")


def test_a_port_in_use_is_named(start, tmp_path):
    broker = start()
    address = f"127.0.0.1:{broker.port}"
    said = refused(serve_command(tmp_path / "other", "--listen", address, listen=False))
    assert f"cannot listen on {address}" in said
    assert "--listen" in said


def test_the_default_addresses_are_taken_where_they_are_free(tmp_path):
    """In its own network namespace, where the default ports are free."""
    ours = subprocess.run(["unshare", "-rn", "true"], capture_output=True, check=False)
    if ours.returncode:
        pytest.skip("needs a network namespace")
    program = (
        "import fcntl, socket, struct, subprocess, sys\n"
        "with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as up:\n"
        "    fcntl.ioctl(up, 0x8914, struct.pack('16sh14x', b'lo', 1))  # SIOCSIFFLAGS, IFF_UP\n"
        "taken = [socket.create_server(('127.0.0.1', port)) for port in (6379, 9091)]\n"
        "child = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, text=True)\n"
        "for line in child.stdout:\n"
        "    print(line, end='')\n"
        "    if line.startswith('  look'):\n"
        "        child.terminate()\n"
        "sys.exit(child.wait())\n"
    )
    command = [sys.executable, "-c", program, *serve_command(tmp_path / "data", listen=False)]
    done = subprocess.run(
        ["unshare", "-rn", *command],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done
    assert "listening  127.0.0.1:1883, 127.0.0.1:7600 (" in done.stdout
    assert "in use     127.0.0.1:6379, 127.0.0.1:9091 by another program" in done.stdout
    assert done.stderr.count("address_skipped") == 2


def test_a_broker_that_could_not_listen_leaves_its_data_usable(start, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        refused(serve_command(tmp_path / "data", "--listen", address, listen=False))
    with connected(start()) as client:
        client.publish_acknowledged("t", b"x")


def test_listening_to_the_world_takes_a_word_of_consent(tmp_path):
    world = ("--listen", "0.0.0.0:0", "--http-listen", "127.0.0.1:0")
    said = refused(serve_command(tmp_path / "data", *world, listen=False))
    assert "0.0.0.0:0 can be reached from other machines, and there are no users" in said
    assert f"penstock users add NAME --admin --data {tmp_path / 'data'}" in said
    assert "--allow-anonymous" in said


def test_with_consent_it_listens_to_the_world_and_says_so(start):
    world = ("--listen", "0.0.0.0:0", "--http-listen", "127.0.0.1:0")
    broker = start(*world, "--allow-anonymous", listen=False)
    assert re.search(r"listening +0\.0\.0\.0:\d+", broker.greeting)
    assert "ANYONE who can reach these addresses, without a password" in broker.greeting
    with connected(broker) as client:
        client.publish_acknowledged("t", b"x")


@pytest.mark.parametrize("arguments", [("--set", "limits.inflight=1"), ("--listen", "nonsense")])
def test_a_wrong_setting_is_refused_before_anything_is_touched(tmp_path, arguments):
    refused(serve_command(tmp_path / "data", *arguments, listen=False), status=2)
    assert not (tmp_path / "data").exists()


def test_a_refused_subscription_is_logged_with_its_reason(start):
    """MQTT 3.1.1 tells the client nothing but 0x80."""
    broker = start()
    with socket.create_connection((broker.host, broker.port)) as client:
        client.sendall(connect_packet("device-7") + subscribe(1, ("$replay/last=x/plant", 0)))
        wanted = b"\x20\x02\x00\x00\x90\x03\x00\x01\x80"
        received = b""
        while len(received) < len(wanted):
            received += client.recv(100)
        assert received == wanted
    lines = [json.loads(line) for line in broker.log_path.read_text().splitlines()]
    (refused,) = [line for line in lines if line["event"] == "subscription_refused"]
    assert refused["client_id"] == "device-7"
    assert "last" in refused["detail"]


def test_a_client_that_asks_for_mqtt_3_1_is_named_with_the_version_once_a_minute(start):
    """The standard allows only CONNACK 1, which some libraries cannot show."""
    broker = start()
    body = b"\x00\x06MQIsdp\x03\x02\x00\x3c" + b"\x00\x08device-7"
    for _ in range(3):
        with socket.create_connection((broker.host, broker.port)) as client:
            client.sendall(bytes([0x10, len(body)]) + body)
            assert client.recv(100) == b"\x20\x02\x00\x01"
            assert client.recv(100) == b""
    lines = [json.loads(line) for line in broker.log_path.read_text().splitlines()]
    (refused,) = [line for line in lines if line["event"] == "version_refused"]
    assert refused["client_id"] == "device-7"
    assert "MQTT 3.1 is not supported" in refused["detail"]
