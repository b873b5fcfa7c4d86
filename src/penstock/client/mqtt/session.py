"""A client's conversation with a broker: bytes and wishes in, bytes and happenings out.

There is no socket and no clock here; ``blocking`` puts both around it, and another driver may. The
driver calls a wish (``publish``, ``subscribe`` …), sends what ``data_to_send`` returns, and gives
what it reads to ``receive``, which tells what happened. It raises when the broker says no or talks
nonsense; the conversation is over then.

**Publishing.** ``_awaited`` holds, per packet id in use, the packet that must come next::

    QoS 1   PUBLISH ─► PUBACK                            confirmed
    QoS 2   PUBLISH ─► PUBREC ─► (PUBREL) ─► PUBCOMP     confirmed
            SUBSCRIBE ─► SUBACK                          subscribed

An acknowledgement that nobody waits for confirms nothing, but is answered where the standard wants
an answer: a session that outlived its client may still have a PUBREC or a PUBREL to say.

**Receiving.** A delivery is acknowledged by ``acknowledge``, once the consumer has it, not when it
arrives: what the consumer never saw stays with the broker. A QoS 2 packet id stays in
``_unreleased`` until PUBREL, and a PUBLISH that repeats it is not handed out again: exactly once
for as long as this object lives. It forgets when the process ends; a delivery that was cut off
between the consumer and its PUBREC comes again to the next process, with DUP.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import chain, groupby
from typing import Any, Final, TypeAlias

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
TEXT_BYTES_MAX: Final = 65_535
"""Longest text of the protocol. A broker's own limits are its own to tell."""

_ACKNOWLEDGED_BY: Final = {1: PacketType.PUBACK, 2: PacketType.PUBREC}
"""QoS of a PUBLISH → the packet that its receiver answers."""


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
    """Say why a topic (or filter) may not be sent, in a few words; empty if it may."""
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
    """One connection's worth of conversation; see the module."""

    def __init__(self) -> None:
        self.confirmed = 0
        """Publishes that the broker has confirmed so far, QoS 1 and 2."""
        self.pings_unanswered = 0
        self._machine = MqttClientMachine(REMAINING_LENGTH_MAX)
        self._outgoing: list[bytes] = []
        self._awaited: dict[int, PacketType] = {}
        self._unreleased: set[int] = set()
        self._last_packet_id = 0
        self._last_topic: tuple[str | None, bytes] = (None, b"")
        self._handlers: dict[type, Callable[[Any], Iterable[SessionEvent]]] = {
            ConnAck: self._on_connack,
            MqttAcks: self._on_acks,
            Publish: self._on_publish,
            SubAck: self._on_suback,
            PingResp: self._on_pingresp,
            Violation: self._on_violation,
        }

    @property
    def unconfirmed(self) -> int:
        """How many packets wait for the broker's last word on them."""
        return len(self._awaited)

    # ── Wishes ────────────────────────────────────────────────────────────────────────────────

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
        """Ask to be let in; ``Connected`` follows, or ``RefusedError``."""
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
        """Tell the broker that these have been taken, in the order they came [MQTT-4.6.0-2]."""
        for qos, run in groupby(deliveries, lambda delivery: delivery.qos):
            if qos:
                packet_ids = [delivery.packet_id for delivery in run]
                self._outgoing.append(encode.acks(_ACKNOWLEDGED_BY[qos], packet_ids))

    def ping(self) -> None:
        """Show that we are there; ``PingAnswered`` follows."""
        self.pings_unanswered += 1
        self._outgoing.append(encode.PINGREQ)

    def disconnect(self) -> None:
        """Say goodbye: the will is forgotten. Nothing may be sent after it [MQTT-3.14.4-2]."""
        self._outgoing.append(encode.DISCONNECT)

    # ── Bytes ─────────────────────────────────────────────────────────────────────────────────

    def data_to_send(self) -> bytes:
        """Hand over what must be sent next; it is forgotten here."""
        data = b"".join(self._outgoing)
        self._outgoing.clear()
        return data

    def receive(self, data: bytes) -> list[SessionEvent]:
        """Take what the broker sent; tell what happened."""
        events = self._machine.receive(data)
        return list(chain.from_iterable(self._handlers[type(event)](event) for event in events))

    # ── What the broker says ──────────────────────────────────────────────────────────────────

    def _on_connack(self, event: ConnAck) -> Iterable[SessionEvent]:
        if event.return_code:
            raise connect_refused(event.return_code)
        return (Connected(event.session_present),)

    def _on_pingresp(self, _event: PingResp) -> Iterable[SessionEvent]:
        self.pings_unanswered = max(0, self.pings_unanswered - 1)
        return (PingAnswered(),)

    def _on_violation(self, event: Violation) -> Iterable[SessionEvent]:
        raise BrokerProtocolError(
            f"the answer is not MQTT 3.1.1 ({event.detail})", "is this the address of a broker?"
        )

    def _on_publish(self, event: Publish) -> Iterable[SessionEvent]:
        if event.qos == 2:
            if event.packet_id in self._unreleased:
                return ()  # [MQTT-4.3.3-2]: the one taken, or still to be taken, is answered
            self._unreleased.add(event.packet_id)
        if not is_text(event.topic):
            raise BrokerProtocolError("the broker sent a topic that is not UTF-8")
        topic = event.topic.decode()
        return (
            Delivery(topic, event.payload, event.qos, event.retain, event.dup, event.packet_id),
        )

    def _on_suback(self, event: SubAck) -> Iterable[SessionEvent]:
        self._awaited.pop(event.packet_id, None)
        return (SubscribeAnswered(event.packet_id, event.return_codes),)

    def _on_acks(self, event: MqttAcks) -> Iterable[SessionEvent]:
        match event.kind:
            case PacketType.PUBACK | PacketType.PUBCOMP:
                self._confirm(event)
            case PacketType.PUBREC:
                self._release(event.packet_ids)
            case PacketType.PUBREL:
                self._unreleased.difference_update(event.packet_ids)
                self._outgoing.append(encode.acks(PacketType.PUBCOMP, event.packet_ids))
        return ()

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
        """Take the next id that is free, in a circle, so that a late duplicate hits no new one."""
        if len(self._awaited) == PACKET_ID_MAX:
            raise LocalProtocolError("all 65,535 packet ids are waiting for the broker")
        packet_id = self._last_packet_id % PACKET_ID_MAX + 1
        while packet_id in self._awaited:
            packet_id = packet_id % PACKET_ID_MAX + 1
        self._awaited[packet_id] = awaited
        self._last_packet_id = packet_id
        return packet_id
