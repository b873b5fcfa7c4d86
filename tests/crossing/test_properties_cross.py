"""Properties of MQTT 5 reach every door that has a place for them, and come back unchanged."""

import http.client
import json
import uuid
from collections.abc import Iterator
from contextlib import closing
from urllib.parse import quote

import pytest
import redis

from penstock.client import connect as connect_queue
from penstock.testing import Broker
from tests.conformance import packets5 as v5
from tests.conformance.client5 import Client5

TIMEOUT_S = 10.0
USER = [("unit", "C"), ("unit", "K"), ("mqtt-own", "1")]
PROPERTIES = {
    "payload_format": 1,
    "content_type": "application/json",
    "response_topic": "answers/1",
    "correlation_data": b"\x00\xff",
    "user": USER,
}
HEADERS = [
    ("unit", b"C"),
    ("unit", b"K"),
    ("mqtt-~mqtt-own", b"1"),
    ("mqtt-content-type", b"application/json"),
    ("mqtt-response-topic", b"answers/1"),
    ("mqtt-correlation-data", b"\x00\xff"),
    ("mqtt-payload-format", b"1"),
]
"""The same as the journal has them."""


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as own:
        yield own


@pytest.fixture
def topic() -> str:
    return f"crossing/{uuid.uuid4().hex}"


def mqtt(broker: Broker, client_id: str = "", **options) -> Client5:
    client = Client5("127.0.0.1", broker.port)
    client.send(v5.connect(client_id, **options))
    client.expect_connack()
    return client


def publish(broker: Broker, topic: str, qos: int = 1, **options) -> None:
    with mqtt(broker) as client:
        packet_id = {"packet_id": 7} if qos else {}
        client.send(v5.publish(topic, b"{}", qos=qos, **packet_id, **options))
        if qos == 1:
            client.expect_ack(v5.PUBACK, 7)
        elif qos == 2:
            client.expect_ack(v5.PUBREC, 7)
            client.send(v5.pubrel(7))
            client.expect_ack(v5.PUBCOMP, 7)
        client.ping()


def asked(broker: Broker, method: str, path: str, body: bytes | None = None) -> dict:
    connection = http.client.HTTPConnection("127.0.0.1", broker.port, timeout=TIMEOUT_S)
    with closing(connection):
        connection.request(method, path, body)
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        return json.loads(answer.read())


# ── from MQTT 5 ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("granted", [0, 1, 2])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_to_mqtt_5(broker, topic, qos, granted):
    with mqtt(broker) as subscriber:
        subscriber.subscribe((topic, granted))
        publish(broker, topic, qos, **PROPERTIES)
        subscriber.expect_publish(topic, b"{}", qos=min(qos, granted), **PROPERTIES)


@pytest.mark.parametrize("qos", [0, 1])
def test_to_mqtt_5_retained(broker, topic, qos):
    publish(broker, topic, qos, retain=True, **PROPERTIES)
    with mqtt(broker) as subscriber:
        subscriber.subscribe((topic, 1))
        subscriber.expect_publish(topic, b"{}", qos=qos, retain=True, **PROPERTIES)


def test_to_mqtt_5_queued_and_after_a_crash(topic):
    with Broker() as own:
        with mqtt(own, "away", clean=False, session_expiry=600) as subscriber:
            subscriber.subscribe((topic, 1))
            subscriber.disconnect()
        publish(own, topic, retain=True, **PROPERTIES)
        own.restart(kill=True)
        again = Client5("127.0.0.1", own.port)
        with again:
            again.send(v5.connect("away", clean=False, session_expiry=600))
            again.expect_connack(session_present=True)
            again.expect_publish(topic, b"{}", qos=1, **PROPERTIES)
            again.subscribe((f"{topic}/#", 1))
            again.expect_publish(topic, b"{}", qos=1, retain=True, **PROPERTIES)


def test_to_mqtt_5_shared(broker, topic):
    with mqtt(broker) as member:
        member.subscribe((f"$share/g/{topic}", 1))
        publish(broker, topic, **PROPERTIES)
        member.expect_publish(topic, b"{}", qos=1, **PROPERTIES)


