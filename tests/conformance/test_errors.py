"""Violations: each closes its own connection, silently, and affects no other.

A 3.1.1 server cannot report a violation: ``expect_close`` therefore also fails if anything is sent
before the close.
"""

import pytest

from tests.conformance.wire_client import (
    DISCONNECT,
    PINGREQ,
    PINGRESP,
    connack,
    connect_packet,
    packet,
    puback,
    pubcomp,
    publish,
    pubrec,
    pubrel,
    suback,
    subscribe,
    unsuback,
    unsubscribe,
)

FLAGGED = {
    "puback": puback(1),
    "pubrec": pubrec(1),
    "pubrel": pubrel(1),
    "pubcomp": pubcomp(1),
    "subscribe": subscribe(1, ("a", 0)),
    "unsubscribe": unsubscribe(1, "a"),
    "pingreq": PINGREQ,
    "disconnect": DISCONNECT,
}


@pytest.mark.proves(
    "MQTT-2.2.2-1", "MQTT-2.2.2-2", "MQTT-3.6.1-1", "MQTT-3.8.1-1", "MQTT-3.10.1-1", "MQTT-3.14.1-1"
)
@pytest.mark.parametrize("bit", [1, 2, 4, 8])
@pytest.mark.parametrize("good", FLAGGED.values(), ids=FLAGGED.keys())
def test_a_reserved_flag_of_the_wrong_value_closes(connect, good, bit):
    client = connect()
    client.send(bytes([good[0] ^ bit]) + good[1:])
    client.expect_close()


@pytest.mark.proves("MQTT-2.2.2-1", "MQTT-2.2.2-2")
@pytest.mark.parametrize("bit", [1, 2, 4, 8])
def test_a_connect_with_a_reserved_flag_closes(dial, unique, bit):
    client = dial()
    good = connect_packet(unique)
    client.send(bytes([good[0] | bit]) + good[1:])
    client.expect_close()


@pytest.mark.proves("MQTT-3.3.1-4")
@pytest.mark.parametrize("first_byte", [0x36, 0x37, 0x3E, 0x3F])
def test_a_publish_of_qos_3_closes(connect, first_byte):
    client = connect()
    client.send(packet(first_byte, b"\0\1a", b"\0\1", b"m"))
    client.expect_close()


@pytest.mark.proves("MQTT-3.3.1-2", "MQTT-4.8.0-1")
def test_a_qos_0_publish_with_dup_closes(connect, unique):
    client = connect()
    client.send(publish(unique, b"m", dup=True))
    client.expect_close()


WITHOUT_ID = {
    "publish-1": publish("a", b"m", qos=1, packet_id=0),
    "publish-2": publish("a", b"m", qos=2, packet_id=0),
    "subscribe": subscribe(0, ("a", 0)),
    "unsubscribe": unsubscribe(0, "a"),
    "puback": puback(0),
    "pubrec": pubrec(0),
    "pubrel": pubrel(0),
    "pubcomp": pubcomp(0),
}


@pytest.mark.proves("MQTT-2.3.1-1")
@pytest.mark.parametrize("bad", WITHOUT_ID.values(), ids=WITHOUT_ID.keys())
def test_packet_id_0_closes(connect, bad):
    client = connect()
    client.send(bad)
    client.expect_close()


ILL_FORMED = {
    "lone-continuation": b"\x80",
    "missing-continuation": b"\xc3",
    "overlong-slash": b"\xc0\xaf",
    "overlong-nul": b"\xc0\x80",
    "surrogate-low-end": b"\xed\xa0\x80",
    "surrogate-high-end": b"\xed\xbf\xbf",
    "surrogate-pair": b"\xed\xa0\xbd\xed\xb8\x80",
    "above-u10ffff": b"\xf4\x90\x80\x80",
    "never-in-utf8": b"\xff",
}


@pytest.mark.proves("MQTT-1.5.3-1", "MQTT-3.3.2-1", "MQTT-3.8.3-1", "MQTT-3.10.3-1")
@pytest.mark.parametrize("wrap", [publish, lambda text: subscribe(1, (text, 0)),
                                  lambda text: unsubscribe(1, text)],
                         ids=["publish", "subscribe", "unsubscribe"])  # fmt: skip
@pytest.mark.parametrize("text", ILL_FORMED.values(), ids=ILL_FORMED.keys())
def test_ill_formed_utf8_closes(connect, wrap, text):
    client = connect()
    client.send(wrap(b"a" + text))
    client.expect_close()


