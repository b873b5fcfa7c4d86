"""Replays in version 5: by a user property, with properties, identifiers and reasons."""

import pytest

from tests.conformance import packets5 as v5
from tests.conformance.wire_client import TARGET

pytestmark = pytest.mark.skipif(bool(TARGET), reason="only this broker has replays")


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_user_property_asks_for_history(connect, unique, qos):
    publisher, subscriber = connect(), connect()
    for payload in (b"1", b"2", b"3"):
        publisher.publish_acknowledged(unique, payload, qos=qos)
    subscriber.subscribe((unique, qos), user=("replay", "last=2"))
    received = [subscriber.expect_publish(unique, payload, qos=qos) for payload in (b"2", b"3")]
    for each in received:
        subscriber.acknowledge(each)
    publisher.publish_acknowledged(unique, b"4", qos=qos)
    subscriber.acknowledge(subscriber.expect_publish(unique, b"4", qos=qos))
    subscriber.expect_nothing_from(publisher)


@pytest.mark.parametrize("qos", [0, 1])
def test_history_has_properties_and_the_identifier_of_the_subscription(connect, unique, qos):
    publisher, subscriber = connect(), connect()
    told = {"user": ("colour", "red"), "content_type": "text/plain", "response_topic": "answers"}
    for payload in (b"past", b"present"):
        identifier = 1 if qos else None
        if payload == b"present":
            subscriber.subscribe((unique, qos), user=("replay", "offset=0"), subscription_id=7)
            subscriber.acknowledge(
                subscriber.expect_publish(unique, b"past", qos=qos, subscription_id=7, **told)
            )
        publisher.send(v5.publish(unique, payload, qos=qos, packet_id=identifier, **told))
        if qos:
            publisher.take()
        publisher.ping()
    subscriber.acknowledge(
        subscriber.expect_publish(unique, b"present", qos=qos, subscription_id=7, **told)
    )
    subscriber.expect_nothing_from(publisher)


def test_expired_history_is_left_out_and_the_rest_says_what_is_left(own_broker, connect):
    broker = own_broker()
    publisher = connect(at=broker, keep_alive=0)
    for payload, expiry in ((b"short", 10), (b"long", 100)):
        publisher.publish_acknowledged("t", payload, message_expiry=expiry)
    broker.clock.advance(30)
    subscriber = connect(at=broker, keep_alive=0)
    subscriber.subscribe(("t", 1), user=("replay", "offset=0"))
    subscriber.acknowledge(subscriber.expect_publish("t", b"long", qos=1, message_expiry=70))
    subscriber.expect_nothing_from(publisher)


def test_retain_as_published_holds_for_history(connect, unique):
    publisher, subscriber = connect(), connect()
    publisher.publish_acknowledged(unique, b"kept", retain=True)
    publisher.publish_acknowledged(unique, b"passing")
    wanted = v5.options(1, as_published=True)
    subscriber.subscribe((f"$replay/offset=0/{unique}", wanted))
    subscriber.acknowledge(subscriber.expect_publish(unique, b"kept", qos=1, retain=True))
    subscriber.acknowledge(subscriber.expect_publish(unique, b"passing", qos=1))


@pytest.mark.parametrize(
    ("name", "options", "code", "said"),
    [
        ("$replay/last=0/{}", 1, 0x8F, "last=N"),
        ("$replay/last=5/$share/g/{}", 1, 0x83, "shared"),
        ("$replay/last=5/{}", v5.options(1, no_local=True), 0x83, "No Local"),
        ("$replay/last=5", 1, 0x8F, "filter"),
    ],
)
def test_a_refusal_says_what_is_allowed(connect, unique, name, options, code, said):
    subscriber = connect()
    subscriber.send(v5.subscribe(1, (name.format(unique), options)))
    suback = subscriber.expect_suback(1, code)
    assert said in suback.properties["reason_string"][0]


def test_two_properties_contradict_each_other(connect, unique):
    subscriber = connect()
    wishes = [("replay", "last=1"), ("replay", "offset=0")]
    subscriber.send(v5.subscribe(1, (unique, 1), user=wishes))
    subscriber.expect_suback(1, 0x8F)


def test_history_keeps_within_the_receive_maximum(connect, unique):
    publisher, subscriber = connect(), connect(receive_maximum=2)
    for number in range(6):
        publisher.publish_acknowledged(unique, b"%d" % number)
    subscriber.subscribe((f"$replay/offset=0/{unique}", 1))
    first = subscriber.expect_publish(unique, b"0", qos=1)
    second = subscriber.expect_publish(unique, b"1", qos=1)
    subscriber.ping()
    for received in (first, second):
        subscriber.acknowledge(received)
    for number in range(2, 6):
        subscriber.acknowledge(subscriber.expect_publish(unique, b"%d" % number, qos=1))
    subscriber.expect_nothing_from(publisher)
