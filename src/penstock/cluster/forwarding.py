"""Batches on their way into the log: whose turn it is, and which were there before.

A node has one batch on its way at most, and repeats it until it sees it applied: to this leader, to
the next one, after a lost connection. What makes that safe is that every batch is numbered within a
incarnation of its node, and that the number of each node's last batch follows from the log itself
(``origins``). A leader looks only when all of its log is applied, so it knows of every batch that
is or may yet be committed: whatever is not beyond ``origins`` is in the log.

The leader joins what waits into one entry, its own batch among the others, in the order in which
they came.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from penstock.cluster.frames import FORWARD_BYTES_MAX, Forward, RefusalReason
from penstock.errors import StorageError
from penstock.raft.types import NodeId
from penstock.store.batch import Batch, NodeSegment
from penstock.store.segments import pack_batch, unpack_batch

ENTRY_BYTES_TARGET = 4 << 20
"""The leader joins batches to entries of about this size; a larger batch goes alone."""

Origins = Mapping[NodeId, tuple[int, int]]


class QueuedBatch(msgspec.Struct, frozen=True):
    """A batch that waits for the leader to write it: its own as it is, another's as it came."""

    node: NodeId
    incarnation: int
    number: int
    content: Batch | bytes
    term: int = 0
    """The only term in which it may be written; 0: any."""

    @property
    def bytes(self) -> int:
        """About how much it adds to an entry."""
        content = self.content
        return content.payload_bytes if isinstance(content, Batch) else len(content)


def is_repetition(origins: Origins, node: NodeId, incarnation: int, number: int) -> bool:
    """Whether a batch is in the log. Incarnations and numbers only grow."""
    return (incarnation, number) <= origins.get(node, (0, 0))


def refusal(candidate: QueuedBatch, term: int) -> RefusalReason | None:
    """Why the leader of ``term``, all of whose log is applied, will never write a batch."""
    if candidate.term and candidate.term != term:
        return RefusalReason.LEADERSHIP_LOST
    is_too_large = isinstance(candidate.content, bytes) and candidate.bytes > FORWARD_BYTES_MAX
    return RefusalReason.TOO_LARGE if is_too_large else None


def choose(waiting: Sequence[QueuedBatch], bytes_target: int = ENTRY_BYTES_TARGET) -> int:
    """How many of those that wait share the next entry: the first, and what fits behind it.

    Nobody is passed over, however large, so nobody waits for ever.
    """
    size = 0
    for count, candidate in enumerate(waiting):
        size += candidate.bytes
        if count and size > bytes_target:
            return count
    return len(waiting)


class MergedBatch(NamedTuple):
    """One batch made of several; those after ``taken`` did not fit in with it."""

    batch: Batch
    taken: Sequence[QueuedBatch]
    refused: Sequence[tuple[QueuedBatch, RefusalReason]]


def merge(
    candidates: Sequence[QueuedBatch], is_late: Callable[[Batch], bool] = lambda _batch: False
) -> MergedBatch:
    """Join batches, each as a segment. On the writer thread: it may take a while.

    ``is_late`` tells which must not be in the log any more. One that drops a topic goes alone: that
    comes before all else in an entry, and the segment of another node might have messages of that
    topic.
    """
    found: list[tuple[QueuedBatch, Batch]] = []
    refused: list[tuple[QueuedBatch, RefusalReason]] = []
    for candidate in candidates:
        batch = _opened(candidate)
        if batch is None or is_late(batch):
            reason = RefusalReason.DAMAGED if batch is None else RefusalReason.LATE
            refused.append((candidate, reason))
            continue
        if found and (batch.drops or found[0][1].drops):
            break
        found.append((candidate, batch))
    return MergedBatch(_joined(found), [candidate for candidate, _ in found], refused)


def _opened(candidate: QueuedBatch) -> Batch | None:
    content = candidate.content
    if isinstance(content, Batch):
        return content
    try:
        return unpack_batch(content)
    except (StorageError, ValueError, LookupError):
        return None


def _joined(found: Sequence[tuple[QueuedBatch, Batch]]) -> Batch:
    if len(found) == 1:
        candidate, batch = found[0]
        batch.segments = [NodeSegment(candidate.node, candidate.incarnation, candidate.number)]
        return batch
    joined = Batch()
    for candidate, batch in found:
        joined.absorb(batch, NodeSegment(candidate.node, candidate.incarnation, candidate.number))
    return joined


class ProposalQueue:
    """What waits for the leader: one batch of each node, in the order in which they came."""

    def __init__(self) -> None:
        self._waiting: dict[NodeId, QueuedBatch] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, candidate: QueuedBatch) -> bool:
        """Put a batch in line; False if it, or a later one of its node, is there already.

        An earlier one gives way: its node has given up on it.
        """
        earlier = self._waiting.get(candidate.node)
        if earlier is not None:
            if (candidate.incarnation, candidate.number) <= (earlier.incarnation, earlier.number):
                return False
            del self._waiting[candidate.node]
        self._waiting[candidate.node] = candidate
        return True

    def settle(
        self, origins: Origins, term: int
    ) -> tuple[list[QueuedBatch], list[tuple[QueuedBatch, RefusalReason]]]:
        """Take out what is in the log already, and what never will be; return both."""
        repeated, refused = [], []
        for candidate in list(self._waiting.values()):
            if is_repetition(origins, candidate.node, candidate.incarnation, candidate.number):
                repeated.append(self._waiting.pop(candidate.node))
            elif (reason := refusal(candidate, term)) is not None:
                refused.append((self._waiting.pop(candidate.node), reason))
        return repeated, refused

    def next(self) -> list[QueuedBatch]:
        """Those that share the next entry; they stay in line."""
        waiting = list(self._waiting.values())
        return waiting[: choose(waiting)]

    def remove(self, candidates: Sequence[QueuedBatch]) -> None:
        """Take batches out of the line, unless later ones have come in their place."""
        for candidate in candidates:
            if self._waiting.get(candidate.node) is candidate:
                del self._waiting[candidate.node]

    def clear(self) -> None:
        """Forget all: whoever leads now is sent them again."""
        self._waiting.clear()


class OwnBatch:
    """A batch of this node on its way, packed when it has to travel."""

    def __init__(self, batch: Batch, incarnation: int, number: int) -> None:
        self.batch = batch
        self.incarnation = incarnation
        self.number = number
        self.sent_to: tuple[NodeId, int] | None = None
        """The leader, and its term, that it was sent to last."""
        self.repeat_in = 0
        """Ticks until it is sent again to the same one."""
        self.patience = 0
        self.forwarded_ticks = 0
        """For how long it has been on its way to other nodes."""
        self._packed: bytes | None = None

    def candidate(self, node: NodeId) -> QueuedBatch:
        """As this node puts it in line when it leads."""
        return QueuedBatch(node, self.incarnation, self.number, self.batch, self.batch.term)

    @property
    def forward(self) -> Forward:
        """As it travels."""
        if self._packed is None:
            self._packed = pack_batch(self.batch)
        return Forward(self.incarnation, self.number, self._packed, self.batch.term)
