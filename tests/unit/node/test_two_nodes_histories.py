"""Random histories of several nodes: whatever is connected where, all come to the same state.

A history is a list of things that clients do at nodes, that nodes do by themselves, and of steps of
the log: which batch is next, which node hears of the next entry. Nodes lag, restart, lead in turn
and are taken for dead while they are not. In the end all hear of everything, and then:

* what is durable is the same at all nodes, and at each of them after a restart;
* no message that was done with was handed out again, and none was with two workers at a time
  (``Referee``: it goes through the same log, and sees every lease begin and end);
* each worker was given just what the log says that it was given.
"""

import asyncio
from random import Random
from typing import Any

import pytest
from tests.benches.commit_bench import turns
from tests.benches.dispatch_bench import GROUP, TOPIC, Worker
from tests.benches.resp_bench import Client as RespClient
from tests.benches.twin_bench import Cluster, MqttClient, Node

from penstock.commit.replay import commands_of
from penstock.core.broker import Broker
from penstock.core.commands import Leased
from penstock.core.effects import Effects
from penstock.core.groups import Group
from penstock.obs.counters import Counters
from penstock.wire.mqtt import encode
from penstock.wire.mqtt.events import Will

NODES = (1, 2, 3)
NAMES = (b"ann", b"bob", b"cyd")
TOPICS = (b"a", b"a/b", b"live/c")
FILTERS = (b"a", b"a/#", b"#")


class Lines(RespClient):
    """A RESP client of a node."""

    def __init__(self, node: Node) -> None:
        self.server = self
        self.parts = node.parts
        self.resp_door = node.parts.resp_door
        super().__init__(self)  # type: ignore[arg-type]


class Noting(Worker):
    """A worker that has room at times."""

    def __init__(self, node: Node, name: str, visibility_ms: int) -> None:
        number = node.parts.connections.ids.next()
        super().__init__(f"{name}#{number}", 3, visibility_ms=visibility_ms)
        self.node = node
        self.incarnation = node.incarnation

    @property
    def is_there(self) -> bool:
        return self.node.incarnation == self.incarnation


