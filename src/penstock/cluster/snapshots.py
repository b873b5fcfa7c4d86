"""Copies of whole stores between nodes: one part sends, the other receives.

Once a copy has arrived, the broker stops what uses its store, closes it, calls
:func:`penstock.cluster.install.install` and restarts: with the new store or, if its own log had
more, with the old one.
"""

from typing import NamedTuple

from penstock.cluster.snapshot_receiver import SnapshotReceiver
from penstock.cluster.snapshot_sender import SnapshotSender


class Snapshots(NamedTuple):
    """Sender and receiver of one transport."""

    sender: SnapshotSender
    receiver: SnapshotReceiver

    async def stop(self) -> None:
        await self.sender.stop()
        await self.receiver.stop()
