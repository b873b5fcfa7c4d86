"""Ordinary clients over TLS, at every door of the same port that also takes clear text."""

import contextlib
import json
import shutil
import ssl
import subprocess
import threading

import paho.mqtt.client as paho
import pytest
import redis
from paho.mqtt.enums import CallbackAPIVersion

from tests.tls.authority import needs_openssl
from tests.tls.wire import WireClient, connect

pytestmark = needs_openssl
TIMEOUT_S = 30
BIG = bytes(range(256)) * 800  # 200 KiB: many records, in both directions


def run(command, given=None):
    program, *arguments = command.split()
    if not shutil.which(program):
        pytest.skip(f"{program} is not installed")
    done = subprocess.run(
        [program, *arguments], input=given, capture_output=True, check=False, timeout=TIMEOUT_S
    )
    assert not done.returncode, done.stderr.decode()
    return done.stdout


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_mosquitto_publishes_and_subscribes(broker, authority, qos):
    tls = f"-h localhost -p {broker.port} --cafile {authority.cert} -q {qos} -t tls/{qos}"
    run(f"mosquitto_pub {tls} -r -s --tls-alpn mqtt", BIG)
    assert run(f"mosquitto_sub {tls} -C 1 -N") == BIG


def test_redis_cli_adds_to_a_stream(broker, authority):
    tls = f"redis-cli --tls --cacert {authority.cert} -h localhost -p {broker.port}"
    assert b"-" in run(f"{tls} XADD tls-stream * payload x")
    assert run(f"{tls} XLEN tls-stream").strip() == b"1"


def test_curl_gets_a_page_and_is_told_https(broker, authority):
    page = f"https://localhost:{broker.port}/health"
    assert json.loads(run(f"curl -sS --cacert {authority.cert} {page}")) == {"status": "ok"}


def test_paho_gets_a_big_message_back(broker, authority):
    received, is_subscribed = [], threading.Event()
    is_done = threading.Event()
    client = paho.Client(CallbackAPIVersion.VERSION2, "paho-tls")
    client.tls_set(authority.cert)
    client.on_connect = lambda *_a: client.subscribe("paho/tls", 1)
    client.on_subscribe = lambda *_a: is_subscribed.set()
    client.on_message = lambda _c, _u, message: (received.append(message.payload), is_done.set())
    client.connect("localhost", broker.port)
    client.loop_start()
    try:
        assert is_subscribed.wait(TIMEOUT_S)
        client.publish("paho/tls", BIG, 1)
        assert is_done.wait(TIMEOUT_S)
    finally:
        client.disconnect()
        client.loop_stop()
    assert received == [BIG]


def test_redis_py_pipelines_megabytes_both_ways(broker, authority):
    client = redis.Redis("localhost", broker.port, ssl=True, ssl_ca_certs=authority.cert)
    with client, client.pipeline(transaction=False) as pipeline:
        for _ in range(20):
            pipeline.xadd("tls-big", {"payload": BIG})
        pipeline.execute()
        entries = client.xrange("tls-big")
        assert [fields[b"payload"] for _, fields in entries] == [BIG] * 20


def test_the_same_port_takes_clear_text_on_loopback(broker):
    with connect(broker) as plain:
        plain.sendall(b"PING\r\n")
        assert plain.recv(64) == b"+PONG\r\n"


@pytest.mark.parametrize("size", [1, 7, 500])
def test_a_client_hello_may_come_in_pieces(broker, context, size):
    """The listener reads its first bytes before it knows that it is one."""
    with WireClient(broker, context) as client:
        client.finish(size)
        client.send(client.sealed(b"PING\r\n"), size)
        assert client.receive() == b"+PONG\r\n"


def test_bytes_right_behind_the_handshake_are_not_lost(broker, context):
    """A client may send its first commands with its last message of the handshake."""
    with WireClient(broker, context) as client:
        client.send(client.hello())
        while client.tls.version() is None or client.outgoing.pending == 0:
            client.incoming.write(client.socket.recv(65_536))
            with contextlib.suppress(ssl.SSLWantReadError):
                client.tls.do_handshake()
        value = b"x" * 100_000
        commands = b"PING\r\n" + b"*2\r\n$4\r\nECHO\r\n$%d\r\n%b\r\n" % (len(value), value)
        client.send(client.outgoing.read() + client.sealed(commands))
        received = b""
        while not received.endswith(b"x\r\n"):
            received += client.receive()
        assert received == b"+PONG\r\n$%d\r\n%b\r\n" % (len(value), value)


def test_every_subscriber_of_many_gets_all_of_a_big_message(broker, context):
    with contextlib.ExitStack() as stack:
        subscribers = [stack.enter_context(connect(broker, context)) for _ in range(10)]
        for subscriber in subscribers:
            subscriber.sendall(b"SUBSCRIBE tls-fan\r\n")
            assert subscriber.recv(1024).startswith(b"*3")
        publisher = stack.enter_context(connect(broker))
        publisher.sendall(
            b"*3\r\n$7\r\nPUBLISH\r\n$7\r\ntls-fan\r\n$%d\r\n%b\r\n" % (len(BIG), BIG)
        )
        assert publisher.recv(64) == b":10\r\n"
        for subscriber in subscribers:
            received = b""
            while len(received) < len(BIG):
                received += subscriber.recv(65_536)
            assert received.endswith(BIG + b"\r\n")
