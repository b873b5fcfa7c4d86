"""Nodes whose listener is a real pipeline with a real broker behind it, and no doors before it.

Commands are submitted as doors would. What the broker wants to have sent is noted and goes nowhere;
only what it wants to have journaled next (``FollowUp``) is, as in the parts.
"""

from typing import Any

from penstock.clock import SystemClock
from penstock.cluster.local_node import BrokerHooks
from penstock.commit.pipeline import Pipeline
from penstock.commit.recovery import recover
from penstock.core.broker import Broker
from penstock.core.commands import Command
from penstock.core.completion import Journaled
from penstock.core.effects import Accepted, Effects, FollowUp
from penstock.core.groups import row_key
from penstock.core.session import Session
from penstock.core.stale_publishes import has_stale_publish, has_stored_number
from penstock.obs.counters import Counters
from penstock.store.lmdb_store import LmdbStore
from tests.cluster.cluster_bench import Bench, Node, until
from tests.group_rows import state_of


class Outlet:
    """Stands for a client's connection: notes whether it was accepted, or refused and why."""

    def __init__(self) -> None:
        self.number = 0
        self.session: Session | None = None
        self.refusals: list[Any] = []
        self.acked: list[int] = []
        self.stored_at: list[int] = []

    def done(self, result: Journaled) -> None:
        self.stored_at.append(result.offset)

    def refused(self, reason: Any, _detail: str = "") -> None:
        self.refusals.append(reason)


class BrokerNode(Node):
    """A node with a broker: ``broker`` and ``pipeline`` are those of its present incarnation."""

    def start(self) -> "BrokerNode":
        self.broker = new_broker()
        super().start()
        return self

    def open_store(self) -> LmdbStore:
        store = super().open_store()
        recover(store, self.broker)
        return store

    def hooks(self) -> BrokerHooks:
        broker = self.broker
        return BrokerHooks(
            is_late=lambda batch: (
                has_stale_publish(batch.events, broker.sessions)
                or has_stored_number(batch.producers, batch.drops, broker.producers)
            )
        )

    def begin(self) -> None:
        self.pipeline = Pipeline(
            broker=self.broker,
            store=self.store,
            log=self.replica,
            clock=SystemClock(),
            counters=self.broker.counters,
            execute=self._execute,
        )

    def _execute(self, effects: Effects) -> None:
        for control in effects.controls:
            if isinstance(control, Accepted):
                control.waiter.session = control.session
            elif isinstance(control, FollowUp):
                self.pipeline.submit(control.command, control.waiter, durable=True)
        for (outlet, _kind), packet_ids in effects.acks.items():
            outlet.acked += packet_ids

    def submit_command(self, command: Command, outlet: Any = None) -> None:
        self.pipeline.submit(command, outlet, durable=True)

    @property
    def is_sealed(self) -> bool:
        """Whether all that was submitted is on its way, and the next command opens a new batch."""
        return bool(self.pipeline._in_flight) and not self.pipeline._open.steps

    @property
    def is_idle(self) -> bool:
        """Whether everything in its pipeline and its log is applied."""
        has_tail = self.store.last_index >= self.store.next_index
        return self.pipeline.is_idle and not has_tail

    def state(self) -> dict[str, Any]:
        """What its broker knows, to be compared with other nodes'."""
        return durable_state(self.broker)


def durable_state(broker: Broker) -> dict[str, Any]:
    """Everything durable that a client could ever notice."""
    groups = broker.groups
    by_name = [group for found in groups.by_topic.values() for group in found.values()]
    return {
        "sessions": {c: _plain(s) for c, s in sorted(broker.sessions.items())},
        "retained": [message.encode() for message in broker.retained.match(b"#")],
        "subscribers": {c: broker.subscribers.row(c, 0) for c in broker.subscribers.by_id},
        "groups": {row_key(group.topic, group.name): state_of(group) for group in by_name},
        "next_lease": groups.next_lease,
        "topics": {t.name: broker.topics.row(t.name, 0) for t in broker.topics},
    }


def new_broker() -> Broker:
    """One with small windows and queues, where much happens."""
    return Broker(Counters(), inflight_max=2, queue_messages_max=3, queue_drops_oldest=True)


def _plain(session: Session) -> tuple[Any, ...]:
    identity = (session.connected, session.connection, session.will, session.origin)
    if not session.durable:
        return identity
    return (
        *identity,
        session.away_since_ms,
        session.next_packet_id,
        dict(sorted((session.subscriptions or {}).items())),
        list((session.inflight or {}).items()),
        list(session.queue or ()),
        sorted(session.received or ()),
    )


class BrokerBench(Bench):
    """A cluster of brokers."""

    node_type = BrokerNode

    def brokers(self) -> list[BrokerNode]:
        found = sorted(self.network.nodes.values(), key=lambda node: node.id)
        return [node for node in found if isinstance(node, BrokerNode)]

    async def at_rest(self) -> list[dict[str, Any]]:
        """The states of all nodes, once they have applied all that is in the log."""

        def is_at_rest() -> bool:
            nodes = self.brokers()
            idle = all(node.is_idle for node in nodes)
            return idle and len({node.replica.applied_index for node in nodes}) == 1

        await until(is_at_rest, "for all nodes to come to rest")
        return [node.state() for node in self.brokers()]
