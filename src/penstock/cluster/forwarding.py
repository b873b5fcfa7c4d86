"""Batches that wait for the leader: their order, and which of them are in the log already.

A node repeats its batches to each leader until they are applied. That is safe because batches are
numbered within an incarnation of their node, and the number of each node's last batch follows from
the log (``origins``). A leader checks when all entries of earlier terms are applied; those of its
own term that are in flight count as well. Whatever is not beyond ``origins`` is in the log. It
merges what waits, in the order of arrival.

A node may have several batches in flight. Each but the first names the one that it follows, and no
leader takes it before that one. So a node's batches are in the log in their order and without a
gap, whatever gets lost; and if one is refused, those that follow it are in no log either.
"""

from collections.abc import Callable, Container, Mapping, Sequence
from typing import NamedTuple

import msgspec

from penstock.cluster.flight import COUNT_MAX
from penstock.cluster.frames import FORWARD_BYTES_MAX, RefusalReason
from penstock.core.stale_publishes import (
    Moving,
    fires,
    makes_stale,
    may_be_stale,
    meet,
    moving,
)
from penstock.errors import StorageError
from penstock.raft.types import NodeId
from penstock.store.batch import Batch, NodeSegment
from penstock.store.segments import unpack_batch

ENTRY_BYTES_TARGET = 4 << 20  # of merged batches; a larger batch goes alone

WAITING_MAX = 2 * COUNT_MAX  # batches of one node; it repeats others

Origins = Mapping[NodeId, tuple[int, int]]


class QueuedBatch(msgspec.Struct, frozen=True):
    """A batch that waits for the leader: its own as it is, another node's as it was received."""

    node: NodeId
    incarnation: int
    number: int
    content: Batch | bytes
    term: int = 0  # the only term in which it may be written; 0: any
    follows: int = 0  # the number of the batch that must be in the log before it; 0: none

    @property
    def key(self) -> tuple[int, int]:
        return self.incarnation, self.number

    @property
    def size(self) -> int:
        content = self.content
        return content.payload_bytes if isinstance(content, Batch) else len(content)

    @property
    def segment(self) -> NodeSegment:
        return NodeSegment(self.node, self.incarnation, self.number)


def is_repetition(origins: Origins, node: NodeId, incarnation: int, number: int) -> bool:
    """Whether a batch is in the log. Incarnations and numbers only grow."""
    return (incarnation, number) <= origins.get(node, (0, 0))


def is_next(origins: Origins, queued: QueuedBatch) -> bool:
    """Whether the batch that this one follows is in the log."""
    follows = queued.follows
    return not follows or is_repetition(origins, queued.node, queued.incarnation, follows)


def refusal(queued: QueuedBatch, term: int) -> RefusalReason | None:
    """Why the leader of ``term``, in whose log it is not, will never write a batch."""
    if queued.term and queued.term != term:
        return RefusalReason.LEADERSHIP_LOST
    is_too_large = isinstance(queued.content, bytes) and queued.size > FORWARD_BYTES_MAX
    return RefusalReason.TOO_LARGE if is_too_large else None


def choose(waiting: Sequence[QueuedBatch], bytes_target: int = ENTRY_BYTES_TARGET) -> int:
    """How many of the waiting batches share an entry. None is passed over, so none starves."""
    size = 0
    for count, queued in enumerate(waiting):
        size += queued.size
        if count and size > bytes_target:
            return count
    return len(waiting)


class MergedBatch(NamedTuple):
    """Several batches as one."""

    batch: Batch
    taken: Sequence[QueuedBatch]
    refused: Sequence[tuple[QueuedBatch, RefusalReason]]
    makes_stale: bool = False
    moving: Moving = frozenset()
    must_wait: bool = False  # the next one cannot be written before all of the log is applied


class TailState(NamedTuple):
    """What is in the log and not applied, as far as it decides what may follow."""

    is_there: bool = False
    makes_stale: bool = False
    moving: Moving = frozenset()

    def holds_up(self, batch: Batch, moving: Moving = frozenset(), follows: int = 0) -> bool:
        """Whether a batch must wait for the tail.

        Topics are dropped when all is applied. And whether the client of a publish has moved to
        another node cannot be told while it may be on its way there; nor whether a schedule is due
        while it may have fired; nor whether a numbered publish is stored while the first copy may
        be there, from another node, or in a batch that its own node has given up.
        """
        if not self.is_there:
            return False
        if meet(self.moving, moving, follows):
            return True
        return bool(batch.drops) or (self.makes_stale and may_be_stale(batch.events))


