"""A client that asks for MQTT 5 gets an answer that its library can report."""

import aiomqtt
import gmqtt
import paho.mqtt.client as paho
import pytest

from tests.interop.clients import AiomqttClient, GmqttClient, Message, PahoClient

pytestmark = pytest.mark.asyncio


async def test_paho_reports_an_unsupported_protocol_version(broker, unique):
    client = PahoClient(broker.port, unique)
    with pytest.raises(ConnectionRefusedError, match="Unsupported protocol version"):
        await client.connect(paho.MQTTv5)


async def test_aiomqtt_reports_an_unsupported_protocol_version(broker, unique):
    client = AiomqttClient(broker.port, unique)
    with pytest.raises(aiomqtt.MqttError, match="Unsupported protocol version"):
        await client.connect(aiomqtt.ProtocolVersion.V5)


async def test_gmqtt_falls_back_to_3_1_1_by_itself(broker, unique):
    """It understands CONNACK 1 and falls back to the older version."""
    client = GmqttClient(broker.port, unique)
    await client.connect(gmqtt.constants.MQTTv50)
    await client.subscribe(unique, 1)
    await client.publish(unique, b"all the same", 1)
    assert await client.next() == Message(unique, b"all the same", 1)
    await client.disconnect()


async def test_the_refusal_is_counted_by_its_reason(broker, unique):
    sample = 'penstock_disconnects_total{reason="unacceptable_protocol"}'
    before = broker.metrics().get(sample, 0)
    with pytest.raises(ConnectionRefusedError):
        await PahoClient(broker.port, unique).connect(paho.MQTTv5)
    assert broker.metrics()[sample] == before + 1
