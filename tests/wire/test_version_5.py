"""MQTT 5 in both machines: packets there and back, aliases, authentication."""

import pytest

from penstock.obs.reasons import DisconnectReason
from penstock.wire.mqtt import MqttClientMachine, MqttServerMachine, encode, events
from penstock.wire.mqtt.machine import State
from penstock.wire.mqtt.message_properties import message_properties
from penstock.wire.mqtt.properties import NONE, Properties, block_of

USER = Properties(user_properties=((b"a", b"1"), (b"a", b"2")), content_type=b"text/plain")


def connected(properties: Properties = NONE) -> MqttServerMachine:
    machine = MqttServerMachine()
    machine.receive(encode.connect(b"ann", properties=properties))
    machine.alias_max = 4
    return machine


def test_a_connect_of_mqtt_5_keeps_its_properties_and_those_of_its_will():
    will = events.Will(b"w", b"gone", 1, True, message_properties(block_of(USER)), 30)
    wanted = Properties(session_expiry=60, receive_maximum=10)
    packet = encode.connect(b"ann", will=will, password=b"alone", properties=wanted)
    machine = MqttServerMachine()
    [event] = machine.receive(packet)
    assert event == events.Connect(b"ann", True, 60, will, None, b"alone", 5, wanted)
    assert machine.version == 5


def test_publishes_keep_their_properties():
    block = block_of(USER)
    packet = encode.publish(b"t", b"p", 1, packet_id=7, block=block)
    [event] = connected().receive(packet)
    assert event.properties.headers == (
        (b"a", b"1"),
        (b"a", b"2"),
        (b"mqtt-content-type", b"text/plain"),
    )
    assert event.properties.block == block
    [run] = connected().receive(encode.publish(b"t", b"p", block=block))
    assert (run.version, run.properties, run.frames) == (
        5,
        event.properties,
        encode.publish(b"t", b"p", block=block),
    )


def test_an_alias_stands_for_its_topic_and_leaves_no_trace():
    machine = connected()
    alias = block_of(Properties(topic_alias=3))
    machine.receive(encode.publish(b"long/name", b"1", block=alias))
    [run] = machine.receive(encode.publish(b"", b"2", block=alias))
    assert run == events.MqttPublishRun.of(
        b"long/name", b"2", encode.publish(b"long/name", b"2", block=b""), 5
    )


@pytest.mark.parametrize(
    ("topic", "alias", "reason"),
    [
        (b"t", 0, DisconnectReason.TOPIC_ALIAS_INVALID),
        (b"t", 5, DisconnectReason.TOPIC_ALIAS_INVALID),
        (b"", 2, DisconnectReason.PROTOCOL_VIOLATION),
        (b"", None, DisconnectReason.PROTOCOL_VIOLATION),
    ],
)
def test_a_wrong_alias_ends_the_connection(topic, alias, reason):
    block = block_of(Properties(topic_alias=alias))
    [fault] = connected().receive(encode.publish(topic, b"", block=block))
    assert fault.reason is reason


def test_a_client_that_must_authenticate_may_send_nothing_else():
    method = Properties(authentication_method=b"SCRAM-SHA-256", authentication_data=b"n,,")
    machine = connected(method)
    assert machine.state is State.AUTHENTICATING
    [step] = machine.receive(encode.auth(0x18, method))
    assert step == events.Auth(0x18, method)
    machine.authenticated()
    assert machine.receive(encode.PINGREQ) == [events.PingReq()]
    [fault] = connected(method).receive(encode.PINGREQ)
    assert fault.reason is DisconnectReason.PROTOCOL_VIOLATION


def test_a_client_reads_what_a_broker_of_mqtt_5_sends():
    machine = MqttClientMachine(version=5)
    accepted = Properties(topic_alias_maximum=32, reason_string=b"hello")
    assert machine.receive(encode.connack(True, 0, accepted)) == [events.ConnAck(True, 0, accepted)]
    why = Properties(reason_string=b"no")
    assert machine.receive(encode.ack(4, 9, 0x87, why)) == [events.MqttAcks(4, [9], [0x87], why)]
    assert machine.receive(encode.suback(1, [2, 0x8F], NONE)) == [events.SubAck(1, [2, 0x8F])]
    assert machine.receive(encode.unsuback(1, [0, 0x11], NONE)) == [events.UnsubAck(1, [0, 0x11])]
    block = block_of(Properties(subscription_ids=(3, 300)))
    [publish] = machine.receive(encode.publish(b"t", b"p", block=block))
    assert publish.properties.subscription_ids == (3, 300)
    assert machine.receive(encode.disconnect(0x8E, why)) == [events.Disconnect(0x8E, why)]
    assert machine.closed
