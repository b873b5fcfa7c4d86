"""Builds the doors of the protocols from the parts of the broker."""

from penstock.core.effects import IdentityTaken
from penstock.doors.binary import BinaryDoor
from penstock.doors.mqtt.door import MqttDoor
from penstock.doors.queue.door import QueueDoor
from penstock.doors.resp.door import RespDoor
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


def queue_door(hub: Hub) -> QueueDoor:
    return QueueDoor(
        connections=hub.connections,
        loop=hub.loop,
        steady=hub.steady,
        admission=hub.admission,
        broker=hub.broker,
        store=hub.store,
        pipeline=hub.pipeline,
        readers=hub.readers,
        changes=hub.changes,
        dispatchers=hub.dispatchers,
        producing=hub.producing,
        sinks=hub.sinks,
        cluster=hub.cluster,
    )


def resp_door(hub: Hub) -> RespDoor:
    return RespDoor(
        config=hub.config,
        connections=hub.connections,
        admission=hub.admission,
        envelopes=hub.envelopes,
        broker=hub.broker,
        fanout=hub.fanout,
        effects=hub.effects,
        store=hub.store,
        pipeline=hub.pipeline,
        feed=hub.feed,
        readers=hub.readers,
        dispatchers=hub.dispatchers,
        cluster=hub.cluster,
    )
