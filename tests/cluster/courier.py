"""Nodes that send each other snapshots."""

import os

from penstock.cluster.frames import RaftFrame
from penstock.cluster.snapshot_receiver import SnapshotReceiver
from penstock.cluster.snapshot_sender import SnapshotSender
from penstock.cluster.snapshots import Snapshots
from penstock.limits import GIB, MIB
from penstock.raft.types import MessageKind, RaftMessage, SnapshotMeta
from penstock.store.blocks.files import BlockFiles
from penstock.store.blocks.folder import inline_folder
from penstock.store.directory import DATA_NAME, snapshot_path
from penstock.store.lmdb_store import LmdbStore
from tests.cluster.peer_bench import Node, until
from tests.cluster.snapshot_bench import batch

BLOCK_BYTES = 256 * 1024


class Source:
    """A store to be copied: ``tail`` bytes in its database, and blocks."""

    def __init__(self, path, tail=0, blocks=0):
        self.store = LmdbStore(path, 64 * MIB, inline_folder, BLOCK_BYTES)
        self.path = path
        self.add_blocks(blocks)
        self.write(tail)

    def write(self, size):
        for start in range(0, size, MIB):
            self.store.commit(batch([os.urandom(min(MIB, size - start))]))

    def add_blocks(self, count):
        for _ in range(count):
            made = batch([os.urandom(BLOCK_BYTES - 1024)])
            made.checkpoint = self.store.next_index
            self.store.commit(made)
        self.store.fold()

    @property
    def files(self):
        return BlockFiles(self.path)

    def copy(self, is_wanted):
        return self.store.copy(is_wanted)

    def close(self):
        self.store.close()


class Courier(Node):
    """A node that sends and takes snapshots; ``copy(is_wanted)`` makes one."""

    def __init__(
        self, node_id, data, copy, rate_bytes=GIB, wants=lambda *_: True, source="s1", **limits
    ):
        super().__init__(node_id)
        self.arrivals = 0
        self.data = data
        data.mkdir(exist_ok=True)
        stats = self.transport.stats
        sender = SnapshotSender(
            copy=copy,
            source=source,
            dialer=self.transport.dialer,
            rate_bytes=rate_bytes,
            report=self.inbox.report_snapshot,
            stats=stats,
            **limits,
        )
        receiver = SnapshotReceiver(data=data, wants=wants, arrived=self._arrived, stats=stats)
        self.transport.snapshots = Snapshots(sender, receiver)

    def _arrived(self):
        self.arrivals += 1

    def offer(self, to):
        meta = SnapshotMeta(5, 1)
        message = RaftMessage(MessageKind.SNAPSHOT, to, self.id, 1, snapshot=meta)
        self.transport.send(to, RaftFrame(message))

    @property
    def file(self):
        return snapshot_path(self.data) / DATA_NAME

    @property
    def received_blocks(self):
        """Contents of the blocks that have arrived, by number."""
        files = BlockFiles(snapshot_path(self.data))
        return {number: files.file(number).read_bytes() for number in files.numbers()}

    @property
    def blocks_sent(self):
        return self.transport.stats.of(2).snapshot_blocks_sent


def no_copy(_is_wanted):
    raise AssertionError("nobody asked for a copy")


def pair(tmp_path, copy, **options):
    wants = options.pop("wants", lambda *_: True)
    one = Courier(1, tmp_path / "one", copy, **options)
    two = Courier(2, tmp_path / "two", no_copy, wants=wants)
    return one, two


async def reported(one, *outcomes):
    await until(lambda: len(one.inbox.snapshots) >= len(outcomes), 30)
    assert one.inbox.snapshots == [(2, is_ok) for is_ok in outcomes]
