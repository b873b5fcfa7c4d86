"""What is counted about connections to other nodes; plain integers, read when somebody asks."""

import msgspec

from penstock.obs.reasons import PeerReason
from penstock.raft.types import NodeId


class PeerStats(msgspec.Struct):
    """One other node. Bytes are those of payloads."""

    frames_in: int = 0
    bytes_in: int = 0
    frames_out: int = 0
    bytes_out: int = 0
    drops: int = 0
    """Frames that were not sent: no connection, or too much was waiting."""
    connects: int = 0
    """Connections that we have made to it, each kind counted."""
    snapshot_bytes: int = 0
    """Sent of the copy of our store that is on its way to it; 0: none is."""
    snapshots_sent: int = 0
    snapshots_failed: int = 0
    last_contact: float = float("-inf")
    """When it last said something, by the loop's clock."""
    trouble: str = ""
    """Why it was not reached when last tried; empty while there is a connection to it."""


class TransportStats:
    """All other nodes, and why connections ended."""

    def __init__(self) -> None:
        self.peers: dict[NodeId, PeerStats] = {}
        self.ends: dict[PeerReason, int] = dict.fromkeys(PeerReason, 0)
        self.snapshots_received = 0
        self.snapshot_bytes = 0
        """Received of the copy of another node's store that is on its way; 0: none is."""
        self.differing: dict[NodeId, tuple[str, ...]] = {}
        """Members that were turned away, and the settings in which they differ from this node."""

    def of(self, node: NodeId) -> PeerStats:
        """The stats of a node; there are as many as nodes that have proven who they are."""
        stats = self.peers.get(node)
        if stats is None:
            stats = self.peers[node] = PeerStats()
        return stats
