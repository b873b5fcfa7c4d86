"""Publishes the wills of clients whose connections broke.

A will is in the session of its client until it is published (``core.pending_will``). Only the
leader publishes it, in one commit with ``WillSent``; if that is void, because another node leads by
now, so is the message. Thus a will is neither lost nor published twice, whatever crashes.

A will is judged when the client connects, and again when it is due: its user may have lost the
right, or be gone.
"""

from collections.abc import Callable

from penstock.access.admission import CAPTURED, Admission, TopicRoute
from penstock.clock import Clock
from penstock.cluster.consensus import Consensus
from penstock.commit.completion import Callback
from penstock.commit.pipeline import Pipeline
from penstock.core.commands import PublishedBy, WillMessage, WillSent
from penstock.core.live import live_of
from penstock.core.owners import Owners
from penstock.core.pending_will import PendingWill
from penstock.delivery.fanout import LiveFanout
from penstock.model.message import CONTENT_TYPE_SHIFT, FLAG_RETAIN, FLAG_RETAIN_UNKEPT, Extras
from penstock.model.mqtt_headers import content_type_of
from penstock.obs.counters import Counters
from penstock.obs.reasons import DropReason
from penstock.trust.principal import Principal
from penstock.trust.rules import Action

# refused with the will, which is published again; a command without a waiter would be kept
_NOT_RETRIED = Callback(lambda _value: None, lambda _reason, _detail: None)


class Wills:
    """Publishes wills as the leader."""

    def __init__(
        self,
        admission: Admission,
        fanout: LiveFanout,
        pipeline: Pipeline,
        cluster: Consensus,
        clock: Clock,
        counters: Counters,
        owners: Owners,
    ) -> None:
        self._owners = owners
        self._admission = admission
        self._fanout = fanout
        self._pipeline = pipeline
        self._cluster = cluster
        self._clock = clock
        self._counters = counters

    def publish(self, pending: PendingWill, done: Callable[[], None]) -> None:
        """Publish a will that is due; call ``done`` when that is applied, or was refused."""
        route = self._admitted(pending)

        def sent(_value: object) -> None:
            done()
            if route is not None and not pending.will.qos:
                self._forward(route, pending)

        completion = Callback(sent, lambda _reason, _detail: done())
        with self._pipeline.as_leader():
            if route is not None:
                self._journal(route, pending)
            self._pipeline.submit(
                WillSent(pending.client_id, pending.connection), completion, durable=True
            )

    def _admitted(self, pending: PendingWill) -> TopicRoute | None:
        topic = pending.will.topic
        principal = self._principal(pending)
        if self._admission.judge(principal, Action.PUBLISH, topic) is not None:
            self._note_dropped(DropReason.NOT_AUTHORIZED, pending)
            return None
        route = self._admission.route(topic)
        if route.policy > CAPTURED:  # the topic requires signatures since the client connected
            self._admission.gate.admit_unsigned(topic)
            self._note_dropped(DropReason.SIGNATURE_REFUSED, pending)
            return None
        return route

    def _note_dropped(self, reason: DropReason, pending: PendingWill) -> None:
        client_id, topic = pending.client_id, pending.will.topic
        self._counters.dropped(reason, 1, client_id, topic, user=pending.user, detail="its will")

    def _principal(self, pending: PendingWill) -> Principal:
        return Principal(pending.user, self._owners.rights(pending), "mqtt", via=pending.via)

    def _journal(self, route: TopicRoute, pending: PendingWill) -> None:
        will, now_ms = pending.will, self._clock.wall_ms()
        if not (will.qos or will.retain or route.policy & CAPTURED):
            return
        is_kept = will.retain and self._admission.may_retain(will.topic, will.payload)
        marks = _marks(will) | (FLAG_RETAIN_UNKEPT if will.retain and not is_kept else 0)
        if will.qos:
            # who published it matters to subscriptions with no local
            publisher = PublishedBy(pending.client_id, 1)
            self._pipeline.submit(publisher, _NOT_RETRIED, durable=True)
        self._pipeline.publish(
            will.topic,
            [will.payload],
            now_ms,
            qos=will.qos,
            retain=is_kept,
            extras=_extras(will, now_ms),
            marks=marks,
            author=self._principal(pending).author,
        )

    def _forward(self, route: TopicRoute, pending: PendingWill) -> None:
        """QoS 0: to subscribers of this node; others learn it from the log, if that keeps it."""
        will = pending.will
        topic_route = self._admission.route(will.topic)  # of this moment
        extras = _extras(will, self._clock.wall_ms())
        common = extras[0] if extras else None
        flags = (FLAG_RETAIN if will.retain else 0) | _marks(will)
        live = live_of(will.topic, will.payload, common, flags, pending.client_id)
        self._fanout.forward(topic_route.targets, live, topic_route.marked)
        if not route.policy and not will.retain:
            self._cluster.broadcast(will.topic, [will.payload], common, _marks(will))


def _marks(will: WillMessage) -> int:
    return content_type_of(will.headers) << CONTENT_TYPE_SHIFT


def _extras(will: WillMessage, now_ms: int) -> list[Extras | None] | None:
    """Its properties; message expiry counts from now on."""
    if not will.headers and will.expiry_s < 0:
        return None
    expires_ms = now_ms + will.expiry_s * 1000 if will.expiry_s >= 0 else 0
    return [Extras(will.headers, expires_ms=expires_ms)]
