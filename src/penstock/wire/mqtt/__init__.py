"""MQTT 3.1.1: decoding, encoding, and the machines of both ends of a connection.

Bytes in, events out: no socket, no clock, and no check of topics beyond UTF-8.
"""

from penstock.wire.mqtt.client import MqttClientMachine
from penstock.wire.mqtt.decode import is_text
from penstock.wire.mqtt.packet import PacketType
from penstock.wire.mqtt.server import MqttServerMachine

__all__ = ["MqttClientMachine", "MqttServerMachine", "PacketType", "is_text"]
