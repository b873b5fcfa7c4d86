"""Nodes of a cluster in one loop, on a log that they share and that does as the test says.

Batches of all nodes come into one order, as a test has it, and each node hears of the entries when
the test lets it: its own batches as its own, those of others as they come out of the codec. That is
all that the nodes have in common. There is no consensus here, and nothing fails unless a test says
so; doors, dispatchers, housekeeping and stores are the real ones, and connections have a transport that only
takes notes.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from threading import Barrier
from typing import Any

import msgspec

from penstock.assembly import Assembly
from penstock.cluster.consensus import DoneCallback, Leadership
from penstock.cluster.replicated_log import LogListener
from penstock.commit.recovery import recover
from penstock.config.schema import Config
from penstock.core.broker import Broker
from penstock.core.commands import Command
from penstock.core.group_row import encode_group
from penstock.doors.binary import BinaryConnection
from penstock.doors.mqtt.connection import MqttConnection
from penstock.errors import LeadershipLost, PenstockError
from penstock.net.origin import Origin
from penstock.obs.counters import Counters
from penstock.reading.readers import READERS
from penstock.store.batch import Batch
from penstock.store.memory import MemoryStore
from penstock.store.segments import pack_batch, unpack_batch
from penstock.testing import VirtualClock
from penstock.wire.mqtt import encode
from penstock.wire.mqtt.client import MqttClientMachine
from tests.benches.commit_bench import turns
from tests.benches.resp_bench import Transport

_TABLES = ("sessions", "subscribers", "groups", "pending", "settings", "sinks")


class Cluster:
    """What the nodes share: the entries, in order, and who leads."""

    def __init__(self, *node_ids: int, **settings: Any) -> None:
        self.clock = VirtualClock()
        journal = {"capture_exclude": ["live/#"]} | settings.pop("journal", {})
        self.settings = settings | {"journal": journal}
        self.entries: list[tuple[int, int, Batch]] = []
        """Whose batch each is: node and incarnation, and the batch as it was handed over."""
        self.waiting: list[tuple[int, int, Batch]] = []
        self.leader = node_ids[0]
        self.term = 1
        self.present = set(node_ids)
        self.is_clustered = True
        self.has_room = False
        """Whether nodes may have several batches in flight."""
        self.nodes = {number: Node(self, number) for number in node_ids}

    def __getitem__(self, number: int) -> "Node":
        return self.nodes[number]

    def order(self, number: int = 0) -> None:
        """The next of the batches that wait is in the log; those of a node keep their order."""
        whose = self.waiting[number][0]
        number = next(n for n, (node_id, *_) in enumerate(self.waiting) if node_id == whose)
        if self.waiting[number][2].term in {0, self.term}:
            self.entries.append(self.waiting.pop(number))
        else:  # decided by a leader that leads no more
            self.refuse(LeadershipLost("another node leads by now", "Send it again."), number)

    def refuse(self, error: PenstockError, number: int = 0) -> None:
        """The next of the batches that wait is given up, and with it those of its node after it."""
        node_id, life, batch = self.waiting.pop(number)
        self.waiting = [other for other in self.waiting if other[:2] != (node_id, life)]
        if self.nodes[node_id].incarnation == life:
            self.nodes[node_id].line.refused(batch, error)

    async def rest(self) -> None:
        """Let everything take its course until nothing moves."""
        quiet = 0
        while quiet < 4:
            await turns(3)
            is_moving = bool(self.waiting)
            while self.waiting:
                self.order()
            for node in self.nodes.values():
                is_moving = node.apply_all() or node.hurry() or is_moving
            if not is_moving:
                await asyncio.gather(*(node.readers_done() for node in self.nodes.values()))
            quiet = 0 if is_moving else quiet + 1

    def lead(self, number: int) -> None:
        """A leader has applied everything from earlier terms (``Leadership.is_leader``)."""
        self.nodes[number].apply_all()
        self.leader = number
        self.term += 1
        for node in self.nodes.values():
            node.parts.housekeeping.led(node.leadership)

    async def close(self) -> None:
        for node in self.nodes.values():
            for client in list(node.parts.connections.clients):
                client.abort()
        await turns(3)
        for node in self.nodes.values():
            node.end()
        await turns(3)


class Node:
    """One node with all its parts. It is a ``Log``, and a ``ClusterView``."""

    def __init__(self, cluster: Cluster, node_id: int) -> None:
        self.cluster = cluster
        self.node_id = node_id
        self.incarnation = 0
        self.live: list[tuple[bytes, list[bytes]]] = []
        self.store = MemoryStore()
        self._begin()

    def _begin(self) -> None:
        self.incarnation += 1
        self.applied = 0
        self.barriers: list[tuple[int, DoneCallback]] = []
        self.own: deque[Batch] = deque()
        self.line: LogListener
        self.counters = Counters()
        self.broker = Broker(self.counters, inflight_max=4, queue_messages_max=8)
        recover(self.store, self.broker)
        self.applied = self.store.next_index - 1
        self.parts = Assembly(
            config=msgspec.convert(self.cluster.settings, Config),
            broker=self.broker,
            store=self.store,
            clock=self.cluster.clock,
            counters=self.counters,
            log=self,
            cluster=self,
        )

    def start(self) -> None:
        self.parts.housekeeping.start()
        self.parts.housekeeping.end_own_sessions()

    def end(self) -> None:
        """Everything in memory is of no use any more, and does nothing more."""
        for dispatchers in self.parts.dispatchers._dispatchers.values():
            for dispatcher in dispatchers.values():
                dispatcher.close()
        self.parts.close()

    def restart(self) -> None:
        """Everything in memory is gone; what it had handed over goes its way."""
        self.end()
        self.cluster.clock.advance(0.001)  # an incarnation has connections of its own numbers
        self._begin()
        self.start()
        if self.is_leader:  # elected again, in another term
            self.cluster.lead(self.node_id)

    # ── a view of the cluster

    @property
    def is_clustered(self) -> bool:
        return self.cluster.is_clustered

    @property
    def is_lone(self) -> bool:
        return len(self.cluster.nodes) == 1

    @property
    def is_leader(self) -> bool:
        return self.cluster.leader == self.node_id

    @property
    def leader(self) -> int:
        return self.cluster.leader

    @property
    def leadership(self) -> Leadership:
        return Leadership(self.leader, self.term, self.is_leader)

    is_writable = True

    @property
    def has_room(self) -> bool:
        return self.cluster.has_room

    @property
    def term(self) -> int:
        return self.cluster.term

    def present(self) -> frozenset[int]:
        return frozenset(self.cluster.present)

    def read_barrier(self, then: DoneCallback) -> None:
        self.barriers.append((len(self.cluster.entries), then))
        self._pass_barriers()

    def _pass_barriers(self) -> None:
        while self.barriers and self.barriers[0][0] <= self.applied:
            self.barriers.pop(0)[1](None)

    def broadcast(self, topic: bytes, payloads: list[bytes]) -> None:
        self.live.append((topic, payloads))
        for node in self.cluster.nodes.values():
            if node is not self:
                node.parts.fanout.pass_on(topic, payloads)

    # ── a log

    def begin(self, line: LogListener) -> None:
        self.line = line

    def submit(self, batch: Batch) -> None:
        if batch.has_content:
            self.cluster.waiting.append((self.node_id, self.incarnation, batch))
        else:  # rows of a checkpoint, and nobody else's business
            self.parts.loop.call_soon(self._commit_rows, self.line, batch)

    def _commit_rows(self, line: LogListener, batch: Batch) -> None:
        if line is self.line:
            line.committed(batch, self.store.commit(batch))

    def run_on_writer(self, job: Callable[[], None]) -> None:
        job()

    def close(self) -> None:
        """Nothing of it is left to close."""

    def apply(self) -> bool:
        """Hear of the next entry; whether there was one."""
        if self.applied == len(self.cluster.entries):
            return False
        node_id, incarnation, batch = self.cluster.entries[self.applied]
        self.applied += 1
        is_own = (node_id, incarnation) == (self.node_id, self.incarnation)
        stored = unpack_batch(pack_batch(batch))
        if is_own:
            stored.rows, stored.checkpoint = batch.rows, batch.checkpoint
        commit = self.store.commit(stored)
        if is_own:
            self.line.committed(batch, commit)
        else:
            self.line.foreign(stored, commit)
        self._pass_barriers()
        return True

    def apply_all(self) -> bool:
        is_moving = False
        while self.apply():
            is_moving = True
        return is_moving

    def hurry(self) -> bool:
        """Commit what waits for company; whether there was something."""
        pipeline = self.parts.pipeline
        if pipeline._commit_timer is None:
            return False
        pipeline._commit_timer.cancel()
        pipeline._timer_fired()
        return True

    async def readers_done(self) -> None:
        """Wait until the threads that read have done what they were given before."""
        loop, threads = asyncio.get_running_loop(), self.parts.readers._readers
        barrier = Barrier(READERS)
        meeting = [loop.run_in_executor(threads, barrier.wait, 10) for _ in range(READERS)]
        await asyncio.gather(loop.run_in_executor(self.parts.readers._searchers, int), *meeting)

    # ── what it has

    def durable(self) -> dict[str, Any]:
        """Everything that a checkpoint would write, as if it wrote all of it now."""
        broker = self.broker
        rows: dict[str, Any] = {table: {} for table in _TABLES}
        for client_id in broker.sessions:
            rows["sessions"][client_id] = broker.session_row(client_id)
        for client_id in broker.subscribers.by_id:
            rows["subscribers"][client_id] = broker.subscribers.row(client_id, broker.index)
        for group in broker.groups:
            key = (group.topic, group.name)
            rows["groups"][key] = encode_group(group, broker.index)
            rows["pending"][key] = sorted(
                (offset, msgspec.msgpack.encode(pending))
                for offset, pending in group.pending.items()
            )
        for topic in broker.topics:
            rows["settings"][topic.name] = broker.topics.row(topic.name, broker.index)
        for sink in broker.sinks:
            rows["sinks"][sink.name] = broker.sinks.row(sink.name, broker.index)
        rows["retained"] = broker.retained.match(b"#")
        rows["next_lease"] = broker.groups.next_lease
        rows["topics"] = [
            (info.name, info.id, info.first_offset, info.next_offset, info.count)
            for info in self.store.topics()
        ]
        return rows

    def submitted(self, command: Command, outlet: Any = None) -> None:
        self.parts.pipeline.submit(command, outlet, durable=True)

    def mqtt(self, name: bytes, **options: Any) -> "MqttClient":
        return MqttClient(self, name, **options)


class MqttClient:
    """A client of the MQTT door; ``events`` are what it was sent."""

    def __init__(self, node: Node, name: bytes, **options: Any) -> None:
        self.transport: Any = Transport()
        self.connection = MqttConnection(
            node.parts.mqtt_door, self.transport, Origin(node.parts.monotonic())
        )
        self.send(encode.connect(name, **options))

    def send(self, data: bytes) -> None:
        self.connection.data_received(data)

    def vanish(self) -> None:
        self.transport.close()

    @property
    def events(self) -> list[Any]:
        return list(MqttClientMachine().receive(self.transport.written))

    @property
    def payloads(self) -> list[bytes]:
        """Payloads of the messages that it was sent."""
        return [e.payload for e in self.events if type(e).__name__ == "Publish"]

    @property
    def is_closed(self) -> bool:
        return self.transport.is_closed

    @property
    def reason(self) -> Any:
        return self.connection.reason


class BinaryClient:
    """A client of the binary door."""

    def __init__(self, node: Node) -> None:
        self.transport: Any = Transport()
        self.connection = BinaryConnection(
            node.parts.binary_door, self.transport, Origin(node.parts.monotonic())
        )

    def send(self, data: bytes) -> None:
        self.connection.data_received(data)

    @property
    def is_closed(self) -> bool:
        return self.transport.is_closed
