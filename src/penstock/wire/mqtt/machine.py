"""What both ends of a connection share: chunks in, complete packets out.

A table says, per state, which packet types are allowed and which state each leads to; *what is not
in the table is a violation*. If a fast path knows the first byte, it reads as far as it can;
``_read_packet`` reads every other packet, and alone decides about faults, limits, states and
missing bytes.

The first packet names the version of MQTT, and with it the tables that hold from then on. In MQTT 5
a topic may be named by an **alias**: the machine knows them, and events always have the topic.

An incomplete packet is kept in a ``bytearray`` that grows with what has arrived, never with what
was announced. After a violation, a refusal or DISCONNECT the machine is CLOSED and ignores what
follows [MQTT-4.8.0-1]. Events before are still reported.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from msgspec.structs import replace

from penstock.limits import KIB
from penstock.obs.reasons import DisconnectReason
from penstock.wire.mqtt.decode import Decoder, check_flags
from penstock.wire.mqtt.events import ConnAck, ConnectRefused, Event, Publish
from penstock.wire.mqtt.fast_paths import FastPath
from penstock.wire.mqtt.packet import PacketType
from penstock.wire.mqtt.packet_reader import PacketError, PacketReader, forbidden
from penstock.wire.violation import Violation


class State(IntEnum):
    """State of a connection."""

    OPENING = 0  # before the first packet: CONNECT at a server, CONNACK at a client
    CONNECTED = 1
    CLOSED = 2
    AUTHENTICATING = 3  # between CONNECT and CONNACK, if the client is to prove more


# state and packet type to the next state; a missing pair is a violation
Transitions = Mapping[State, Mapping[int, State]]


class Dialect(NamedTuple):
    """What one end of a connection understands in one version of MQTT."""

    version: int  # protocol level
    transitions: Transitions
    decoders: Mapping[int, Decoder]
    fast_paths: Mapping[int, FastPath]


ALIAS_BYTES_MAX: Final = 64 * KIB  # of all topics that one peer has given an alias


class MqttMachine:
    """The shared part of both ends."""

    __slots__ = (
        "_alias_bytes",
        "_aliases",
        "_bytes_max",
        "_dialect",
        "_fast_paths",
        "_needed",
        "_packet_bytes_max",
        "_state",
        "_tail",
        "alias_max",
    )

    def __init__(self, dialect: Dialect, packet_bytes_max: int, opening_bytes_max: int) -> None:
        self._dialect = dialect
        self._fast_paths = dialect.fast_paths
        self._packet_bytes_max = packet_bytes_max
        self._bytes_max = opening_bytes_max
        self._state = State.OPENING
        self._tail: bytearray | None = None
        self._needed = 0
        self.alias_max = 0  # the highest topic alias that the peer may use
        self._aliases: dict[int, bytes] | None = None
        self._alias_bytes = 0

    @property
    def transitions(self) -> Transitions:
        return self._dialect.transitions

    @property
    def version(self) -> int:
        """The protocol level; before the first packet was read, that of the oldest version."""
        return self._dialect.version

    def speak(self, dialect: Dialect) -> None:
        """Go on in another version."""
        self._dialect = dialect
        self._fast_paths = dialect.fast_paths

    @property
    def state(self) -> State:
        return self._state

    @property
    def closed(self) -> bool:
        """Whether the connection is over; ``receive`` then returns nothing."""
        return self._state is State.CLOSED

    @property
    def pending_bytes(self) -> int:
        return 0 if self._tail is None else len(self._tail)

    def receive(self, data: bytes) -> list[Event]:
        """Read a chunk; return the events of the packets that it completes. Never raises."""
        if self._state is State.CLOSED:
            return []
        events: list[Event] = []
        position = 0
        if self._tail is not None:
            if len(self._tail) + len(data) < self._needed:
                self._tail += data
                return []
            data = b"".join((self._tail, data))
            self._tail = None
        elif self._state is State.CONNECTED and data:
            # What a busy client sends is one fast path's from end to end: nothing else is needed
            # then.
            fast_path = self._fast_paths.get(data[0])
            if fast_path is not None:
                position = fast_path(data, 0, self._bytes_max, events)
                if position == len(data):
                    return events
        position = self._scan(data, position, events)
        if position < len(data) and not self.closed:
            self._tail = bytearray(data[position:])
        return events

    def _scan(self, data: bytes, following: int, events: list[Event]) -> int:
        """Read complete packets from ``following`` on; return where an incomplete one begins."""
        position = -1
        while position < following < len(data):
            position = following
            if self._state is State.CONNECTED:
                fast_path = self._fast_paths.get(data[position])
                if fast_path is not None:
                    following = fast_path(data, position, self._bytes_max, events)
            if following == position:
                following = self._read_packet(data, position, events)
        return following

    def _read_packet(self, data: bytes, position: int, events: list[Event]) -> int:
        """Read one packet; return where the next begins, or ``position`` if it is incomplete."""
        packet_type, flags = data[position] >> 4, data[position] & 0x0F
        try:
            next_state = self._next_state(packet_type)
            check_flags(packet_type, flags)
            body, end = self._extent(data, position)
            if end > len(data):
                self._needed = end - position
                return position
            if self._state is State.OPENING:
                self._open(data[body:end])
            reader = PacketReader(data[position:end], body - position, self._dialect.version)
            event = self._dialect.decoders[packet_type](flags, reader)
            if packet_type == PacketType.PUBLISH:
                event = self._published(event)
        except PacketError as error:
            event, next_state = Violation(error.reason, error.message), State.CLOSED
        events.append(event)
        if next_state is State.CLOSED or _is_refusal(event):
            self._state = State.CLOSED
            return position
        self._enter(self._state_after(event, next_state))
        return end

    def _open(self, body: bytes) -> None:
        """The first packet is complete: choose the version that it names."""

    def _state_after(self, _event: Event, next_state: State) -> State:
        return next_state

    def _enter(self, state: State) -> None:
        self._state = state
        if state is State.CONNECTED:
            self._bytes_max = self._packet_bytes_max

    def _published(self, event: Event) -> Event:
        """A PUBLISH of MQTT 5 with the topic that its alias stands for."""
        if self._dialect.version < 5 or not isinstance(event, Publish):
            return event
        properties = event.properties
        if properties is None or not properties.alias:
            if not event.topic:
                raise forbidden("PUBLISH without topic and without topic alias")
            return event
        topic = self._topic_of(properties.alias, event.topic)
        is_needed = properties.block or properties.subscription_ids
        return replace(event, topic=topic, properties=properties if is_needed else None)

    def _topic_of(self, alias: int, topic: bytes) -> bytes:
        if alias > self.alias_max:
            detail = f"topic alias {alias}, {self.alias_max} is the maximum"
            raise PacketError(detail, DisconnectReason.TOPIC_ALIAS_INVALID)
        if self._aliases is None:
            self._aliases = {}
        known = self._aliases.get(alias)
        if not topic:
            if known is None:
                raise forbidden(f"topic alias {alias} stands for no topic")
            return known
        self._alias_bytes += len(topic) - len(known or b"")
        if self._alias_bytes > ALIAS_BYTES_MAX:
            detail = f"topics with aliases of more than {ALIAS_BYTES_MAX} bytes"
            raise PacketError(detail, DisconnectReason.TOPIC_ALIAS_INVALID)
        self._aliases[alias] = topic
        return topic

    def _next_state(self, packet_type: int) -> State:
        next_state = self._dialect.transitions[self._state].get(packet_type)
        if next_state is None:  # [MQTT-3.1.0-1], [MQTT-3.1.0-2], [MQTT-4.8.0-1]
            detail = f"packet type {packet_type} is not allowed in state {self._state.name}"
            raise PacketError(detail, DisconnectReason.PROTOCOL_VIOLATION)
        return next_state

    def _extent(self, data: bytes, position: int) -> tuple[int, int]:
        """Start and end of the body; an end beyond ``data`` means that bytes are missing."""
        start, length = position, 0
        for shift in (0, 7, 14, 21):
            position += 1
            if position == len(data):
                return position, position + 1
            length |= (data[position] & 0x7F) << shift
            if data[position] < 0x80:
                break
        else:
            raise PacketError("remaining length of more than four bytes")
        if self._dialect.version >= 5 and position > start + 1 and not data[position]:
            raise PacketError("a remaining length that is longer than needed")
        end = position + 1 + length
        if end - start > self._bytes_max:
            if self._state is State.OPENING:
                self._open(data[position + 1 :])  # so that its version is known, and can be told
            detail = f"packet of {end - start} bytes exceeds the limit of {self._bytes_max}"
            raise PacketError(detail, DisconnectReason.PACKET_TOO_LARGE)
        return position + 1, end


def _is_refusal(event: Event) -> bool:
    if isinstance(event, ConnAck):
        return event.return_code != 0
    return isinstance(event, ConnectRefused)
