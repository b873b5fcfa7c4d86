"""Topic names and filters: what matches what, and what is invalid."""

import pytest

from tests.conformance.conftest import both_versions
from tests.conformance.wire_client import publish, suback, subscribe, unsubscribe

pytestmark = both_versions

MATCHES = [
    ("a/b", "a/b"),
    ("a/#", "a"),
    ("a/#", "a/b"),
    ("a/#", "a/b/c/d"),
    ("a/#", "a/"),
    ("#", "x"),
    ("+", "x"),
    ("+/+", "x/y"),
    ("a/+", "a/"),
    ("+/b", "/b"),
    ("/+", "/x"),
    ("a//b", "a//b"),
    ("a/+/b", "a//b"),
    ("a/+/#", "a/b"),
    ("a/+/#", "a/b/c"),
    ("+/b/#", "a/b"),
    ("a b/ c", "a b/ c"),
    ("a/$b", "a/$b"),
    ("+/$b", "a/$b"),
    ("ä/+", "ä/ö"),
]
DIFFERS = [
    ("a/b", "a/b/"),
    ("a/b", "/a/b"),
    ("a/b", "A/b"),
    ("a/b", "a/B"),
    ("a/b", "a//b"),
    ("a/+", "a"),
    ("a/+", "a/b/c"),
    ("+", "a/b"),
    ("+", "/a"),
    ("+/+", "a"),
    ("a/#", "ab"),
    ("a/#", "A/b"),
    ("a/+/c", "a/c"),
    ("a/b/#", "a"),
    ("a", "a "),
    ("\u00e9", "e\u0301"),  # the same letter, composed and decomposed
    ("\u212b", "\u00c5"),  # the same glyph, ångström sign and letter
    ("\ufb01", "fi"),  # a ligature and its letters
    ("stra\u00dfe", "strasse"),
]
FORBIDDEN = [
    "a#", "a/b#", "a/#/b", "#/", "#/a", "##", "a/##", "+#",
    "a+", "+a", "a/b+/c", "++", "a/++",
    "", "a\0b",
]  # fmt: skip


@pytest.mark.proves("MQTT-3.3.2-3", "MQTT-4.7.3-4", "MQTT-4.7.1-2", "MQTT-4.7.1-3")
@pytest.mark.parametrize(("topic_filter", "topic"), MATCHES)
def test_filter_matches(connect, unique, topic_filter, topic):
    client = connect()
    client.subscribe((f"{unique}/{topic_filter}", 0))
    client.send(publish(f"{unique}/{topic}", b"m"))
    client.expect(publish(f"{unique}/{topic}", b"m"))


@pytest.mark.proves("MQTT-3.3.2-3", "MQTT-4.7.3-4")
@pytest.mark.parametrize(("topic_filter", "topic"), DIFFERS)
def test_filter_does_not_match(connect, unique, topic_filter, topic):
    client = connect()
    client.subscribe((f"{unique}/{topic_filter}", 0))
    client.send(publish(f"{unique}/{topic}", b"m"))
    client.expect_nothing()


@pytest.mark.proves("MQTT-4.7.1-3", "MQTT-4.7.3-4")
@pytest.mark.parametrize("topic_filter", ["/{}", "+/{}", "/+", "+/+", "/#"])
def test_a_slash_at_the_front_makes_an_empty_first_level(connect, unique, topic_filter):
    client = connect()
    client.subscribe((topic_filter.format(unique), 0))
    client.send(publish(unique, b"without"), publish(f"/{unique}", b"with"))
    received = client.receive_until(publish(f"/{unique}", b"with"))
    assert publish(unique, b"without") not in received


@pytest.mark.proves("MQTT-4.7.2-1")
@pytest.mark.parametrize("topic_filter", ["#", "+/x", "+/+", "+/#"])
def test_a_wildcard_at_the_front_does_not_match_dollar_topics(connect, unique, topic_filter):
    hidden, seen = publish(f"${unique}/x", b"hidden"), publish(f"{unique}/x", b"seen")
    client = connect()
    client.send(subscribe(1, (topic_filter, 0)), hidden, seen)
    received = client.receive_until(seen)
    assert suback(1, 0) in received
    assert hidden not in received


@pytest.mark.proves("MQTT-4.7.2-1")
@pytest.mark.parametrize("topic_filter", ["${}/x", "${}/+", "${}/#"])
def test_dollar_topics_are_matched_by_filters_that_spell_the_dollar(connect, unique, topic_filter):
    client = connect()
    client.subscribe((topic_filter.format(unique), 0))
    client.send(publish(f"${unique}/x", b"m"))
    client.expect(publish(f"${unique}/x", b"m"))


