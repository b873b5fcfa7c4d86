"""What an MQTT machine reports: one struct per packet, named as in the standard.

Some events hold many packets: ``MqttPublishRun`` (QoS 0, not retained, one topic),
``PublishFrames`` (the same for any topics) and ``MqttAcks``.
Text is checked to be UTF-8 without U+0000, and not decoded. **The topics of ``Publish`` and
``MqttPublishRun`` are not checked at all**: routing checks a topic once, when it is new
(``decode.is_text`` and ``topic_fault``), and not once per message.

``Violation`` and ``ConnectRefused`` are always the last event [MQTT-4.8.0-1], [MQTT-3.1.4-5].
"""

from typing import TypeAlias

import msgspec

from penstock.obs.reasons import DisconnectReason
from penstock.wire.mqtt.frames import PublishFrames
from penstock.wire.mqtt.message_properties import MessageProperties
from penstock.wire.mqtt.properties import NONE, Properties
from penstock.wire.violation import Violation


class Will(msgspec.Struct, frozen=True, gc=False):
    """What the broker publishes when a client disconnects unexpectedly."""

    topic: bytes
    payload: bytes
    qos: int
    retain: bool
    properties: MessageProperties | None = None
    delay_s: int = 0


class Connect(msgspec.Struct, frozen=True):
    """A well-formed CONNECT. ``client_id`` may be empty with ``clean_session``.

    In MQTT 5 ``clean_session`` is Clean Start, and an empty ``client_id`` asks for one.
    """

    client_id: bytes
    clean_session: bool
    keep_alive: int
    will: Will | None
    username: bytes | None
    password: bytes | None
    version: int = 4  # protocol level: 4 or 5
    properties: Properties = NONE

    def __repr__(self) -> str:
        return f"Connect({self.client_id!r}, …)"


class ConnectRefused(msgspec.Struct, frozen=True, gc=False):
    """A CONNECT that is answered with a CONNACK code before the connection closes."""

    return_code: int
    reason: DisconnectReason
    detail: str = ""
    client_id: bytes = b""  # if known
    version: int = 4  # in whose form it is answered


class MqttPublishRun(msgspec.Struct, frozen=True, gc=False, eq=False):
    """Consecutive QoS 0 PUBLISH packets, RETAIN 0, to one topic: ``chunk[start:end]``.

    They have the same properties, or each its own (``each``), which then are simple. The frames are
    of ``version``, without topic aliases.
    """

    topic: bytes
    payloads: list[bytes]
    chunk: bytes
    start: int
    end: int
    version: int = 4
    properties: MessageProperties | None = None
    each: list[MessageProperties | None] | None = None

    @property
    def frames(self) -> bytes:
        return self.chunk[self.start : self.end]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MqttPublishRun):
            return NotImplemented
        return self._content() == other._content()

    def _content(self) -> tuple[object, ...]:
        own = self.properties, self.each
        return self.topic, self.payloads, self.frames, self.version, own

    __hash__ = None  # type: ignore[assignment]

    @classmethod
    def of(
        cls,
        topic: bytes,
        payload: bytes,
        frame: bytes,
        version: int = 4,
        properties: MessageProperties | None = None,
    ) -> "MqttPublishRun":
        return cls(topic, [payload], frame, 0, len(frame), version, properties)


class Publish(msgspec.Struct, frozen=True, gc=False):
    """Any other PUBLISH; ``packet_id`` is 0 for QoS 0; ``topic`` is unchecked (see above)."""

    topic: bytes
    payload: bytes
    qos: int
    retain: bool
    dup: bool
    packet_id: int
    properties: MessageProperties | None = None


class MqttAcks(msgspec.Struct, frozen=True, gc=False):
    """Consecutive PUBACK, PUBREC, PUBREL or PUBCOMP packets (``kind``: packet type, 4 to 7)."""

    kind: int
    packet_ids: list[int]
    codes: list[int] | None = None  # a reason code for each; None: all are 0
    properties: Properties = NONE  # of a packet that has some, which comes alone


class MqttSubscribe(msgspec.Struct, frozen=True, gc=False):
    """SUBSCRIBE with at least one ``(filter, options)``; before MQTT 5, options are the QoS."""

    packet_id: int
    requests: list[tuple[bytes, int]]
    properties: Properties = NONE


class MqttUnsubscribe(msgspec.Struct, frozen=True, gc=False):
    """UNSUBSCRIBE with at least one filter."""

    packet_id: int
    filters: list[bytes]
    properties: Properties = NONE


class PingReq(msgspec.Struct, frozen=True, gc=False):
    """PINGREQ."""


class Disconnect(msgspec.Struct, frozen=True, gc=False):
    """DISCONNECT; the machine is closed and ignores what follows [MQTT-3.14.4-2]."""

    code: int = 0
    properties: Properties = NONE


class Auth(msgspec.Struct, frozen=True, gc=False):
    """AUTH: a step of an authentication that takes several."""

    code: int
    properties: Properties


class ConnAck(msgspec.Struct, frozen=True, gc=False):
    """CONNACK, seen by a client."""

    session_present: bool
    return_code: int
    properties: Properties = NONE


class SubAck(msgspec.Struct, frozen=True, gc=False):
    """SUBACK, seen by a client; one code per filter."""

    packet_id: int
    return_codes: list[int]
    properties: Properties = NONE


class UnsubAck(msgspec.Struct, frozen=True, gc=False):
    """UNSUBACK, seen by a client; ``codes`` has one per filter, and is empty before MQTT 5."""

    packet_id: int
    codes: list[int] = []
    properties: Properties = NONE


class PingResp(msgspec.Struct, frozen=True, gc=False):
    """PINGRESP, seen by a client."""


Event: TypeAlias = (
    Auth | MqttAcks | ConnAck | Connect | ConnectRefused | Disconnect | PingReq | PingResp | Publish
    | MqttPublishRun | PublishFrames | SubAck | MqttSubscribe | UnsubAck | MqttUnsubscribe
    | Violation
)  # fmt: skip
