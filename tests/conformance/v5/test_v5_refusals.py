"""Messages and requests that our broker refuses: which code, in which order, and what goes on."""

import pytest

from tests.conformance import packets5 as v5
from tests.conformance.packets5 import Will
from tests.conformance.wire_client import wait_until

TEXT = {"payload_format": 1}


def ended(broker, reason):
    return broker.metrics()[f'penstock_disconnects_total{{reason="{reason}"}}']


@pytest.mark.proves5("MQTT-4.6.0-2", "MQTT-4.6.0-3", "MQTT-4.3.3-9")
@pytest.mark.parametrize(("qos", "kind"), [(1, v5.PUBACK), (2, v5.PUBREC)])
def test_a_refusal_comes_in_the_order_of_its_message(own_broker, connect, qos, kind):
    client = connect(at=own_broker())
    topics = ["a", "$SYS/x", "$SYS/y", "b", "$SYS/z", "c"]
    client.send(
        *(v5.publish(topic, b"m", qos=qos, packet_id=n) for n, topic in enumerate(topics, 1))
    )
    for number, topic in enumerate(topics, 1):
        client.expect_ack(kind, number, 0x87 if topic.startswith("$") else 0)
    client.ping()


@pytest.mark.proves5("MQTT-2.2.1-3")
def test_an_id_that_is_in_use_is_told_0x91_in_every_packet(own_broker, connect):
    client = connect(at=own_broker())
    client.send(v5.publish("t", b"m", qos=2, packet_id=5))
    client.expect_accepted(v5.PUBREC, 5)
    client.send(v5.publish("t", b"m", qos=1, packet_id=5))
    assert "5" in str(client.expect_ack(v5.PUBACK, 5, 0x91).value("reason_string"))
    client.send(v5.subscribe(5, ("t", 1), ("u", 1)))
    client.expect_suback(5, 0x91, 0x91)
    client.send(v5.unsubscribe(5, "t"))
    client.expect_unsuback(5, 0x91)
    client.send(v5.pubrel(5))
    client.expect_ack(v5.PUBCOMP, 5)
    client.publish_acknowledged("t", b"m", qos=1, packet_id=5)


@pytest.mark.parametrize(("qos", "kind"), [(1, v5.PUBACK), (2, v5.PUBREC)])
def test_text_that_is_none_is_told_0x99_where_that_is_checked(own_broker, connect, qos, kind):
    client = connect(at=own_broker(mqtt={"check_payload_format": True}))
    client.publish_acknowledged("t", "ü".encode(), qos=qos, **TEXT)
    client.publish_acknowledged("t", b"\xff", qos=qos, payload_format=0)
    client.send(v5.publish("t", b"\xff", qos=qos, packet_id=5, **TEXT))
    client.expect_ack(kind, 5, 0x99)
    client.publish_acknowledged("t", b"m", qos=qos, packet_id=5)


def test_qos_0_and_wills_with_text_that_is_none_end_the_connection(own_broker, connect, dial):
    broker = own_broker(mqtt={"check_payload_format": True})
    client = connect(at=broker)
    client.send(v5.publish("t", b"\xff", **TEXT))
    client.expect_disconnect(0x99)
    client = dial(at=broker)
    client.send(v5.connect("w", will=Will("t", b"\xff", properties=v5.block(**TEXT))))
    client.expect_refusal(0x99)
    assert ended(broker, "payload_format") == 2


def test_qos_0_and_wills_with_too_many_properties_end_the_connection(own_broker, connect, dial):
    broker, many = own_broker(), [("k", "v")] * 65
    client = connect(at=broker)
    client.send(v5.publish("t", b"m", user=many))
    client.expect_disconnect(0x97)
    client = dial(at=broker)
    client.send(v5.connect("w", will=Will("t", b"m", properties=v5.block(user=many))))
    client.expect_refusal(0x97)
    assert ended(broker, "too_many_properties") == 2


@pytest.mark.parametrize(("qos", "kind"), [(1, v5.PUBACK), (2, v5.PUBREC)])
def test_a_message_without_its_signature_is_refused_and_the_others_are_not(
    own_broker, connect, qos, kind
):
    client = connect(at=own_broker())
    client.send(
        v5.publish("plain", b"m", qos=qos, packet_id=1),
        v5.publish("secure/x", b"m", qos=qos, packet_id=2),
        v5.publish("$signed/secure/x", b"no envelope", qos=qos, packet_id=3),
        v5.publish("plain", b"m", qos=qos, packet_id=4),
    )
    for number, code in ((1, 0), (2, 0x87), (3, 0x83), (4, 0)):
        client.expect_ack(kind, number, code)


def test_why_a_client_ends_its_connection_is_counted(own_broker, connect):
    broker = own_broker()
    connect(at=broker).disconnect()
    connect(at=broker).disconnect(0x04)
    connect(at=broker).disconnect(0x93, reason_string="enough \x1b of this")
    wait_until(lambda: ended(broker, "client_ended") == 2)
    assert ended(broker, "client_disconnect") == 1


@pytest.mark.parametrize(
    ("reason", "settings", "packet"),
    [
        ("qos_unsupported", {"maximum_qos": 0}, v5.publish("t", b"m", qos=1, packet_id=1)),
        ("retain_unsupported", {"retain_available": False}, v5.publish("t", b"m", retain=True)),
        ("filter_invalid", {}, v5.subscribe(1, ("a/#/b", 0))),
        ("topic_alias_invalid", {"topic_alias_maximum": 1}, v5.publish("t", b"", topic_alias=2)),
    ],
)
def test_the_reason_of_a_disconnect_is_counted(own_broker, connect, reason, settings, packet):
    broker = own_broker(mqtt=settings)
    client = connect(at=broker)
    client.send(packet)
    assert client.take().kind == v5.DISCONNECTED
    client.expect_close()
    assert ended(broker, reason) == 1


def test_a_reason_string_escapes_what_it_quotes_once_and_cuts_it(own_broker, connect):
    client = connect(at=own_broker())
    client.send(v5.publish("a/\x01" + "b" * 2_000, b"m", qos=1, packet_id=5))
    said = client.expect_ack(v5.PUBACK, 5, 0x90).value("reason_string")
    assert said.startswith(r"topic a/\x01bb"), said
    assert "1024" in said
    assert said.count("b") < 100