class History:
    """One history, from a seed."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.cluster = Cluster(*NODES, journal={"capture_interval_ms": 0})
        self.cluster.has_room = random.random() < 0.5
        self.clients: list[MqttClient] = []
        self.wills = 0
        self.streams: list[Lines] = []
        self.workers: list[Noting] = []
        self.acts = [
            *[self.order] * 12,
            *[self.apply] * 12,
            *[self.push] * 4,
            *[self.publish] * 4,
            *[self.settle] * 4,
            *[self.subscribe] * 2,
            *[self.acknowledge] * 3,
            *[self.hire] * 2,
            self.connect,
            self.connect,
            self.vanish,
            self.fire,
            self.give_back,
            self.stream,
            self.look_after,
            self.lead,
            self.lose_sight,
            self.restart,
            self.wait,
        ]

    async def run(self, steps: int) -> None:
        for node in self.cluster.nodes.values():
            node.start()
        for _ in range(steps):
            self.random.choice(self.acts)()
            await turns(self.random.randrange(3))
        self.cluster.present = set(NODES)
        await self.cluster.rest()
        self.cluster[self.cluster.leader].parts.housekeeping.turn()  # wills of earlier terms
        await self.cluster.rest()

    @property
    def node(self) -> Node:
        return self.cluster[self.random.choice(NODES)]

    def _one_of(self, things: list[Any]) -> Any:
        return self.random.choice(things) if things else None

    # ── the log

    def order(self) -> None:
        if self.cluster.waiting:
            self.cluster.order(self.random.randrange(len(self.cluster.waiting)))

    def apply(self) -> None:
        self.node.apply()

    # ── clients

    def connect(self) -> None:
        self.wills += 1
        last = Will(b"a", b"will %d" % self.wills, 1, retain=False)
        will = self.random.choice([None, last])
        name, clean = self.random.choice(NAMES), self.random.random() < 0.5
        self.clients.append(self.node.mqtt(name, clean_session=clean, will=will))

    def _client(self) -> MqttClient | None:
        there = [c for c in self.clients if not c.is_closed and c.connection.session is not None]
        return self._one_of(there)

    def vanish(self) -> None:
        client = self._client()
        if client is not None:
            client.vanish()

    def subscribe(self) -> None:
        client = self._client()
        if client is None:
            return
        topic_filter = self.random.choice(FILTERS)
        if self.random.random() < 0.8:
            client.send(encode.subscribe(1, [(topic_filter, self.random.randrange(3))]))
        else:
            client.send(encode.unsubscribe(2, [topic_filter]))

    def publish(self) -> None:
        client = self._client()
        if client is not None:
            qos = self.random.randrange(3)
            topic, retain = self.random.choice(TOPICS), self.random.random() < 0.3
            packet_id = self.random.randrange(1, 4) if qos else 0
            client.send(encode.publish(topic, b"x", qos, retain=retain, packet_id=packet_id))

    def acknowledge(self) -> None:
        """Any packet id, in a way that fits what it stands for."""
        client = self._client()
        session = client.connection.session if client else None
        if client is None or session is None:
            return
        unfinished = [(packet_id, state) for packet_id, _, state, _ in session.unfinished()]
        if unfinished:
            packet_id, state = self.random.choice(unfinished)
            client.send(encode.acks({1: 4, 2: 5, 3: 7}[state], [packet_id]))
        elif session.received:
            client.send(encode.acks(6, [self.random.choice(sorted(session.received))]))

    # ── work

    def push(self) -> None:
        parts = self.node.parts
        jobs = [b"job"] * self.random.randrange(1, 4)
        parts.pipeline.publish(TOPIC, jobs, parts.wall_ms(), qos=1, retain=False)

    def hire(self) -> None:
        node, visibility_ms = self.node, self.random.choice([0, 0, 5_000])
        worker = Noting(node, f"w{len(self.workers)}", visibility_ms)
        self.workers.append(worker)
        node.parts.dispatchers.join(TOPIC, GROUP, worker)

    def _worker(self) -> Noting | None:
        return self._one_of([w for w in self.workers if w.is_there and w.capacity < 3])

    def settle(self) -> None:
        worker = self._worker()
        if worker is not None:
            leases = self.random.sample(worker.leases, min(2, len(worker.leases)))
            worker.node.parts.dispatchers.leases.settle(TOPIC, GROUP, leases)
            worker.capacity = 3
            worker.node.parts.dispatchers.dispatch(TOPIC, GROUP)

    def give_back(self) -> None:
        worker = self._worker()
        if worker is not None and worker.leases:
            lease = self.random.choice(worker.leases)
            worker.node.parts.dispatchers.leases.give_back(TOPIC, GROUP, [lease])

    def fire(self) -> None:
        worker = self._one_of([w for w in self.workers if w.is_there])
        if worker is not None:
            worker.node.parts.dispatchers.leave(TOPIC, GROUP, worker.consumer)
            worker.capacity = 0

    def stream(self) -> None:
        if self.random.random() < 0.4 or not self.streams:
            self.streams.append(Lines(self.node))
        client = self.random.choice(
            [c for c in self.streams if not c.parts.readers._is_closed] or [None]
        )
        if client is None:
            return
        topic, consumer = TOPIC, self.random.choice(NAMES)
        said = self.random.choice(
            [
                b"XTRIM %b MAXLEN %d" % (topic, self.random.randrange(9)),
                b"XGROUP CREATE s g 0 MKSTREAM",
                b"XADD s * f v",
                b"XREADGROUP GROUP g %b COUNT 2 STREAMS s >" % consumer,
                b"XREADGROUP GROUP g %b NOACK COUNT 1 STREAMS s >" % consumer,
                b"XACK s g %d-%d" % (client.parts.wall_ms(), self.random.randrange(5)),
                b"XTRIM s MAXLEN %d" % self.random.randrange(4),
                b"XGROUP DESTROY s g",
            ]
        )
        client.send_all(said)

    # ── nodes

    def look_after(self) -> None:
        node = self.node
        node.parts.housekeeping.turn()
        node.parts.dispatchers.turn()
        node.parts.pipeline.turn()

    def lead(self) -> None:
        self.cluster.lead(self.random.choice(NODES))

    def lose_sight(self) -> None:
        """Nodes may be taken for dead while they are not; a majority is there."""
        self.cluster.present = set(NODES) - {self.random.choice((*NODES, 0))}

    def restart(self) -> None:
        self.node.restart()

    def wait(self) -> None:
        self.cluster.clock.advance(self.random.choice([0.5, 2, 10]))


class Referee:
    """Goes through the log once more; what it sees of leases is true for all nodes."""

    def __init__(self, cluster: Cluster) -> None:
        self.broker = Broker(Counters(), inflight_max=4, queue_messages_max=8)
        self.granted: dict[int, int] = {}
        """Offsets by lease."""
        self._held: dict[int, int] = {}
        """Leases by offset, of messages in flight."""
        self._done: set[int] = set()
        sequence = 1
        for index, (_, _, batch) in enumerate(cluster.entries, 1):
            self.broker.begin(index, sequence)
            for command in commands_of(batch):
                self._apply(command)
            sequence += batch.count

    @property
    def _group(self) -> Group | None:
        return self.broker.groups.get(TOPIC, GROUP)

    def _apply(self, command: Any) -> None:
        group = self._group
        before = dict(group.leases) if group else {}
        known = set(group.pending) if group else set()
        self.broker.apply(command, None, Effects())
        group = self._group
        leases = dict(group.leases) if group else {}
        for lease, offset in leases.items():
            if lease not in before:
                assert isinstance(command, Leased)
                self._grant(lease, offset)
        self._held = {offset: lease for lease, offset in leases.items()}
        self._done |= known - set(group.pending if group else ())

    def _grant(self, lease: int, offset: int) -> None:
        assert lease not in self.granted, "a lease has a number that one had before"
        assert offset not in self._held, "a message is with two at a time"
        assert offset not in self._done, "a message is handed out that was done with"
        self.granted[lease] = offset


async def check(random: Random, steps: int) -> None:
    history = History(random)
    cluster = history.cluster
    try:
        await history.run(steps)
        agree(cluster)
        wills_once(cluster)
        referee = Referee(cluster)
        given_out = [(job.lease, job.message.offset) for w in history.workers for job in w.jobs]
        assert len(set(given_out)) == len(given_out), "two workers were given the same"
        assert set(given_out) <= set(referee.granted.items())
        for node in cluster.nodes.values():
            node.restart()
        await cluster.rest()
        agree(cluster)
    finally:
        await cluster.close()


def wills_once(cluster: Cluster) -> None:
    """No will is in the log twice, and none that is due is left when all is at rest."""
    payloads = [payload for _, _, batch in cluster.entries for payload in batch.payloads]
    published = [payload for payload in payloads if payload.startswith(b"will ")]
    assert len(published) == len(set(published))
    for node in cluster.nodes.values():
        assert not [s.client_id for s in node.broker.sessions.values() if s.wills]


def agree(cluster: Cluster) -> None:
    first, *others = [node.durable() for node in cluster.nodes.values()]
    for other in others:
        assert other == first


@pytest.mark.parametrize("seed", range(30))
def test_nodes_that_apply_the_same_entries_agree(seed):
    asyncio.run(check(Random(seed), (40, 150, 400)[seed % 3]))
