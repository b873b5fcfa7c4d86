"""Which messages a subscriber gets: history first, then live; by topic, by filter, each once."""

import pytest

from tests.conformance.wire_client import WireClient, connack, connect_packet
from tests.conformance_binary.wire_client import ack, subscribe, unsubscribe, wait_until


def payloads(frames):
    return [received.payload for received in frames]


def sequences(frames):
    return [received.sequence for received in frames]


# ── history


def test_a_subscriber_without_a_name_gets_the_whole_history_and_then_goes_live(dial, unique):
    publisher, subscriber = dial(), dial()
    publisher.publish(unique, *(b"%d" % n for n in range(100)))
    history = subscriber.subscribe(unique)
    publisher.publish(unique, b"live")
    live = subscriber.receive_messages(1)
    assert payloads(history + live) == [*(b"%d" % n for n in range(100)), b"live"]
    assert {received.topic for received in history} == {unique}


def test_an_empty_name_is_no_name(dial, unique):
    publisher, subscriber = dial(), dial()
    publisher.publish(unique, b"1", b"2")
    subscriber.acknowledge(*subscriber.subscribe(unique, b""))
    assert payloads(dial().subscribe(unique, b"")) == [b"1", b"2"]


def test_the_first_nul_divides_name_and_topic(dial, unique):
    subscriber = dial()
    subscriber.send(subscribe(b"a\0b", b"name", 3))
    subscriber.expect_error("Cannot subscribe")  # the topic is what follows, NUL included
    subscriber.send(subscribe(unique, b"name-" + unique, 4))
    subscriber.expect(ack(4))


def test_a_repeated_subscribe_sends_history_again_and_live_messages_once(dial, unique):
    publisher, subscriber = dial(), dial()
    publisher.publish(unique, b"1", b"2")
    for _ in range(3):
        assert payloads(subscriber.subscribe(unique)) == [b"1", b"2"]
    publisher.publish(unique, b"3")
    assert subscriber.receive_payloads(1) == [b"3"]
    subscriber.expect_nothing_before(publisher)


def test_a_new_name_gets_the_whole_history_too(dial, unique):
    publisher = dial()
    publisher.publish(unique, b"1", b"2")
    assert payloads(dial().subscribe(unique, b"new-" + unique)) == [b"1", b"2"]


@pytest.mark.parametrize("tail", [b"#", b"+", b"a/#", b"+/b"])
def test_a_filter_gets_no_history(dial, unique, tail):
    dial().publish(unique + b"/a", b"1")
    dial().publish(unique + b"/a/b", b"1")
    subscriber = dial()
    assert subscriber.subscribe(unique + b"/" + tail, b"id-" + unique) == []
    subscriber.expect_nothing_before(dial())


def test_everything_is_live_only_too(own_broker, dial):
    broker = own_broker()
    publisher, subscriber = dial(at=broker), dial(at=broker)
    publisher.publish(b"t", b"before")
    assert subscriber.subscribe(b"#", b"name") == []
    for topic in (b"sensors/temp", b"alerts/critical", b"status", b"q:jobs"):
        publisher.publish(topic, b"m")
    received = subscriber.receive_messages(4)
    assert [r.topic for r in received] == [
        b"sensors/temp",
        b"alerts/critical",
        b"status",
        b"q:jobs",
    ]
    assert sequences(received) == [2, 3, 4, 5]


# ── filters

FILTERS = [
    (b"a", {b"a"}),
    (b"a/#", {b"a", b"a/b", b"a/b/c"}),
    (b"a/+", {b"a/b"}),
    (b"+/b", {b"a/b", b"x/b"}),
    (b"a/+/c", {b"a/b/c"}),
    (b"+/+/c", {b"a/b/c"}),
]
TOPICS = [b"a", b"a/b", b"a/b/c", b"x/b", b"A", b"aa"]


