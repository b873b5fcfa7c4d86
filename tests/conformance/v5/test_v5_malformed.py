"""Malformed input of version 5: it ends its own connection, with the right code, and no other."""

import contextlib
import random
import socket

import pytest

from tests.conformance import packets5 as v5
from tests.conformance.packets5 import Will


@pytest.fixture
def unharmed(connect, unique):
    """A bystander that subscribes and publishes, and checks at the end that both still work."""
    bystander = connect(f"{unique}-bystander")
    bystander.subscribe((f"{unique}/bystander", 1))
    yield bystander
    bystander.send(v5.publish(f"{unique}/bystander", b"all is well", user=("a", "b")))
    bystander.expect_publish(f"{unique}/bystander", b"all is well", user=("a", "b"))


MALFORMED = {
    "topic-longer-than-packet": v5.packet(0x30, b"\xff\xff", b"short"),
    "publish-of-half-a-length": v5.packet(0x30, b"\x00"),
    "publish-of-nothing": v5.packet(0x30),
    "publish-without-properties": v5.packet(0x30, v5.string("t")),
    "publish-properties-beyond-the-end": v5.packet(0x30, v5.string("t"), b"\x05", b"abc"),
    "publish-properties-length-unfinished": v5.packet(0x30, v5.string("t"), b"\x80"),
    "publish-properties-length-of-five-bytes": v5.packet(
        0x30, v5.string("t"), b"\x80\x80\x80\x80\1"
    ),
    "publish-id-cut-off": v5.packet(0x32, v5.string("t"), b"\x01"),
    "publish-qos-3": v5.packet(0x36, v5.string("t"), b"\0\1\0m"),
    "publish-dup-with-qos-0": v5.packet(0x38, v5.string("t"), b"\0m"),
    "puback-of-nothing": v5.packet(0x40),
    "puback-of-half-an-id": v5.packet(0x40, b"\0"),
    "puback-with-bytes-left-over": v5.packet(0x40, b"\0\1\0\0\0"),
    "puback-flags": v5.packet(0x42, b"\0\1"),
    "pubrec-flags": v5.packet(0x51, b"\0\1"),
    "pubrel-flags-0": v5.packet(0x60, b"\0\1"),
    "pubrel-flags-3": v5.packet(0x63, b"\0\1"),
    "pubcomp-flags": v5.packet(0x72, b"\0\1"),
    "subscribe-of-one-byte": v5.packet(0x82, b"\0"),
    "subscribe-without-properties": v5.packet(0x82, b"\0\1"),
    "subscribe-filter-beyond-the-end": v5.packet(0x82, b"\0\1\0", b"\x00\x09", b"a", b"\0"),
    "subscribe-second-filter-cut-off": v5.packet(0x82, b"\0\1\0", v5.string("a"), b"\0", b"\0"),
    "unsubscribe-filter-beyond-the-end": v5.packet(0xA2, b"\0\1\0", b"\x7f\xff", b"a"),
    "pingreq-with-a-body": v5.packet(0xC0, b"\0"),
    "pingreq-flags": v5.packet(0xC1),
    "disconnect-with-bytes-left-over": v5.packet(0xE0, b"\0\0\0"),
    "disconnect-properties-beyond-the-end": v5.packet(0xE0, b"\0\x09\x11"),
    "auth-properties-beyond-the-end": v5.packet(0xF0, b"\x18\x09\x15"),
    "length-not-minimal": b"\xc0\x80\x00",
    "length-not-minimal-in-publish": b"\x30\x85\x00" + v5.string("t") + b"\0m",
}


@pytest.mark.proves5(
    "MQTT-4.13.1-1", "MQTT-2.1.3-1", "MQTT-2.2.2-1", "MQTT-1.5.5-1", "MQTT-3.3.1-4",
    "MQTT-3.3.1-2", "MQTT-3.6.1-1", "MQTT-4.13.2-1",
)  # fmt: skip
@pytest.mark.parametrize("bad", MALFORMED.values(), ids=MALFORMED.keys())
def test_a_malformed_packet_is_told_0x81_and_ends_its_connection(connect, unharmed, bad):
    client = connect()
    client.send(bad)
    client.expect_disconnect(0x81)


