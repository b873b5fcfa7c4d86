"""Builds the doors of the protocols from the parts of the broker."""

from penstock.core.effects import IdentityTaken
from penstock.doors.binary import BinaryDoor
from penstock.doors.mqtt.door import MqttDoor
from penstock.node.hub import Hub


def binary_door(hub: Hub) -> BinaryDoor:
    door = BinaryDoor(
        connections=hub.connections,
        broker=hub.broker,
        pipeline=hub.pipeline,
        admission=hub.admission,
        fanout=hub.fanout,
        readers=hub.readers,
        feed=hub.feed,
        dispatchers=hub.dispatchers,
        cluster=hub.cluster,
    )
    hub.effects.on(IdentityTaken, door.identity_taken)
    return door


def mqtt_door(hub: Hub) -> MqttDoor:
    return MqttDoor(
        connections=hub.connections,
        broker=hub.broker,
        pipeline=hub.pipeline,
        admission=hub.admission,
        envelopes=hub.envelopes,
        fanout=hub.fanout,
        effects=hub.effects,
        readers=hub.readers,
        feed=hub.feed,
        dispatchers=hub.dispatchers,
        cluster=hub.cluster,
        session_ends=hub.housekeeping,
    )
