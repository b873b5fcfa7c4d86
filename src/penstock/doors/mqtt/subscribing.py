"""What one MQTT client subscribes to: the session's subscriptions and shared ones.

A connection joins the groups of its shared subscriptions once the SUBSCRIBE is applied, or its
session is resumed: the rights of that moment count.
"""

from collections import deque
from collections.abc import Callable, Container, Iterable, Mapping
from functools import partial
from typing import Protocol

from penstock.access.admission import Refusal
from penstock.core.commands import Subscribed, Unsubscribed
from penstock.core.session import PUBACK, Session, SessionClient
from penstock.core.shares import is_shared, parse_share
from penstock.core.subscription_options import (
    ID_SHIFT,
    OPTION_QOS,
    SUBSCRIBE_FAILED,
    Marks,
    is_no_local,
    is_refusal,
    qos_of,
)
from penstock.doors.mqtt.explanations import answered_filters
from penstock.doors.mqtt.parts import MqttParts
from penstock.doors.mqtt.replay_requests import TOO_MANY, Fault, ReplayRequests, plain
from penstock.doors.mqtt.shared_subscriptions import (
    SHARED_QOS_MAX,
    Countdown,
    GroupClient,
    SharedSubscriptions,
)
from penstock.doors.mqtt.terms import Terms
from penstock.limits import REPLAYS_MAX
from penstock.model.topic import filter_fault
from penstock.net.meter import Meter
from penstock.obs.printable import printable
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
    wants_no_own: bool  # whether some subscription wants no messages of the client's own

    @property
    def terms(self) -> Terms: ...
    @property
    def is_5(self) -> bool: ...  # whether it speaks MQTT 5
    def is_in_use(self, packet_id: int) -> bool: ...  # by a message that is not finished
    def send(self, data: bytes) -> None: ...


class PendingFilters:
    """Filters that a client was granted and that its session may not have yet.

    The limit on subscriptions counts both. A filter joins the session when its command is applied,
    and the SUBACK leaves a moment later; in between it is in both places and must count once.
    Filters join in the order of their requests, so only the oldest pending ones need a look. There
    is no queue while none is pending: an empty one takes 600 bytes.
    """

    __slots__ = ("_pending",)

    def __init__(self) -> None:
        self._pending: deque[tuple[int, bytes]] | None = None

    def add(self, packet_id: int, filters: Iterable[bytes]) -> None:
        added = ((packet_id, topic_filter) for topic_filter in filters)
        if self._pending:
            self._pending.extend(added)
        else:
            self._pending = deque(added)

    def answered(self, packet_id: int) -> None:
        """The session has these, or has lost them again by an UNSUBSCRIBE."""
        while self._pending and self._pending[0][0] == packet_id:
            self._pending.popleft()
        self._pending = self._pending or None

    def beside(self, known: Container[bytes]) -> int:
        while self._pending and self._pending[0][1] in known:
            self._pending.popleft()
        self._pending = self._pending or None
        return len(self._pending or ())