WRONG_TIME = {
    "connack": v5.packet(0x20, b"\0\0\0"),
    "suback": v5.packet(0x90, b"\0\1\0\0"),
    "unsuback": v5.packet(0xB0, b"\0\1\0\0"),
    "pingresp": v5.packet(0xD0),
}


@pytest.mark.proves5("MQTT-4.13.1-1")
@pytest.mark.parametrize("bad", WRONG_TIME.values(), ids=WRONG_TIME.keys())
def test_a_packet_of_the_other_direction_is_a_protocol_error(connect, unharmed, bad):
    client = connect()
    client.send(bad)
    client.expect_disconnect(0x82)


@pytest.mark.proves5("MQTT-4.13.1-1")
@pytest.mark.parametrize(
    "lost", [b"\x00\x00", b"\x30\xff\xff\xff\xff\xff"], ids=["type-0", "length"]
)
def test_where_framing_is_lost_the_connection_just_ends(connect, unharmed, lost):
    client = connect()
    client.send(lost)
    received = client.receive()
    assert not received or v5.parse(received).kind == v5.DISCONNECTED
    client.expect_close()


@pytest.mark.proves5("MQTT-3.4.2-1", "MQTT-3.5.2-1", "MQTT-3.6.2-1", "MQTT-3.7.2-1")
@pytest.mark.parametrize("code", [0x01, 0x11, 0x81, 0x8E, 0xFF])
@pytest.mark.parametrize("ack", [v5.puback, v5.pubrec, v5.pubrel, v5.pubcomp])
def test_an_acknowledgement_with_a_code_it_does_not_have_is_a_protocol_error(
    connect, unharmed, ack, code
):
    client = connect()
    client.send(ack(1, code))
    client.expect_disconnect(0x82)


@pytest.mark.proves5("MQTT-4.13.1-1")
@pytest.mark.parametrize(
    "whole",
    [
        v5.publish("topic", b"", qos=1, packet_id=1, user=("a", "b"), content_type="text/plain"),
        v5.subscribe(1, ("a/b", 1), subscription_id=7, user=("a", "b")),
        v5.unsubscribe(1, "a/b", user=("a", "b")),
    ],
    ids=["publish", "subscribe", "unsubscribe"],
)
def test_a_packet_cut_short_anywhere_ends_its_connection(connect, unharmed, whole):
    """Each shorter body has the remaining length it really has."""
    body = whole[2:]
    for kept in range(len(body)):
        client = connect()
        client.send(v5.packet(whole[0], body[:kept]))
        received = client.take()
        assert received.kind == v5.DISCONNECTED, (kept, received)
        assert received.code in {0x81, 0x82}
        client.expect_close()


@pytest.mark.proves5("MQTT-4.13.1-1")
def test_what_follows_a_malformed_packet_is_not_processed(connect, unharmed, unique):
    watcher = connect()
    watcher.subscribe((unique, 0))
    client = connect()
    client.send(v5.packet(0x30), v5.publish(unique, b"forbidden"))
    client.expect_disconnect(0x81)
    watcher.expect_nothing_from(connect())


@pytest.mark.proves5("MQTT-1.5.4-1", "MQTT-1.5.7-1", "MQTT-3.3.2-13", "MQTT-3.3.2-19")
@pytest.mark.parametrize("own", [
    {"user": [("a", b"\xff")]}, {"content_type": b"\xff"}, {"response_topic": b"\xff"},
])  # fmt: skip
@pytest.mark.parametrize("retain", [False, True])
def test_a_bad_property_harms_its_publisher_and_no_subscriber(connect, unique, own, retain):
    victim = connect()
    victim.subscribe((f"{unique}/#", 1))
    attacker = connect()
    attacker.send(v5.publish(f"{unique}/t", b"m", retain=retain, **own))
    attacker.expect_disconnect(0x81)
    honest = connect()
    honest.publish_acknowledged(f"{unique}/good", b"m")
    victim.expect_publish(f"{unique}/good", b"m", qos=1)
    late = connect()
    late.subscribe((f"{unique}/#", 1))
    late.expect_nothing()  # nor was it retained


