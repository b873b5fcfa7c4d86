"""What one MQTT client publishes: live fan-out for QoS 0, the commit pipeline for the rest.

Publishes that came back to back are taken together: one write, one command for many.

A refused publish ends the connection of a 3.1.1 client, which cannot be told otherwise. MQTT 5 has
a code for it in PUBACK and PUBREC, and the connection stays (``doors.mqtt.exchanges``).
"""

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Protocol

from msgspec.structs import replace

from penstock import kernel
from penstock.access.admission import CAPTURED, Refusal, TopicRoute
from penstock.access.envelopes import OpenedEnvelopes
from penstock.commit.capture_bound import Capture
from penstock.core.commands import PublishedBy, Received, Repeated
from penstock.core.live import LazyRuns, Live, SpecialLive
from penstock.core.routes import UNKNOWN_POLICY
from penstock.core.session import PUBACK, PUBREC, Publisher, Session
from penstock.delivery.fanout import Targets
from penstock.doors.mqtt.exchanges import Exchanges
from penstock.doors.mqtt.explanations import refused_publish
from penstock.doors.mqtt.message_checks import (
    extras_of,
    malformed_topic,
    marks_of,
    unfit,
    unsupported,
)
from penstock.doors.mqtt.parts import MqttParts
from penstock.doors.mqtt.reason_codes import CODES
from penstock.doors.mqtt.terms import QOS_MAX, Terms
from penstock.model.message import FLAG_RETAIN_UNKEPT, Extras
from penstock.model.trace_context import context_of
from penstock.net.connection import SIGNED_AT_ONCE
from penstock.obs.reasons import DisconnectReason
from penstock.trust.principal import Principal
from penstock.wire.mqtt.decode import LEVEL_5
from penstock.wire.mqtt.events import Event, MqttPublishRun, Publish
from penstock.wire.mqtt.frames import PublishFrames
from penstock.wire.mqtt.message_properties import MessageProperties
from penstock.wire.mqtt.reason_codes import ReasonCode
from penstock.wire.mqtt.sent_properties import headers_block, remember_block

if TYPE_CHECKING or kernel.is_compiled:
    from penstock.kernel.publishes import pass_on

_PROPERTIES_OF: Callable[[Publish], MessageProperties | None] = attrgetter("properties")

ANSWERS = {1: PUBACK, 2: PUBREC}  # the first answer to a message, by its QoS


class PublishingClient(Publisher, Protocol):
    """The connection of the client."""

    principal: Principal
    client_id: bytes
    session: Session | None
    number: int
    reason: DisconnectReason | None  # None while it is open
    wants_no_own: bool  # whether some subscription wants no messages of the client's own

    @property
    def terms(self) -> Terms: ...
    def send(self, data: bytes) -> None: ...
    def close(self, reason: DisconnectReason, detail: str = "") -> None: ...