def test_to_a_stream(broker, topic):
    publish(broker, topic, **PROPERTIES)
    with redis.Redis(port=broker.port, socket_timeout=TIMEOUT_S) as client:
        answer = client.execute_command("XRANGE", topic, "-", "+", NEVER_DECODE=True)
        fields = client.xrange(topic)[0][1]
    assert answer
    assert fields[b"payload"] == b"{}"
    for name, value in HEADERS:
        if name != "unit":
            assert fields[name.encode()] == value


@pytest.mark.parametrize("qos", [0, 1])
def test_to_a_queue(broker, topic, qos):
    with connect_queue([f"127.0.0.1:{broker.port}"]) as client:
        client.create_group(topic, "g")
        publish(broker, topic, qos, **PROPERTIES)
        (job,) = client.poll(topic, "g", wait_s=TIMEOUT_S)
    assert sorted(job.headers) == sorted(HEADERS)
    assert job.content_type == "json"


def test_to_http(broker, topic):
    publish(broker, topic, message_expiry=60, **PROPERTIES)
    (message,) = asked(broker, "GET", f"/topics/{quote(topic)}")["messages"]
    shown = dict(map(tuple, message["headers"]))
    assert shown["mqtt-content-type"] == "application/json"
    assert shown["mqtt-response-topic"] == "answers/1"
    assert message["expires"] > message["time"]


# ── to MQTT 5 ─────────────────────────────────────────────────────────────────────────────────


def test_from_a_stream(broker, topic):
    with mqtt(broker) as subscriber:
        subscriber.subscribe((topic, 1))
        with redis.Redis(port=broker.port, socket_timeout=TIMEOUT_S) as client:
            fields = {"payload": "{}", "unit": "C", "mqtt-response-topic": "answers/1"}
            client.xadd(topic, fields)
        subscriber.expect_publish(
            topic, b"{}", qos=1, response_topic="answers/1", user=[("unit", "C")]
        )


def test_from_a_queue(broker, topic):
    with mqtt(broker) as subscriber:
        subscriber.subscribe((topic, 1))
        with connect_queue([f"127.0.0.1:{broker.port}"]) as client:
            headers = [(name, value) for name, value in HEADERS]
            client.produce(topic, b"{}", headers=headers, ttl_s=60)
        received = subscriber.take()
    assert received.properties.pop("message_expiry") == [60]
    wanted = {k: v if isinstance(v, list) else [v] for k, v in PROPERTIES.items()}
    assert received.properties == wanted


@pytest.mark.parametrize(
    ("content_type", "expected"),
    [("text", "text/plain"), ("json", "application/json"), ("msgpack", "application/msgpack")],
)
def test_the_content_type_of_a_queue_is_that_of_mqtt(broker, topic, content_type, expected):
    with mqtt(broker) as subscriber:
        subscriber.subscribe((topic, 1))
        with connect_queue([f"127.0.0.1:{broker.port}"]) as client:
            client.produce(topic, b"{}", content_type=content_type)
        subscriber.expect_publish(topic, b"{}", qos=1, content_type=expected)


def test_what_is_no_text_comes_in_base64(broker, topic):
    with mqtt(broker) as subscriber:
        subscriber.subscribe((topic, 1))
        with connect_queue([f"127.0.0.1:{broker.port}"]) as client:
            client.produce(topic, b"x", headers={"raw": b"\xff"})
        subscriber.expect_publish(topic, b"x", qos=1, user=[("raw;base64", "/w==")])


def test_from_http(broker, topic):
    with mqtt(broker) as subscriber:
        subscriber.subscribe((topic, 1))
        header = quote("mqtt-content-type:application/json")
        path = f"/topics/{quote(topic)}?header=unit:C&header={header}&expiry_s=60"
        asked(broker, "POST", path, b"{}")
        subscriber.expect_publish(
            topic,
            b"{}",
            qos=1,
            content_type="application/json",
            user=[("unit", "C")],
            message_expiry=60,
        )
