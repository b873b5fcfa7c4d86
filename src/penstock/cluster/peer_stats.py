"""Counters of connections to other nodes."""

import msgspec

from penstock.obs.reasons import PeerReason
from penstock.raft.types import NodeId


class SnapshotProgress(msgspec.Struct):
    """How much of a snapshot in flight has been sent or received; 0 of 0: there is none."""

    bytes: int = 0
    bytes_total: int = 0
    blocks: int = 0
    blocks_total: int = 0


class PeerStats(msgspec.Struct):
    """One other node. Bytes are those of payloads."""

    frames_in: int = 0
    bytes_in: int = 0
    frames_out: int = 0
    bytes_out: int = 0
    drops: int = 0  # frames that were not sent: no connection, or a full queue
    connects: int = 0  # connections that we made, of each purpose
    snapshot: SnapshotProgress = msgspec.field(default_factory=SnapshotProgress)
    snapshot_trouble: str = ""  # why the last one failed; empty if it did not
    snapshot_blocks_sent: int = 0  # of all snapshots; those that the node had already do not count
    snapshots_sent: int = 0
    snapshots_failed: int = 0
    last_contact: float = float("-inf")  # by the loop's clock
    trouble: str = ""  # why the last attempt failed; empty while there is a connection


class TransportStats:
    """All other nodes, and why connections ended."""

    def __init__(self) -> None:
        self.peers: dict[NodeId, PeerStats] = {}
        self.ends: dict[PeerReason, int] = dict.fromkeys(PeerReason, 0)
        self.snapshots_received = 0
        self.snapshot = SnapshotProgress()  # received
        self.differing: dict[NodeId, tuple[str, ...]] = {}  # settings of refused members

    def of(self, node: NodeId) -> PeerStats:
        stats = self.peers.get(node)
        if stats is None:
            stats = self.peers[node] = PeerStats()
        return stats
