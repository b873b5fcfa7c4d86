"""Majorities, and majorities of two configurations at once.

A set of voters answers two questions: how far a majority is, and whether a majority said yes. A
joint change has two sets, ``incoming`` and ``outgoing``, and both must agree. An empty set agrees
to everything, so a joint configuration without an outgoing half is a simple one.
"""

from collections.abc import Callable, Mapping
from enum import IntEnum

import msgspec

from penstock.raft.types import NO_LIMIT, NodeId

AckedIndex = Callable[[NodeId], int | None]  # the last index that a voter is known to have


class VoteResult(IntEnum):
    """The outcome of the votes so far."""

    PENDING = 1  # missing votes decide
    LOST = 2  # too many rejections
    WON = 3


class MajorityConfig(frozenset[NodeId]):
    """Voters of which more than half decide."""

    __slots__ = ()

    def __str__(self) -> str:
        """As etcd prints it: ``(1 2 3)``."""
        return f"({' '.join(map(str, sorted(self)))})"

    def committed_index(self, acked: AckedIndex) -> int:
        """The highest index that a majority has; unbounded without voters.

        Called at every acknowledgement, and on a lone broker at every commit: a single voter is not
        sorted.
        """
        if len(self) == 1:
            (only,) = self
            return acked(only) or 0
        if not self:
            return NO_LIMIT
        indexes = sorted([acked(voter) or 0 for voter in self])
        # Sorted ascending, a majority has at least the index at n - (n // 2 + 1).
        return indexes[(len(indexes) - 1) // 2]

    def vote_result(self, votes: Mapping[NodeId, bool]) -> VoteResult:
        majority = len(self) // 2 + 1 if self else 0
        granted = sum(votes.get(voter, False) for voter in self)
        if granted >= majority:
            return VoteResult.WON
        open_votes = sum(voter not in votes for voter in self)
        return VoteResult.PENDING if granted + open_votes >= majority else VoteResult.LOST

    def describe(self, acked: AckedIndex) -> str:
        """A chart of how far each voter is: the more ``x``, the more voters are behind it."""
        if not self:
            return "<empty majority quorum>"
        known = {voter: acked(voter) for voter in sorted(self)}
        lines = [f"{' ' * len(known)}    idx"]
        for voter, index in known.items():
            behind = sum((other or 0) < (index or 0) for other in known.values())
            bar = "?" if index is None else f"{'x' * behind}>"
            lines.append(f"{bar:<{len(known) + 1}} {index or 0:5}    (id={voter})")
        return "".join(f"{line}\n" for line in lines)


NOBODY = MajorityConfig()


class JointConfig(msgspec.Struct, frozen=True):
    """Two majorities that must agree; ``outgoing`` is empty unless a joint change is in flight."""

    incoming: MajorityConfig = NOBODY
    outgoing: MajorityConfig = NOBODY

    def __str__(self) -> str:
        """As etcd prints it: ``(1 2 3)&&(1)``."""
        return f"{self.incoming}&&{self.outgoing}" if self.outgoing else str(self.incoming)

    def __contains__(self, node_id: NodeId) -> bool:
        return node_id in self.incoming or node_id in self.outgoing

    def ids(self) -> MajorityConfig:
        return MajorityConfig(self.incoming | self.outgoing)

    def committed_index(self, acked: AckedIndex) -> int:
        index = self.incoming.committed_index(acked)
        return min(index, self.outgoing.committed_index(acked)) if self.outgoing else index

    def vote_result(self, votes: Mapping[NodeId, bool]) -> VoteResult:
        results = {self.incoming.vote_result(votes), self.outgoing.vote_result(votes)}
        if VoteResult.LOST in results:
            return VoteResult.LOST
        return VoteResult.PENDING if VoteResult.PENDING in results else VoteResult.WON

    def describe(self, acked: AckedIndex) -> str:
        return self.ids().describe(acked)
