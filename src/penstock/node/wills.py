"""Publishes the wills of clients whose connections broke."""

from penstock.access.admission import CAPTURED, Admission
from penstock.clock import Clock
from penstock.cluster.consensus import Consensus
from penstock.commit.pipeline import Pipeline
from penstock.core.commands import WillMessage
from penstock.core.live import Live
from penstock.delivery.fanout import LiveFanout
from penstock.obs.counters import Counters
from penstock.obs.reasons import DropReason


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
    ) -> None:
        self._admission = admission
        self._fanout = fanout
        self._pipeline = pipeline
        self._cluster = cluster
        self._clock = clock
        self._counters = counters

    def publish(self, will: WillMessage) -> None:
        topic, payloads = will.topic, [will.payload]
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
            self._pipeline.publish(topic, payloads, now_ms, qos=will.qos, retain=retain, keep=True)
        elif policy & CAPTURED:
            self._pipeline.capture(topic, payloads, now_ms)
