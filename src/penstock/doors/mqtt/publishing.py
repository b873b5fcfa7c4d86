"""What one MQTT client publishes: live fan-out for QoS 0, the commit pipeline for the rest.

Publishes that came back to back are taken together: one write, one command for many.
"""

from typing import Protocol

from msgspec.structs import replace

from penstock.access.admission import CAPTURED, Refusal, TopicRoute
from penstock.access.envelopes import OpenedEnvelopes
from penstock.core.commands import Received, Repeated
from penstock.core.live import Live
from penstock.core.routes import UNKNOWN_POLICY
from penstock.core.session import PUBREC, Publisher, Session
from penstock.delivery.fanout import Targets
from penstock.doors.mqtt.parts import MqttParts
from penstock.model.message import Extras
from penstock.net.connection import SIGNED_AT_ONCE
from penstock.obs.reasons import DisconnectReason
from penstock.trust.principal import Principal
from penstock.wire.mqtt.decode import LEVEL_5
from penstock.wire.mqtt.events import Event, MqttPublishRun, Publish


class PublishingClient(Publisher, Protocol):
    """The connection of the client."""

    principal: Principal
    client_id: bytes
    session: Session | None
    number: int
    reason: DisconnectReason | None  # None while it is open

    def close(self, reason: DisconnectReason, detail: str = "") -> None: ...


