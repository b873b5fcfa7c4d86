"""Live messages on their way to subscribers, in every wire form that one of them needs.

A publisher's door makes one ``Live`` of messages that came together; ``delivery/fanout`` gives the
same object to all subscribers. Each form (MQTT packets, RESP pushes) is worked out when the first
subscriber asks for it, and shared by the rest. A publisher that speaks the same protocol as the
subscriber brings its raw frames along, and nothing is worked out at all.
"""

from collections.abc import Sequence
from typing import Literal, Protocol

from penstock.core.delivery import Delivery
from penstock.obs.reasons import DisconnectReason
from penstock.trust.principal import Principal
from penstock.trust.rights import Rights
from penstock.wire.mqtt import encode as mqtt
from penstock.wire.mqtt.message_properties import MessageProperties
from penstock.wire.resp import encode as resp


class Run(Protocol):
    """Consecutive messages of one topic."""

    @property
    def topic(self) -> bytes: ...

    @property
    def payloads(self) -> list[bytes]: ...

    @property
    def properties(self) -> MessageProperties | None: ...


class _Single:
    """The run of one message, or of several that no machine made."""

    __slots__ = ("payloads", "properties", "topic")

    def __init__(
        self, topic: bytes, payloads: list[bytes], properties: MessageProperties | None = None
    ) -> None:
        self.topic = topic
        self.payloads = payloads
        self.properties = properties


class Live:
    """``runs`` in order, ``count`` messages in all; ``mqtt`` if the publisher had it as MQTT."""

    __slots__ = ("_resp", "count", "mqtt", "mqtt_5", "runs")

    def __init__(
        self,
        runs: Sequence[Run],
        count: int,
        mqtt: bytes | None = None,
        mqtt_5: bytes | None = None,
    ) -> None:
        self.runs = runs
        self.count = count
        self.mqtt = mqtt
        """The messages as packets of MQTT 3.1.1, QoS 0; None before the first ``as_mqtt``."""
        self.mqtt_5 = mqtt_5
        """The messages as packets of MQTT 5, QoS 0; None before the first ``as_mqtt_5``."""
        self._resp: dict[int, bytes] | None = None

    @classmethod
    def of(
        cls, topic: bytes, payloads: list[bytes], properties: MessageProperties | None = None
    ) -> "Live":
        return cls((_Single(topic, payloads, properties),), len(payloads))

    def as_mqtt(self) -> bytes:
        """The messages as packets of MQTT 3.1.1, QoS 0, RETAIN 0."""
        if self.mqtt is None:
            self.mqtt = b"".join(
                [mqtt.publish(run.topic, payload) for run in self.runs for payload in run.payloads]
            )
        return self.mqtt

    def as_mqtt_5(self) -> bytes:
        """The messages as packets of MQTT 5, QoS 0, RETAIN 0, with their properties."""
        if self.mqtt_5 is None:
            frames: list[bytes] = []
            for run in self.runs:
                block = b"" if run.properties is None else run.properties.block
                frames += [mqtt.publish(run.topic, each, block=block) for each in run.payloads]
            self.mqtt_5 = b"".join(frames)
        return self.mqtt_5

    def as_resp(self, protocol: Literal[2, 3]) -> bytes:
        """The messages as a RESP subscriber of their channel gets them (``message``)."""
        if self._resp is None:
            self._resp = {}
        found = self._resp.get(protocol)
        if found is None:
            found = self._resp[protocol] = b"".join(
                [resp.messages(run.topic, run.payloads, protocol) for run in self.runs]
            )
        return found


class LiveClient(Protocol):
    """A connection that live messages are sent to."""

    @property
    def principal(self) -> Principal: ...

    def forward(self, live: Live) -> None:
        """Send live messages, which may be dropped if the client reads slowly."""

    def deliver(self, deliveries: list[Delivery]) -> None:
        """Send messages that must arrive."""

    def close(self, reason: DisconnectReason, detail: str = "") -> None: ...


class LiveSubscriber:
    """A subscriber without a session, as routes see it."""

    __slots__ = ("client",)

    def __init__(self, client: LiveClient) -> None:
        self.client = client

    @property
    def rights(self) -> Rights:
        return self.client.principal.rights
