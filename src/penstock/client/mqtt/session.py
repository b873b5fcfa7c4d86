"""The protocol state of an MQTT client: bytes and requests in, bytes and events out.

There is no socket and no clock here; ``client`` adds both. The caller makes a request (``publish``,
``subscribe`` …), sends what ``data_to_send`` returns, and gives what it reads to ``receive``, which
returns events. It raises when the broker refuses or violates the protocol; then the session ends.

**Publishing.** ``_awaited`` holds, per packet id in use, the packet that must come next::

    QoS 1   PUBLISH ─► PUBACK                            confirmed
    QoS 2   PUBLISH ─► PUBREC ─► (PUBREL) ─► PUBCOMP     confirmed
            SUBSCRIBE ─► SUBACK                          subscribed

An unexpected acknowledgement confirms nothing, but is answered where the standard requires it: a
session that outlived its client may still send a PUBREC or a PUBREL.

**Receiving.** A delivery is acknowledged by ``acknowledge``, once the consumer has it, not when it
arrives: what the consumer never saw stays with the broker. A QoS 2 packet id stays in
``_unreleased`` until PUBREL, and a PUBLISH that repeats it is not handed out again: exactly once
for as long as this object lives. A delivery that was cut off between the consumer and its PUBREC
comes again to the next process, with DUP.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Final, TypeAlias

import msgspec

from penstock.client.errors import BrokerProtocolError, connect_refused
from penstock.client.payload import check_payload
from penstock.errors import LocalProtocolError
from penstock.model.topic import filter_fault, topic_fault
from penstock.wire.mqtt import MqttClientMachine, PacketType, encode, is_text
from penstock.wire.mqtt.events import ConnAck, MqttAcks, PingResp, Publish, SubAck, Will
from penstock.wire.mqtt.packet import REMAINING_LENGTH_MAX
from penstock.wire.violation import Violation

PACKET_ID_MAX: Final = 65_535
TEXT_BYTES_MAX: Final = 65_535  # of the protocol; a broker may have lower limits

_ACKNOWLEDGED_BY: Final = {1: PacketType.PUBACK, 2: PacketType.PUBREC}  # by QoS of a PUBLISH


class Connected(msgspec.Struct, frozen=True):
    """The broker accepted; ``session_present``: it still had this client's session."""

    session_present: bool


class SubscribeAnswered(msgspec.Struct, frozen=True):
    """SUBACK: per filter the QoS granted, or 0x80."""

    packet_id: int
    return_codes: list[int]


class PingAnswered(msgspec.Struct, frozen=True):
    """The broker answered a ping."""


class Delivery(msgspec.Struct, frozen=True, gc=False):
    """A message for us. ``packet_id`` is 0 for QoS 0."""

    topic: str
    payload: bytes
    qos: int
    retain: bool
    dup: bool
    packet_id: int


SessionEvent: TypeAlias = Connected | SubscribeAnswered | PingAnswered | Delivery


def name_fault(name: str, *, is_filter: bool = False) -> str:
    """Return what is wrong with a topic (or filter), empty if nothing is."""
    encoded = name.encode(errors="surrogateescape")
    if not is_text(encoded):
        return "not UTF-8, or with U+0000"  # [MQTT-1.5.3-1], [MQTT-1.5.3-2]
    fault = filter_fault if is_filter else topic_fault
    return fault(encoded, TEXT_BYTES_MAX, TEXT_BYTES_MAX)


def _checked(name: str, *, is_filter: bool = False) -> bytes:
    fault = name_fault(name, is_filter=is_filter)
    if fault:
        raise LocalProtocolError(f"{'filter' if is_filter else 'topic'} {name!r}: {fault}")
    return name.encode()


