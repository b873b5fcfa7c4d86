"""What an MQTT machine reports: one struct per packet, named as in the standard.

Two events hold many packets: ``MqttPublishRun`` (QoS 0, not retained, one topic) and ``MqttAcks``.
Text is checked to be UTF-8 without U+0000, and not decoded. **The topics of ``Publish`` and
``MqttPublishRun`` are not checked at all**: routing checks a topic once, when it is new
(``decode.is_text`` and ``topic_fault``), and not once per message.

``Violation`` and ``ConnectRefused`` are always the last event [MQTT-4.8.0-1], [MQTT-3.1.4-5].
"""

from typing import TypeAlias

import msgspec

from penstock.obs.reasons import DisconnectReason
from penstock.wire.violation import Violation


class Will(msgspec.Struct, frozen=True, gc=False):
    """What the broker publishes when a client disconnects unexpectedly."""

    topic: bytes
    payload: bytes
    qos: int
    retain: bool


class Connect(msgspec.Struct, frozen=True):
    """A well-formed CONNECT. ``client_id`` may be empty with ``clean_session``."""

    client_id: bytes
    clean_session: bool
    keep_alive: int
    will: Will | None
    username: bytes | None
    password: bytes | None

    def __repr__(self) -> str:
        return f"Connect({self.client_id!r}, …)"


class ConnectRefused(msgspec.Struct, frozen=True, gc=False):
    """A CONNECT that is answered with a CONNACK code before the connection closes."""

    return_code: int
    reason: DisconnectReason
    detail: str = ""
    client_id: bytes = b""  # if known


class MqttPublishRun(msgspec.Struct, frozen=True, gc=False, eq=False):
    """Consecutive QoS 0 PUBLISH packets, RETAIN 0, to one topic: ``chunk[start:end]``."""

    topic: bytes
    payloads: list[bytes]
    chunk: bytes
    start: int
    end: int

    @property
    def frames(self) -> bytes:
        return self.chunk[self.start : self.end]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MqttPublishRun):
            return NotImplemented
        mine = self.topic, self.payloads, self.frames
        return mine == (other.topic, other.payloads, other.frames)

    __hash__ = None  # type: ignore[assignment]

    @classmethod
    def of(cls, topic: bytes, payload: bytes, frame: bytes) -> "MqttPublishRun":
        return cls(topic, [payload], frame, 0, len(frame))


class Publish(msgspec.Struct, frozen=True, gc=False):
    """Any other PUBLISH; ``packet_id`` is 0 for QoS 0; ``topic`` is unchecked (see above)."""

    topic: bytes
    payload: bytes
    qos: int
    retain: bool
    dup: bool
    packet_id: int


class MqttAcks(msgspec.Struct, frozen=True, gc=False):
    """Consecutive PUBACK, PUBREC, PUBREL or PUBCOMP packets (``kind``: packet type, 4 to 7)."""

    kind: int
    packet_ids: list[int]


class MqttSubscribe(msgspec.Struct, frozen=True, gc=False):
    """SUBSCRIBE with at least one ``(filter, qos)``."""

    packet_id: int
    requests: list[tuple[bytes, int]]


class MqttUnsubscribe(msgspec.Struct, frozen=True, gc=False):
    """UNSUBSCRIBE with at least one filter."""

    packet_id: int
    filters: list[bytes]


class PingReq(msgspec.Struct, frozen=True, gc=False):
    """PINGREQ."""


class Disconnect(msgspec.Struct, frozen=True, gc=False):
    """DISCONNECT; the machine is closed and ignores what follows [MQTT-3.14.4-2]."""


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
    MqttAcks | ConnAck | Connect | ConnectRefused | Disconnect | PingReq | PingResp | Publish
    | MqttPublishRun | SubAck | MqttSubscribe | UnsubAck | MqttUnsubscribe | Violation
)  # fmt: skip
