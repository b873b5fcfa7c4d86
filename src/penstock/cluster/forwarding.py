"""Batches that wait for the leader: their order, and which of them are in the log already.

A node has one batch in flight at most, and repeats it to each leader until it is applied. That is
safe because batches are numbered within an incarnation of their node, and the number of each node's
last batch follows from the log (``origins``). A leader checks when all of its log is applied:
whatever is not beyond ``origins`` is in the log. It merges what waits, in the order of arrival.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from penstock.cluster.frames import FORWARD_BYTES_MAX, RefusalReason
from penstock.errors import StorageError
from penstock.raft.types import NodeId
from penstock.store.batch import Batch, NodeSegment
from penstock.store.segments import unpack_batch

ENTRY_BYTES_TARGET = 4 << 20  # of merged batches; a larger batch goes alone

Origins = Mapping[NodeId, tuple[int, int]]


class QueuedBatch(msgspec.Struct, frozen=True):
    """A batch that waits for the leader: its own as it is, another node's as it was received."""

    node: NodeId
    incarnation: int
    number: int
    content: Batch | bytes
    term: int = 0  # the only term in which it may be written; 0: any

    @property
    def bytes(self) -> int:
        content = self.content
        return content.payload_bytes if isinstance(content, Batch) else len(content)

    @property
    def segment(self) -> NodeSegment:
        return NodeSegment(self.node, self.incarnation, self.number)


def is_repetition(origins: Origins, node: NodeId, incarnation: int, number: int) -> bool:
    """Whether a batch is in the log. Incarnations and numbers only grow."""
    return (incarnation, number) <= origins.get(node, (0, 0))


def refusal(queued: QueuedBatch, term: int) -> RefusalReason | None:
    """Why the leader of ``term``, all of whose log is applied, will never write a batch."""
    if queued.term and queued.term != term:
        return RefusalReason.LEADERSHIP_LOST
    is_too_large = isinstance(queued.content, bytes) and queued.bytes > FORWARD_BYTES_MAX
    return RefusalReason.TOO_LARGE if is_too_large else None


def choose(waiting: Sequence[QueuedBatch], bytes_target: int = ENTRY_BYTES_TARGET) -> int:
    """How many of the waiting batches share an entry. None is passed over, so none starves."""
    size = 0
    for count, queued in enumerate(waiting):
        size += queued.bytes
        if count and size > bytes_target:
            return count
    return len(waiting)


class MergedBatch(NamedTuple):
    """Several batches as one."""

    batch: Batch
    taken: Sequence[QueuedBatch]
    refused: Sequence[tuple[QueuedBatch, RefusalReason]]


def merge(
    waiting: Sequence[QueuedBatch], is_late: Callable[[Batch], bool] = lambda _batch: False
) -> MergedBatch:
    """Merge batches, each as a segment. Slow: for the writer thread.

    A batch that drops a topic goes alone: a drop comes before everything else in its entry, and
    another node's segment might have messages of that topic.
    """
    found: list[tuple[QueuedBatch, Batch]] = []
    refused: list[tuple[QueuedBatch, RefusalReason]] = []
    for queued in waiting:
        batch = _decoded(queued)
        if batch is None or is_late(batch):
            reason = RefusalReason.DAMAGED if batch is None else RefusalReason.LATE
            refused.append((queued, reason))
            continue
        if found and (batch.drops or found[0][1].drops):
            break
        found.append((queued, batch))
    return MergedBatch(_joined(found), [queued for queued, _ in found], refused)


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
    """What waits for the leader: one batch of each node, in order of arrival."""

    def __init__(self) -> None:
        self._waiting: dict[NodeId, QueuedBatch] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, queued: QueuedBatch) -> bool:
        """Queue a batch in place of an earlier one; False if it, or a later one, is queued."""
        earlier = self._waiting.get(queued.node)
        if earlier is not None:
            if (queued.incarnation, queued.number) <= (earlier.incarnation, earlier.number):
                return False
            del self._waiting[queued.node]
        self._waiting[queued.node] = queued
        return True

    def settle(
        self, origins: Origins, term: int
    ) -> tuple[list[QueuedBatch], list[tuple[QueuedBatch, RefusalReason]]]:
        """Remove and return what is in the log already, and what never will be."""
        repeated, refused = [], []
        for queued in list(self._waiting.values()):
            if is_repetition(origins, queued.node, queued.incarnation, queued.number):
                repeated.append(self._waiting.pop(queued.node))
            elif (reason := refusal(queued, term)) is not None:
                refused.append((self._waiting.pop(queued.node), reason))
        return repeated, refused

    def next(self) -> list[QueuedBatch]:
        waiting = list(self._waiting.values())
        return waiting[: choose(waiting)]

    def remove(self, batches: Sequence[QueuedBatch]) -> None:
        """Remove batches, unless later ones have replaced them."""
        for queued in batches:
            if self._waiting.get(queued.node) is queued:
                del self._waiting[queued.node]

    def clear(self) -> None:
        """Forget everything: the nodes send their batches to the next leader."""
        self._waiting.clear()