@pytest.mark.proves("MQTT-1.5.3-2", "MQTT-4.7.3-2")
@pytest.mark.parametrize("text", ["\0", "a\0", "\0a", "a/\0/b"])
def test_u0000_in_a_topic_closes(connect, text):
    for bad in (publish(text, b"m"), subscribe(1, (text, 0))):
        client = connect()
        client.send(bad)
        client.expect_close()


@pytest.mark.proves("MQTT-1.5.3-1")
@pytest.mark.parametrize("text", ["\u0800", "\ud7ff", "\ue000", "\U00010000", "\U0010fffd"])
def test_well_formed_utf8_up_to_the_edges_passes(connect, unique, text):
    client = connect()
    client.subscribe((f"{unique}/{text}", 0))
    client.send(publish(f"{unique}/{text}", b"m"))
    client.expect(publish(f"{unique}/{text}", b"m"))


FOREIGN = {
    "connack": connack(),
    "suback": suback(1, 0),
    "unsuback": unsuback(1),
    "pingresp": PINGRESP,
    "type-0": packet(0x00),
    "type-15": packet(0xF0),
    "second-connect": connect_packet("second"),
}


@pytest.mark.proves("MQTT-4.8.0-1")
@pytest.mark.parametrize("bad", FOREIGN.values(), ids=FOREIGN.keys())
def test_a_packet_that_clients_do_not_send_closes(connect, bad):
    client = connect()
    client.send(bad)
    client.expect_close()


WRONG_LENGTH = {
    "pingreq-1": packet(0xC0, b"x"),
    "disconnect-1": packet(0xE0, b"x"),
    "puback-0": packet(0x40),
    "puback-1": packet(0x40, b"\0"),
    "puback-3": packet(0x40, b"\0\1x"),
    "pubrec-3": packet(0x50, b"\0\1x"),
    "pubrel-3": packet(0x62, b"\0\1x"),
    "pubcomp-3": packet(0x70, b"\0\1x"),
    "publish-0": packet(0x30),
    "publish-no-id": packet(0x32, b"\0\1a"),
    "publish-half-id": packet(0x32, b"\0\1a\0"),
    "length-of-5-digits": b"\x30\x80\x80\x80\x80\x01",
}


@pytest.mark.proves("MQTT-4.8.0-1")
@pytest.mark.parametrize("bad", WRONG_LENGTH.values(), ids=WRONG_LENGTH.keys())
def test_a_packet_of_the_wrong_length_closes(connect, bad):
    client = connect()
    client.send(bad)
    client.expect_close()


@pytest.mark.proves("MQTT-4.8.0-1")
def test_what_came_before_a_violation_counts_and_what_follows_does_not(connect, unique):
    subscriber = connect()
    subscriber.subscribe((f"{unique}/#", 0))
    client = connect()
    client.send(publish(f"{unique}/before", b"m"), packet(0xF0), publish(f"{unique}/after", b"m"))
    client.expect_close()
    subscriber.expect(publish(f"{unique}/before", b"m"))
    subscriber.expect_nothing_from(connect())


@pytest.mark.proves("MQTT-4.8.0-1")
def test_a_violation_ends_no_connection_but_its_own(connect):
    others = [connect() for _ in range(3)]
    client = connect()
    client.send(packet(0xF0))
    client.expect_close()
    for other in others:
        other.ping()


@pytest.mark.proves("MQTT-4.8.0-2")
def test_a_packet_that_is_too_large_for_the_broker_closes(own_broker, connect, unique):
    """Such a packet is valid; the broker cannot accept it."""
    broker = own_broker(limits={"packet_bytes_max": 2_000})
    client = connect(at=broker)
    room = 2_000 - len(publish(unique, b"x" * 500)) + 500  # the limit is on the whole packet
    client.publish_acknowledged(unique, b"x" * room, qos=0)
    client.send(publish(unique, b"x" * (room + 1)))
    client.expect_close()
    assert broker.metrics()['penstock_disconnects_total{reason="packet_too_large"}'] == 1


@pytest.mark.proves("MQTT-3-8.3-4")
@pytest.mark.parametrize("bits", [0x04, 0x08, 0x10, 0x20])
def test_what_is_an_option_in_version_5_is_a_reserved_bit_here(connect, bits):
    client = connect()
    client.send(subscribe(1, ("a", bits)))
    client.expect_close()
