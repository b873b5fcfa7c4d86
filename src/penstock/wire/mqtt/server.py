"""The broker's end of a connection: what a client may say, and when.

==========  ========================================================================  =========
state       packets                                                                   then
==========  ========================================================================  =========
OPENING     CONNECT                                                                   CONNECTED
CONNECTED   PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP, SUBSCRIBE, UNSUBSCRIBE,         CONNECTED
            PINGREQ
CONNECTED   DISCONNECT                                                                CLOSED
==========  ========================================================================  =========

So the first packet is CONNECT [MQTT-3.1.0-1], there is no second one [MQTT-3.1.0-2], and what only
a server may send (CONNACK, SUBACK, UNSUBACK, PINGRESP) is a violation like the reserved types. The
first byte alone decides that: nothing is kept for a stranger who does not begin with CONNECT, and
the size of a CONNECT has its own, tighter limit.

The machine does not answer. A client may send more before it has seen CONNACK, so packets behind
CONNECT are reported at once; whoever refuses a CONNECT drops the events after it [MQTT-3.1.4-5].
"""

from collections.abc import Mapping
from typing import ClassVar, Final

from penstock.limits import CONNECT_BYTES_MAX, PACKET_BYTES_MAX
from penstock.wire.mqtt import lanes
from penstock.wire.mqtt.decode import DECODERS, Cursor, Decoder, publish
from penstock.wire.mqtt.encode import publish as encode
from penstock.wire.mqtt.events import Publish, PublishRun
from penstock.wire.mqtt.machine import Machine, State, Transitions
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


def _publish_or_run(flags: int, cursor: Cursor) -> Publish | PublishRun:
    """Decode PUBLISH; without any flag it is a run of one, as from the fast lane.

    Its frame is written anew: a length in more bytes than it needs is lawful, but would be passed
    on to subscribers who may be stricter than we are.
    """
    packet = publish(flags, cursor)
    if flags:
        return packet
    return PublishRun.of(packet.topic, packet.payload, encode(packet.topic, packet.payload))


class ServerMachine(Machine):
    """Bytes from a client in, events out; see the module."""

    __slots__ = ()

    transitions = SERVER_TRANSITIONS
    _decoders: ClassVar[Mapping[int, Decoder]] = {
        **DECODERS,
        PacketType.PUBLISH: _publish_or_run,
    }
    _lanes: ClassVar[Mapping[int, lanes.Lane]] = {
        **dict.fromkeys(PUBLISH_SHAPES, lanes.publishes),
        lanes.PUBLISH_QOS_0: lanes.publish_runs,
        **dict.fromkeys(lanes.ACKNOWLEDGEMENTS, lanes.acks),
    }

    def __init__(
        self,
        packet_bytes_max: int = PACKET_BYTES_MAX,
        connect_bytes_max: int = CONNECT_BYTES_MAX,
    ) -> None:
        super().__init__(packet_bytes_max, connect_bytes_max)
