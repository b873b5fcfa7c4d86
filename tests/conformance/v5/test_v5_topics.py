"""Topic names and filters in version 5."""

import pytest

from tests.conformance import packets5 as v5

MATCHES = [
    ("a/b", "a/b", True), ("a/b", "a/B", False), ("a/+", "a/b", True), ("a/+", "a/", True),
    ("a/+", "a", False), ("a/+", "a/b/c", False), ("a/#", "a", True), ("a/#", "a/b/c", True),
    ("+/b", "a/b", True), ("a//b", "a/b", False), ("a/+/b", "a//b", True), ("a/é", "a/é", True),
    ("a/é", "a/e\u0301", False), ("a/\ufffd", "a/x", False), ("a/ ", "a/ ", True),
]  # fmt: skip
"""Filter, topic, and whether they match, below a root of the test's own."""


@pytest.mark.proves5("MQTT-4.7.1-1", "MQTT-4.7.1-2", "MQTT-4.7.3-4", "MQTT-3.3.2-3", "MQTT-1.5.4-1")
@pytest.mark.parametrize(("topic_filter", "topic", "is_match"), MATCHES)
def test_filters_match_by_level_and_character(connect, unique, topic_filter, topic, is_match):
    client, publisher = connect(), connect()
    client.subscribe((f"{unique}/{topic_filter}", 0))
    publisher.send(v5.publish(f"{unique}/{topic}", b"m"))
    if is_match:
        client.expect_publish(f"{unique}/{topic}", b"m")
    client.expect_nothing_from(publisher)


@pytest.mark.proves5("MQTT-4.7.1-1", "MQTT-4.7.1-2", "MQTT-4.7.3-1")
@pytest.mark.parametrize("bad", ["a/#/b", "a#", "#a", "##", "a+", "+a", "a/+b/c", ""])
def test_a_malformed_filter_is_told_0x8f(connect, bad):
    client = connect()
    client.send(v5.subscribe(1, (bad, 0)))
    client.expect_disconnect(0x8F)


@pytest.mark.proves5("MQTT-4.7.1-1", "MQTT-4.7.1-2")
@pytest.mark.parametrize("bad", ["a/#/b", "a#", "a+"])
def test_a_malformed_filter_in_unsubscribe_is_told_0x8f(connect, bad):
    client = connect()
    client.send(v5.unsubscribe(1, bad))
    client.expect_disconnect(0x8F)


@pytest.mark.proves5("MQTT-3.3.2-2", "MQTT-4.7.0-1")
@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("bad", ["a/#", "+/b", "#", "a+b"])
def test_a_topic_with_wildcards_is_told_0x90_and_goes_nowhere(connect, unique, bad, qos):
    watcher = connect()
    watcher.subscribe((f"{unique}/#", 0))
    client = connect()
    client.send(v5.publish(f"{unique}/{bad}", b"m", qos=qos, packet_id=qos or None))
    client.expect_disconnect(0x90)
    watcher.expect_nothing_from(connect())


@pytest.mark.proves5("MQTT-3.3.2-1", "MQTT-4.7.3-2", "MQTT-1.5.4-1", "MQTT-1.5.4-2")
@pytest.mark.parametrize("bad", [b"\xff", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"a\0b"])
def test_a_topic_that_is_no_text_is_malformed(connect, unique, bad):
    watcher = connect()
    watcher.subscribe((f"{unique}/#", 0))
    client = connect()
    client.send(v5.publish(f"{unique}/".encode() + bad, b"m"))
    client.expect_disconnect(0x81)
    watcher.expect_nothing_from(connect())


@pytest.mark.proves5("MQTT-4.7.2-1")
@pytest.mark.parametrize("topic_filter", ["#", "+/broker/#", "$share/g/#"])
def test_wildcards_at_the_start_do_not_match_dollar_topics(own_broker, connect, topic_filter):
    client = connect(at=own_broker())
    client.send(v5.subscribe(1, (topic_filter, 0)))
    client.expect_suback(1, 0)
    client.expect_nothing()  # $SYS topics are retained, and would come now


@pytest.mark.proves5("MQTT-4.7.3-3", "MQTT-4.13.1-1")
def test_the_longest_text_is_refused_or_served_and_harms_nobody(connect, unique):
    bystander = connect()
    bystander.subscribe((unique, 0))
    for longest in (
        v5.publish("a" * 65_535, b"m", qos=1, packet_id=1),
        v5.subscribe(1, ("a" * 65_535, 0)),
    ):
        client = connect()
        client.send(longest)
        assert client.take().kind in {v5.PUBACK, v5.SUBACK, v5.DISCONNECTED}
    connect().send(v5.publish(unique, b"m"))
    bystander.expect_publish(unique, b"m")
