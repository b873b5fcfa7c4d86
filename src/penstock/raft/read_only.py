"""Reads that wait until the leader is known to lead.

A read must see everything that was acknowledged before it was asked for. The leader notes how far
it has committed, and asks all by a heartbeat whether it still leads. If a quorum says yes to a
heartbeat that was sent after the read was asked, nobody else had committed anything by then, and
the read is current once the noted index is applied.

An answer to a later heartbeat confirms all earlier reads, too.
"""

from penstock.raft.types import NodeId

__all__ = ["PendingRead", "ReadOnly"]


class PendingRead:
    """A read: who asked (nobody: this node), how far was committed, and who said yes so far."""

    __slots__ = ("acks", "context", "index", "sender")

    def __init__(self, sender: NodeId, context: bytes, index: int) -> None:
        self.sender = sender
        self.context = context
        self.index = index
        self.acks: dict[NodeId, bool] = {}


class ReadOnly:
    """Reads in the order in which they were asked, by their contexts, which are unique."""

    __slots__ = ("_count_max", "_reads")

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        self._reads: dict[bytes, PendingRead] = {}

    def __len__(self) -> int:
        return len(self._reads)

    def add(self, sender: NodeId, context: bytes, index: int) -> bool:
        """Note a read; False if it waits already, or if too many do: it is to be asked again."""
        if context in self._reads or len(self._reads) >= self._count_max:
            return False
        self._reads[context] = PendingRead(sender, context, index)
        return True

    def acknowledge(self, node_id: NodeId, context: bytes) -> dict[NodeId, bool]:
        """Somebody followed us when it saw this context; all who did so far."""
        read = self._reads.get(context)
        if read is None:
            return {}
        read.acks[node_id] = True
        return read.acks

    def advance(self, context: bytes) -> list[PendingRead]:
        """The read of this context is confirmed: take it and all before it."""
        done: list[PendingRead] = []
        if context in self._reads:
            while not done or done[-1].context != context:
                done.append(self._reads.pop(next(iter(self._reads))))
        return done

    def last_context(self) -> bytes:
        """What a heartbeat carries so that reads are confirmed whose own heartbeat was lost."""
        return next(reversed(self._reads), b"")
