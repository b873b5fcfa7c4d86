"""The MQTT door: makes a connection of each transport that turned out to speak MQTT."""

import asyncio

from penstock.doors.mqtt.connection import MqttConnection
from penstock.doors.mqtt.parts import MqttParts
from penstock.net.origin import Origin


class MqttDoor(MqttParts):
    """Accepts the MQTT clients of one broker."""

    def accept(self, transport: asyncio.Transport, data: bytes, origin: Origin) -> None:
        MqttConnection(self, transport, origin).data_received(data)

    def turn(self, now: float) -> None:
        self.refused_versions.turn(now)
