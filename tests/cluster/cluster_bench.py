"""Several replicas in one process: real stores and writer threads, a network that can be cut.

Frames go through the codec, one direction of a pair in order, after a delay. A node is killed by
being abandoned: what its writer is doing is finished, as a disk would, and nobody hears of it.
"""

import asyncio
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any

from penstock.cluster.frames import Frame, Member, decode_frame, encode_frame
from penstock.cluster.local_node import BrokerHooks, ReplicaEnvironment
from penstock.cluster.peer_stats import TransportStats
from penstock.cluster.record import RaftRecord, decode_record
from penstock.cluster.replica import Replica
from penstock.config.schema import Cluster
from penstock.errors import PenstockError
from penstock.limits import BLOCK_BYTES
from penstock.raft.types import NodeId
from penstock.store.batch import Batch
from penstock.store.blocks.folder import inline_folder
from penstock.store.lmdb_store import LmdbStore
from penstock.store.store import Commit

TICK_MS = 20
ELECTION_TICKS = 8
PATIENCE_S = 30.0
"""How long anything may take on a busy machine before a test, or a node, gives up on it."""
SOON_S = 1.0
"""The same of nodes in tests of giving up."""


async def until(
    predicate: Callable[[], Any], what: str = "", patience_s: float = PATIENCE_S
) -> Any:
    """Wait for something to be so; return what it is."""
    deadline = monotonic() + patience_s
    while not (found := predicate()):
        assert monotonic() < deadline, f"waited in vain {what}"
        await asyncio.sleep(0.005)
    return found


def batch_of(*messages: tuple[bytes, bytes], term: int = 0) -> Batch:
    """A batch of messages, topic and payload each."""
    batch = Batch()
    for topic, payload in messages:
        batch.append(topic, [payload], 1_000, 1)
    batch.term = term
    return batch


def payloads_of(batch: Batch) -> list[bytes]:
    """All payloads of a batch, topic by topic."""
    return [payload for group in batch.groups.values() for payload in group.payloads]


class RecordingListener:
    """Records its calls. ``applied`` has payloads in the order of the log."""

    def __init__(self) -> None:
        self.applied: list[bytes] = []
        self.commits: list[tuple[Batch, Commit]] = []
        self.foreigners: list[tuple[Batch, Commit]] = []
        self.refusals: list[tuple[Batch, PenstockError]] = []
        self.answers: dict[int, asyncio.Future[Commit]] = {}

    def committed(self, batch: Batch, commit: Commit) -> None:
        self.commits.append((batch, commit))
        self.applied += payloads_of(batch)
        answer = self.answers.pop(id(batch), None)
        if answer is not None and not answer.done():
            answer.set_result(commit)

    def foreign(self, batch: Batch, commit: Commit) -> None:
        self.foreigners.append((batch, commit))
        self.applied += payloads_of(batch)

    def refused(self, batch: Batch, error: PenstockError) -> None:
        self.refusals.append((batch, error))
        answer = self.answers.pop(id(batch), None)
        if answer is not None and not answer.done():
            answer.set_exception(error)

    def when_readable(self, act: Callable[[], None]) -> None:
        act()

    def made_room(self) -> None:
        """Tests submit when they like."""


class Network:
    """The way between the nodes of one test."""

    def __init__(self) -> None:
        self.nodes: dict[NodeId, Node] = {}
        self.cuts: set[tuple[NodeId, NodeId]] = set()
        self.delay_s = 0.0
        self.drops: Callable[[NodeId, NodeId, Frame], bool] = lambda _sender, _to, _frame: False
        self.sent: list[tuple[NodeId, NodeId, Frame]] = []

    def send(self, sender: NodeId, to: NodeId, frame: Frame) -> None:
        self.sent.append((sender, to, frame))
        loop = asyncio.get_running_loop()
        if to not in self.nodes or (sender, to) in self.cuts:
            loop.call_soon(self._lost, sender, to)
        elif not self.drops(sender, to, frame):
            loop.call_later(self.delay_s, self._arrive, sender, to, encode_frame(frame))

    def _lost(self, sender: NodeId, to: NodeId) -> None:
        node = self.nodes.get(sender)
        if node is not None:
            node.replica.frames.unreachable(to)

    def _arrive(self, sender: NodeId, to: NodeId, data: bytes) -> None:
        node = self.nodes.get(to)
        if node is not None and (sender, to) not in self.cuts:
            node.replica.frames.received(sender, decode_frame(data))

    def isolate(self, node: NodeId) -> None:
        """Cut a node off from all others, both ways."""
        for other in self.nodes:
            self.cuts |= {(node, other), (other, node)}

    def heal(self) -> None:
        self.cuts.clear()


