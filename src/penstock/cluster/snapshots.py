"""Copies of whole stores between nodes; see :mod:`penstock.cluster.install` for what follows."""

from typing import NamedTuple

from penstock.cluster.snapshot_receiver import SnapshotReceiver
from penstock.cluster.snapshot_sender import SnapshotSender


class Snapshots(NamedTuple):
    """Sender and receiver of one transport."""

    sender: SnapshotSender
    receiver: SnapshotReceiver

    def start(self) -> None:
        self.receiver.start()

    async def stop(self) -> None:
        await self.sender.stop()
        await self.receiver.stop()
