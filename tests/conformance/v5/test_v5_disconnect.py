"""DISCONNECT from either side, and AUTH where no method was agreed."""

import pytest

from tests.conformance import packets5 as v5
from tests.conformance.packets5 import Will
from tests.conformance.v5.conftest import both_transports

pytestmark = both_transports


@pytest.mark.proves5("MQTT-3.14.4-1", "MQTT-3.14.4-2")
def test_what_follows_disconnect_is_not_processed(connect, unique):
    watcher = connect()
    watcher.subscribe((unique, 0))
    client = connect()
    client.send(v5.DISCONNECT, v5.publish(unique, b"too late"))
    client.expect_close()
    watcher.expect_nothing_from(connect())


@pytest.mark.proves5("MQTT-3.14.4-1", "MQTT-3.14.4-2", "MQTT-4.13.2-1", "MQTT-3.14.2-1")
def test_the_brokers_disconnect_is_its_last_packet(connect, unique):
    """Deliveries are under way when the fault comes; none follows the DISCONNECT."""
    client, publisher = connect(), connect()
    client.subscribe((unique, 0))
    publisher.send(*(v5.publish(unique, b"m") for _ in range(50)))
    client.send(v5.packet(0x00))
    received = client.receive()
    while received and received[0] >> 4 == v5.PUBLISH:
        received = client.receive()
    assert not received or v5.parse(received).kind == v5.DISCONNECTED
    client.expect_close()


@pytest.mark.proves5("MQTT-3.14.4-1")
def test_what_was_forwarded_in_the_same_turn_comes_before_the_disconnect(connect, unique):
    client = connect()
    client.subscribe((unique, 0))
    client.send(*(v5.publish(unique, b"m") for _ in range(3)), v5.packet(0x00))
    for _ in range(3):
        client.expect_publish(unique, b"m")
    client.expect_disconnect(0x82)


@pytest.mark.proves5("MQTT-3.14.0-1", "MQTT-3.1.4-1")
@pytest.mark.parametrize(
    "bad", [v5.connect("", flags=3), v5.connect("", receive_maximum=0), v5.PINGREQ]
)
def test_there_is_no_disconnect_before_connack(dial, bad):
    client = dial()
    client.send(bad)
    received = client.receive()
    assert not received or v5.parse(received).kind == v5.CONNACK
    client.expect_close()


@pytest.mark.proves5("MQTT-3.14.1-1", "MQTT-3.1.2-8", "MQTT-2.1.3-1")
@pytest.mark.parametrize("flags", [1, 2, 4, 8, 15])
def test_other_flags_of_disconnect_are_malformed_and_leave_the_will_due(connect, unique, flags):
    watcher = connect()
    watcher.subscribe((unique, 0))
    client = connect(will=Will(unique, b"gone"))
    client.send(v5.packet(0xE0 | flags))
    client.expect_disconnect(0x81)
    watcher.expect_publish(unique, b"gone")


@pytest.mark.proves5("MQTT-3.14.2-2", "MQTT-3.14.2-1", "MQTT-4.13.2-1")
def test_a_disconnect_says_why_in_words(own_broker, connect):
    client = connect(at=own_broker(), session_expiry=600)
    client.send(v5.subscribe(1, ("a", 0x03)))
    ended = client.expect_disconnect(0x82)
    assert set(ended.properties) == {"reason_string"}
    assert len(str(ended.value("reason_string"))) > 10


@pytest.mark.proves5("MQTT-3.14.2-3", "MQTT-3.14.2-4", "MQTT-3.1.2-24")
def test_the_reason_is_left_out_where_it_does_not_fit(own_broker, connect):
    client = connect("who", at=own_broker(), maximum_packet_size=24)
    client.send(v5.subscribe(1, ("a", 0x03)))
    ended = client.expect_disconnect(0x82)
    assert ended.properties == {}


@pytest.mark.proves5("MQTT-4.12.0-7", "MQTT-4.13.1-1")
@pytest.mark.parametrize("code", [0x18, 0x19, 0x00])
def test_auth_without_a_method_in_connect_is_a_protocol_error(connect, code):
    client = connect()
    client.send(v5.auth(code, auth_method="SCRAM-SHA-256", auth_data=b"n,,n=ann,r=x"))
    client.expect_disconnect(0x82)


@pytest.mark.proves5("MQTT-3.15.1-1", "MQTT-2.1.3-1")
@pytest.mark.parametrize("flags", [1, 2, 8, 15])
def test_other_flags_of_auth_are_malformed(connect, flags):
    client = connect()
    body = v5.auth(0x19, auth_method="SCRAM-SHA-256")[2:]
    client.send(v5.packet(0xF0 | flags, body))
    client.expect_disconnect(0x81)


@pytest.mark.proves5("MQTT-4.12.0-1", "MQTT-3.2.2-7")
@pytest.mark.parametrize("method", ["X-UNKNOWN", "scram-sha-256", ""])
def test_an_unknown_method_is_told_0x8c_and_closed(dial, unique, method):
    client = dial()
    client.send(v5.connect(unique, auth_method=method, auth_data=b"data"))
    client.expect_refusal(0x8C)


@pytest.mark.proves5("MQTT-4.12.0-6")
def test_without_a_method_no_auth_and_no_method_come(connect):
    client = connect(username="ann", password=b"secret")
    assert "auth_method" not in client.connack.properties
    assert "auth_data" not in client.connack.properties
    client.expect_nothing()