class _Peers:
    def __init__(self, network: Network, node_id: NodeId) -> None:
        self._network = network
        self._node_id = node_id
        self.members: dict[NodeId, Member] = {}
        self.stats = TransportStats()

    def send(self, to: NodeId, frame: Frame) -> None:
        self._network.send(self._node_id, to, frame)

    def set_members(self, members: Mapping[NodeId, Member]) -> None:
        self.members = dict(members)

    def is_reached(self, node: NodeId) -> bool:
        return node in self.members

    def answers(self, node: NodeId) -> bool:
        return node in self.members


class Node:
    """One node: a store, a replica, a listener that takes notes."""

    def __init__(self, network: Network, node_id: NodeId, path: Path, **settings: Any) -> None:
        options = {
            "node_id": node_id,
            "peer_listen": f"127.0.0.1:{7000 + node_id}",
            "advertise": f"127.0.0.1:{8000 + node_id}",
            "tick_ms": TICK_MS,
            "election_ticks": ELECTION_TICKS,
            "no_leader_timeout_s": PATIENCE_S,
        } | settings
        self.id = node_id
        self.network = network
        self.path = path
        self.settings = Cluster(**options)
        self.member = Member(node_id, self.settings.peer_listen, self.settings.advertise)
        self.failures: list[BaseException] = []

    def start(self) -> "Node":
        """Begin an incarnation on what the disk holds."""
        self.store = self.open_store()
        self.listener = RecordingListener()
        self.peers = _Peers(self.network, self.id)
        environment = ReplicaEnvironment(
            settings=self.settings,
            member=self.member,
            peers=self.peers,
            monotonic=monotonic,
            roll=random.Random().randrange,
            hooks=self.hooks(),
            exit=self.failures.append,
        )
        self.replica = Replica(self.store, environment)
        self.network.nodes[self.id] = self
        self.begin()
        return self

    def hooks(self) -> BrokerHooks:
        """What the broker has to say."""
        return BrokerHooks()

    block_bytes = BLOCK_BYTES

    def open_store(self) -> LmdbStore:
        """Open what the disk holds."""
        return LmdbStore(self.path, folder=inline_folder, block_bytes=self.block_bytes)

    def begin(self) -> None:
        """Let the pipeline hear what is in the log."""
        self.replica.begin(self.listener)

    def kill(self) -> None:
        """End silently."""
        self.network.nodes.pop(self.id, None)
        self.replica.close()
        self.store.close()

    async def write(self, *payloads: bytes, topic: bytes = b"t", term: int = 0) -> Commit:
        """Submit a batch and wait for what becomes of it."""
        return await self.submit(batch_of(*((topic, p) for p in payloads), term=term))

    def submit(self, batch: Batch) -> "asyncio.Future[Commit]":
        answer: asyncio.Future[Commit] = asyncio.get_running_loop().create_future()
        self.listener.answers[id(batch)] = answer
        self.replica.submit(batch)
        return answer

    def durable(self) -> RaftRecord:
        """The record as a start would find it."""
        data = self.store.record()
        assert data is not None
        return decode_record(data)

    def stored(self, topic: bytes = b"t") -> list[bytes]:
        """What readers see."""
        found = self.store.read_topic(topic, 0, 100_000, 1 << 30)
        return [message.payload for message in found.messages()]


class Bench:
    """A cluster in the making, and its end."""

    node_type: type[Node] = Node

    def __init__(self, path: Path) -> None:
        self.path = path
        self.network = Network()
        self.all: dict[NodeId, Node] = {}

    def node(self, node_id: NodeId, **settings: Any) -> Node:
        """A node that was started, on an empty disk."""
        path = self.path / str(node_id)
        path.mkdir()
        node = self.all[node_id] = self.node_type(self.network, node_id, path, **settings)
        return node.start()

    async def cluster(self, count: int = 3, **settings: Any) -> list[Node]:
        """This many nodes with a leader."""
        nodes = [self.node(node_id, **settings) for node_id in range(1, count + 1)]
        nodes[0].replica.bootstrap([node.member for node in nodes], lambda _error: None)
        await self.leader()
        await until(lambda: all(len(n.replica.record.arrived) == count for n in nodes), "arrived")
        return nodes

    @property
    def running(self) -> list[Node]:
        return list(self.network.nodes.values())

    async def leader(self, among: Iterable[Node] | None = None) -> Node:
        """Wait until one of these leads, and they all know it."""

        def found() -> Node | None:
            nodes = list(among) if among is not None else self.running
            leaders = [node for node in nodes if node.replica.is_leader]
            if len(leaders) == 1 and all(n.replica.leader == leaders[0].id for n in nodes):
                return leaders[0]
            return None

        leader = await until(found, "for a leader")
        assert isinstance(leader, Node)
        return leader

    async def settled(self, nodes: Sequence[Node], payloads: Sequence[bytes]) -> None:
        """Wait until all of these have applied exactly that, and readers see it."""
        await until(
            lambda: all(node.listener.applied == list(payloads) for node in nodes),
            f"for {payloads[:5]!r}…: {[node.listener.applied[:5] for node in nodes]!r}",
        )

    def close(self) -> None:
        for node in list(self.network.nodes.values()):
            with suppress(Exception):
                node.kill()