@pytest.mark.parametrize(
    ("topic_filter", "matching"), FILTERS, ids=[repr(name) for name, _ in FILTERS]
)
def test_filters_match_as_in_mqtt(own_broker, dial, topic_filter, matching):
    broker = own_broker()
    publisher, subscriber = dial(at=broker), dial(at=broker)
    subscriber.subscribe(topic_filter)
    for topic in TOPICS:
        publisher.publish(topic, b"m")
    received = subscriber.receive_messages(len(matching))
    assert {r.topic for r in received} == matching
    subscriber.expect_nothing_before(publisher)


def test_a_message_that_several_filters_match_comes_once(dial, unique):
    publisher, subscriber = dial(), dial()
    for topic_filter in (unique + b"/t", unique + b"/#", unique + b"/+", b"#"):
        subscriber.subscribe(topic_filter)
    publisher.publish(unique + b"/t", b"1", b"2")
    assert subscriber.receive_payloads(2) == [b"1", b"2"]
    subscriber.send(unsubscribe(b"#", 9))  # otherwise the marker arrives twice: once for each
    subscriber.expect(ack(9))
    subscriber.expect_nothing_before(publisher)


def test_after_unsubscribe_nothing_more_comes_but_other_subscriptions_stay(dial, unique):
    publisher, subscriber = dial(), dial()
    subscriber.subscribe(unique + b"/a")
    subscriber.subscribe(unique + b"/+")
    subscriber.subscribe(unique + b"/b")
    subscriber.send(unsubscribe(unique + b"/a", 5))
    subscriber.expect(ack(5))
    publisher.publish(unique + b"/a", b"by filter")
    assert subscriber.receive_payloads(1) == [b"by filter"]
    subscriber.send(unsubscribe(unique + b"/+", 6))
    subscriber.expect(ack(6))
    publisher.publish(unique + b"/a", b"to nobody")
    publisher.publish(unique + b"/b", b"by topic")
    assert subscriber.receive_payloads(1) == [b"by topic"]


def test_a_lost_subscriber_is_forgotten(own_broker, dial):
    """Also one that is lost at any moment of subscribing once more."""
    broker = own_broker()
    feed = broker.server.parts.feed
    publisher = dial(at=broker)
    for _ in range(20):
        subscriber = dial(at=broker)
        subscriber.subscribe(b"t")
        subscriber.subscribe(b"t/#")
        publisher.publish(b"t", b"m")
        subscriber.send(subscribe(b"t") * 3)
        subscriber.reset()
    wait_until(lambda: len(broker.server.parts.connections.clients) == 1)
    wait_until(lambda: feed.routes.subscription_count == 0)


# ── sequences


def test_sequences_are_global_begin_with_1_and_go_on_after_a_restart(own_broker, dial):
    broker = own_broker()
    first, second = dial(at=broker), dial(at=broker)
    first.publish(b"a", b"1")
    second.publish(b"b", b"2")
    first.publish(b"a", b"3")
    broker.restart(kill=True)
    publisher = dial(at=broker)
    publisher.publish(b"a", b"4")
    assert sequences(dial(at=broker).subscribe(b"a")) == [1, 3, 4]
    assert sequences(dial(at=broker).subscribe(b"b")) == [2]


@pytest.mark.parametrize("topic_filter", [b"t", b"#"])
def test_messages_of_mqtt_publishers_have_true_ascending_sequences(own_broker, dial, topic_filter):
    broker = own_broker()
    subscriber = dial(at=broker)
    subscriber.subscribe(topic_filter)
    with WireClient(broker.host, broker.port) as device:
        device.send(connect_packet("device"))
        device.expect(connack())
        for number in range(30):
            device.publish_acknowledged("t", b"%d" % number, qos=number % 3)
    live = subscriber.receive_messages(30)
    assert payloads(live) == [b"%d" % n for n in range(30)]
    assert sequences(live) == list(range(1, 31))
    assert dial(at=broker).subscribe(b"t") == live


def test_a_publishers_connection_gets_nothing_but_its_replies(own_broker, dial):
    broker = own_broker()
    publisher, other = dial(at=broker), dial(at=broker)
    publisher.publish(b"t", b"1")
    other.subscribe(b"#")
    other.publish(b"t")
    broker.clock.advance(200)  # the broker does not ping clients
    publisher.expect_nothing()
