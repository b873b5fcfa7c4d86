"""The protocol state of an MQTT client: bytes and requests in, bytes and events out.

There is no socket and no clock here; ``client`` adds both. The caller makes a request (``publish``,
``subscribe`` …), sends what ``data_to_send`` returns, and gives what it reads to ``receive``, which
returns events. It raises when the broker refuses or violates the protocol; then the session ends.
Both versions of MQTT are spoken; what only 5 can say raises ``RefusedError`` in 3.1.1.

**Publishing.** ``_awaited`` holds, per packet id in use, the packet that must come next::

    QoS 1   PUBLISH ─► PUBACK                            confirmed
    QoS 2   PUBLISH ─► PUBREC ─► (PUBREL) ─► PUBCOMP     confirmed
            SUBSCRIBE ─► SUBACK                          subscribed

An unexpected acknowledgement confirms nothing, but is answered where the standard requires it: a
session that outlived its client may still send a PUBREC or a PUBREL. In MQTT 5 a PUBACK or PUBREC
may refuse: the message is counted in ``refused``, and the connection goes on. What the broker
announces in CONNACK (``limits``) is never exceeded: the caller sees to the number of messages in
flight, ``publish`` to all else.

**Receiving.** A delivery is acknowledged by ``acknowledge``, once the consumer has it, not when it
arrives: what the consumer never saw stays with the broker. A QoS 2 packet id stays in
``_unreleased`` until PUBREL, and a PUBLISH that repeats it is not handed out again: exactly once
for as long as this object lives. A delivery that was cut off between the consumer and its PUBREC
comes again to the next process, with DUP.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby, repeat
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from penstock.client.errors import BrokerProtocolError, connect_refused
from penstock.client.mqtt.properties import NONE, PublishProperties, block_for, of_block, text_field
from penstock.client.mqtt.refusals import (
    connection_refused,
    disconnected,
    needs_version_5,
    reason_string,
    version_refused,
)
from penstock.client.mqtt.server_limits import ServerLimits
from penstock.client.payload import check_payload
from penstock.errors import LocalProtocolError
from penstock.model.topic import filter_fault, topic_fault
from penstock.wire.mqtt import MqttClientMachine, PacketType, encode, is_text
from penstock.wire.mqtt import properties as wire
from penstock.wire.mqtt.events import (
    Auth,
    ConnAck,
    Disconnect,
    MqttAcks,
    PingResp,
    Publish,
    SubAck,
    UnsubAck,
    Will,
)
from penstock.wire.mqtt.packet import REMAINING_LENGTH_MAX, varint
from penstock.wire.mqtt.properties import Properties
from penstock.wire.mqtt.reason_codes import FAILURE, ReasonCode
from penstock.wire.violation import Violation

if TYPE_CHECKING:  # loads hashlib
    from penstock.client.mqtt.login import ScramLogin

PACKET_ID_MAX: Final = 65_535
TEXT_BYTES_MAX: Final = 65_535  # of the protocol; a broker may have lower limits
RECEIVE_MAXIMUM: Final = 65_535  # messages in flight, unless something else was agreed on
ALIASES_IN: Final = 32  # topic aliases that the broker may use, if any
VERSION_5: Final = 5
NAMES: Final = {4: "MQTT 3.1.1", 5: "MQTT 5"}
REPLAY_PROPERTY: Final = b"replay"
REPLAY_PREFIX: Final = "$replay/"

_ACKNOWLEDGED_BY: Final = {1: PacketType.PUBACK, 2: PacketType.PUBREC}  # by QoS of a PUBLISH
_CONNACK_3_1_1: Final = b"\x20\x02"  # how it begins; that of MQTT 5 is longer
_REFUSED_VERSION: Final = 1  # return code of 3.1.1


class Connected(msgspec.Struct, frozen=True):
    """The broker accepted; ``session_present``: it still had this client's session."""

    session_present: bool
    properties: Properties = wire.NONE


