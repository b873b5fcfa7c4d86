"""The MQTT door: makes a connection of each transport that turned out to speak MQTT."""

import asyncio

from penstock.doors.mqtt.connection import MqttConnection
from penstock.doors.mqtt.parts import MqttParts


class MqttDoor(MqttParts):
    """Accepts the MQTT clients of one broker."""

    def accept(self, transport: asyncio.Transport, data: bytes, accepted_at: float) -> None:
        MqttConnection(self, transport, accepted_at).data_received(data)

    def turn(self, now: float) -> None:
        self.refused_versions.turn(now)
