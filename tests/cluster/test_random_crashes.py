"""Random work on three brokers that crash, are cut off and come back: nothing comes apart.

At the end every node has the same state and the same journal, a restart of all changes neither, and
what was acknowledged is there, once. ``PENSTOCK_CRASH_SEEDS=50:80`` tries other seeds.
"""

import asyncio
import os
import random
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from penstock.cluster import flight, proposals
from penstock.cluster.install import install
from penstock.cluster.kept_log import KeptLog
from penstock.commit import checkpoint
from penstock.commit.recovery import recover
from penstock.core.commands import (
    Acknowledged,
    Closed,
    GroupMade,
    Progressed,
    Received,
    Released,
    SessionOpened,
    Settled,
    Subscribed,
    Taken,
    TopicConfigured,
    TopicGone,
    Unsubscribed,
    WillMessage,
)
from penstock.core.session import AWAIT_PUBCOMP, PUBACK, PUBCOMP, PUBREC
from penstock.store.directory import fresh_snapshot
from penstock.store.entry import Entry, decode
from penstock.store.lmdb_store import LmdbStore
from penstock.store.store import LogEntry, Write, Written
from tests.cluster.broker_bench import BrokerBench, BrokerNode, Outlet, durable_state, new_broker
from tests.cluster.cluster_bench import SOON_S

pytestmark = pytest.mark.asyncio

CLIENTS = [b"ann", b"bob", b"cyd"]
TOPICS = [b"a", b"a/b", b"c"]
FILTERS = [b"a", b"#", b"a/#", b"c"]
GROUPS = [b"g", b"h"]
STEPS = 150
COPIED, COPIES_MAX = 0.05, 24
SEEDS = range(*map(int, os.environ.get("PENSTOCK_CRASH_SEEDS", "0:3").split(":")))


class Publisher(Outlet):
    """Waits for one message, whose payload no other has."""

    def __init__(self, payload: bytes) -> None:
        super().__init__()
        self.payload = payload


class Work:
    """What clients do, by a seed."""

    def __init__(self, bench: BrokerBench, seed: int) -> None:
        self.bench = bench
        self.random = random.Random(seed)
        self.published: list[Publisher] = []
        self.numbers = 0
        self.here: dict[tuple[int, bytes], Outlet] = {}
        """Connections, by node and client id; some of them are of the past."""
        self.doings: list[Callable[[BrokerNode], None]] = [
            self.open,
            self.open,
            self.close,
            self.subscribe,
            self.subscribe,
            self.unsubscribe,
            self.publish,
            self.publish,
            self.publish,
            self.publish,
            self.publish_exactly_once,
            self.acknowledge,
            self.acknowledge,
            self.acknowledge,
            self.release,
            self.work,
            self.work,
            self.configure,
        ]

    def number(self) -> int:
        self.numbers += 1
        return self.numbers

    def client(self) -> bytes:
        return self.random.choice(CLIENTS)

    def step(self) -> None:
        nodes = self.bench.brokers()
        if nodes:
            self.random.choice(self.doings)(self.random.choice(nodes))

    def open(self, node: BrokerNode) -> None:
        client_id, outlet = self.client(), Outlet()
        self.here[node.id, client_id] = outlet
        will = WillMessage(b"a", b"", 1, retain=False) if self.random.random() < 0.2 else None
        connection = self.number() << 16 | node.id
        is_clean = self.random.random() < 0.1
        opened = SessionOpened(client_id, connection, clean=is_clean, will=will, everywhere=True)
        node.submit_command(opened, outlet)

    def close(self, node: BrokerNode) -> None:
        session = node.broker.sessions.get(self.client())
        if session is not None:
            node.submit_command(Closed(session.client_id, session.connection, self.number()))

    def subscribe(self, node: BrokerNode) -> None:
        client_id = self.client()
        outlet = self.here.get((node.id, client_id))
        session = outlet.session if outlet else None
        if session is not None and session.durable:
            filters = self.random.sample(FILTERS, 2)
            requests = [(name, self.random.choice([0, 1, 2, 0x80])) for name in filters]
            node.submit_command(Subscribed(client_id, 1, requests, session.origin), outlet)

    def unsubscribe(self, node: BrokerNode) -> None:
        filters = [self.random.choice(FILTERS)]
        node.submit_command(Unsubscribed(self.client(), 1, filters))

    def publish(self, node: BrokerNode, qos: int = 0) -> None:
        publisher = Publisher(b"%d" % self.number())
        self.published.append(publisher)
        payloads = [publisher.payload]
        if self.random.random() < 0.2:
            payloads = [publisher.payload + b"-", publisher.payload]
        node.pipeline.publish(
            self.random.choice(TOPICS),
            payloads,
            1_000 + self.numbers // 10,
            qos=qos or self.random.choice([1, 1, 2]),
            retain=self.random.random() < 0.3,
            packet_ids=[1] * len(payloads),
            client=publisher,
        )

    def publish_exactly_once(self, node: BrokerNode) -> None:
        session = node.broker.sessions.get(self.client())
        if session is not None and session.durable:
            packet_ids = [self.random.randrange(1, 5)]
            received = Received(session.client_id, packet_ids, session.origin, session.connection)
            node.pipeline.receive(received, None, record=True)
            self.publish(node, qos=2)

    def acknowledge(self, node: BrokerNode) -> None:
        session = node.broker.sessions.get(self.client())
        unfinished = list(session.unfinished()) if session is not None else []
        if session is not None and unfinished:
            packet_id, _, state, _ = self.random.choice(unfinished)
            kind = {1: PUBACK, AWAIT_PUBCOMP: PUBCOMP}.get(state, PUBREC)
            acknowledged = Acknowledged(session.client_id, kind, [packet_id], session.connection)
            node.submit_command(acknowledged)

    def release(self, node: BrokerNode) -> None:
        node.submit_command(Released(self.client(), [self.random.randrange(1, 5)]))

    def work(self, node: BrokerNode) -> None:
        topic, group = self.random.choice(TOPICS), self.random.choice(GROUPS)
        info, now = node.store.topic(topic), self.number()
        end = info.next_offset if info else 0
        first = self.random.randrange(end + 1)
        doing = self.random.choice(
            [
                GroupMade(topic, group, 0),
                Taken(topic, group, [(b"w%d" % node.id, 2)], 0, end, now, settle=False),
                Settled(topic, group, [(first, first + 1)]),
                Progressed(self.client(), topic, [(first, first + 2)], now),
            ]
        )
        node.submit_command(doing)

    def configure(self, node: BrokerNode) -> None:
        topic = self.random.choice(TOPICS)
        if self.random.random() < 0.3:
            node.pipeline.drop_topic(topic, TopicGone(topic), None)
        else:
            node.submit_command(TopicConfigured(topic, rate_milli=self.number()))