class MqttSession:
    """The state of one connection; see the module."""

    def __init__(self) -> None:
        self.confirmed = 0  # publishes of QoS 1 and 2
        self.pings_unanswered = 0
        self._machine = MqttClientMachine(REMAINING_LENGTH_MAX)
        self._outgoing: list[bytes] = []
        self._awaited: dict[int, PacketType] = {}
        self._unreleased: set[int] = set()
        self._last_packet_id = 0
        self._last_topic: tuple[str | None, bytes] = (None, b"")

    @property
    def unconfirmed(self) -> int:
        return len(self._awaited)

    # ── Requests ──────────────────────────────────────────────────────────────────────────────

    def connect(
        self,
        client_id: str,
        *,
        clean_session: bool,
        keep_alive: int,
        will: Will | None = None,
        username: str | None = None,
        password: bytes | None = None,
    ) -> None:
        """Send CONNECT; ``Connected`` follows, or ``RefusedError``."""
        self._outgoing.append(
            encode.connect(
                client_id.encode(),
                clean_session=clean_session,
                keep_alive=keep_alive,
                will=will,
                username=None if username is None else username.encode(),
                password=password,
            )
        )

    def publish(self, topic: str, payload: bytes, qos: int, *, retain: bool) -> None:
        """Publish; with QoS 1 and 2 it counts as ``unconfirmed`` until it is ``confirmed``."""
        check_payload(payload)
        if topic != self._last_topic[0]:
            self._last_topic = (topic, _checked(topic))
        head = encode.publish_head(self._last_topic[1], len(payload), qos, retain)
        if qos:
            packet_id = self._new_packet_id(_ACKNOWLEDGED_BY[qos])
            self._outgoing += (head, encode.PACKET_IDS[packet_id], payload)
        else:
            self._outgoing += (head, payload)

    def subscribe(self, requests: Iterable[tuple[str, int]]) -> int:
        """Subscribe; return the packet id that ``SubscribeAnswered`` will carry."""
        checked = [(_checked(name, is_filter=True), qos) for name, qos in requests]
        packet_id = self._new_packet_id(PacketType.SUBACK)
        self._outgoing.append(encode.subscribe(packet_id, checked))
        return packet_id

    def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        """Acknowledge deliveries, in the order they came [MQTT-4.6.0-2]."""
        for qos, run in groupby(deliveries, lambda delivery: delivery.qos):
            if qos:
                packet_ids = [delivery.packet_id for delivery in run]
                self._outgoing.append(encode.acks(_ACKNOWLEDGED_BY[qos], packet_ids))

    def ping(self) -> None:
        self.pings_unanswered += 1
        self._outgoing.append(encode.PINGREQ)

    def disconnect(self) -> None:
        """End the session without the will. Nothing may be sent after it [MQTT-3.14.4-2]."""
        self._outgoing.append(encode.DISCONNECT)

    # ── Bytes ─────────────────────────────────────────────────────────────────────────────────

    def data_to_send(self) -> bytes:
        data = b"".join(self._outgoing)
        self._outgoing.clear()
        return data

    def receive(self, data: bytes) -> list[SessionEvent]:
        events: list[SessionEvent] = []
        for event in self._machine.receive(data):
            match event:
                case Publish():
                    events += self._delivery(event)
                case MqttAcks():
                    self._on_acks(event)
                case SubAck(packet_id, return_codes):
                    self._awaited.pop(packet_id, None)
                    events.append(SubscribeAnswered(packet_id, return_codes))
                case ConnAck():
                    if event.return_code:
                        raise connect_refused(event.return_code)
                    events.append(Connected(event.session_present))
                case PingResp():
                    self.pings_unanswered = max(0, self.pings_unanswered - 1)
                    events.append(PingAnswered())
                case Violation():
                    raise BrokerProtocolError(
                        f"the answer is not MQTT 3.1.1 ({event.detail})",
                        "is this the address of a broker?",
                    )
        return events

    def _delivery(self, event: Publish) -> Sequence[Delivery]:
        if event.qos == 2:
            if event.packet_id in self._unreleased:
                return ()  # [MQTT-4.3.3-2]: the first one is answered
            self._unreleased.add(event.packet_id)
        if not is_text(event.topic):
            raise BrokerProtocolError("the broker sent a topic that is not UTF-8")
        topic = event.topic.decode()
        return (
            Delivery(topic, event.payload, event.qos, event.retain, event.dup, event.packet_id),
        )

    def _on_acks(self, event: MqttAcks) -> None:
        match event.kind:
            case PacketType.PUBACK | PacketType.PUBCOMP:
                self._confirm(event)
            case PacketType.PUBREC:
                self._release(event.packet_ids)
            case PacketType.PUBREL:
                self._unreleased.difference_update(event.packet_ids)
                self._outgoing.append(encode.acks(PacketType.PUBCOMP, event.packet_ids))

    def _confirm(self, event: MqttAcks) -> None:
        for packet_id in event.packet_ids:
            if self._awaited.get(packet_id) == event.kind:
                del self._awaited[packet_id]
                self.confirmed += 1

    def _release(self, packet_ids: list[int]) -> None:
        for packet_id in packet_ids:
            if self._awaited.get(packet_id) == PacketType.PUBREC:
                self._awaited[packet_id] = PacketType.PUBCOMP
        self._outgoing.append(encode.acks(PacketType.PUBREL, packet_ids))

    def _new_packet_id(self, awaited: PacketType) -> int:
        """Take the next free id in a circle, so that a late duplicate does not match a new one."""
        if len(self._awaited) == PACKET_ID_MAX:
            raise LocalProtocolError("all 65,535 packet ids are waiting for the broker")
        packet_id = self._last_packet_id % PACKET_ID_MAX + 1
        while packet_id in self._awaited:
            packet_id = packet_id % PACKET_ID_MAX + 1
        self._awaited[packet_id] = awaited
        self._last_packet_id = packet_id
        return packet_id
