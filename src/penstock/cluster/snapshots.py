"""Whole stores between nodes: one that sends, one that receives, as the transport wants them.

Once one has arrived, the broker stops what uses its store, closes that, calls
:func:`penstock.cluster.install.install` and starts anew, with the new store or, if it had more
itself, with the old one.
"""

from penstock.cluster.peer_connection import PeerConnection
from penstock.cluster.snapshot_receiver import SnapshotReceiver
from penstock.cluster.snapshot_sender import SnapshotSender
from penstock.raft.types import NodeId, RaftMessage


class Snapshots:
    """The ``SnapshotDesk`` of a transport."""

    def __init__(self, sender: SnapshotSender, receiver: SnapshotReceiver) -> None:
        self.sender = sender
        self.receiver = receiver

    def start(self, node: NodeId, address: str, message: RaftMessage) -> None:
        """Send a copy of our store to a node."""
        self.sender.start(node, address, message)

    def received(self, link: PeerConnection, payload: bytes) -> None:
        """Take a frame of one that comes in; raises PeerFault."""
        self.receiver.received(link, payload)

    def ended(self, link: PeerConnection) -> None:
        """The connection of one that comes in is over."""
        self.receiver.ended(link)

    async def stop(self) -> None:
        """Give up what is under way, in both directions."""
        await self.sender.stop()
        await self.receiver.stop()
