"""Nodes on loopback for tests of the transport: real sockets, and an inbox that remembers."""

import asyncio
import random
from contextlib import asynccontextmanager

from penstock.cluster.frames import Forward, Member, RaftFrame
from penstock.cluster.handshake import Identity
from penstock.cluster.security import PeerSecurity
from penstock.cluster.transport import Transport
from penstock.config.address import Address
from penstock.raft.types import MessageKind, RaftEntry, RaftMessage

SECRET = b"what all nodes of the bench know"
CLUSTER = b"bench-of-cluster"
LOOPBACK = Address("127.0.0.1", 0)


class Recorder:
    """An inbox."""

    def __init__(self):
        self.frames = []
        self.lost = []
        self.snapshots = []

    def received(self, sender, frame):
        self.frames.append((sender, frame))

    def unreachable(self, node):
        self.lost.append(node)

    def report_snapshot(self, node, is_ok):
        self.snapshots.append((node, is_ok))


class Node:
    """A transport that listens, with its inbox. ``address`` is advertised to others."""

    def __init__(
        self, node_id, *, incarnation=1, security=None, cluster_id=CLUSTER, settings=b"", **more
    ):
        self.id = node_id
        self.inbox = Recorder()
        self.address = ""
        self.incarnation = incarnation
        self.cluster_id = cluster_id
        self.settings = settings
        roll = random.Random(node_id).randrange
        self.transport = Transport(
            identity=self.identity,
            security=security or PeerSecurity(SECRET),
            receiver=self.inbox,
            roll=roll,
            **more,
        )

    def identity(self):
        return Identity(self.id, self.incarnation, self.cluster_id, self.address, self.settings)

    async def start(self, listen=LOOPBACK):
        self.listening = await self.transport.start(listen)
        self.address = self.address or str(self.listening)
        return self

    def knows(self, *others):
        self.transport.set_members({o.id: Member(o.id, o.address) for o in (self, *others)})

    def ends(self, reason):
        return self.transport.stats.ends[reason]


@asynccontextmanager
async def started(*nodes):
    """Started nodes that are stopped again."""
    try:
        for node in nodes:
            await node.start()
        yield nodes
    finally:
        for node in nodes:
            await node.transport.stop()


async def until(condition, timeout_s=30.0):
    """Wait until something is so."""
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110 - what is waited for knows of no event
            await asyncio.sleep(0.005)


def heartbeat(sender, term=1):
    return RaftFrame(RaftMessage(MessageKind.HEARTBEAT, sender=sender, term=term))


def append(sender, size, index=1):
    entry = RaftEntry(1, index, bytes(size))
    return RaftFrame(RaftMessage(MessageKind.APPEND, sender=sender, term=1, entries=(entry,)))


def forward(size, number=1):
    return Forward(1, number, bytes(size))
