"""Linearizable reads that wait until the leader is confirmed.

The leader notes its commit index, and asks all by a heartbeat whether it still leads. If a quorum
responds, no other leader had committed anything before the read was requested, and the read is
current once the noted index is applied. Reads are numbered within a term, and a heartbeat carries
the last number: a response confirms all up to it. Contexts need not be unique.
"""

from collections import deque

import msgspec

from penstock.raft.quorum import JointConfig
from penstock.raft.types import NodeId

_NUMBER_BYTES = 8


class PendingRead(msgspec.Struct, frozen=True, gc=False):
    """A read: its sender (0: this node) and context, and the commit index."""

    sender: NodeId
    context: bytes
    index: int


class ReadOnly:
    """Reads of one term, in order."""

    __slots__ = ("_acks", "_confirmed", "_count_max", "_reads")

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        self._reads: deque[PendingRead] = deque()
        self._confirmed = 0
        self._acks: dict[NodeId, int] = {}

    def __len__(self) -> int:
        return len(self._reads)

    @property
    def _last(self) -> int:
        return self._confirmed + len(self._reads)

    def add(self, sender: NodeId, context: bytes, index: int) -> bool:
        """Add a read; False if too many wait: it has to be requested again."""
        if len(self._reads) >= self._count_max:
            return False
        self._reads.append(PendingRead(sender, context, index))
        return True

    def heartbeat_context(self) -> bytes:
        """The context of a heartbeat whose responses confirm all reads; empty if none waits."""
        return self._last.to_bytes(_NUMBER_BYTES, "big") if self._reads else b""

    def acknowledge(self, node_id: NodeId, context: bytes) -> None:
        """Note that a node followed us when it saw this context."""
        number = int.from_bytes(context, "big") if len(context) == _NUMBER_BYTES else 0
        if self._acks.get(node_id, 0) < number <= self._last:
            self._acks[node_id] = number

    def advance(self, voters: JointConfig) -> list[PendingRead]:
        """Remove and return the reads that a quorum has confirmed."""
        confirmed = min(voters.committed_index(self._acks.get), self._last)
        count = max(0, confirmed - self._confirmed)
        self._confirmed += count
        return [self._reads.popleft() for _ in range(count)]
