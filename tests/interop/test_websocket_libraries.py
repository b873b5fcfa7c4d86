"""paho-mqtt and the library ``websockets`` over WebSocket, unmodified."""

import queue
import ssl

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion
from websockets.sync.client import connect

from penstock.testing import Broker
from tests.conformance.wire_client import connack, connect_packet
from tests.tls.authority import Authority, client_context, needs_openssl

TIMEOUT_S = 30
# paho makes text of a bytearray while it reads the answer to its handshake
pytestmark = pytest.mark.filterwarnings("ignore::BytesWarning")
PAYLOADS = [b"", b"x", bytes(1000), bytes(range(256)) * 500]


def exchange(port, topic, context=None, path="/mqtt", version=paho.MQTTv5):
    """Publish each payload with each QoS, and receive it."""
    client = paho.Client(
        CallbackAPIVersion.VERSION2, client_id=topic, transport="websockets", protocol=version
    )
    client.ws_set_options(path=path)
    if context is not None:
        client.tls_set_context(context)
    received, subscribed = queue.SimpleQueue(), queue.SimpleQueue()
    client.on_message = lambda _client, _data, message: received.put((message.qos, message.payload))
    client.on_connect = lambda *_: client.subscribe(f"{topic}/#", 2)
    client.on_subscribe = lambda *_: subscribed.put(True)
    client.connect("localhost", port)
    client.loop_start()
    try:
        subscribed.get(timeout=TIMEOUT_S)
        sent = [(qos, payload) for qos in (0, 1, 2) for payload in PAYLOADS]
        for qos, payload in sent:
            client.publish(f"{topic}/{qos}", payload, qos)
        return sent, [received.get(timeout=TIMEOUT_S) for _ in sent]
    finally:
        client.disconnect()
        client.loop_stop()


@pytest.mark.parametrize("version", [paho.MQTTv311, paho.MQTTv5])
@pytest.mark.parametrize("path", ["/mqtt", "/"])
def test_paho_by_websocket(broker, unique, path, version):
    sent, received = exchange(broker.port, unique, path=path, version=version)

    assert sorted(received) == sorted(sent)


@needs_openssl
def test_paho_by_websocket_and_tls(tmp_path, unique):
    authority = Authority(tmp_path)
    with Broker(tls=authority.server()._asdict()) as broker:
        context: ssl.SSLContext = client_context(authority)
        sent, received = exchange(broker.port, unique, context)
        assert sorted(received) == sorted(sent)


def test_the_websockets_library_agrees_on_mqtt_without_compression(broker, unique):
    """It offers permessage-deflate, pings, fragments, and closes as the standard says."""
    url = f"ws://127.0.0.1:{broker.port}/mqtt"
    with connect(url, subprotocols=["mqtt"], ping_interval=None) as client:
        assert client.subprotocol == "mqtt"
        assert client.protocol.extensions == []
        packet = connect_packet(unique)
        client.send([packet[:3], packet[3:7], packet[7:]])  # fragments of one message
        assert client.recv(timeout=TIMEOUT_S) == connack()
        assert client.ping().wait(TIMEOUT_S)
        client.close()
        assert client.close_code == 1000
