"""What a broker knows of those who read by themselves, and of sinks."""

from collections.abc import Iterator

from penstock.access.audit import CALLER, AuditLog
from penstock.admin.view import ReaderView
from penstock.clock import Clock
from penstock.cluster.consensus import Consensus
from penstock.commit.completion import FutureCompletion
from penstock.core.broker import Broker
from penstock.dispatch.dispatchers import Dispatchers
from penstock.errors import Refused
from penstock.node.cluster_admin import check_leads
from penstock.obs.printable import printable
from penstock.staging.sink_commits import SinkCommits, SinkView
from penstock.wire.queue.faults import Fault


class _Forgotten(FutureCompletion):
    """Waits until a sink is forgotten."""

    def fail(self, fault: Fault) -> None:
        if not self.future.done():
            self.future.set_exception(Refused(fault.text, "try again when that is done"))


class NodeSparkAdmin:
    """Implements ``admin.view.SparkAdmin``."""

    def __init__(
        self,
        broker: Broker,
        dispatchers: Dispatchers,
        sinks: SinkCommits,
        cluster: Consensus,
        clock: Clock,
        audit: AuditLog,
    ) -> None:
        self._broker = broker
        self._dispatchers = dispatchers
        self._sinks = sinks
        self._cluster = cluster
        self._audit = audit
        self.wall_ms = clock.wall_ms

    @property
    def leads(self) -> bool:
        """Whether this node knows what is staged: only the leader does."""
        return self._cluster.is_leader

    def readers(self) -> Iterator[ReaderView]:
        for group in self._broker.groups:
            if group.reader:
                lag = self._dispatchers.groups.lag(group)
                position = group.oldest_unsettled
                yield ReaderView(group.name, "reader_group", group.topic, "", position, lag, 0)
        for subscriber in self._broker.subscribers.by_id.values():
            for topic, progress in subscriber.progress.items():
                end = self._dispatchers.topics.end(topic)
                first = self._dispatchers.topics.earliest(topic)
                lag = sum(high - low for low, high in progress.missing(first, end))
                yield ReaderView(
                    subscriber.client_id,
                    "durable_subscriber",
                    topic,
                    subscriber.user,
                    progress.mark,
                    lag,
                    subscriber.seen_ms,
                )

    def end(self, topic: bytes) -> int:
        return self._dispatchers.topics.end(topic)

    def earliest(self, topic: bytes) -> int:
        return self._dispatchers.topics.earliest(topic)

    # ── sinks ─────────────────────────────────────────────────────────────────────────────────

    def sinks(self) -> set[bytes]:
        return self._sinks.names()

    def sink(self, name: bytes) -> SinkView | None:
        return self._sinks.view(name)

    async def forget(self, name: bytes) -> None:
        check_leads(self._cluster)
        row: dict[str, object] = {"kind": "sink", "name": printable(name, 256), "is_deleted": True}
        take_back = self._audit.changed("sink", [row], CALLER.get(), self.wall_ms(), "forgotten")
        waiter = _Forgotten("the sink is not forgotten")
        self._sinks.forget(name, waiter)
        await self._audit.stored(waiter.future, take_back)