@pytest.mark.proves5("MQTT-1.5.4-1", "MQTT-3.1.4-1")
@pytest.mark.parametrize("own", [v5.block(user=[(b"\xff", "v")]), v5.block(content_type=b"\xff")])
def test_a_bad_will_property_never_becomes_a_will(connect, dial, unique, own):
    victim = connect()
    victim.subscribe((f"{unique}/#", 0))
    attacker = dial()
    attacker.send(v5.connect("", will=Will(f"{unique}/w", b"m", properties=own)))
    attacker.expect_refusal(0x81)
    victim.expect_nothing_from(connect())


@pytest.mark.proves5("MQTT-4.13.1-1")
def test_very_many_user_properties_are_refused_or_served_within_bounds(own_broker, connect):
    """64 headers and 16 KiB are what a message may have; beyond, it is refused by its ack."""
    broker = own_broker()
    client = connect(at=broker)
    client.subscribe(("t", 0))
    client.publish_acknowledged("t", b"m", user=[("k", "v")] * 64)
    client.expect_publish("t", b"m", user=[("k", "v")] * 64)
    client.send(v5.publish("t", b"m", qos=1, packet_id=1, user=[("k", "v")] * 65))
    client.expect_ack(v5.PUBACK, 1, 0x97)
    client.send(v5.publish("t", b"m", qos=1, packet_id=1, user=[("k", "v" * 20_000)]))
    client.expect_ack(v5.PUBACK, 1, 0x97)
    client.ping()


def test_an_ack_for_an_id_that_is_not_on_its_way_harms_nobody(connect, unharmed):
    client = connect()
    client.send(v5.puback(1), v5.pubcomp(2), v5.PINGREQ)
    received = client.receive()
    assert received == v5.PINGRESP or v5.parse(received).kind == v5.DISCONNECTED


WHOLE = [
    v5.publish("a/b", b"payload", qos=1, packet_id=1, content_type="t", user=("a", "b")),
    v5.publish("a/b", b"payload", message_expiry=5, topic_alias=3, response_topic="c"),
    v5.subscribe(1, ("a/+", 0x2D), ("b/#", 2), subscription_id=300, user=("a", "b")),
    v5.unsubscribe(1, "a/+", "b/#", user=("a", "b")),
    v5.pubrel(1, 0x92, reason_string="why", user=("a", "b")),
    v5.puback(1, 0x10, user=("a", "b")),
    v5.auth(0x19, auth_method="SCRAM-SHA-256", auth_data=b"n,,"),
    v5.disconnect(4, session_expiry=0, reason_string="bye"),
]


def damaged(whole, dice):
    """A packet with a byte changed, removed or doubled, or cut, with a length that fits or not."""
    body = bytearray(whole[2:])
    for _ in range(dice.randint(1, 3)):
        place = dice.randrange(len(body))
        kind = dice.randrange(4)
        if kind == 0:
            body[place] = dice.randrange(256)
        elif kind == 1 and len(body) > 1:
            del body[place]
        elif kind == 2:
            body.insert(place, dice.randrange(256))
        else:
            body = body[: place + 1]
    fitting = v5.packet(whole[0] if dice.random() < 0.9 else dice.randrange(256), bytes(body))
    return fitting if dice.random() < 0.9 else whole[:2] + bytes(body)


@pytest.mark.proves5("MQTT-4.13.1-1", "MQTT-4.13.2-1")
@pytest.mark.parametrize("seed", range(8))
def test_damaged_packets_are_served_or_end_their_own_connection(connect, unharmed, seed):
    """Whatever comes back is lawful; the last packet before the end is a DISCONNECT with a code."""
    dice = random.Random(seed)
    for _ in range(40):
        client = connect()
        client.send(damaged(dice.choice(WHOLE), dice), v5.PINGREQ, v5.DISCONNECT)
        with contextlib.suppress(OSError):  # it may have ended already
            client.socket.shutdown(socket.SHUT_WR)  # a length may ask for more than ever comes
        received = client.receive()
        while received and received[0] >> 4 != v5.DISCONNECTED:
            v5.parse(received)
            received = client.receive()
        assert not received or v5.parse(received).code >= 0x80
        client.abort()
