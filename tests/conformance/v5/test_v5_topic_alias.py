"""Topic aliases, in both directions."""

import pytest

from tests.conformance import packets5 as v5

# ── From the client ───────────────────────────────────────────────────────────────────────────


@pytest.mark.proves5("MQTT-3.3.2-12")
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_an_alias_stands_for_its_topic_and_is_not_forwarded(connect, unique, qos):
    subscriber, publisher = connect(), connect()
    subscriber.subscribe((f"{unique}/#", 2))
    publisher.publish_acknowledged(f"{unique}/a", b"1", qos=qos, topic_alias=1, user=("k", "v"))
    publisher.publish_acknowledged("", b"2", qos=qos, topic_alias=1)
    subscriber.expect_publish(f"{unique}/a", b"1", qos=qos, user=("k", "v"))
    subscriber.expect_publish(f"{unique}/a", b"2", qos=qos)


@pytest.mark.proves5("MQTT-3.3.2-12")
def test_every_alias_up_to_the_announced_maximum_is_accepted(connect, unique):
    subscriber, publisher = connect(), connect()
    subscriber.subscribe((f"{unique}/#", 0))
    maximum = publisher.connack.value("topic_alias_maximum")
    for alias in range(1, maximum + 1):
        publisher.send(v5.publish(f"{unique}/{alias}", b"m", topic_alias=alias))
        subscriber.expect_publish(f"{unique}/{alias}", b"m")
    for alias in range(1, maximum + 1):
        publisher.send(v5.publish("", b"n", topic_alias=alias))
        subscriber.expect_publish(f"{unique}/{alias}", b"n")


def test_an_alias_may_be_bound_anew(connect, unique):
    subscriber, publisher = connect(), connect()
    subscriber.subscribe((f"{unique}/#", 0))
    for topic in ("a", "b"):
        publisher.send(v5.publish(f"{unique}/{topic}", b"m", topic_alias=1))
        publisher.send(v5.publish("", b"n", topic_alias=1))
        subscriber.expect_publish(f"{unique}/{topic}", b"m")
        subscriber.expect_publish(f"{unique}/{topic}", b"n")


@pytest.mark.proves5("MQTT-3.3.2-8", "MQTT-3.3.2-9", "MQTT-3.2.2-17")
@pytest.mark.parametrize("topic", ["", "a"])
@pytest.mark.parametrize("beyond", [True, False], ids=["above", "0"])
def test_an_alias_of_0_or_above_the_maximum_is_told_0x94(connect, topic, beyond):
    client = connect()
    alias = client.connack.value("topic_alias_maximum") + 1 if beyond else 0
    client.send(v5.publish(topic, b"m", topic_alias=alias))
    client.expect_disconnect(0x94)


@pytest.mark.proves5("MQTT-3.3.2-9", "MQTT-3.2.2-18")
def test_where_no_aliases_are_announced_none_is_accepted(own_broker, connect):
    client = connect(at=own_broker(mqtt={"topic_alias_maximum": 0}))
    assert not client.connack.value("topic_alias_maximum")
    client.send(v5.publish("a", b"m", topic_alias=1))
    client.expect_disconnect(0x94)


@pytest.mark.proves5("MQTT-4.13.1-1", "MQTT-4.7.3-1", "MQTT-3.3.2-1")
@pytest.mark.parametrize("own", [{}, {"topic_alias": 5}], ids=["no alias", "unknown alias"])
def test_an_empty_topic_without_a_known_alias_is_a_protocol_error(connect, own):
    client = connect()
    client.send(v5.publish("", b"m", **own))
    client.expect_disconnect(0x82)


@pytest.mark.proves5("MQTT-3.3.2-7")
def test_aliases_end_with_their_connection(connect, unique):
    client = connect(unique, session_expiry=600)
    client.publish_acknowledged(f"{unique}/a", b"m", topic_alias=1)
    client.disconnect()
    client = connect(unique, clean=False, session_expiry=600, session_present=True)
    client.send(v5.publish("", b"m", topic_alias=1))
    client.expect_disconnect(0x82)


