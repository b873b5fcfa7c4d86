"""What one MQTT client subscribes to: the session's subscriptions and shared ones.

A connection joins the groups of its shared subscriptions once the SUBSCRIBE is applied, or its
session is resumed: the rights of that moment count.
"""

from collections import deque
from collections.abc import Callable, Container, Iterable
from typing import Protocol

from penstock.core.commands import Subscribed, Unsubscribed
from penstock.core.session import PUBACK, Session, SessionClient
from penstock.core.shares import is_shared, parse_share
from penstock.core.subscription_options import (
    ID_SHIFT,
    OPTION_QOS,
    SUBSCRIBE_FAILED,
    is_refusal,
    qos_of,
)
from penstock.doors.mqtt.parts import MqttParts
from penstock.doors.mqtt.shared_subscriptions import (
    SHARED_QOS_MAX,
    Countdown,
    GroupClient,
    SharedSubscriptions,
)
from penstock.model.topic import filter_fault
from penstock.net.meter import Meter
from penstock.obs.log import printable
from penstock.obs.reasons import DisconnectReason
from penstock.trust.principal import Principal
from penstock.trust.rules import Action
from penstock.wire.mqtt import encode
from penstock.wire.mqtt.events import MqttSubscribe, MqttUnsubscribe
from penstock.wire.mqtt.properties import NONE
from penstock.wire.mqtt.reason_codes import ReasonCode


class SubscribingClient(SessionClient, GroupClient, Protocol):
    """The connection of the client."""

    principal: Principal
    meter: Meter | None
    client_id: bytes
    session: Session | None
    number: int

    @property
    def is_5(self) -> bool: ...  # whether it speaks MQTT 5
    def send(self, data: bytes) -> None: ...


class PendingFilters:
    """Filters that a client was granted and that its session may not have yet.

    The limit on subscriptions counts both. A filter joins the session when its command is applied,
    and the SUBACK leaves a moment later; in between it is in both places and must count once.
    Filters join in the order of their requests, so only the oldest pending ones need a look.
    """

    __slots__ = ("_pending",)

    def __init__(self) -> None:
        self._pending: deque[tuple[int, bytes]] = deque()

    def add(self, packet_id: int, filters: Iterable[bytes]) -> None:
        self._pending.extend((packet_id, topic_filter) for topic_filter in filters)

    def answered(self, packet_id: int) -> None:
        """The session has these, or has lost them again by an UNSUBSCRIBE."""
        while self._pending and self._pending[0][0] == packet_id:
            self._pending.popleft()

    def beside(self, known: Container[bytes]) -> int:
        while self._pending and self._pending[0][1] in known:
            self._pending.popleft()
        return len(self._pending)


