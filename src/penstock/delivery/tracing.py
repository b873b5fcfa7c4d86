"""Spans of what the broker does about messages whose publisher is traced.

``receive``   from the arrival of a message to its commit; the child of the publisher's span
``commit``    the commit; a child of ``receive``
``deliver``   a message leaves for one subscriber or worker, whose parent it is; child of
              ``receive``. QoS 0 is forwarded at once to all who are connected, so it has one
              ``deliver`` for all of them, which is a child of the publisher's span.

Only messages with a valid, sampled ``traceparent`` have spans. The journal keeps the header as it
came. Subscribers get another one, with our span, at the moment of the delivery. So the broker keeps
nothing per message: the id of ``receive`` follows from the header and the sequence, by which any
node finds it again, also after a restart.
"""

import secrets
from collections.abc import Iterator
from hashlib import blake2b

from msgspec.structs import replace

from penstock.clock import Clock
from penstock.core.delivery import Delivery
from penstock.model.message import Extras
from penstock.model.mqtt_headers import Headers
from penstock.model.trace_context import TraceContext, context_of, with_parent
from penstock.obs.printable import printable
from penstock.obs.spans import Span, SpanExporter
from penstock.store.batch import Batch
from penstock.store.store import Commit

_SPAN_BYTES = 8


class Tracing:
    """Makes spans, and puts them into the headers of what is delivered."""

    def __init__(self, exporter: SpanExporter, clock: Clock, node: int) -> None:
        self._exporter = exporter
        self._wall_ms = clock.wall_ms
        self._node = node

    def close(self) -> None:
        self._exporter.close()

    # ── receiving ─────────────────────────────────────────────────────────────────────────────

    def committed(self, batch: Batch, commit: Commit) -> None:
        """A batch of this node is on disk: of a quorum, in a cluster."""
        end_ms = float(self._wall_ms())
        begin_ms = end_ms - commit.commit_s * 1000
        for topic, position, time_ms, context in _traced(batch):
            sequence = commit.base_sequence + position
            received = _received_id(context, sequence)
            about = self._about(topic, sequence)
            arrived_ms = min(float(time_ms), begin_ms)
            ids = context.trace_id, received, context.span_id
            self._exporter.add(Span("receive", *ids, arrived_ms, begin_ms, about))
            ids = context.trace_id, _new_id(), received
            self._exporter.add(Span("commit", *ids, begin_ms, end_ms, about))

    # ── delivering ────────────────────────────────────────────────────────────────────────────

    def delivering(self, deliveries: list[Delivery], client: bytes) -> list[Delivery]:
        """Deliveries with our spans in their headers; those without a payload are read later."""
        return [
            delivery
            if delivery[1] is None or delivery[5] is None
            else (*delivery[:5], self.extras(delivery[0], delivery[4], delivery[5], client))
            for delivery in deliveries
        ]

    def extras(self, topic: bytes, sequence: int, extras: Extras, client: bytes) -> Extras:
        headers = self.headers(topic, sequence, extras.headers, client)
        return extras if headers is extras.headers else replace(extras, headers=headers)

    def headers(self, topic: bytes, sequence: int, headers: Headers, client: bytes) -> Headers:
        """The headers of a message that leaves for a client; the same if it is not traced."""
        context = _sampled(headers)
        if context is None:
            return headers
        parent = _received_id(context, sequence)
        return self._deliver(topic, sequence, headers, context, parent, client)

    def live_headers(self, topic: bytes, headers: Headers) -> Headers:
        """The headers of a message of QoS 0, which is forwarded to whoever is connected."""
        context = _sampled(headers)
        if context is None:
            return headers
        return self._deliver(topic, 0, headers, context, context.span_id, b"")

    def _deliver(
        self,
        topic: bytes,
        sequence: int,
        headers: Headers,
        context: TraceContext,
        parent: bytes,
        client: bytes,
    ) -> Headers:
        now_ms, span_id = float(self._wall_ms()), _new_id()
        about = self._about(topic, sequence)
        if client:
            about["messaging.client.id"] = printable(client)
        self._exporter.add(
            Span("deliver", context.trace_id, span_id, parent, now_ms, now_ms, about)
        )
        return with_parent(headers, context.with_span(span_id))

    def _about(self, topic: bytes, sequence: int) -> dict[str, str | int]:
        about: dict[str, str | int] = {
            "messaging.system": "penstock",
            "messaging.destination.name": printable(topic),
            "penstock.node": self._node,
        }
        return about | {"messaging.message.id": str(sequence)} if sequence else about


def _traced(batch: Batch) -> Iterator[tuple[bytes, int, int, TraceContext]]:
    """Topic, position, time and span of the messages of a batch that are traced."""
    found = {
        topic: {number: context for number, one in noted.items() if (context := _of(one))}
        for topic, noted in batch.extras.items()
    }
    if not any(found.values()):
        return
    topics = list(batch.topics)
    seen = [0] * len(topics)
    for position, group, count, time_ms, _flags in batch.each_run():
        traced, first = found.get(topics[group]), seen[group]
        seen[group] += count
        for number in range(first, first + count) if traced else ():
            if traced and number in traced:
                yield topics[group], position + number - first, time_ms, traced[number]


def _of(extras: Extras) -> TraceContext | None:
    return _sampled(extras.headers)


def _sampled(headers: Headers) -> TraceContext | None:
    context = context_of(headers)
    return context if context is not None and context.is_sampled else None


def _received_id(context: TraceContext, sequence: int) -> bytes:
    what = b"%b %b %d" % (context.trace_id, context.span_id, sequence)
    return blake2b(what, digest_size=_SPAN_BYTES).hexdigest().encode()


def _new_id() -> bytes:
    return secrets.token_hex(_SPAN_BYTES).encode()
