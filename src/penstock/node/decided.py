"""Publishes what this node decides as leader: wills, and what is scheduled.

The caller submits, within ``Pipeline.as_leader``, the message and the command that notes that it
was published. Both are void if another node leads by then, so a message is neither lost nor
published twice.
"""

from typing import NamedTuple

from penstock.access.admission import CAPTURED, Admission, TopicRoute
from penstock.cluster.consensus import Consensus
from penstock.commit.completion import Callback
from penstock.commit.pipeline import Pipeline
from penstock.core.commands import PublishedBy
from penstock.core.live import live_of
from penstock.delivery.fanout import LiveFanout
from penstock.model.message import (
    CONTENT_TYPE_SHIFT,
    FLAG_RETAIN,
    FLAG_RETAIN_UNKEPT,
    PRIORITY_SHIFT,
    Extras,
)
from penstock.model.mqtt_headers import Headers, content_type_of

# refused with the message, which is published again; a command without a waiter would be kept
_NOT_RETRIED = Callback(lambda _value: None, lambda _reason, _detail: None)


class DecidedMessage(NamedTuple):
    """A message that the leader publishes for somebody."""

    topic: bytes
    payload: bytes
    qos: int
    retain: bool
    headers: Headers
    expires_ms: int  # 0: never
    author: str  # remembered with a retained message
    publisher: bytes = b""  # client id: subscriptions with no local do not get its messages
    priority: int = 0

    @property
    def marks(self) -> int:
        content_type = content_type_of(self.headers) << CONTENT_TYPE_SHIFT
        return content_type | self.priority << PRIORITY_SHIFT

    @property
    def extras(self) -> Extras | None:
        if not self.headers and not self.expires_ms:
            return None
        return Extras(self.headers, expires_ms=self.expires_ms)


class DecidedPublisher:
    """Journals and forwards the messages that the leader decides to publish."""

    def __init__(
        self, admission: Admission, fanout: LiveFanout, pipeline: Pipeline, cluster: Consensus
    ) -> None:
        self._admission = admission
        self._fanout = fanout
        self._pipeline = pipeline
        self._cluster = cluster

    def journal(self, route: TopicRoute, message: DecidedMessage, now_ms: int) -> None:
        """Put it in the open batch, unless it is of QoS 0 and its topic is not captured."""
        if not (message.qos or message.retain or route.policy & CAPTURED):
            return
        is_kept = message.retain and self._admission.may_retain(message.topic, message.payload)
        unkept = FLAG_RETAIN_UNKEPT if message.retain and not is_kept else 0
        if message.qos and message.publisher:
            publisher = PublishedBy(message.publisher, 1)
            self._pipeline.submit(publisher, _NOT_RETRIED, durable=True)
        extras = message.extras
        self._pipeline.publish(
            message.topic,
            [message.payload],
            now_ms,
            qos=message.qos,
            retain=is_kept,
            extras=[extras] if extras is not None else None,
            marks=message.marks | unkept,
            author=message.author,
        )

    def forward(self, message: DecidedMessage) -> None:
        """Once it is journaled: QoS 0 to subscribers of this node; others get it by the log.

        What is not journaled is sent to the other nodes.
        """
        if message.qos:
            return
        route = self._admission.route(message.topic)  # of this moment
        flags = (FLAG_RETAIN if message.retain else 0) | message.marks
        extras = message.extras
        live = live_of(message.topic, message.payload, extras, flags, message.publisher)
        self._fanout.forward(route.targets, live, route.marked)
        if not route.policy and not message.retain:
            self._cluster.broadcast(message.topic, [message.payload], extras, message.marks)
