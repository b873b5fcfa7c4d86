"""Participants driven by hand: a log in memory, and batches executed by the test."""

from penstock.raft.config import RaftConfig
from penstock.raft.raw_node import RawNode
from penstock.raft.ready import Ready
from penstock.raft.types import (
    ConfState,
    HardState,
    MessageKind,
    NodeId,
    RaftEntry,
    RaftMessage,
    SnapshotMeta,
)
from tests.raft.scenario.storage import MemoryLog


class Driven:
    """One participant with its disk."""

    def __init__(
        self, *voters: NodeId, node_id: NodeId = 1, log: MemoryLog | None = None, **settings
    ) -> None:
        self.log = log or MemoryLog(SnapshotMeta(0, 0, ConfState(voters=voters)))
        settings = {"pre_vote": False, "roll": lambda _sides: 0, **settings}
        self.raw = RawNode(RaftConfig(node_id=node_id, **settings), self.log)

    def write(self, ready: Ready) -> None:
        self.log.write(ready.hard_state, ready.entries, ready.snapshot)
        self.raw.persisted(ready.mark)

    def settle(self) -> list[Ready]:
        """Carry out all there is to do."""
        done = []
        while self.raw.has_ready():
            ready = self.raw.ready()
            done.append(ready)
            self.write(ready)
            if ready.committed:
                self.raw.applied(ready.committed[-1].index)
        return done

    def answer(self, kind: MessageKind, sender: NodeId, index: int = 0, **fields) -> bool:
        """An answer of another one, in this term."""
        message = RaftMessage(kind, self.raw.node.id, sender, self.raw.term, index=index, **fields)
        return self.raw.step(message)

    def acknowledge(self, sender: NodeId, index: int | None = None) -> None:
        at = self.raw.last_index if index is None else index
        self.answer(MessageKind.APPEND_RESPONSE, sender, at)


def candidate(*voters: NodeId, **settings) -> Driven:
    """Node 1, whose own vote is on disk and which waits for others."""
    driven = Driven(*voters, **settings)
    driven.raw.campaign()
    driven.settle()
    return driven


def fresh_leader(*voters: NodeId, **settings) -> Driven:
    """Number 1 leads; the empty entry of its term is on no disk yet."""
    driven = candidate(*voters, **settings)
    for voter in voters[1 : len(voters) // 2 + 1]:
        driven.answer(MessageKind.VOTE_RESPONSE, voter)
    return driven


def leader(*voters: NodeId, **settings) -> Driven:
    """Number 1 leads, and all have the empty entry of its term."""
    driven = fresh_leader(*voters, **settings)
    driven.settle()
    for voter in voters[1:]:
        driven.acknowledge(voter)
    driven.settle()
    return driven


def follower(*voters: NodeId, **settings) -> Driven:
    """Number 1 follows number 2 in term 1, with an empty log."""
    driven = Driven(*voters, **settings)
    driven.raw.step(RaftMessage(MessageKind.HEARTBEAT, 1, 2, 1))
    driven.settle()
    return driven


def append(
    term: int, index: int, *terms: int, log_term: int = 0, commit: int = 0, sender: NodeId = 2
) -> RaftMessage:
    """An append to number 1 that follows on ``index``, with entries of these terms."""
    entries = tuple(RaftEntry(at_term, index + 1 + at) for at, at_term in enumerate(terms))
    return RaftMessage(MessageKind.APPEND, 1, sender, term, log_term, index, entries, commit)


def restarted(driven: Driven, hard_state: HardState, **settings) -> Driven:
    """The same disk with another incarnation, in which this was written last."""
    driven.log.write(hard_state, (), None)
    return Driven(log=driven.log, **settings)
