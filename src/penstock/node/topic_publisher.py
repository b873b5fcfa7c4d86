"""Publishing by HTTP: one message per request, answered with its offset."""

from collections.abc import Callable
from typing import Final

from penstock.access.admission import Admission, Refusal, topic_refusal
from penstock.access.audit import CALLER
from penstock.api.views import Check, Draft
from penstock.commit.completion import FutureCompletion
from penstock.commit.pipeline import Pipeline
from penstock.core.completion import Journaled
from penstock.limits import HTTP_PAYLOAD_BYTES_MAX
from penstock.model.message import FLAG_RETAIN_UNKEPT, Extras
from penstock.model.mqtt_headers import Headers
from penstock.net.connections import Connections
from penstock.trust.principal import Principal
from penstock.trust.rules import Action
from penstock.trust.touched import ENVELOPE_PREFIX

_SIGNED: Final = "the topic takes signed messages only, which HTTP cannot carry"


class NodeTopicPublisher:
    """Publishes for the HTTP pages; see ``admin.view.TopicPublisher``."""

    def __init__(self, admission: Admission, pipeline: Pipeline, connections: Connections) -> None:
        self._admission = admission
        self._pipeline = pipeline
        self._connections = connections

    @property
    def payload_bytes_max(self) -> int:
        return min(self._connections.limits.packet_bytes_max, HTTP_PAYLOAD_BYTES_MAX)

    def refusal(self, principal: Principal, topic: bytes) -> Refusal | None:
        """Why publishing to a topic is refused, counted; None if it is admitted."""
        route = self._admission.admit_unsigned(principal, topic)
        return route if isinstance(route, Refusal) else None

    async def publish(
        self, topic: bytes, payload: bytes, *, retain: bool, headers: Headers, expiry_s: int
    ) -> int:
        """Publish with QoS 1; return the offset once it is on disk. Raises PenstockError."""
        now_ms = self._connections.wall_ms()
        extras = Extras(headers, expires_ms=now_ms + expiry_s * 1000 if expiry_s else 0)
        waiter = FutureCompletion("the message is not stored")
        self._connections.counters.messages_in_total[1] += 1
        author = CALLER.get().author
        self._pipeline.publish(
            topic,
            [payload],
            now_ms,
            qos=1,
            retain=retain,
            author=author,
            extras=[extras] if headers or expiry_s else None,
        )
        self._pipeline.tell_offsets(topic, 1, waiter, now_ms)
        journaled = await waiter.future
        assert isinstance(journaled, Journaled)
        return journaled.offset


class NodePublishing:
    """Publishes what the API is asked to, or says what would become of it."""

    def __init__(
        self,
        admission: Admission,
        pipeline: Pipeline,
        connections: Connections,
        fault: Callable[[], str],
    ) -> None:
        """``fault``: why the broker takes no messages now; empty: it does."""
        self._admission = admission
        self._pipeline = pipeline
        self._connections = connections
        self._fault = fault
        self.wall_ms = connections.wall_ms

    @property
    def payload_bytes_max(self) -> int:
        return min(self._connections.limits.packet_bytes_max, HTTP_PAYLOAD_BYTES_MAX)

    def check(self, principal: Principal, draft: Draft) -> list[Check]:
        """What decides whether a message is accepted; nothing is counted."""
        admission, topic, size = self._admission, draft.topic, len(draft.payload)
        refusal = topic_refusal(topic, self._connections.limits)
        may = admission.allows(principal, Action.PUBLISH, topic)
        is_signed = admission.gate.demands_signature(topic) or topic.startswith(ENVELOPE_PREFIX)
        fault, size_max = self._fault(), self.payload_bytes_max
        checks = [
            Check("topic", refusal is None, refusal.text if refusal else "the name is valid"),
            Check("rights", may, f"{_who(principal)} {'may' if may else 'may not'} publish here"),
            Check("signature", not is_signed, _SIGNED if is_signed else "no signature is required"),
            Check("size", size <= size_max, f"{size} bytes of at most {size_max}"),
            Check("broker", not fault, fault or "the broker takes messages"),
        ]
        if draft.retain:
            is_kept = not draft.payload or admission.has_room_to_retain(topic)
            text = "is retained" if draft.payload else "clears the retained message"
            full = "is delivered, but not retained: the limit is reached"
            checks.append(Check("retained", is_kept, text if is_kept else full))
        return checks

    def refusal(self, principal: Principal, topic: bytes) -> Refusal | None:
        """Why publishing to a topic is refused, counted; None if it is admitted."""
        route = self._admission.admit_unsigned(principal, topic)
        return route if isinstance(route, Refusal) else None

    async def publish(self, draft: Draft) -> int:
        """Publish; return the offset once the message is durable. Raises PenstockError."""
        now_ms = self.wall_ms()
        waiter = FutureCompletion("the message is not stored")
        self._connections.counters.messages_in_total[draft.qos] += 1
        is_kept = draft.retain and self._admission.may_retain(draft.topic, draft.payload)
        self._pipeline.publish(
            draft.topic,
            [draft.payload],
            now_ms,
            qos=draft.qos,
            retain=is_kept,
            author=CALLER.get().author,
            extras=[draft.extras] if draft.extras is not None else None,
            marks=draft.marks | (FLAG_RETAIN_UNKEPT if draft.retain and not is_kept else 0),
        )
        self._pipeline.tell_offsets(draft.topic, 1, waiter, now_ms)
        journaled = await waiter.future
        assert isinstance(journaled, Journaled)
        return journaled.offset


def _who(principal: Principal) -> str:
    return f"user {principal.user}" if principal.user else "a client that has not logged in"