class Trouble:
    """What happens to nodes: one of three at a time, so that work goes on."""

    def __init__(self, bench: BrokerBench, seed: int) -> None:
        self.bench = bench
        self.random = random.Random(-1 - seed)
        self.dead: list[BrokerNode] = []
        self.installed = 0

    def step(self) -> None:
        chance, network = self.random.random(), self.bench.network
        if chance > 0.12:
            return
        if self.dead:
            self.revive()
        elif network.cuts:
            network.heal()
        elif chance < 0.05:
            network.isolate(self.random.choice(self.bench.brokers()).id)
        elif chance < 0.10:
            node = self.random.choice(self.bench.brokers())
            node.kill()
            self.dead.append(node)
        else:
            network.delay_s = self.random.choice([0.0, 0.005, 0.02])

    def end(self) -> None:
        self.bench.network.heal()
        self.bench.network.delay_s = 0.0
        while self.dead:
            self.revive()

    def revive(self) -> None:
        """Start a node again; or first give it a copy of what one that leads has on disk."""
        node = self.dead.pop()
        leaders = [other for other in self.bench.brokers() if other.replica.is_leader]
        if leaders and self.random.random() < 0.5:
            with leaders[0].store.copy() as copy:
                copy.write_to(fresh_snapshot(node.path))
            self.installed += install(node.path, node.id)
        node.start()


class CopyingNode(BrokerNode):
    """Copies its disk now and then: what a crash of the machine at that moment would leave."""

    copies: list[Path]

    def begin(self) -> None:
        super().begin()
        chance, write = random.Random(self.id), self.store.write

        def written(what: Write) -> Written:
            self._copy(chance)  # between the fold and its record
            done = write(what)
            self._copy(chance)
            return done

        self.store.write = written  # type: ignore[method-assign]

    def _copy(self, chance: random.Random) -> None:
        if chance.random() < COPIED and len(self.copies) < COPIES_MAX:
            path = self.path.parent / f"copy{len(self.copies)}"
            self.copies.append(path)
            shutil.copytree(self.path, path)