@pytest.mark.proves5("MQTT-3.3.2-7")
def test_aliases_of_the_two_directions_are_not_the_same(connect, unique):
    client, other = connect(topic_alias_maximum=10), connect()
    client.subscribe((f"{unique}/in", 0))
    other.subscribe((f"{unique}/out", 0))
    client.publish_acknowledged(f"{unique}/out", b"1", qos=0, topic_alias=1)
    other.send(v5.publish(f"{unique}/in", b"m"))
    assert client.take().topic == f"{unique}/in"
    client.send(v5.publish("", b"2", topic_alias=1))
    other.expect_publish(f"{unique}/out", b"1")
    other.expect_publish(f"{unique}/out", b"2")


# ── From the broker ───────────────────────────────────────────────────────────────────────────


class Resolver:
    """Reads deliveries as a client must: binds aliases, and resolves them."""

    def __init__(self, maximum):
        self.maximum, self.topics, self.resolved = maximum, {}, 0

    def topic(self, received):
        alias = received.value("topic_alias")
        if alias is None:
            return received.topic
        assert 0 < alias <= self.maximum, "[MQTT-3.3.2-11]"
        if received.topic:
            self.topics[alias] = received.topic
        else:
            self.resolved += 1
        return self.topics[alias]


@pytest.mark.proves5("MQTT-3.1.2-26", "MQTT-3.3.2-11", "MQTT-3.3.2-8")
@pytest.mark.parametrize("qos", [0, 1])
def test_aliases_of_the_broker_stay_within_the_clients_maximum(connect, unique, qos):
    client, publisher = connect(topic_alias_maximum=2), connect()
    client.subscribe((f"{unique}/#", 1))
    resolver, sent = Resolver(2), []
    for number in range(12):
        topic = f"{unique}/{number % 3}"
        publisher.publish_acknowledged(topic, b"%d" % number, qos=qos, user=("k", "v"))
        received = client.take()
        client.acknowledge(received)
        sent.append((topic, b"%d" % number))
        assert (resolver.topic(received), received.payload) == sent[-1]
        assert received.properties["user"] == [("k", "v")]  # an alias replaces no property


def test_the_broker_saves_bytes_with_aliases(own_broker, connect, unique):
    broker = own_broker()
    client, publisher = connect(at=broker, topic_alias_maximum=10), connect(at=broker)
    client.subscribe((unique, 1))
    resolver = Resolver(10)
    for number in range(4):
        publisher.publish_acknowledged(unique, b"%d" % number)
        received = client.take()
        client.acknowledge(received)
        assert (resolver.topic(received), received.payload) == (unique, b"%d" % number)
    assert resolver.resolved == 3


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_an_alias_of_the_broker_comes_beside_all_other_properties(connect, unique, qos):
    own = {
        "payload_format": 1,
        "content_type": "text/plain",
        "response_topic": "answers",
        "correlation_data": b"\x00\xff",
        "user": [("k", "v"), ("k", "v")],
    }
    client, publisher = connect(topic_alias_maximum=5), connect()
    client.subscribe((f"{unique}/#", 2), subscription_id=300)
    client.subscribe((f"{unique}/+", 1), subscription_id=7)
    for topic in (f"{unique}/t", ""):
        publisher.publish_acknowledged(f"{unique}/t", b"m", qos=qos, topic_alias=3, **own)
        ids = {"subscription_id": [7, 300], "topic_alias": 1}
        client.acknowledge(client.expect_publish(topic, b"m", qos=qos, **own, **ids))


@pytest.mark.proves5("MQTT-3.1.2-27")
@pytest.mark.parametrize("own", [{}, {"topic_alias_maximum": 0}], ids=["absent", "0"])
@pytest.mark.parametrize("qos", [0, 1])
def test_a_client_that_announced_none_is_sent_no_aliases(connect, unique, qos, own):
    client, publisher = connect(**own), connect()
    client.subscribe((unique, 1))
    for _ in range(3):
        publisher.publish_acknowledged(unique, b"m", qos=qos, topic_alias=1)
        client.acknowledge(client.expect_publish(unique, b"m", qos=qos))


@pytest.mark.proves5("MQTT-3.3.2-7")
def test_the_broker_binds_anew_on_each_connection(connect, unique):
    durable = {"session_expiry": 600, "topic_alias_maximum": 5}
    client, publisher = connect(unique, **durable), connect()
    client.subscribe((f"{unique}/t", 1))
    publisher.publish_acknowledged(f"{unique}/t", b"m")
    client.acknowledge(client.take())
    client.ping()
    client.abort()
    client = connect(unique, clean=False, session_present=True, **durable)
    publisher.publish_acknowledged(f"{unique}/t", b"m")
    assert client.take().topic == f"{unique}/t"
