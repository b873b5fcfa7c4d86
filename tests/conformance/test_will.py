"""Wills: published for clients that leave without DISCONNECT, and only for those."""

import pytest

from tests.conformance.conftest import both_versions
from tests.conformance.wire_client import (
    DISCONNECT,
    connect_packet,
    packet,
    pubcomp,
    publish,
    pubrec,
    pubrel,
)

pytestmark = both_versions


@pytest.mark.proves("MQTT-3.1.2-8", "MQTT-3.1.2-9")
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_the_will_of_a_broken_connection_is_published_with_its_qos(connect, unique, qos):
    watcher = connect()
    watcher.subscribe((unique, 2))
    connect(will=(unique, b"gone", qos, False)).abort()
    watcher.expect_publish(unique, b"gone", qos=qos)


@pytest.mark.proves("MQTT-3.1.2-8", "MQTT-4.8.0-1")
@pytest.mark.parametrize(
    "violation", [connect_packet("again"), packet(0xF0), packet(0x36, b"\0\1t\0\1")]
)
def test_the_will_of_a_client_thrown_out_is_published(connect, unique, violation):
    watcher = connect()
    watcher.subscribe((unique, 0))
    client = connect(will=(unique, b"thrown out", 0, False))
    client.send(violation)
    client.expect_close()
    watcher.expect(publish(unique, b"thrown out"))


@pytest.mark.proves("MQTT-3.1.2-8", "MQTT-3.1.4-2")
def test_the_will_of_a_connection_taken_over_is_published(connect, unique):
    watcher = connect()
    watcher.subscribe((f"{unique}/will", 0))
    connect(unique, will=(f"{unique}/will", b"taken over", 0, False))
    connect(unique)
    watcher.expect(publish(f"{unique}/will", b"taken over"))


@pytest.mark.proves("MQTT-3.14.4-3", "MQTT-3.1.2-8", "MQTT-3.1.2-10")
def test_a_goodbye_discards_the_will(connect, unique):
    watcher = connect()
    watcher.subscribe((f"{unique}/will", 0))
    connect(unique, will=(f"{unique}/will", b"never", 0, False)).disconnect()
    watcher.expect_nothing_from(connect(unique))


@pytest.mark.proves("MQTT-3.1.2-10")
@pytest.mark.parametrize("clean", [True, False])
def test_a_will_is_published_once_and_then_forgotten(connect, unique, clean):
    watcher = connect()
    watcher.subscribe((f"{unique}/will", 0))
    connect(unique, clean=clean, will=(f"{unique}/will", b"once", 0, False)).abort()
    watcher.expect(publish(f"{unique}/will", b"once"))
    connect(unique, clean=clean, session_present=not clean).abort()
    watcher.expect_nothing_from(connect(unique, clean=clean, session_present=not clean))


@pytest.mark.proves("MQTT-3.1.2-12", "MQTT-3.1.2-10")
def test_a_connection_without_will_flag_publishes_none_not_even_an_older_one(connect, unique):
    watcher = connect()
    watcher.subscribe((f"{unique}/will", 0))
    connect(unique, clean=False, will=(f"{unique}/will", b"old", 0, False)).disconnect()
    connect(unique, clean=False, session_present=True).abort()
    watcher.expect_nothing_from(connect(unique, clean=False, session_present=True))


@pytest.mark.proves("MQTT-3.1.2-9", "MQTT-3.1.3-1")
def test_a_will_goes_to_its_topic_with_its_payload_byte_for_byte(connect, unique):
    payload = bytes(range(256))
    watcher = connect()
    watcher.subscribe((f"{unique}/+", 0))
    connect(will=(f"{unique}/w", payload, 0, False), username="u", password=b"p").abort()
    watcher.expect(publish(f"{unique}/w", payload))


@pytest.mark.proves("MQTT-3.1.2-8")
def test_a_will_may_be_empty(connect, unique):
    watcher = connect()
    watcher.subscribe((unique, 0))
    connect(will=(unique, b"", 0, False)).abort()
    watcher.expect(publish(unique, b""))


@pytest.mark.proves("MQTT-3.1.2-16")
def test_a_will_without_retain_is_not_retained(connect, unique):
    watcher = connect()
    watcher.subscribe((unique, 0))
    connect(will=(unique, b"passing", 1, False)).abort()
    watcher.expect(publish(unique, b"passing"))
    newcomer = connect()
    newcomer.subscribe((unique, 1))
    newcomer.expect_nothing()


@pytest.mark.proves("MQTT-3.1.2-17")
def test_a_will_with_retain_is_retained(connect, unique):
    watcher = connect()
    watcher.subscribe((unique, 0))
    connect(will=(unique, b"lasting", 1, True)).abort()
    watcher.expect(publish(unique, b"lasting"))  # live: RETAIN 0 [MQTT-3.3.1-9]
    newcomer = connect()
    newcomer.subscribe((unique, 1))
    newcomer.expect_publish(unique, b"lasting", qos=1, retain=True)


@pytest.mark.proves("MQTT-3.1.2-8", "MQTT-3.1.2-5")
def test_a_will_waits_for_a_subscriber_that_is_away(connect, unique):
    subscriber = connect(unique, clean=False)
    subscriber.subscribe((f"{unique}/will", 2))
    subscriber.disconnect()
    watcher = connect()
    watcher.subscribe((f"{unique}/will", 0))
    connect(will=(f"{unique}/will", b"gone", 2, False)).abort()
    watcher.expect(publish(f"{unique}/will", b"gone"))

    subscriber = connect(unique, clean=False, session_present=True)
    packet_id = subscriber.expect_publish(f"{unique}/will", b"gone", qos=2)
    subscriber.send(pubrec(packet_id))
    subscriber.expect(pubrel(packet_id))
    subscriber.send(pubcomp(packet_id))


@pytest.mark.proves("MQTT-3.14.4-2")
def test_what_follows_disconnect_is_not_processed(connect, unique):
    watcher = connect()
    watcher.subscribe((f"{unique}/after", 0))
    client = connect(unique)
    client.send(DISCONNECT, publish(f"{unique}/after", b"too late"))
    client.expect_close()
    watcher.expect_nothing_from(connect(unique))


@pytest.mark.proves("MQTT-3.14.1-1", "MQTT-3.1.2-8")
def test_a_malformed_goodbye_is_no_goodbye(connect, unique):
    watcher = connect()
    watcher.subscribe((unique, 0))
    client = connect(will=(unique, b"gone", 0, False))
    client.send(packet(0xE1))
    client.expect_close()
    watcher.expect(publish(unique, b"gone"))
