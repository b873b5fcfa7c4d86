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
from penstock.commit.completion import Callback
from penstock.commit.pipeline import Pipeline
from penstock.core.commands import WillSent
from penstock.core.owners import Owners
from penstock.core.pending_will import PendingWill
from penstock.node.decided import DecidedMessage, DecidedPublisher
from penstock.obs.counters import Counters
from penstock.obs.reasons import DropReason
from penstock.trust.principal import Principal
from penstock.trust.rules import Action


class Wills:
    """Publishes wills as the leader."""

    def __init__(
        self,
        admission: Admission,
        publisher: DecidedPublisher,
        pipeline: Pipeline,
        clock: Clock,
        counters: Counters,
        owners: Owners,
    ) -> None:
        self._owners = owners
        self._admission = admission
        self._publisher = publisher
        self._pipeline = pipeline
        self._clock = clock
        self._counters = counters

    def publish(self, pending: PendingWill, done: Callable[[], None]) -> None:
        """Publish a will that is due; call ``done`` when that is applied, or was refused."""
        route, now_ms = self._admitted(pending), self._clock.wall_ms()
        message = self._message(pending, now_ms)

        def sent(_value: object) -> None:
            done()
            if route is not None:
                self._publisher.forward(message)

        completion = Callback(sent, lambda _reason, _detail: done())
        with self._pipeline.as_leader():
            if route is not None:
                self._publisher.journal(route, message, now_ms)
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

    def _message(self, pending: PendingWill, now_ms: int) -> DecidedMessage:
        """Message expiry counts from now on."""
        will = pending.will
        return DecidedMessage(
            will.topic,
            will.payload,
            will.qos,
            will.retain,
            will.headers,
            now_ms + will.expiry_s * 1000 if will.expiry_s >= 0 else 0,
            self._principal(pending).author,
            pending.client_id,
        )