@pytest.mark.proves("MQTT-4.7.1-2", "MQTT-4.7.1-3", "MQTT-4.7.3-1", "MQTT-4.7.3-2")
@pytest.mark.parametrize("topic_filter", FORBIDDEN)
def test_a_filter_that_may_not_be_written_closes(connect, topic_filter):
    client = connect()
    client.send(subscribe(1, (topic_filter, 0)))
    client.expect_close()


@pytest.mark.proves("MQTT-3.3.2-2", "MQTT-4.7.1-1", "MQTT-4.7.3-1", "MQTT-4.7.3-2", "MQTT-3.3.2-1")
@pytest.mark.parametrize("qos", [0, 1])
@pytest.mark.parametrize("end", ["/+", "/#", "/a+b", "/a#", "/+/x", "/a\0b", b"/\xff"])
def test_a_topic_name_that_may_not_be_written_closes_and_is_not_delivered(
    connect, unique, end, qos
):
    subscriber, publisher = connect(), connect()
    subscriber.subscribe((f"{unique}/#", 0))
    topic = unique.encode() + (end if isinstance(end, bytes) else end.encode())
    publisher.send(publish(topic, b"m", qos=qos, packet_id=1 if qos else None))
    publisher.expect_close()
    subscriber.expect_nothing_from(connect())


@pytest.mark.proves("MQTT-4.7.3-1", "MQTT-3.3.2-1")
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_an_empty_topic_name_closes(connect, qos):
    client = connect()
    client.send(publish("", b"m", qos=qos, packet_id=1 if qos else None))
    client.expect_close()


@pytest.mark.proves("MQTT-1.5.3-3")
@pytest.mark.parametrize("mark", ["\ufeff{}", "{}/\ufeff", "{}/a\ufeffb"])
def test_a_byte_order_mark_is_a_character_like_any_other(connect, unique, mark):
    client = connect()
    marked, plain = mark.format(unique), mark.replace("\ufeff", "").format(unique)
    client.subscribe((marked, 0), packet_id=1)
    client.subscribe((plain, 0), packet_id=2)
    client.send(publish(marked, b"marked"))
    client.expect(publish(marked, b"marked"))
    client.expect_nothing()


@pytest.mark.proves("MQTT-4.7.3-3", "MQTT-3.3.2-1")
def test_topics_are_taken_up_to_the_configured_length(own_broker, connect, unique):
    broker = own_broker(limits={"topic_bytes_max": 40})
    longest, longer = unique.ljust(40, "x"), unique.ljust(41, "x")
    client = connect(at=broker)
    client.subscribe((longest, 0))
    client.send(publish(longest, b"m"))
    client.expect(publish(longest, b"m"))
    client.send(publish(longer, b"m"))
    client.expect_close()
    client = connect(at=broker)
    client.send(subscribe(1, (longer, 0), (longest, 1)))
    client.expect(suback(1, 0x80, 1))


@pytest.mark.proves("MQTT-4.7.3-3")
def test_topics_are_taken_up_to_the_configured_levels(own_broker, connect, unique):
    broker = own_broker(limits={"topic_levels_max": 8})
    deepest, deeper = unique + "/x" * 7, unique + "/x" * 8
    client = connect(at=broker)
    client.subscribe((deepest, 0))
    client.send(publish(deepest, b"m"))
    client.expect(publish(deepest, b"m"))
    client.send(publish(deeper, b"m"))
    client.expect_close()
    client = connect(at=broker)
    client.send(subscribe(1, (deeper, 0), (deepest, 1)))
    client.expect(suback(1, 0x80, 1))


@pytest.mark.proves("MQTT-4.7.1-2", "MQTT-4.7.1-3", "MQTT-4.7.3-1")
@pytest.mark.parametrize("topic_filter", FORBIDDEN)
def test_a_filter_that_may_not_be_written_closes_in_unsubscribe_too(connect, topic_filter):
    client = connect()
    client.send(unsubscribe(1, topic_filter))
    client.expect_close()


def test_control_characters_are_ordinary_characters(connect, unique):
    """The standard lets brokers choose. U+0000 is the one that is forbidden."""
    topic = f"{unique}/\x01\n\x1f\x7f\x9f"
    client = connect()
    client.subscribe((topic, 0))
    client.send(publish(topic, b"m"))
    client.expect(publish(topic, b"m"))


def test_a_topic_may_have_200_levels(connect, unique):
    topic = unique + "/x" * 199
    client = connect()
    client.subscribe((topic, 0))
    client.send(publish(topic, b"m"))
    client.expect(publish(topic, b"m"))
    client.send(publish(topic + "/x", b"m"))
    client.expect_close()