def merge(
    waiting: Sequence[QueuedBatch],
    is_late: Callable[[Batch], bool] = lambda _batch: False,
    tail: TailState = TailState(),  # noqa: B008 - immutable
) -> MergedBatch:
    """Merge batches, each as a segment. Slow: for the writer thread.

    A batch that drops a topic goes alone: a drop comes before everything else in its entry, and
    another node's segment might have messages of that topic.
    """
    found: list[tuple[QueuedBatch, Batch]] = []
    refused: list[tuple[QueuedBatch, RefusalReason]] = []
    gaps: set[NodeId] = set()  # nodes of which one was refused: the next ones may not follow
    moved: Moving = frozenset()
    must_wait = False
    for queued in waiting:
        if queued.node in gaps:
            continue
        batch = _decoded(queued)
        own = _moving(queued, batch)
        must_wait = batch is not None and (
            tail.holds_up(batch, own, queued.follows)
            or _fires_again(batch, found)
            or meet(moved, own, queued.follows)
        )
        if must_wait or (batch is not None and found and (batch.drops or found[0][1].drops)):
            break
        if batch is None or is_late(batch):
            reason = RefusalReason.DAMAGED if batch is None else RefusalReason.LATE
            refused.append((queued, reason))
            gaps.add(queued.node)
            continue
        found.append((queued, batch))
        moved |= own
    stale = any(makes_stale(batch.events) for _, batch in found)
    taken = [queued for queued, _ in found]
    return MergedBatch(_joined(found), taken, refused, stale, moved, must_wait)


def _moving(queued: QueuedBatch, batch: Batch | None) -> Moving:
    if batch is None or not batch.producers:
        return frozenset()
    return moving(batch.producers, queued.node, *queued.key)


def _fires_again(batch: Batch, found: Sequence[tuple[QueuedBatch, Batch]]) -> bool:
    """Whether schedules fire in a batch and in one before it, maybe the same."""
    return fires(batch.events) and any(fires(other.events) for _, other in found)


def _decoded(queued: QueuedBatch) -> Batch | None:
    content = queued.content
    if isinstance(content, Batch):
        return content
    try:
        return unpack_batch(content)
    except (StorageError, ValueError, LookupError):
        return None


def _joined(found: Sequence[tuple[QueuedBatch, Batch]]) -> Batch:
    if len(found) == 1:
        queued, batch = found[0]
        batch.segments = [queued.segment]
        return batch
    joined = Batch()
    for queued, batch in found:
        joined.absorb(batch, queued.segment)
    return joined


class ProposalQueue:
    """What waits for the leader: batches of all nodes, in order of arrival."""

    def __init__(self) -> None:
        self._waiting: list[QueuedBatch] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, queued: QueuedBatch) -> bool:
        """Queue a batch; False if it is queued, or its node has given it up, or has too many.

        One that follows none takes the place of all earlier ones of its node.
        """
        others = [other for other in self._waiting if other.node == queued.node]
        for other in others:
            if other.key == queued.key or (other.key > queued.key and not other.follows):
                return False
        if not queued.follows:
            self.remove([other for other in others if other.key < queued.key])
        elif len(others) >= WAITING_MAX:
            return False
        self._waiting.append(queued)
        return True

    def settle(
        self, origins: Origins, term: int
    ) -> tuple[list[QueuedBatch], list[tuple[QueuedBatch, RefusalReason]]]:
        """Remove and return what is in the log already, and what never will be."""
        repeated, refused = [], []
        for queued in self._waiting:
            if is_repetition(origins, queued.node, *queued.key):
                repeated.append(queued)
            elif is_next(origins, queued) and (reason := refusal(queued, term)) is not None:
                refused.append((queued, reason))
        self.remove([*repeated, *(queued for queued, _ in refused)])
        return repeated, refused

    def next(self, origins: Origins) -> list[QueuedBatch]:
        """What may share the next entry: each after the one that it follows."""
        reached, found = dict(origins), []
        for queued in self._waiting:
            if is_next(reached, queued) and not is_repetition(reached, queued.node, *queued.key):
                found.append(queued)
                reached[queued.node] = queued.key
        return found[: choose(found)]

    def remove(self, batches: Sequence[QueuedBatch]) -> None:
        """Remove batches, unless later ones have replaced them."""
        gone = set(map(id, batches))
        self._waiting = [queued for queued in self._waiting if id(queued) not in gone]

    def keep(self, nodes: Container[NodeId]) -> None:
        """Remove what is not of these nodes."""
        self._waiting = [queued for queued in self._waiting if queued.node in nodes]

    def clear(self) -> None:
        """Forget everything: the nodes send their batches to the next leader."""
        self._waiting.clear()