class SubscribeAnswered(msgspec.Struct, frozen=True):
    """SUBACK: per filter the QoS granted, or from 0x80 on why not; ``reason``: in words."""

    packet_id: int
    return_codes: list[int]
    reason: str = ""


class UnsubscribeAnswered(msgspec.Struct, frozen=True):
    """UNSUBACK: per filter a reason code; none in 3.1.1."""

    packet_id: int
    codes: list[int]


class PingAnswered(msgspec.Struct, frozen=True):
    """The broker answered a ping."""


class Authenticated(msgspec.Struct, frozen=True):
    """The broker accepted our credentials again."""


class Delivery(msgspec.Struct, frozen=True, gc=False):
    """A message for us. ``packet_id`` is 0 for QoS 0.

    In MQTT 5 it may have ``properties``, and the ``subscription_ids`` of the subscriptions that it
    came by.
    """

    topic: str
    payload: bytes
    qos: int
    retain: bool
    dup: bool
    packet_id: int
    properties: PublishProperties = NONE
    subscription_ids: tuple[int, ...] = ()


SessionEvent: TypeAlias = (
    Authenticated | Connected | SubscribeAnswered | UnsubscribeAnswered | PingAnswered | Delivery
)


class SubscribeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How filters are subscribed to; all but ``replay`` need MQTT 5."""

    no_local: bool = False
    retain_as_published: bool = False
    retain_handling: int = 0
    subscription_id: int = 0
    replay: str = ""

    @property
    def bits(self) -> int:
        """The options of a filter beside its QoS."""
        if self.retain_handling not in {0, 1, 2}:
            raise LocalProtocolError(f"retain_handling is {self.retain_handling}, not 0, 1 or 2")
        return self.no_local << 2 | self.retain_as_published << 3 | self.retain_handling << 4

    @property
    def packet_properties(self) -> Properties:
        if not 0 <= self.subscription_id <= REMAINING_LENGTH_MAX:
            raise LocalProtocolError(f"subscription_id is {self.subscription_id}")
        replay = ((REPLAY_PROPERTY, text_field(self.replay)),) if self.replay else ()
        ids = (self.subscription_id,) if self.subscription_id else ()
        return Properties(subscription_ids=ids, user_properties=replay)


PLAIN: Final = SubscribeOptions()


class Refusals(msgspec.Struct):
    """Publishes that the broker refused; the code and properties are those of the first."""

    count: int = 0
    code: int = 0
    properties: Properties = wire.NONE


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

    def __init__(
        self,
        version: int = 4,
        *,
        receive_maximum: int = RECEIVE_MAXIMUM,
        packet_bytes_max: int = REMAINING_LENGTH_MAX,
        topic_aliases: bool = False,
    ) -> None:
        """The limits are what we accept; with ``topic_aliases`` both ends may use some."""
        self.version = version
        self.limits = ServerLimits()
        self.confirmed = 0  # publishes of QoS 1 and 2
        self.refused = Refusals()
        self.pings_unanswered = 0
        self._machine = MqttClientMachine(packet_bytes_max, version)
        self._machine.alias_max = ALIASES_IN if topic_aliases else 0
        self._receive_maximum = receive_maximum
        self._packet_bytes_max = packet_bytes_max
        self._has_aliases = topic_aliases
        self._outgoing: list[bytes] = []
        self._awaited: dict[int, PacketType] = {}
        self._unreleased: set[int] = set()
        self._unanswered = 0  # deliveries of QoS 1 and 2 whose exchange goes on
        self._last_packet_id = 0
        self._last_topic: tuple[str | None, bytes] = (None, b"")
        self._aliases: dict[bytes, int] = {}  # of ours, by topic
        self._opening: bytes | None = b""  # the first bytes of the answer, until it is complete
        self._login: ScramLogin | None = None

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
        session_expiry_s: int = 0,
        user_properties: Sequence[tuple[str, str]] = (),
        login: "ScramLogin | None" = None,
    ) -> None:
        """Send CONNECT; ``Connected`` follows, or ``RefusedError``.

        The last three are for MQTT 5.
        """
        self._login = login
        properties = None
        if self.version >= VERSION_5:
            properties = self._connect_properties(session_expiry_s, user_properties)
        self._outgoing.append(
            encode.connect(
                client_id.encode(),
                clean_session=clean_session,
                keep_alive=keep_alive,
                will=will,
                username=None if username is None else username.encode(),
                password=password,
                properties=properties,
            )
        )

    def _connect_properties(
        self, session_expiry_s: int, user_properties: Sequence[tuple[str, str]]
    ) -> Properties:
        login = wire.NONE if self._login is None else self._login.first()
        maximum, size = self._receive_maximum, self._packet_bytes_max
        return Properties(
            session_expiry=session_expiry_s or None,
            receive_maximum=None if maximum == RECEIVE_MAXIMUM else maximum,
            maximum_packet_size=None if size == REMAINING_LENGTH_MAX else size,
            topic_alias_maximum=self._machine.alias_max or None,
            request_response_information=1,
            user_properties=tuple((text_field(n), text_field(v)) for n, v in user_properties),
            authentication_method=login.authentication_method,
            authentication_data=login.authentication_data,
        )

    def authenticate(self, login: "ScramLogin") -> None:
        """Prove our credentials anew; ``Authenticated`` follows, or the connection ends."""
        if self._login is None:
            raise LocalProtocolError("only a connection that began with SCRAM can do so again")
        self._login = login
        self._outgoing.append(encode.auth(ReasonCode.RE_AUTHENTICATE, login.first()))

    def publish(
        self,
        topic: str,
        payload: bytes,
        qos: int,
        *,
        retain: bool,
        properties: PublishProperties | None = None,
    ) -> None:
        """Publish; with QoS 1 and 2 it counts as ``unconfirmed`` until it is ``confirmed``."""
        check_payload(payload)
        if topic != self._last_topic[0]:
            self._last_topic = (topic, _checked(topic))
        name, alias = self._last_topic[1], 0
        if self._has_aliases:
            name, alias = self._aliased(name)
        tail = self._properties_of(properties, alias)
        head = encode.publish_head(name, len(tail) + len(payload), qos, retain)
        size = len(head) + (2 if qos else 0) + len(tail) + len(payload)
        self.limits.check(size, qos, retain=retain)
        if alias:
            self._aliases[self._last_topic[1]] = alias
        if qos:
            packet_id = self._new_packet_id(_ACKNOWLEDGED_BY[qos])
            self._outgoing += (head, encode.PACKET_IDS[packet_id], tail, payload)
        else:
            self._outgoing += (head, tail, payload)

    def _properties_of(self, properties: PublishProperties | None, alias: int) -> bytes:
        """What MQTT 5 has between the packet id and the payload; nothing in 3.1.1."""
        if self.version < VERSION_5:
            if properties is not None and properties != NONE:
                raise needs_version_5("a message with properties")
            return b""
        if properties is None and not alias:
            return b"\0"
        block = b"" if properties is None else block_for(properties)
        if alias:
            block += wire.block_of(Properties(topic_alias=alias))
        return varint(len(block)) + block

    def _aliased(self, name: bytes) -> tuple[bytes, int]:
        """The topic to send and its alias; the first topics get one, and keep it."""
        known = self._aliases.get(name)
        if known is not None:
            return b"", known
        has_room = len(self._aliases) < self.limits.alias_max
        return name, len(self._aliases) + 1 if has_room else 0

    def subscribe(
        self, requests: Iterable[tuple[str, int]], options: SubscribeOptions = PLAIN
    ) -> int:
        """Subscribe; return the packet id that ``SubscribeAnswered`` will carry."""
        properties = None
        bits = options.bits
        if self.version >= VERSION_5:
            properties = options.packet_properties
        else:
            if bits or options.subscription_id:
                raise needs_version_5("a subscription with options")
            if options.replay:
                requests = [(f"{REPLAY_PREFIX}{options.replay}/{name}", q) for name, q in requests]
        checked = [(_checked(name, is_filter=True), _qos(qos) | bits) for name, qos in requests]
        packet_id = self._new_packet_id(PacketType.SUBACK)
        self._outgoing.append(encode.subscribe(packet_id, checked, properties))
        return packet_id

    def unsubscribe(self, filters: Iterable[str]) -> int:
        """Unsubscribe; return the packet id that ``UnsubscribeAnswered`` will carry."""
        checked = [_checked(name, is_filter=True) for name in filters]
        packet_id = self._new_packet_id(PacketType.UNSUBACK)
        properties = wire.NONE if self.version >= VERSION_5 else None
        self._outgoing.append(encode.unsubscribe(packet_id, checked, properties))
        return packet_id

    def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        """Acknowledge deliveries, in the order they came [MQTT-4.6.0-2]."""
        for qos, run in groupby(deliveries, lambda delivery: delivery.qos):
            if qos:
                packet_ids = [delivery.packet_id for delivery in run]
                self._outgoing.append(encode.acks(_ACKNOWLEDGED_BY[qos], packet_ids))
                self._unanswered -= len(packet_ids) if qos == 1 else 0

    def ping(self) -> None:
        self.pings_unanswered += 1
        self._outgoing.append(encode.PINGREQ)

    def disconnect(self, *, with_will: bool = False, session_expiry_s: int | None = None) -> None:
        """End the connection. Nothing may be sent after it [MQTT-3.14.4-2].

        In MQTT 5 the will may be asked for, and the session may be given another life time.
        """
        if not with_will and session_expiry_s is None:
            self._outgoing.append(encode.DISCONNECT)
            return
        if self.version < VERSION_5:
            raise needs_version_5("a goodbye with the will, or with a session expiry")
        code = ReasonCode.DISCONNECT_WITH_WILL if with_will else ReasonCode.SUCCESS
        properties = Properties(session_expiry=session_expiry_s)
        self._outgoing.append(encode.disconnect(code, properties))

    # ── Bytes ─────────────────────────────────────────────────────────────────────────────────

    def data_to_send(self) -> bytes:
        data = b"".join(self._outgoing)
        self._outgoing.clear()
        return data

    def receive(self, data: bytes) -> list[SessionEvent]:
        if self._opening is not None:
            self._opening += data[:4]
        events: list[SessionEvent] = []
        for event in self._machine.receive(data):
            match event:
                case Publish():
                    events += self._delivery(event)
                case MqttAcks():
                    self._on_acks(event)
                case SubAck(packet_id, return_codes, properties):
                    self._awaited.pop(packet_id, None)
                    reason = reason_string(properties)
                    events.append(SubscribeAnswered(packet_id, return_codes, reason))
                case UnsubAck(packet_id, codes):
                    self._awaited.pop(packet_id, None)
                    events.append(UnsubscribeAnswered(packet_id, codes))
                case ConnAck():
                    events.append(self._connected(event))
                case Auth():
                    events += self._on_auth(event)
                case PingResp():
                    self.pings_unanswered = max(0, self.pings_unanswered - 1)
                    events.append(PingAnswered())
                case Disconnect(code, properties):
                    raise disconnected(code, properties)
                case Violation():
                    raise self._violated(event)
        return events

    def _connected(self, event: ConnAck) -> Connected:
        self._opening = None
        if event.return_code:
            if self.version >= VERSION_5:
                raise connection_refused(event.return_code, event.properties)
            raise connect_refused(event.return_code)
        if self._login is not None:
            self._login.check(event.properties)
        self.limits = ServerLimits.of(event.properties)
        return Connected(event.session_present, event.properties)

    def _violated(self, event: Violation) -> Exception:
        """The answer cannot be read. A broker of 3.1.1 refuses in its own form."""
        if self._opening and self._opening.startswith(_CONNACK_3_1_1) and len(self._opening) > 3:
            code = self._opening[3]
            if code == _REFUSED_VERSION:
                return version_refused()
            if code:
                return connect_refused(code)
        return BrokerProtocolError(
            f"the answer is not {NAMES[self.version]} ({event.detail})",
            "is this the address of a broker?",
        )

    def _on_auth(self, event: Auth) -> Sequence[SessionEvent]:
        login = self._login
        if login is None:
            raise BrokerProtocolError("the broker asks for a login that we did not begin")
        if event.code == ReasonCode.CONTINUE_AUTHENTICATION:
            answer = login.final(event.properties)
            self._outgoing.append(encode.auth(event.code, answer))
            return ()
        login.check(event.properties)
        return (Authenticated(),)

    def _delivery(self, event: Publish) -> Sequence[Delivery]:
        if event.qos == 2:
            if event.packet_id in self._unreleased:
                return ()  # [MQTT-4.3.3-2]: the first one is answered
            self._unreleased.add(event.packet_id)
        if event.qos:
            self._count_unanswered()
        if not is_text(event.topic):
            raise BrokerProtocolError("the broker sent a topic that is not UTF-8")
        topic, payload = event.topic.decode(), event.payload
        flags = event.qos, event.retain, event.dup, event.packet_id
        if event.properties is None:
            return (Delivery(topic, payload, *flags),)
        properties = of_block(event.properties.block) if event.properties.block else NONE
        return (Delivery(topic, payload, *flags, properties, event.properties.subscription_ids),)

    def _count_unanswered(self) -> None:
        self._unanswered += 1
        if self._unanswered > self._receive_maximum and self.version >= VERSION_5:
            self._outgoing.append(encode.disconnect(ReasonCode.RECEIVE_MAXIMUM_EXCEEDED))
            raise BrokerProtocolError(
                f"the broker sent more than the {self._receive_maximum:,} messages it may have"
                " in flight",
                "connect with a higher receive_maximum, or without",
            )

    def _on_acks(self, event: MqttAcks) -> None:
        match event.kind:
            case PacketType.PUBACK | PacketType.PUBCOMP:
                self._confirm(event)
            case PacketType.PUBREC:
                self._release(event)
            case PacketType.PUBREL:
                self._unanswered -= len(self._unreleased.intersection(event.packet_ids))
                self._unreleased.difference_update(event.packet_ids)
                self._outgoing.append(encode.acks(PacketType.PUBCOMP, event.packet_ids))

    def _confirm(self, event: MqttAcks) -> None:
        has_refusals = event.kind == PacketType.PUBACK  # PUBCOMP's only code is none
        for packet_id, code in zip(event.packet_ids, event.codes or repeat(0), strict=False):
            if self._awaited.get(packet_id) == event.kind:
                del self._awaited[packet_id]
                if code >= FAILURE and has_refusals:
                    self._refuse(code, event.properties)
                else:
                    self.confirmed += 1

    def _release(self, event: MqttAcks) -> None:
        released: list[int] = []
        for packet_id, code in zip(event.packet_ids, event.codes or repeat(0), strict=False):
            is_awaited = self._awaited.get(packet_id) == PacketType.PUBREC
            if code < FAILURE:
                released.append(packet_id)
                if is_awaited:
                    self._awaited[packet_id] = PacketType.PUBCOMP
            elif is_awaited:
                del self._awaited[packet_id]
                self._refuse(code, event.properties)
        self._outgoing.append(encode.acks(PacketType.PUBREL, released))

    def _refuse(self, code: int, properties: Properties) -> None:
        refused = self.refused
        refused.count += 1
        if refused.count == 1:
            refused.code, refused.properties = code, properties

    def take_refusals(self) -> Refusals:
        """The publishes that were refused since the last call."""
        taken, self.refused = self.refused, Refusals()
        return taken

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


def _qos(qos: int) -> int:
    if qos not in {0, 1, 2}:
        raise LocalProtocolError(f"QoS {qos}")  # [MQTT-3-8.3-4]
    return qos
