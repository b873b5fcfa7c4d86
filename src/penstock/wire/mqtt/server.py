"""The broker's end of a connection: which packets a client may send, and when.

The first packet is CONNECT [MQTT-3.1.0-1], there is no second one [MQTT-3.1.0-2], and packets that
only a server sends are violations, like reserved types. The first byte alone decides that: nothing
is buffered for a peer that does not begin with CONNECT, which has its own, tighter size limit.

A client may send more before it has seen CONNACK, so packets after CONNECT are reported at once; if
CONNECT is refused, the caller drops them [MQTT-3.1.4-5]. Only a client that names an authentication
method, in MQTT 5, must wait: until the caller says ``authenticated`` it may send nothing but AUTH
and DISCONNECT.

A broker uses ``FramedServerMachine``. If the kernel is compiled, ordinary QoS 0 packets of a chunk
are one event with it, whatever their topics (``wire.mqtt.frames``).
"""

from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

from penstock import kernel
from penstock.limits import CONNECT_BYTES_MAX, PACKET_BYTES_MAX
from penstock.wire.mqtt import fast_paths
from penstock.wire.mqtt.decode import DECODERS, LEVEL_5, level_of
from penstock.wire.mqtt.encode import publish as encode
from penstock.wire.mqtt.events import Connect, Event, MqttPublishRun, Publish
from penstock.wire.mqtt.fast_paths import FastPath
from penstock.wire.mqtt.machine import Dialect, MqttMachine, State, Transitions
from penstock.wire.mqtt.message_properties import proven
from penstock.wire.mqtt.packet import PUBLISH_SHAPES, PacketType

if TYPE_CHECKING or kernel.is_compiled:
    from penstock.kernel.publishes import find_publishes

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
SERVER_TRANSITIONS_5: Final[Transitions] = {
    **SERVER_TRANSITIONS,
    State.CONNECTED: {**SERVER_TRANSITIONS[State.CONNECTED], PacketType.AUTH: State.CONNECTED},
    State.AUTHENTICATING: {
        PacketType.AUTH: State.AUTHENTICATING,
        PacketType.DISCONNECT: State.CLOSED,
    },
}


def _fast_paths(version: int, acks: FastPath) -> dict[int, FastPath]:
    return {
        **dict.fromkeys(PUBLISH_SHAPES, fast_paths.publishes_of(version, proven)),
        fast_paths.PUBLISH_QOS_0: fast_paths.publish_runs_of(version, proven),
        **dict.fromkeys(fast_paths.ACKNOWLEDGEMENTS, acks),
    }


def _framed(dialect: Dialect) -> Dialect:
    """A dialect whose ordinary QoS 0 packets become ``PublishFrames``."""
    frames: FastPath = partial(find_publishes, dialect.version)
    if dialect.version >= LEVEL_5:
        frames = fast_paths.one_after_other(frames, dialect.fast_paths[fast_paths.PUBLISH_QOS_0])
    return dialect._replace(fast_paths={**dialect.fast_paths, fast_paths.PUBLISH_QOS_0: frames})


SERVER_3_1_1: Final = Dialect(4, SERVER_TRANSITIONS, DECODERS, _fast_paths(4, fast_paths.acks))
SERVER_5: Final = Dialect(5, SERVER_TRANSITIONS_5, DECODERS, _fast_paths(5, fast_paths.acks_5))
PLAIN: Final = (SERVER_3_1_1, SERVER_5)


class MqttServerMachine(MqttMachine):
    """Bytes from a client in, events out."""

    __slots__ = ()

    dialects: ClassVar[tuple[Dialect, ...]] = PLAIN

    def __init__(
        self, packet_bytes_max: int = PACKET_BYTES_MAX, connect_bytes_max: int = CONNECT_BYTES_MAX
    ) -> None:
        super().__init__(self.dialects[0], packet_bytes_max, connect_bytes_max)

    def authenticated(self) -> None:
        """The client has proved who it is: CONNACK follows, and packets of any kind."""
        if self._state is State.AUTHENTICATING:
            self._enter(State.CONNECTED)

    def _open(self, body: bytes) -> None:
        if level_of(body) == LEVEL_5:
            self.speak(self.dialects[1])

    def _state_after(self, event: Event, next_state: State) -> State:
        if isinstance(event, Connect) and event.properties.authentication_method is not None:
            return State.AUTHENTICATING
        return next_state

    def _published(self, event: Event) -> Event:
        """QoS 0 without RETAIN is a run of one, encoded again in its shortest form."""
        packet = super()._published(event)
        if not isinstance(packet, Publish) or packet.qos or packet.retain:
            return packet
        version, properties = self.version, packet.properties
        block = None if version < LEVEL_5 else properties.block if properties is not None else b""
        frame = encode(packet.topic, packet.payload, block=block)
        return MqttPublishRun.of(packet.topic, packet.payload, frame, version, properties)


class FramedServerMachine(MqttServerMachine):
    """The same; a compiled broker gets ordinary QoS 0 packets as ``PublishFrames``."""

    __slots__ = ()

    dialects = tuple(map(_framed, PLAIN)) if kernel.is_compiled else PLAIN
