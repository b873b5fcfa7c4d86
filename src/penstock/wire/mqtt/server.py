"""The broker's end of a connection: which packets a client may send, and when.

The first packet is CONNECT [MQTT-3.1.0-1], there is no second one [MQTT-3.1.0-2], and packets that
only a server sends are violations, like reserved types. The first byte alone decides that: nothing
is buffered for a peer that does not begin with CONNECT, which has its own, tighter size limit.

A client may send more before it has seen CONNACK, so packets after CONNECT are reported at once; if
CONNECT is refused, the caller drops them [MQTT-3.1.4-5].
"""

from collections.abc import Mapping
from typing import ClassVar, Final

from penstock.limits import CONNECT_BYTES_MAX, PACKET_BYTES_MAX
from penstock.wire.mqtt import fast_paths
from penstock.wire.mqtt.decode import DECODERS, Decoder, PacketReader, publish
from penstock.wire.mqtt.encode import publish as encode
from penstock.wire.mqtt.events import MqttPublishRun, Publish
from penstock.wire.mqtt.machine import MqttMachine, State, Transitions
from penstock.wire.mqtt.packet import PUBLISH_SHAPES, PacketType

SERVER_TRANSITIONS: Final[Transitions] = {
    State.OPENING: {PacketType.CONNECT: State.CONNECTED},
    State.CONNECTED: {
        PacketType.PUBLISH: State.CONNECTED,
        PacketType.PUBACK: State.CONNECTED,
        PacketType.PUBREC: State.CONNECTED,
        PacketType.PUBREL: State.CONNECTED,
        PacketType.PUBCOMP: State.CONNECTED,
        PacketType.SUBSCRIBE: State.CONNECTED,
        PacketType.UNSUBSCRIBE: State.CONNECTED,
        PacketType.PINGREQ: State.CONNECTED,
        PacketType.DISCONNECT: State.CLOSED,
    },
    State.CLOSED: {},
}


def _publish_or_run(flags: int, reader: PacketReader) -> Publish | MqttPublishRun:
    """Decode PUBLISH; without flags it is a run of one, encoded again in its shortest form."""
    packet = publish(flags, reader)
    if flags:
        return packet
    return MqttPublishRun.of(packet.topic, packet.payload, encode(packet.topic, packet.payload))


class MqttServerMachine(MqttMachine):
    """Bytes from a client in, events out."""

    __slots__ = ()

    transitions = SERVER_TRANSITIONS
    _decoders: ClassVar[Mapping[int, Decoder]] = {**DECODERS, PacketType.PUBLISH: _publish_or_run}
    _fast_paths: ClassVar[Mapping[int, fast_paths.FastPath]] = {
        **dict.fromkeys(PUBLISH_SHAPES, fast_paths.publishes),
        fast_paths.PUBLISH_QOS_0: fast_paths.publish_runs,
        **dict.fromkeys(fast_paths.ACKNOWLEDGEMENTS, fast_paths.acks),
    }

    def __init__(
        self, packet_bytes_max: int = PACKET_BYTES_MAX, connect_bytes_max: int = CONNECT_BYTES_MAX
    ) -> None:
        super().__init__(packet_bytes_max, connect_bytes_max)