class MqttSubscribing:
    """Handles SUBSCRIBE and UNSUBSCRIBE of one connection."""

    __slots__ = ("_client", "_door", "_pending_filters", "_pending_shares", "_shared")

    def __init__(self, door: MqttParts, client: SubscribingClient) -> None:
        self._door = door
        self._client = client
        self._pending_filters = PendingFilters()
        self._shared: SharedSubscriptions | None = None
        self._pending_shares: dict[int, list[tuple[bytes, int | None]]] = {}  # None: unsubscribe

    def subscribe(self, event: MqttSubscribe) -> None:
        client, session = self._client, self._client.session
        assert session is not None
        known = session.subscriptions or {}
        before = len(known) + self._pending_filters.beside(known)
        new: set[bytes] = set()
        requests = []
        identifier = sum(event.properties.subscription_ids)  # one, or none
        for topic_filter, options in event.requests:
            if not self._is_valid(topic_filter):
                return
            if topic_filter not in known:
                new.add(topic_filter)
            granted = self._grant(topic_filter, options, before + len(new))
            if is_refusal(granted):
                new.discard(topic_filter)
                granted = granted if self._client.is_5 else SUBSCRIBE_FAILED
            else:
                granted |= identifier << ID_SHIFT
            requests.append((topic_filter, granted))
        self._note_shares(event.packet_id, requests)
        self._pending_filters.add(event.packet_id, new)
        command = Subscribed(
            client.client_id,
            event.packet_id,
            requests,
            session.origin,
            self._door.connections.wall_ms(),
        )
        self._door.pipeline.submit(command, client, durable=session.durable)

    def _is_valid(self, topic_filter: bytes) -> bool:
        """Whether a filter is well-formed, of any size; if not, the connection was closed."""
        fault = filter_fault(topic_filter, bytes_max=65_535, levels_max=65_536)
        if fault:
            detail = f"filter {printable(topic_filter)}: {fault}"
            self._client.close(DisconnectReason.FILTER_INVALID, detail)
        return not fault

    def _grant(self, topic_filter: bytes, options: int, count: int) -> int:
        """The options of the subscription that would be the ``count``-th, or why it is refused."""
        limits = self._door.connections.limits
        if filter_fault(topic_filter, limits.topic_bytes_max, limits.topic_levels_max):
            return ReasonCode.TOPIC_FILTER_INVALID
        meter = self._client.meter
        if count > limits.subscriptions_max or (
            meter is not None and meter.admit_subscriptions(count)
        ):
            return ReasonCode.QUOTA_EXCEEDED
        if not is_shared(topic_filter):
            return options if self._may_receive(topic_filter) else ReasonCode.NOT_AUTHORIZED
        share = parse_share(topic_filter)
        if share is None:
            return ReasonCode.TOPIC_FILTER_INVALID
        if not self._may_work(share.topic_filter):
            return ReasonCode.NOT_AUTHORIZED
        return options & ~OPTION_QOS | min(qos_of(options), SHARED_QOS_MAX)

    def _may_receive(self, topic_filter: bytes) -> bool:
        """Whether any of it may be received; the rest is left out when topics are routed."""
        judge = self._door.admission.judge_filter
        return judge(self._client.principal, Action.SUBSCRIBE, topic_filter) is None

    def _may_work(self, topic_filter: bytes) -> bool:
        judge = self._door.admission.judge_filter
        is_worker = judge(self._client.principal, Action.WORK, topic_filter) is None
        return is_worker and self._may_receive(topic_filter)

    def judge_again(self) -> None:
        """The rights have changed. Ordinary subscriptions are narrowed where topics are routed."""
        self._note_quota()
        lost = self._shared.lost_topic() if self._shared is not None else b""
        if lost:
            detail = f"the right to work on {printable(lost)} was withdrawn"
            self._client.close(DisconnectReason.NOT_AUTHORIZED, detail)

    def unsubscribe(self, event: MqttUnsubscribe) -> None:
        client, session = self._client, self._client.session
        assert session is not None
        if not all(map(self._is_valid, event.filters)):
            return
        self._note_shares(event.packet_id, [(name, None) for name in event.filters])
        origin = session.origin
        command = Unsubscribed(client.client_id, event.packet_id, event.filters, origin)
        self._door.pipeline.submit(command, client, durable=session.durable)

    def subscribed(self, packet_id: int, return_codes: list[int]) -> None:
        """Answer SUBACK [MQTT-3.8.4-1]."""
        self._pending_filters.answered(packet_id)
        properties = NONE if self._client.is_5 else None
        answer = encode.suback(packet_id, return_codes, properties)
        shares = self._pending_shares.pop(packet_id, ())
        self.share(shares, lambda: self._client.send(answer))
        self._note_quota()

    def _note_quota(self) -> None:
        meter, session = self._client.meter, self._client.session
        if meter is not None and session is not None:
            known = session.subscriptions or {}
            meter.admit_subscriptions(len(known) + self._pending_filters.beside(known))

    def unsubscribed(self, packet_id: int, existed: list[bool]) -> None:
        """Answer UNSUBACK [MQTT-3.10.4-4]."""
        codes = [0 if was else ReasonCode.NO_SUBSCRIPTION_EXISTED for was in existed]
        properties = NONE if self._client.is_5 else None
        self._client.send(encode.unsuback(packet_id, codes, properties))
        self.share(self._pending_shares.pop(packet_id, ()))
        self._note_quota()

    def _note_shares(self, packet_id: int, requests: Iterable[tuple[bytes, int | None]]) -> None:
        shares = [(n, qos) for n, qos in requests if is_shared(n) and not is_refusal(qos or 0)]
        if shares:
            self._pending_shares.setdefault(packet_id, []).extend(shares)

    def share(
        self,
        requests: Iterable[tuple[bytes, int | None]],
        ready: Callable[[], None] = lambda: None,
    ) -> None:
        """Join and leave groups; ``ready`` is called when all groups to join are there."""
        awaited = Countdown(ready)
        for name, options in requests:
            share = parse_share(name) if is_shared(name) else None
            if share is None or (options is not None and not self._may_work(share.topic_filter)):
                continue
            if self._shared is None:
                client = self._client
                self._shared = SharedSubscriptions(self._door, client, client.number)
            if options is None:
                self._shared.unsubscribe(name)
            else:
                awaited.wait()
                self._shared.subscribe(name, share, options, awaited.done)
        awaited.done()

    def settle(self, kind: int, packet_ids: list[int]) -> list[int]:
        """Take acknowledgements of shared messages; return the others, which are the session's."""
        shared = self._shared
        if shared is None:
            return packet_ids
        held = [packet_id for packet_id in packet_ids if shared.holds(packet_id)]
        if held and kind != PUBACK:
            detail = f"acknowledgement {kind} does not fit the QoS of packet {held[0]}"
            self._client.close(DisconnectReason.PROTOCOL_VIOLATION, detail)
            return []
        shared.settle(held)
        return [packet_id for packet_id in packet_ids if packet_id not in held]

    def ask_for_more(self) -> None:
        if self._shared is not None:
            self._shared.ask_for_more()

    def leave_all(self) -> None:
        if self._shared is not None:
            self._shared.leave_all()
