"""Ordinary clients over TLS, at every door of the same port that also takes clear text."""

import json
import shutil
import socket
import ssl
import subprocess
import threading

import paho.mqtt.client as paho
import pytest
import redis
from paho.mqtt.enums import CallbackAPIVersion

from tests.tls.authority import needs_openssl

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


def connect(broker, context=None):
    plain = socket.create_connection((broker.host, broker.port), TIMEOUT_S)
    return plain if context is None else context.wrap_socket(plain, server_hostname="localhost")


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
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    with connect(broker) as plain:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while True:
            try:
                client.do_handshake()
                break
            except ssl.SSLWantReadError:
                data = outgoing.read()
                for start in range(0, len(data), size):
                    plain.sendall(data[start : start + size])
                incoming.write(plain.recv(65_536))
        client.write(b"PING\r\n")
        plain.sendall(outgoing.read())
        while True:
            try:
                assert client.read(64) == b"+PONG\r\n"
                break
            except ssl.SSLWantReadError:
                incoming.write(plain.recv(65_536))