class MqttSubscribing:
    """Handles SUBSCRIBE and UNSUBSCRIBE of one connection."""

    __slots__ = (
        "_client",
        "_door",
        "_pending_filters",
        "_pending_shares",
        "_reasons",
        "_replay_requests",
        "_shared",
    )

    def __init__(self, door: MqttParts, client: SubscribingClient) -> None:
        self._door = door
        self._client = client
        self._pending_filters = PendingFilters()
        self._replay_requests = ReplayRequests()
        self._shared: SharedSubscriptions | None = None
        # by packet id; options None: unsubscribe
        self._pending_shares: dict[int, list[tuple[bytes, int | None]]] | None = None
        self._reasons: dict[int, str] | None = None  # why filters are refused, by packet id

    def resume(self, subscriptions: Mapping[bytes, int]) -> None:
        """The session has these already."""
        self._client.wants_no_own = any(map(is_no_local, subscriptions.values()))
        self.share(subscriptions.items())

    def subscribe(self, event: MqttSubscribe) -> None:
        client, session = self._client, self._client.session
        assert session is not None
        if client.is_in_use(event.packet_id):
            self._refuse_id(event.packet_id, len(event.requests), encode.suback)
            return
        known = session.subscriptions or {}
        before = len(known) + self._pending_filters.beside(known)
        new: set[bytes] = set()
        requests = []
        identifier = sum(event.properties.subscription_ids)  # one, or none
        replays = 0
        for name, options in event.requests:
            asked = self._replay_requests.read(
                name, options, event.properties, self._door.connections.wall_ms()
            )
            topic_filter = asked.topic_filter
            if not (asked.fault and not topic_filter) and not self._is_valid(topic_filter):
                return
            if topic_filter not in known:
                new.add(topic_filter)
            granted = asked.fault or self._grant(topic_filter, options, before + len(new))
            if asked.start is not None and not isinstance(granted, Fault):
                granted = self._judge_replay(topic_filter, replays) or granted
                replays += not isinstance(granted, Fault)
            if isinstance(granted, Fault):
                new.discard(topic_filter)
                requests.append((topic_filter, self._refused(event.packet_id, name, granted)))
            else:
                client.wants_no_own |= is_no_local(granted)
                requests.append((asked.name(), granted | identifier << ID_SHIFT))
        self._replay_requests.note(event.packet_id, replays)
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

    def _refused(self, packet_id: int, name: bytes, fault: Fault) -> int:
        """The code of a refused filter; MQTT 5 is told the first reason, too, 3.1.1 only here."""
        self._door.connections.throttled_log.info(
            "subscription_refused",
            client_id=printable(self._client.client_id),
            filter=printable(name),
            detail=fault.text,
        )
        if not self._client.is_5:
            return SUBSCRIBE_FAILED
        if self._reasons is None:
            self._reasons = {}
        self._reasons.setdefault(packet_id, fault.text)
        return fault.code

    def _refuse_id(self, packet_id: int, count: int, packet: Callable[..., bytes]) -> None:
        """Answer a request whose packet id belongs to a message that is not finished."""
        text = f"packet identifier {packet_id} is in use"
        codes = [ReasonCode.PACKET_IDENTIFIER_IN_USE] * count
        answer = partial(packet, packet_id, codes)
        self._client.send(answered_filters(self._client.terms, answer, text))

    def _grant(self, topic_filter: bytes, options: int, count: int) -> int | Fault:
        """The options of the subscription that would be the ``count``-th, or why it is refused."""
        limits = self._door.connections.limits
        fault = filter_fault(topic_filter, limits.topic_bytes_max, limits.topic_levels_max)
        if fault:
            return Fault(ReasonCode.TOPIC_FILTER_INVALID, f"a filter is {fault}")
        if count > limits.subscriptions_max:
            text = f"{limits.subscriptions_max} subscriptions are allowed"
            return Fault(ReasonCode.QUOTA_EXCEEDED, text)
        meter = self._client.meter
        if meter is not None and (fault := meter.admit_subscriptions(count)):
            return Fault(ReasonCode.QUOTA_EXCEEDED, fault)
        qos_max, judge = self._door.settings.maximum_qos, self._judge_receiving
        if is_shared(topic_filter):
            share = parse_share(topic_filter)
            if share is None:
                text = "a shared subscription is $share/NAME/FILTER"
                return Fault(ReasonCode.TOPIC_FILTER_INVALID, text)
            topic_filter, qos_max, judge = (
                share.topic_filter,
                min(qos_max, SHARED_QOS_MAX),
                self._judge_work,
            )
        refusal = judge(topic_filter)
        if refusal is not None:
            return Fault(ReasonCode.NOT_AUTHORIZED, refusal.text)
        return options & ~OPTION_QOS | min(qos_of(options), qos_max)

    def _judge_replay(self, topic_filter: bytes, others: int) -> Fault | None:
        """Why there is no history; ``others`` of the same packet have it."""
        client, session = self._client, self._client.session
        refusal = self._door.admission.judge_filter(client.principal, Action.READ, topic_filter)
        if refusal is not None:
            return Fault(ReasonCode.NOT_AUTHORIZED, refusal.text)
        if session is not None and self._replay_requests.count(session) + others >= REPLAYS_MAX:
            return TOO_MANY
        return None

    def _judge_receiving(self, topic_filter: bytes) -> Refusal | None:
        """Why none of it may be received; what else may not is left out when topics are routed."""
        judge = self._door.admission.judge_filter
        return judge(self._client.principal, Action.SUBSCRIBE, topic_filter)

    def _judge_work(self, topic_filter: bytes) -> Refusal | None:
        judge = self._door.admission.judge_filter
        refusal = judge(self._client.principal, Action.WORK, topic_filter)
        return refusal or self._judge_receiving(topic_filter)

    def _may_work(self, topic_filter: bytes) -> bool:
        return self._judge_work(topic_filter) is None

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
        if client.is_in_use(event.packet_id):
            self._refuse_id(event.packet_id, len(event.filters), encode.unsuback)
            return
        filters = list(map(plain, event.filters))
        if not all(map(self._is_valid, filters)):
            return
        self._note_shares(event.packet_id, [(name, None) for name in filters])
        origin = session.origin
        command = Unsubscribed(client.client_id, event.packet_id, filters, origin)
        self._door.pipeline.submit(command, client, durable=session.durable)

    def subscribed(self, packet_id: int, return_codes: list[int]) -> None:
        """Answer SUBACK [MQTT-3.8.4-1]."""
        self._pending_filters.answered(packet_id)
        self._replay_requests.answered(packet_id)
        if self._client.is_5:
            text = self._reasons.pop(packet_id, "") if self._reasons else ""
            packet = partial(encode.suback, packet_id, return_codes)
            answer = answered_filters(self._client.terms, packet, text)
        else:
            answer = encode.suback(packet_id, return_codes)
        self.share(self._shares_of(packet_id), lambda: self._client.send(answer))
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
        self.share(self._shares_of(packet_id))
        self._note_quota()

    def _note_shares(self, packet_id: int, requests: Iterable[tuple[bytes, int | None]]) -> None:
        shares = [(n, qos) for n, qos in requests if is_shared(n) and not is_refusal(qos or 0)]
        if shares and self._pending_shares is None:
            self._pending_shares = {}
        if shares and self._pending_shares is not None:
            self._pending_shares.setdefault(packet_id, []).extend(shares)

    def _shares_of(self, packet_id: int) -> Iterable[tuple[bytes, int | None]]:
        """What a request says about shared subscriptions, now that it is answered."""
        return self._pending_shares.pop(packet_id, ()) if self._pending_shares else ()

    def share(
        self,
        requests: Iterable[tuple[bytes, int | None]],
        ready: Callable[[], None] = lambda: None,
    ) -> None:
        """Join and leave groups; ``ready`` is called when all groups to join are there."""
        awaited = Countdown(ready)
        for name, options in requests:
            share = parse_share(name) if is_shared(name) else None
            if share is None or (
                options is not None and self._judge_work(share.topic_filter) is not None
            ):
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

    def marks_of(self, packet_id: int) -> Marks | None:
        """What belongs to a shared message in flight."""
        return None if self._shared is None else self._shared.marks_of(packet_id)

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
