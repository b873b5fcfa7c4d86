"""Retained messages: the last message of a topic, for later subscribers."""

import pytest

from tests.conformance.conftest import both_versions
from tests.conformance.wire_client import puback, publish, subscribe

pytestmark = both_versions


@pytest.mark.proves("MQTT-3.3.1-5", "MQTT-3.3.1-6", "MQTT-3.3.1-8")
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_new_subscription_is_sent_the_retained_message_with_its_qos(connect, unique, qos):
    connect().publish_acknowledged(unique, b"kept", qos=qos, retain=True)
    subscriber = connect()
    subscriber.subscribe((unique, 2))
    subscriber.expect_publish(unique, b"kept", qos=qos, retain=True)
    subscriber.expect_nothing()


@pytest.mark.proves("MQTT-3.3.1-5", "MQTT-3.8.4-6")
@pytest.mark.parametrize("granted", [0, 1])
def test_a_retained_message_is_sent_with_the_granted_qos_at_most(connect, unique, granted):
    connect().publish_acknowledged(unique, b"kept", qos=2, retain=True)
    subscriber = connect()
    subscriber.subscribe((unique, granted))
    subscriber.expect_publish(unique, b"kept", qos=granted, retain=True)


@pytest.mark.proves("MQTT-3.3.1-6")
def test_only_the_last_retained_message_of_a_topic_is_sent(connect, unique):
    publisher = connect()
    for payload in (b"first", b"second", b"third"):
        publisher.publish_acknowledged(unique, payload, retain=True)
    subscriber = connect()
    subscriber.subscribe((unique, 0))
    subscriber.expect(publish(unique, b"third", retain=True))
    subscriber.expect_nothing()


@pytest.mark.proves("MQTT-3.3.1-6", "MQTT-3.3.2-3")
def test_a_wildcard_subscription_is_sent_each_matching_topic_and_no_other(connect, unique):
    publisher = connect()
    for topic in ("a/x", "b/x", "a/y", "a/x/z"):
        publisher.publish_acknowledged(f"{unique}/{topic}", topic.encode(), retain=True)
    subscriber = connect()
    subscriber.subscribe((f"{unique}/+/x", 0))
    subscriber.expect_in_any_order(
        publish(f"{unique}/a/x", b"a/x", retain=True), publish(f"{unique}/b/x", b"b/x", retain=True)
    )
    subscriber.expect_nothing()


@pytest.mark.proves("MQTT-3.3.1-6")
def test_a_multi_level_subscription_is_sent_the_parent_topic_too(connect, unique):
    publisher = connect()
    publisher.publish_acknowledged(unique, b"parent", retain=True)
    publisher.publish_acknowledged(f"{unique}/a/b", b"grandchild", retain=True)
    subscriber = connect()
    subscriber.subscribe((f"{unique}/#", 0))
    subscriber.expect_in_any_order(
        publish(unique, b"parent", retain=True),
        publish(f"{unique}/a/b", b"grandchild", retain=True),
    )
    subscriber.expect_nothing()


@pytest.mark.proves("MQTT-3.3.1-7")
def test_a_retained_qos_0_message_ousts_the_one_before(connect, unique):
    publisher = connect()
    publisher.publish_acknowledged(unique, b"older", qos=1, retain=True)
    publisher.publish_acknowledged(unique, b"newer", qos=0, retain=True)
    subscriber = connect()
    subscriber.subscribe((unique, 1))
    subscriber.expect(publish(unique, b"newer", retain=True))
    subscriber.expect_nothing()


@pytest.mark.proves("MQTT-3.3.1-9")
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_retain_is_0_on_the_way_to_an_established_subscription(connect, unique, qos):
    subscriber = connect()
    subscriber.subscribe((unique, 2))
    connect().publish_acknowledged(unique, b"live", qos=qos, retain=True)
    subscriber.expect_publish(unique, b"live", qos=qos, retain=False)


@pytest.mark.proves("MQTT-3.3.1-10", "MQTT-3.3.1-11")
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_an_empty_retained_message_is_forwarded_and_removes_the_kept_one(connect, unique, qos):
    publisher, witness = connect(), connect()
    publisher.publish_acknowledged(unique, b"kept", retain=True)
    witness.subscribe((unique, 0))
    witness.expect(publish(unique, b"kept", retain=True))
    publisher.publish_acknowledged(unique, b"", qos=qos, retain=True)
    witness.expect(publish(unique, b"", retain=False))

    newcomer = connect()
    newcomer.subscribe((unique, 0))
    newcomer.expect_nothing()


@pytest.mark.proves("MQTT-3.3.1-11")
def test_an_empty_message_is_never_kept(connect, unique):
    connect().publish_acknowledged(unique, b"", retain=True)
    subscriber = connect()
    subscriber.subscribe((f"{unique}/#", 0))
    subscriber.expect_nothing()