class MqttPublishing:
    """Handles the PUBLISH packets of one connection."""

    __slots__ = ("_client", "_counters", "_door", "_is_limited", "exchanges")

    def __init__(self, door: MqttParts, client: PublishingClient) -> None:
        self._door = door
        self._client = client
        self._counters = door.connections.counters
        settings, limits = door.settings, door.connections.limits
        self._is_limited = settings.maximum_qos < QOS_MAX or not settings.retain_available
        # None: 3.1.1 has no limit on them
        self.exchanges = Exchanges(limits.receive_maximum) if client.terms.is_5 else None

    def publish_live(
        self, events: list[Event], position: int, now_ms: int, turn_ends_at: float
    ) -> int:
        """QoS 0: forward to the subscribers at once, raw frames reused; capture in the background.

        Returns the position of the first event that it did not take.
        """
        event = events[position]
        if type(event) is not PublishFrames:
            return self._publish_runs(events, position, now_ms, turn_ends_at)
        if self._door.tracing is not None and self.exchanges is not None:
            events[position : position + 1] = _taken_apart(event)
            return self._publish_runs(events, position, now_ms, turn_ends_at)
        self.publish_frames(event, now_ms)
        if not len(event):
            return position + 1
        # the next is not ordinary: a run of its own, before those that were not taken
        special = event.take_run(MqttPublishRun)
        events[position : position + 1] = [special, event] if len(event) else [special]
        return self._publish_runs(events, position, now_ms, turn_ends_at)

    def publish_frames(self, frames: PublishFrames, now_ms: int) -> None:
        """``_publish_runs`` of a compiled broker, up to a packet that is not ordinary."""
        door = self._door
        batch = door.pipeline.capturing_batch()
        taken, captured = pass_on(
            frames,
            door.broker.routes.cached,
            self._client.principal.rights.publishable,
            batch,
            now_ms,
            door.cluster,
            type(self._client),
            self.forward_frames,
        )
        self._counters.messages_in_total[0] += taken
        door.pipeline.end_capturing(batch, captured)

    def forward_frames(
        self, targets: Targets, frames: PublishFrames, first: int, last: int
    ) -> None:
        packets = frames.frames(first, last)
        runs = LazyRuns(partial(frames.runs, MqttPublishRun, first, last))
        if frames.version < LEVEL_5:
            self._door.fanout.forward(targets, Live(runs, last - first, packets))
        else:
            self._door.fanout.forward(targets, Live(runs, last - first, mqtt_5=packets))

    def _publish_runs(
        self, events: list[Event], position: int, now_ms: int, turn_ends_at: float
    ) -> int:
        """The hottest loop beside the codec's.

        So it takes all such events in a row and does what it can once for all of them; it reads the
        clock only when it meets a new topic.
        """
        door, start = self._door, position
        monotonic, cached = door.connections.monotonic, door.broker.routes.cached
        publishable = self._client.principal.rights.publishable
        capture = door.pipeline.begin_capture()
        has_properties = self.exchanges is not None  # whether there may be some
        received = joined = 0  # messages in all, and those of them before ``stretch``
        targets: Targets = ()
        stretch: list[MqttPublishRun] = []
        while position < len(events) and type(event := events[position]) is MqttPublishRun:
            topic, payloads = event.topic, event.payloads
            route = cached.get(topic)
            policy = route.policy if route is not None else UNKNOWN_POLICY
            if publishable is not None and topic not in publishable:
                policy = UNKNOWN_POLICY  # for this client
            if policy == UNKNOWN_POLICY and position > start and monotonic() > turn_ends_at:
                break
            position += 1
            if route is None or policy == UNKNOWN_POLICY:
                route = self._admit(topic, len(payloads))
                if route is None and self._client.reason is None:
                    continue
                if route is None:
                    break
                policy = route.policy
            if has_properties and event.properties is not None and self._is_unfit(event):
                break
            if policy > CAPTURED or (has_properties and event.each and door.tracing is not None):
                if event.each is not None:
                    events[position - 1 : position] = _singles(event)
                    position -= 1
                    continue
                if len(payloads) > SIGNED_AT_ONCE:
                    events.insert(position, replace(event, payloads=payloads[SIGNED_AT_ONCE:]))
                self._publish_signed_runs(event, now_ms)
                break
            is_alone = route.marked is not None or (
                has_properties and event.properties is not None and self._is_own(event.properties)
            )
            if (
                stretch
                and event.start == stretch[-1].end
                and event.chunk is stretch[-1].chunk
                and route.targets == targets
                and not is_alone
            ):
                stretch.append(event)
            else:
                if stretch:
                    door.fanout.forward(targets, _joined(stretch, received - joined))
                targets, joined = route.targets, received
                stretch = [event] if targets and not is_alone else []
                if is_alone and targets:
                    self._forward_alone(route, event, now_ms)
            received += len(payloads)
            if has_properties and (event.properties is not None or event.each is not None):
                self._keep(capture if policy else None, route.topic, event, now_ms)
            elif policy:
                # the route's own name: the same object with every message, so that it is compared
                # by identity from here on
                capture(route.topic, payloads, now_ms, 0)
            else:
                door.cluster.broadcast(topic, payloads)
        if stretch:
            door.fanout.forward(targets, _joined(stretch, received - joined))
        self._counters.messages_in_total[0] += received
        door.pipeline.end_capture()
        return position

    def _keep(
        self, capture: Capture | None, topic: bytes, event: MqttPublishRun, now_ms: int
    ) -> None:
        """Capture messages with properties, or pass them to other nodes."""
        properties, payloads, each = event.properties, event.payloads, event.each
        if each is not None:
            if capture is not None:
                extras = [None if one is None else one.extras for one in each]
                capture(topic, payloads, now_ms, 0, extras)
                return
            for payload, one in zip(payloads, each, strict=True):
                own = None if one is None else one.extras
                self._door.cluster.broadcast(topic, [payload], own)
            return
        assert properties is not None
        if properties.is_simple:
            common, marks = properties.extras, 0
        else:
            common, marks = extras_of(properties, now_ms), marks_of(properties)
        if capture is not None:
            capture(topic, payloads, now_ms, marks, [common] * len(payloads))
        else:
            self._door.cluster.broadcast(topic, payloads, common, marks)

    def _is_own(self, properties: MessageProperties) -> bool:
        """Whether messages are forwarded alone: others have no part in their form."""
        is_traced = self._door.tracing is not None and context_of(properties.headers) is not None
        return is_traced or properties.expiry_s is not None

    def _traced(
        self, topic: bytes, properties: MessageProperties | None
    ) -> MessageProperties | None:
        """The properties of a message that is forwarded now, with our span if it is traced."""
        tracing = self._door.tracing
        if tracing is None or properties is None:
            return properties
        headers = tracing.live_headers(topic, properties.headers)
        if headers is properties.headers:
            return properties
        return replace(properties, headers=headers, block=headers_block(headers))

    def _forward_alone(self, route: TopicRoute, event: MqttPublishRun, now_ms: int) -> None:
        """Forward a run that expires, or whose subscribers need other forms than its frames."""
        if self._door.tracing is not None and event.properties is not None:
            for payload in event.payloads:
                first = Publish(event.topic, payload, 0, False, False, 0, event.properties)
                self._forward(event.topic, [payload], first, now_ms)
            return
        live = SpecialLive(
            (event,),
            len(event.payloads),
            expires_ms=_expires_ms(event.properties, now_ms),
            publisher=self._client.client_id,
        )
        if not live.expires_ms and event.version >= LEVEL_5:
            live.mqtt_5 = event.frames
        elif not live.expires_ms:
            live.mqtt = event.frames
        self._door.fanout.forward(route.targets, live, route.marked)

    def _forward(self, topic: bytes, payloads: list[bytes], first: Publish, now_ms: int) -> None:
        """Forward QoS 0 messages that no frames are at hand for."""
        route = self._door.admission.route(topic)
        live = SpecialLive.of_message(
            topic,
            payloads,
            self._traced(topic, first.properties),
            expires_ms=_expires_ms(first.properties, now_ms),
            is_retained=first.retain,
            publisher=self._client.client_id,
        )
        self._door.fanout.forward(route.targets, live, route.marked)

    def publish(self, first: Publish, events: list[Event], position: int, now_ms: int) -> int:
        """Publish ``first`` and those like it from ``position`` on; return what comes next."""
        topic, qos = first.topic, first.qos
        if self._is_limited and (fault := unsupported(first, self._door.settings)) is not None:
            self._client.close(*fault)
            return position
        route = self._door.broker.routes.cached.get(topic)
        if (
            route is None
            or not 0 <= route.policy <= CAPTURED
            or self._client.principal.rights.publishable is not None
        ):
            route = self._admit(topic, 1, first)
        if route is None:
            return position
        is_guarded = route.policy > CAPTURED
        if (
            qos == 1
            and position == len(events)
            and not (is_guarded or first.retain or first.properties)
        ):
            # alone, as the messages of those who wait for each acknowledgement are
            if self.exchanges is not None and not self._begin_alone(first):
                return position
            self._counters.messages_in_total[1] += 1
            if self._client.wants_no_own:
                self._name_publisher(1)
            self._door.pipeline.publish(
                topic,
                [first.payload],
                now_ms,
                qos=1,
                retain=False,
                packet_ids=[first.packet_id],
                client=self._client,
            )
            return position
        run = [first]
        end = len(events)
        if is_guarded:
            at_once = SIGNED_AT_ONCE if self.exchanges is None else 1
            end = min(end, position + at_once - 1)
        retain, properties = first.retain, first.properties
        while qos and position < end:  # QoS 0 to be retained goes alone
            event = events[position]
            if type(event) is not Publish or event.topic != topic:
                break
            if event.qos != qos or event.retain != retain:
                break
            if event.properties is not properties and (
                marks_of(event.properties) != marks_of(properties)
            ):
                break
            run.append(event)
            position += 1
        if is_guarded:
            self._publish_signed(run, now_ms)
            return position
        run = self._fresh(run)
        if run and not qos:
            # To be retained too, but live subscribers get it with RETAIN 0 [MQTT-3.3.1-9].
            self._forward(topic, [first.payload], first, now_ms)
        if run:
            self._submit(topic, [event.payload for event in run], run, now_ms)
        return position

    def _fresh(self, run: list[Publish]) -> list[Publish]:
        """The messages that are to be published; the others are answered."""
        if run[0].qos == 2:
            run = self._without_repeated(run)
        return self._begin(run) if self.exchanges is not None and run else run

    def _begin_alone(self, event: Publish) -> bool:
        """``_begin`` for a message of QoS 1 without properties."""
        exchanges, session = self.exchanges, self._client.session
        assert exchanges is not None
        received = None if session is None else session.received
        return exchanges.begin_alone(event.packet_id, received) or bool(self._begin([event]))

    def _begin(self, run: list[Publish]) -> list[Publish]:
        """The messages of an MQTT 5 client that are taken; the others are answered."""
        exchanges, first = self.exchanges, run[0]
        assert exchanges is not None
        received: AbstractSet[int] = set()
        if self._client.session is not None:
            received = self._client.session.received or received
        if any(map(_PROPERTIES_OF, run)) and not all(map(_is_simple, run)):
            run = [event for event in run if not self._is_refused(event)]
        if not first.qos or not run:
            return run
        kind = ANSWERS[first.qos]
        if not exchanges.begin(kind, [event.packet_id for event in run], received):
            run = self._begin_each(exchanges, run, received)
        return run if self._is_within_maximum(exchanges) else []

    def _is_within_maximum(self, exchanges: Exchanges) -> bool:
        """Whether the client keeps to the receive maximum; if not, its connection is closed."""
        if exchanges.is_beyond_maximum:
            maximum = self._door.connections.limits.receive_maximum
            detail = f"more than {maximum} messages are unacknowledged"
            self._client.close(DisconnectReason.RECEIVE_MAXIMUM, detail)
        return not exchanges.is_beyond_maximum

    def _is_refused(self, event: Publish) -> bool:
        properties = event.properties
        if properties is None:
            return False
        fault = unfit(properties, [event.payload], self._door.settings)
        if fault is not None:
            self._refuse(fault, event)
        return fault is not None

    def _begin_each(
        self, exchanges: Exchanges, run: list[Publish], received: AbstractSet[int]
    ) -> list[Publish]:
        begun = []
        for event in run:
            kind = ANSWERS[event.qos]
            if exchanges.begin(kind, [event.packet_id], received):
                begun.append(event)
            else:
                text = f"packet identifier {event.packet_id} is in use"
                code = ReasonCode.PACKET_IDENTIFIER_IN_USE
                self._answer(event.qos, event.packet_id, code, text)
        return begun

    def _submit(
        self,
        topic: bytes,
        payloads: list[bytes],
        run: list[Publish],
        now_ms: int,
        signed: list[Extras | None] | None = None,
    ) -> None:
        """``signed``: the signatures of the payloads, if they have some."""
        client, pipeline, first = self._client, self._door.pipeline, run[0]
        self._counters.messages_in_total[first.qos] += len(run)
        packet_ids = [event.packet_id for event in run] if first.qos else None
        if first.qos == 2 and packet_ids and (session := client.session) is not None:
            received = Received(client.client_id, packet_ids, session.origin, client.number)
            pipeline.receive(received, client, record=session.durable)
        self._name_publisher(len(payloads) if first.qos else 0)
        retain = bool(
            first.retain and payloads and self._door.admission.may_retain(topic, payloads[-1])
        )
        extras = signed
        if signed is None and self.exchanges is not None:
            extras = _extras(run, now_ms)
        marks = marks_of(first.properties)
        if first.retain and not retain:
            marks |= FLAG_RETAIN_UNKEPT
        pipeline.publish(
            topic,
            payloads,
            now_ms,
            qos=first.qos,
            retain=retain,
            packet_ids=packet_ids,
            client=client if first.qos else None,
            extras=extras,
            marks=marks,
            author=client.principal.author,
        )

    def _name_publisher(self, count: int) -> None:
        """Journal who published the next messages, if that matters to a subscription."""
        client = self._client
        if count and client.wants_no_own:
            named = PublishedBy(client.client_id, count)
            self._door.pipeline.submit(named, client, durable=True)

    def _admit(self, topic: bytes, count: int, event: Publish | None = None) -> TopicRoute | None:
        """The route of a topic; None if publishing is refused. ``event`` is answered, if any."""
        route = self._door.admission.admit(self._client.principal, topic, count)
        if isinstance(route, Refusal):
            fault = malformed_topic(topic) if self.exchanges is not None else None
            if fault is not None:
                self._client.close(*fault)
            else:
                self._refuse(route, event)
            return None
        return route

    def _refuse(self, refusal: Refusal, event: Publish | None = None) -> None:
        """Refuse a message, or close the connection.

        A denied message that wants no answer is just dropped. 3.1.1 has no negative
        acknowledgement, and a positive one would be a lie [MQTT-3.3.5-2].
        """
        code = CODES[refusal.reason].ack if self.exchanges is not None else None
        if event is not None and event.qos and code is not None:
            self._answer(event.qos, event.packet_id, code, refusal.text)
        elif (event is not None and event.qos) or (
            refusal.reason is not DisconnectReason.NOT_AUTHORIZED
        ):
            self._client.close(*refusal)

    def _answer(self, qos: int, packet_id: int, code: int, text: str) -> None:
        """Refuse a message that has not begun: its id is free at once [MQTT5-4.3.3-9]."""
        exchanges, kind = self.exchanges, ANSWERS[qos]
        assert exchanges is not None
        packet = refused_publish(self._client.terms, kind, packet_id, code, text)
        if exchanges.hold(kind, packet):
            self._is_within_maximum(exchanges)
        else:
            self._client.send(packet)

    def refuse_begun(self, qos: int, packet_ids: list[int], reason: DisconnectReason) -> None:
        """The disk took no messages that had begun: tell an MQTT 5 client, if there is a code."""
        exchanges, code = self.exchanges, CODES[reason].ack
        if exchanges is None or code is None:
            self._client.close(reason)
            return
        kind, terms = ANSWERS[qos], self._client.terms
        text = "the broker cannot store the message"
        refusals = {one: refused_publish(terms, kind, one, code, text) for one in packet_ids}
        self._client.send(exchanges.refuse(kind, refusals))

    def _is_unfit(self, event: MqttPublishRun) -> bool:
        """Whether QoS 0 messages are refused, which ends the connection."""
        if event.properties is None or event.properties.is_simple:
            return False
        fault = unfit(event.properties, event.payloads, self._door.settings)
        if fault is not None:
            self._client.close(*fault)
        return fault is not None

    def _publish_signed(self, run: list[Publish], now_ms: int) -> None:
        """Publish what is in envelopes. A run of an MQTT 5 client has one, which may be refused."""
        exchanges, first = self.exchanges, run[0]
        last = exchanges.last(ANSWERS[first.qos]) if exchanges is not None and first.qos else 0
        run = self._fresh(run)
        if not run:
            return
        found = self._open(first.topic, [event.payload for event in run], now_ms)
        if found.payloads and not first.qos:
            self._forward(found.topic, found.payloads, first, now_ms)
        if found.taken:
            signed = _signed(found, first.properties, now_ms)
            self._submit(found.topic, found.payloads, run[: found.taken], now_ms, signed)
        if found.refused is not None:
            if exchanges is not None and first.qos:
                exchanges.undo(ANSWERS[first.qos], first.packet_id, last)
            self._refuse(found.refused, first)

    def _publish_signed_runs(self, event: MqttPublishRun, now_ms: int) -> None:
        door, properties = self._door, event.properties
        found = self._open(event.topic, event.payloads[:SIGNED_AT_ONCE], now_ms)
        topic, payloads = found.topic, found.payloads
        if payloads:
            self._counters.messages_in_total[0] += len(payloads)
            first = Publish(topic, b"", 0, False, False, 0, properties)
            self._forward(topic, payloads, first, now_ms)
            extras, marks = _signed(found, properties, now_ms), marks_of(properties)
            door.pipeline.publish(
                topic, payloads, now_ms, qos=0, retain=False, extras=extras, marks=marks
            )
        if found.refused is not None:
            self._refuse(found.refused)

    def _open(self, topic: bytes, payloads: list[bytes], now_ms: int) -> OpenedEnvelopes:
        door, principal = self._door, self._client.principal
        route = door.admission.admit_unsigned(
            principal, topic, len(payloads), could_sign=True, has_envelopes=True
        )
        if isinstance(route, Refusal):
            return OpenedEnvelopes(topic, [], [], 0, route)
        return door.envelopes.open(principal, topic, payloads, now_ms)

    def _without_repeated(self, run: list[Publish]) -> list[Publish]:
        session = self._client.session
        assert session is not None
        fresh: dict[int, Publish] = {}
        for event in run:
            if event.packet_id not in fresh and not self._is_repeated(session, event.packet_id):
                fresh[event.packet_id] = event
        return list(fresh.values())

    def _is_repeated(self, session: Session, packet_id: int) -> bool:
        """Acknowledge a QoS 2 id that is not released, without a delivery [MQTT-4.3.3-2]."""
        client, pipeline = self._client, self._door.pipeline
        if session.has_received(packet_id):
            client.acknowledge(PUBREC, [packet_id])
            return True
        if (client.client_id, packet_id) in pipeline.receiving:
            # The first copy is in the pipeline: answer after it is applied, or refused.
            pipeline.submit(Repeated(client.client_id, [packet_id]), client, durable=False)
            return True
        return False


