"""Listing, clearing and restoring retained messages (``api.views.RetainedAdmin``).

**Clearing** applies to the very messages that were found: what was published meanwhile stays. It
tells subscribers nothing and leaves the history alone; a message without payload would be one more
message in each of the topics.

**Restoring** publishes the messages again, with RETAIN, as only a message in the journal can be
retained: subscribers that are connected get them once more.
"""

from collections.abc import Iterator, Sequence

from penstock.access.audit import CALLER, AuditLog
from penstock.commit.completion import FutureCompletion
from penstock.commit.pipeline import Pipeline
from penstock.core.broker import Broker
from penstock.core.commands import RetainedExpired
from penstock.core.retained import RetainedMessage
from penstock.limits import MIB
from penstock.model.message import CONTENT_TYPE_SHIFT
from penstock.net.connections import Connections

AT_ONCE = 500  # messages of a command, so that none is large
AT_ONCE_BYTES = 1 * MIB  # of payloads that are published together


class NodeRetainedAdmin:
    """Implements ``api.views.RetainedAdmin`` for one node."""

    def __init__(
        self, broker: Broker, pipeline: Pipeline, connections: Connections, audit: AuditLog
    ) -> None:
        self._retained = broker.retained
        self._pipeline = pipeline
        self._audit = audit
        self.wall_ms = connections.wall_ms

    def walk(self, topic_filter: bytes) -> Iterator[RetainedMessage | None]:
        return self._retained.walk(topic_filter)

    def get(self, topic: bytes) -> RetainedMessage | None:
        return self._retained.get(topic)

    def audit(self, what: str, topic_filter: str, count: int) -> None:
        """Record a change; the change itself follows it."""
        row: dict[str, object] = {"kind": "retained", "name": topic_filter, "count": count}
        self._audit.changed("retained", [row], CALLER.get(), self.wall_ms(), what)

    async def clear(self, messages: Sequence[RetainedMessage]) -> int:
        """Clear messages that are still those of their topics; return how many were."""
        cleared = 0
        for first in range(0, len(messages), AT_ONCE):
            some = messages[first : first + AT_ONCE]
            present = [(one.topic, one.sequence) for one in some if self._is_there(one)]
            waiter = FutureCompletion("not all of the messages were cleared")
            self._pipeline.submit(RetainedExpired(present), waiter, durable=True)
            await waiter.future
            cleared += len(present)
        return cleared

    def _is_there(self, message: RetainedMessage) -> bool:
        found = self._retained.get(message.topic)
        return found is not None and found.sequence == message.sequence

    async def restore(self, messages: Sequence[RetainedMessage]) -> None:
        """Publish messages with RETAIN."""
        now_ms = self.wall_ms()
        for some in _portions(messages):
            for one in some:
                self._pipeline.publish(
                    one.topic,
                    [one.payload],
                    now_ms,
                    qos=one.qos,
                    retain=True,
                    author=one.author,
                    extras=[one.extras] if one.extras is not None else None,
                    marks=one.content_type << CONTENT_TYPE_SHIFT,
                )
            waiter = FutureCompletion("not all of the messages are retained again")
            self._pipeline.tell_offsets(some[-1].topic, 1, waiter, now_ms)
            await waiter.future


def _portions(messages: Sequence[RetainedMessage]) -> Iterator[list[RetainedMessage]]:
    """So many at once that no commit is long."""
    some: list[RetainedMessage] = []
    size = 0
    for one in messages:
        some.append(one)
        size += len(one.payload)
        if len(some) == AT_ONCE or size >= AT_ONCE_BYTES:
            yield some
            some, size = [], 0
    if some:
        yield some