@pytest.mark.proves("MQTT-3.3.1-12")
@pytest.mark.parametrize("payload", [b"passing", b""])
def test_a_message_without_retain_neither_is_kept_nor_touches_the_kept_one(
    connect, unique, payload
):
    publisher = connect()
    publisher.publish_acknowledged(f"{unique}/with", b"kept", retain=True)
    publisher.publish_acknowledged(f"{unique}/with", payload)
    publisher.publish_acknowledged(f"{unique}/without", payload)
    subscriber = connect()
    subscriber.subscribe((f"{unique}/+", 0))
    subscriber.expect(publish(f"{unique}/with", b"kept", retain=True))
    subscriber.expect_nothing()


@pytest.mark.proves("MQTT-3.8.4-3", "MQTT-3.3.1-6")
def test_subscribing_again_has_the_retained_message_sent_again(connect, unique):
    connect().publish_acknowledged(unique, b"kept", retain=True)
    subscriber = connect()
    for _ in range(2):
        subscriber.subscribe((unique, 0))
        subscriber.expect(publish(unique, b"kept", retain=True))
    subscriber.expect_nothing()


@pytest.mark.proves("MQTT-3.3.1-6", "MQTT-3.1.2-4")
def test_resuming_a_session_is_not_a_new_subscription(connect, unique):
    connect().publish_acknowledged(f"{unique}/t", b"kept", retain=True)
    subscriber = connect(unique, clean=False)
    subscriber.subscribe((f"{unique}/t", 0))
    subscriber.expect(publish(f"{unique}/t", b"kept", retain=True))
    subscriber.disconnect()
    connect(unique, clean=False, session_present=True).expect_nothing()


@pytest.mark.proves("MQTT-4.7.2-1", "MQTT-3.3.1-6")
@pytest.mark.parametrize("topic_filter", ["#", "+/t", "+/#"])
def test_wildcards_at_the_front_do_not_find_retained_dollar_topics(connect, unique, topic_filter):
    hidden, marker = f"${unique}/t", f"{unique}/t"
    connect().publish_acknowledged(hidden, b"hidden", retain=True)
    subscriber = connect()
    subscriber.send(subscribe(5, (topic_filter, 0)), publish(marker, b"end"))
    received = subscriber.receive_until(publish(marker, b"end"))  # other tests leave theirs, too
    assert not [p for p in received if hidden.encode() in p]
    subscriber.subscribe((hidden, 0))
    subscriber.expect(publish(hidden, b"hidden", retain=True))


@pytest.mark.proves("MQTT-3.3.1-5", "MQTT-4.4.0-1")
def test_an_unacknowledged_retained_message_is_sent_again_as_retained(connect, unique):
    connect().publish_acknowledged(f"{unique}/t", b"kept", retain=True)
    subscriber = connect(unique, clean=False)
    subscriber.subscribe((f"{unique}/t", 1))
    packet_id = subscriber.expect_publish(f"{unique}/t", b"kept", qos=1, retain=True)
    subscriber.abort()
    subscriber = connect(unique, clean=False, session_present=True)
    again = publish(f"{unique}/t", b"kept", qos=1, packet_id=packet_id, retain=True, dup=True)
    subscriber.expect(again)
    subscriber.send(puback(packet_id))


RETAINED = 3_000
"""More than the window and the queue of the brokers below, and than a page."""


def retain_many(client, count: int = RETAINED, qos: int = 1) -> list[str]:
    topics = [f"many/{number % 7}/{number}" for number in range(count)]
    for start in range(0, count, 500):
        numbered = list(enumerate(topics[start : start + 500], 1))
        client.send(*[publish(t, b"x", qos=1, packet_id=n, retain=True) for n, t in numbered])
        client.expect(*[puback(n) for n, _ in numbered])
    return topics


@pytest.mark.proves("MQTT-3.3.1-6")
@pytest.mark.parametrize("qos", [0, 1])
@pytest.mark.parametrize("clean", [True, False])
def test_all_retained_messages_are_sent_however_many_there_are(own_broker, connect, clean, qos):
    """None is dropped for lack of room in the window or the queue; all arrive as the client reads."""
    broker = own_broker(limits={"inflight_max": 50, "queue_messages_max": 10})
    topics = retain_many(connect(at=broker))
    subscriber = connect("reader", at=broker, clean=clean)
    subscriber.subscribe(("many/#", qos))
    got = []
    for _ in topics:
        first_byte, packet_id, topic, _ = subscriber.receive_publish()
        assert first_byte == 0x31 | qos << 1
        got.append(topic.decode())
        if packet_id:
            subscriber.send(puback(packet_id))
    assert got == topics
    subscriber.expect_nothing()


@pytest.mark.proves("MQTT-3.3.1-6")
def test_a_session_that_comes_back_is_sent_the_retained_messages_that_are_left(own_broker, connect):
    broker = own_broker(limits={"inflight_max": 50, "queue_messages_max": 10})
    topics = retain_many(connect(at=broker), 500)
    first = connect("reader", at=broker, clean=False)
    first.subscribe(("many/#", 1))
    for _ in range(80):
        first.send(puback(first.receive_publish()[1]))
    first.abort()
    again = connect("reader", at=broker, clean=False, session_present=True)
    got = set()
    while topics[-1] not in got:
        _, packet_id, topic, _ = again.receive_publish()
        got.add(topic.decode())
        again.send(puback(packet_id))
    assert got >= set(topics[80:])