class Folded:
    """The beginning of a log, without any rows: what ``recover`` makes of it is the truth."""

    def __init__(self, log: list[LogEntry], index: int) -> None:
        self._log = log
        self.next_index = index + 1

    def rows(self, _table: str) -> Iterator[tuple[bytes, bytes]]:
        return iter(())

    def replay(self) -> Iterator[Entry]:
        for found in self._log:
            if found.index < self.next_index and found.data and not found.kind:
                yield decode(found.data)


def check_copy(path: Path, log: list[LogEntry]) -> None:
    """What a start finds on a copied disk is the fold of all entries that it counts on."""
    crashed, found, truth = LmdbStore(path), new_broker(), new_broker()
    recover(crashed, found)
    recover(Folded(log, found.index), truth)  # type: ignore[arg-type]
    crashed.close()
    assert durable_state(found) == durable_state(truth)


@pytest.fixture
def brokers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BrokerBench]:
    """An empty cluster of brokers that write rows with every commit, few at a time."""
    monkeypatch.setattr(checkpoint, "ROUND_INTERVAL_S", 0.0)
    monkeypatch.setattr(checkpoint, "ROWS_PER_COMMIT_MAX", 2)
    monkeypatch.setattr(CopyingNode, "copies", [], raising=False)
    bench = BrokerBench(tmp_path)
    bench.node_type = CopyingNode
    yield bench
    bench.close()


def journal_of(node: BrokerNode) -> list[tuple[bytes, int, bytes]]:
    found = [
        (info.name, node.store.read_topic(info.name, 0, 100_000, 1 << 30))
        for info in node.store.topics()
    ]
    return [(name, m.offset, m.payload) for name, lot in found for m in lot.messages()]


def log_of(path: Path) -> list[LogEntry]:
    """All entries in the log of a node that is down: one that is up may fold them at any moment."""
    with closing(LmdbStore(path)) as store:
        return store.log_entries(store.first_index, store.last_index + 1, sys.maxsize)


def all_written(log: list[LogEntry]) -> Counter[bytes]:
    """How often each payload is in the log, deleted topics included."""
    return Counter(
        message.payload
        for entry in log
        if entry.data and not entry.kind
        for message in decode(entry.data).messages()
    )


async def held(bench: BrokerBench, seed: int) -> None:
    await bench.cluster(3, no_leader_timeout_s=SOON_S)
    work, trouble = Work(bench, seed), Trouble(bench, seed)
    for _ in range(STEPS):
        work.step()
        trouble.step()
        if work.random.random() < 0.3:
            await asyncio.sleep(work.random.choice([0, 0, 0.001, 0.01, 0.03]))
    trouble.end()
    await bench.leader()
    before = await bench.at_rest()
    assert before[0] == before[1] == before[2]
    nodes = bench.brokers()
    journals = [journal_of(node) for node in nodes]
    assert journals[0] == journals[1] == journals[2]
    for node in nodes:
        node.kill()
    log = log_of(nodes[0].path)
    is_whole = log[0].index == 1  # else blocks have the rest, without dropped topics
    written = all_written(log)
    acked = [p for p in work.published if p.acked]
    if is_whole:
        assert {p.payload: written[p.payload] for p in acked if written[p.payload] != 1} == {}
    assert all(count == 1 for count in written.values())
    for node in nodes:
        node.start()
    await bench.leader()
    after = await bench.at_rest()
    assert after == before
    assert [journal_of(node) for node in nodes] == journals
    for path in CopyingNode.copies if is_whole else []:
        check_copy(path, log)  # what came after it has changed nothing


@pytest.mark.parametrize("seed", SEEDS)
async def test_nothing_comes_apart(
    brokers: BrokerBench, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a seed that is odd, many entries are in flight, as they are between distant nodes."""
    if seed % 2:
        monkeypatch.setattr(flight, "SPACING_S", 1e-6)
        monkeypatch.setattr(proposals, "SPACING_S", 0.0)
    await asyncio.wait_for(held(brokers, seed), 120)


@pytest.mark.parametrize("seed", SEEDS)
async def test_nothing_comes_apart_while_journals_are_folded(
    brokers: BrokerBench, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each node folds its own journal, in blocks of its own; what they hold is the same."""
    monkeypatch.setattr(CopyingNode, "block_bytes", 1_024)
    monkeypatch.setattr(KeptLog, "needed", lambda _self, last, _matches: last - 10)
    await asyncio.wait_for(held(brokers, seed), 120)
