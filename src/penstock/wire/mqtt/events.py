"""What an MQTT machine reports: one struct per packet, nouns from the standard.

Two events carry many packets at once, because runs are what a busy socket is made of:
``MqttPublishRun`` (QoS 0, not retained, one topic) and ``MqttAcks`` (same kind of acknowledgement).
The others are one packet each.

Text is the wire's own bytes, never decoded. Client ids, user names, will topics and filters are
proven to be UTF-8 without U+0000; nothing else about them has been checked. **The topics of
``Publish`` and ``MqttPublishRun`` are raw slices that nobody has checked at all**: most messages go
to a topic that was seen a moment ago, so whoever routes them proves a topic once, when it is new
(``decode.is_text`` and ``topic_fault``), and not once per message.

``Violation`` and ``ConnectRefused`` are always the last event: the machine is closed and looks at
nothing that follows [MQTT-4.8.0-1], [MQTT-3.1.4-5].
"""

from typing import TypeAlias

import msgspec

from penstock.obs.reasons import DisconnectReason
from penstock.wire.violation import Violation


class Will(msgspec.Struct, frozen=True, gc=False):
    """What the broker publishes for a client that vanishes."""

    topic: bytes
    payload: bytes
    qos: int
    retain: bool


class Connect(msgspec.Struct, frozen=True):
    """CONNECT, complete and well-formed. ``client_id`` may be empty (then ``clean_session``)."""

    client_id: bytes
    clean_session: bool
    keep_alive: int
    will: Will | None
    username: bytes | None
    password: bytes | None


class ConnectRefused(msgspec.Struct, frozen=True, gc=False):
    """A CONNECT that the standard answers with a CONNACK code before the close."""

    return_code: int
    reason: DisconnectReason
    detail: str = ""
    client_id: bytes = b""  # who it was, where that can be told


class MqttPublishRun(msgspec.Struct, frozen=True, gc=False, eq=False):
    """Consecutive QoS 0 PUBLISH packets, RETAIN 0, to one topic.

    The packets themselves are ``chunk[start:end]``. They are not cut out here, because runs that
    follow one another in a chunk often go to the same subscribers and can be sent as one piece.
    """

    topic: bytes
    payloads: list[bytes]
    chunk: bytes
    start: int
    end: int

    @property
    def frames(self) -> bytes:
        """The packets, raw."""
        return self.chunk[self.start : self.end]

    def __eq__(self, other: object) -> bool:
        """Same messages and packets, wherever they lie."""
        if not isinstance(other, MqttPublishRun):
            return NotImplemented
        mine = self.topic, self.payloads, self.frames
        return mine == (other.topic, other.payloads, other.frames)

    __hash__ = None  # type: ignore[assignment]

    @classmethod
    def of(cls, topic: bytes, payload: bytes, frame: bytes) -> "MqttPublishRun":
        """One message and the packet that carries it."""
        return cls(topic, [payload], frame, 0, len(frame))


class Publish(msgspec.Struct, frozen=True, gc=False):
    """Any other PUBLISH; ``packet_id`` is 0 for QoS 0; ``topic`` is unchecked: see the module."""

    topic: bytes
    payload: bytes
    qos: int
    retain: bool
    dup: bool
    packet_id: int


class MqttAcks(msgspec.Struct, frozen=True, gc=False):
    """Consecutive PUBACK, PUBREC, PUBREL or PUBCOMP packets (``kind``: the packet type, 4 to 7)."""

    kind: int
    packet_ids: list[int]


class MqttSubscribe(msgspec.Struct, frozen=True, gc=False):
    """SUBSCRIBE; one ``(filter, qos)`` per request, in order, at least one."""

    packet_id: int
    requests: list[tuple[bytes, int]]


class MqttUnsubscribe(msgspec.Struct, frozen=True, gc=False):
    """UNSUBSCRIBE; at least one filter."""

    packet_id: int
    filters: list[bytes]


class PingReq(msgspec.Struct, frozen=True, gc=False):
    """PINGREQ."""


class Disconnect(msgspec.Struct, frozen=True, gc=False):
    """DISCONNECT; the machine is closed, what follows is not looked at [MQTT-3.14.4-2]."""


class ConnAck(msgspec.Struct, frozen=True, gc=False):
    """CONNACK, seen by a client."""

    session_present: bool
    return_code: int


class SubAck(msgspec.Struct, frozen=True, gc=False):
    """SUBACK, seen by a client; one code per filter."""

    packet_id: int
    return_codes: list[int]


class UnsubAck(msgspec.Struct, frozen=True, gc=False):
    """UNSUBACK, seen by a client."""

    packet_id: int


class PingResp(msgspec.Struct, frozen=True, gc=False):
    """PINGRESP, seen by a client."""


Event: TypeAlias = (
    MqttAcks
    | ConnAck
    | Connect
    | ConnectRefused
    | Disconnect
    | PingReq
    | PingResp
    | Publish
    | MqttPublishRun
    | SubAck
    | MqttSubscribe
    | UnsubAck
    | MqttUnsubscribe
    | Violation
)  # whatever ``receive`` of a machine may return
