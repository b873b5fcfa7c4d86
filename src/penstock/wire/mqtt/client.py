"""The client's end of a connection: which packets a broker may send, and when.

A CONNACK with a refusal closes the machine. Every PUBLISH is a separate event, QoS 0 too, because a
client handles each message separately.
"""

from collections.abc import Mapping
from typing import ClassVar, Final

from penstock.limits import PACKET_BYTES_MAX
from penstock.wire.mqtt import fast_paths
from penstock.wire.mqtt.decode import DECODERS
from penstock.wire.mqtt.machine import MqttMachine, State, Transitions
from penstock.wire.mqtt.packet import PUBLISH_SHAPES, PacketType

CLIENT_TRANSITIONS: Final[Transitions] = {
    State.OPENING: {PacketType.CONNACK: State.CONNECTED},
    State.CONNECTED: {
        PacketType.PUBLISH: State.CONNECTED,
        PacketType.PUBACK: State.CONNECTED,
        PacketType.PUBREC: State.CONNECTED,
        PacketType.PUBREL: State.CONNECTED,
        PacketType.PUBCOMP: State.CONNECTED,
        PacketType.SUBACK: State.CONNECTED,
        PacketType.UNSUBACK: State.CONNECTED,
        PacketType.PINGRESP: State.CONNECTED,
    },
    State.CLOSED: {},
}


class MqttClientMachine(MqttMachine):
    """Bytes from a broker in, events out."""

    __slots__ = ()

    transitions = CLIENT_TRANSITIONS
    _decoders = DECODERS
    _fast_paths: ClassVar[Mapping[int, fast_paths.FastPath]] = {
        **dict.fromkeys(PUBLISH_SHAPES, fast_paths.publishes),
        **dict.fromkeys(fast_paths.ACKNOWLEDGEMENTS, fast_paths.acks),
    }

    def __init__(self, packet_bytes_max: int = PACKET_BYTES_MAX) -> None:
        super().__init__(packet_bytes_max, packet_bytes_max)