class MqttPublishing:
    """Handles the PUBLISH packets of one connection."""

    def __init__(self, door: MqttParts, client: PublishingClient) -> None:
        self._door = door
        self._client = client
        self._counters = door.connections.counters

    def publish_runs(
        self, events: list[Event], position: int, now_ms: int, turn_ends_at: float
    ) -> int:
        """QoS 0: forward to the subscribers at once, raw frames reused; capture in the background.

        The hottest loop beside the codec's, so it takes all such events in a row and does what it
        can once for all of them; it reads the clock only when it meets a new topic. Returns the
        position of the first event that it did not take.
        """
        door, start = self._door, position
        monotonic = door.connections.monotonic
        cached = door.broker.routes.cached
        publishable = self._client.principal.rights.publishable
        capture = door.pipeline.begin_capture()
        received = 0
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
            if policy > CAPTURED:
                if len(payloads) > SIGNED_AT_ONCE:
                    rest = replace(event, payloads=payloads[SIGNED_AT_ONCE:])
                    events.insert(position, rest)
                self._publish_signed_runs(topic, payloads[:SIGNED_AT_ONCE], now_ms)
                break
            received += len(payloads)
            if stretch and route.targets == targets and _is_next(stretch[-1], event):
                stretch.append(event)
            else:
                if stretch:
                    door.fanout.forward(targets, _joined(stretch))
                targets = route.targets
                stretch = [event] if targets else []
            if policy:
                # the route's own name: the same object with every message, so that it is compared
                # by identity from here on
                capture(route.topic, payloads, now_ms, 0)
            else:
                door.cluster.broadcast(topic, payloads)
        if stretch:
            door.fanout.forward(targets, _joined(stretch))
        self._counters.messages_in_total[0] += received
        door.pipeline.end_capture()
        return position

    def publish(self, first: Publish, events: list[Event], position: int, now_ms: int) -> int:
        """Publish ``first`` and those like it from ``position`` on; return what comes next."""
        topic, qos = first.topic, first.qos
        route = self._admit(topic, qos=qos)
        if route is None:
            return position
        is_guarded = route.policy > CAPTURED
        if qos == 1 and position == len(events) and not (is_guarded or first.retain):
            # alone, as the messages of those who wait for each acknowledgement are
            self._counters.messages_in_total[1] += 1
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
            end = min(end, position + SIGNED_AT_ONCE - 1)
        while position < end:
            event = events[position]
            if type(event) is not Publish or not _continues(first, event):
                break
            run.append(event)
            position += 1
        if is_guarded:
            self._publish_signed(run, now_ms)
            return position
        if qos == 2:
            run = self._without_repeated(run)
        elif not qos:
            # To be retained too, but live subscribers get it with RETAIN 0 [MQTT-3.3.1-9].
            self._door.fanout.forward(route.targets, Live.of(topic, [first.payload]))
        if run:
            self._submit(topic, [event.payload for event in run], run, now_ms)
        return position

    def _submit(
        self,
        topic: bytes,
        payloads: list[bytes],
        run: list[Publish],
        now_ms: int,
        extras: list[Extras | None] | None = None,
    ) -> None:
        client, pipeline, first = self._client, self._door.pipeline, run[0]
        self._counters.messages_in_total[first.qos] += len(run)
        packet_ids = [event.packet_id for event in run] if first.qos else None
        if first.qos == 2 and packet_ids and (session := client.session) is not None:
            received = Received(client.client_id, packet_ids, session.origin, client.number)
            pipeline.receive(received, client, record=session.durable)
        pipeline.publish(
            topic,
            payloads,
            now_ms,
            qos=first.qos,
            retain=first.retain
            and bool(payloads)
            and self._door.admission.may_retain(topic, payloads[-1]),
            packet_ids=packet_ids,
            client=client if first.qos else None,
            extras=extras,
            author=client.principal.author,
        )

    def _admit(self, topic: bytes, count: int = 1, qos: int = 0) -> TopicRoute | None:
        """The route of a topic; None if publishing is refused."""
        route = self._door.admission.admit(self._client.principal, topic, count)
        if isinstance(route, Refusal):
            self._refuse(route, qos)
            return None
        return route

    def _refuse(self, refusal: Refusal, qos: int) -> None:
        """Close the connection. Only a denied message that wants no answer is just dropped.

        3.1.1 has no negative acknowledgement, and a positive one would be a lie [MQTT-3.3.5-2].
        """
        if qos or refusal.reason is not DisconnectReason.NOT_AUTHORIZED:
            self._client.close(*refusal)

    def _publish_signed(self, run: list[Publish], now_ms: int) -> None:
        qos = run[0].qos
        if qos == 2:
            run = self._without_repeated(run)
        if not run:
            return
        found = self._open(run[0].topic, [event.payload for event in run], now_ms)
        if found.payloads and not qos:
            targets = self._door.admission.route(found.topic).targets
            self._door.fanout.forward(targets, Live.of(found.topic, found.payloads))
        if found.taken:
            self._submit(found.topic, found.payloads, run[: found.taken], now_ms, found.extras)
        if found.refused is not None:
            self._refuse(found.refused, qos)

    def _publish_signed_runs(self, topic: bytes, envelopes: list[bytes], now_ms: int) -> None:
        door = self._door
        found = self._open(topic, envelopes, now_ms)
        topic, payloads = found.topic, found.payloads
        if payloads:
            self._counters.messages_in_total[0] += len(payloads)
            door.fanout.forward(door.admission.route(topic).targets, Live.of(topic, payloads))
            door.pipeline.publish(topic, payloads, now_ms, qos=0, retain=False, extras=found.extras)
        if found.refused is not None:
            self._refuse(found.refused, 0)

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


def _joined(stretch: list[MqttPublishRun]) -> Live:
    count = sum([len(run.payloads) for run in stretch])
    frames = stretch[0].chunk[stretch[0].start : stretch[-1].end]
    if stretch[0].version < LEVEL_5:
        return Live(stretch, count, frames)
    return Live(stretch, count, mqtt_5=frames)


def _is_next(last: MqttPublishRun, event: MqttPublishRun) -> bool:
    return event.chunk is last.chunk and event.start == last.end


def _continues(first: Publish, event: Publish) -> bool:
    """Whether ``event`` may join a run; QoS 0 to be retained goes alone."""
    return (
        event.topic == first.topic and event.qos == first.qos > 0 and event.retain == first.retain
    )
