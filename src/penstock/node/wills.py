"""Publishes the wills of clients whose connections broke.

A will is judged when the client connects, and again when it is due: its user may have lost the
right, or be gone.
"""

from penstock.access.admission import CAPTURED, Admission
from penstock.clock import Clock
from penstock.cluster.consensus import Consensus
from penstock.commit.pipeline import Pipeline
from penstock.core.commands import WillMessage
from penstock.core.live import Live
from penstock.core.owners import Owners
from penstock.core.session import Session
from penstock.delivery.fanout import LiveFanout
from penstock.obs.counters import Counters
from penstock.obs.reasons import DropReason
from penstock.trust.principal import Principal
from penstock.trust.rules import Action


class Wills:
    """Publishes wills; they are retried if a commit fails."""

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

    def publish(self, will: WillMessage, owner: Session) -> None:
        """``owner`` is the session that left the will."""
        topic, payloads = will.topic, [will.payload]
        principal = Principal(owner.user, self._owners.rights(owner), "mqtt", via=owner.via)
        if self._admission.judge(principal, Action.PUBLISH, topic) is not None:
            self._counters.drops[DropReason.NOT_AUTHORIZED] += 1
            return
        route = self._admission.route(topic)
        policy = route.policy
        if policy > CAPTURED:  # the topic requires signatures since the client connected
            self._admission.gate.admit_unsigned(topic)
            self._counters.drops[DropReason.SIGNATURE_REFUSED] += 1
            return
        if not will.qos:
            self._fanout.forward(route.targets, Live.of(topic, payloads))
            if not policy and not will.retain:
                self._cluster.broadcast(topic, payloads)
        now_ms = self._clock.wall_ms()
        if will.qos or will.retain:
            retain = will.retain and self._admission.may_retain(topic, will.payload)
            self._pipeline.publish(
                topic,
                payloads,
                now_ms,
                qos=will.qos,
                retain=retain,
                keep=True,
                author=principal.author,
            )
        elif policy & CAPTURED:
            self._pipeline.capture(topic, payloads, now_ms)