def _singles(event: MqttPublishRun) -> list[Event]:
    """The messages of a run, each with its own properties."""
    return [
        MqttPublishRun(event.topic, [payload], b"", 0, 0, event.version, properties)
        for payload, properties in zip(event.payloads, event.each or (), strict=True)
    ]


def _taken_apart(frames: PublishFrames) -> list[Event]:
    """The packets as runs, as a broker has them that is not compiled."""
    runs: list[Event] = []
    while len(frames):
        runs.append(frames.take_run(MqttPublishRun))
    return runs


def _expires_ms(properties: MessageProperties | None, now_ms: int) -> int:
    """When messages expire; 0: never."""
    if properties is None or properties.expiry_s is None:
        return 0
    return now_ms + 1000 * properties.expiry_s


def _joined(stretch: list[MqttPublishRun], count: int) -> Live:
    """Adjacent runs with ``count`` messages, as one slice of their chunk."""
    frames = stretch[0].chunk[stretch[0].start : stretch[-1].end]
    if stretch[0].version < LEVEL_5:
        return Live(stretch, count, frames)
    return Live(stretch, count, mqtt_5=frames)


def _extras(run: list[Publish], now_ms: int) -> list[Extras | None] | None:
    """The properties of messages as the journal has them; None if no message has some."""
    found = list(map(_PROPERTIES_OF, run))
    if not any(found):
        return None
    return [None if one is None else _journaled(one, now_ms) for one in found]


def _journaled(properties: MessageProperties, now_ms: int) -> Extras:
    extras = properties.extras
    if extras is None or not properties.is_simple:
        return extras_of(properties, now_ms)
    remember_block(extras, properties.block)
    return extras


def _is_simple(event: Publish) -> bool:
    """Whether its properties, if any, need no check and no flags in the journal."""
    return event.properties is None or event.properties.is_simple


def _signed(
    found: OpenedEnvelopes, properties: MessageProperties | None, now_ms: int
) -> list[Extras | None]:
    """The signatures of messages, and the properties that their envelopes came with."""
    if properties is None:
        return found.extras
    extras = extras_of(properties, now_ms)
    return [
        replace(extras, signature=None if one is None else one.signature) for one in found.extras
    ]
