"""The client's end of a connection: which packets a broker may send, and when.

The client knows the version that it asks for. A CONNACK with a refusal closes the machine, and so
does a DISCONNECT, which a broker may send in MQTT 5. Every PUBLISH is a separate event, QoS 0 too,
because a client handles each message separately.
"""

from typing import Final

from penstock.limits import PACKET_BYTES_MAX
from penstock.wire.mqtt import fast_paths
from penstock.wire.mqtt.decode import DECODERS, LEVEL_5, received, server_disconnect
from penstock.wire.mqtt.fast_paths import FastPath
from penstock.wire.mqtt.machine import Dialect, MqttMachine, State, Transitions
from penstock.wire.mqtt.message_properties import proven
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
CLIENT_TRANSITIONS_5: Final[Transitions] = {
    State.OPENING: {
        PacketType.CONNACK: State.CONNECTED,
        PacketType.AUTH: State.OPENING,
    },
    State.CONNECTED: {
        **CLIENT_TRANSITIONS[State.CONNECTED],
        PacketType.AUTH: State.CONNECTED,
        PacketType.DISCONNECT: State.CLOSED,
    },
    State.CLOSED: {},
}


def _fast_paths(version: int, acks: FastPath) -> dict[int, FastPath]:
    return {
        **dict.fromkeys(PUBLISH_SHAPES, fast_paths.publishes_of(version, proven)),
        **dict.fromkeys(fast_paths.ACKNOWLEDGEMENTS, acks),
    }


CLIENT_3_1_1: Final = Dialect(4, CLIENT_TRANSITIONS, DECODERS, _fast_paths(4, fast_paths.acks))
CLIENT_5: Final = Dialect(
    5,
    CLIENT_TRANSITIONS_5,
    {**DECODERS, PacketType.PUBLISH: received, PacketType.DISCONNECT: server_disconnect},
    _fast_paths(5, fast_paths.acks_5),
)


class MqttClientMachine(MqttMachine):
    """Bytes from a broker in, events out."""

    __slots__ = ()

    def __init__(self, packet_bytes_max: int = PACKET_BYTES_MAX, version: int = 4) -> None:
        dialect = CLIENT_5 if version >= LEVEL_5 else CLIENT_3_1_1
        super().__init__(dialect, packet_bytes_max, packet_bytes_max)
