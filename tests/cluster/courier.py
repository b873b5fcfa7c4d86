"""Nodes that send each other snapshots."""

from penstock.cluster.frames import RaftFrame
from penstock.cluster.snapshot_receiver import SnapshotReceiver
from penstock.cluster.snapshot_sender import SnapshotSender
from penstock.cluster.snapshots import Snapshots
from penstock.limits import GIB
from penstock.raft.types import MessageKind, RaftMessage, SnapshotMeta
from penstock.store.directory import DATA_NAME, snapshot_path
from tests.cluster.peer_bench import Node, until


class Courier(Node):
    """A node that sends and takes snapshots; ``copy(file)`` makes one."""

    def __init__(self, node_id, data, copy, rate_bytes=GIB, wants=lambda *_: True, **limits):
        super().__init__(node_id)
        self.arrivals = 0
        self.data = data
        data.mkdir(exist_ok=True)
        stats = self.transport.stats
        sender = SnapshotSender(
            copy=copy,
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


def no_copy(_file):
    raise AssertionError("nobody asked for a copy")


def pair(tmp_path, copy, **options):
    wants = options.pop("wants", lambda *_: True)
    one = Courier(1, tmp_path / "one", copy, **options)
    two = Courier(2, tmp_path / "two", no_copy, wants=wants)
    return one, two


async def reported(one, *outcomes):
    await until(lambda: len(one.inbox.snapshots) >= len(outcomes), 30)
    assert one.inbox.snapshots == [(2, is_ok) for is_ok in outcomes]
