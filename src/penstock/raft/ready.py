"""What is to be done, as a ``Ready``."""

from typing import NamedTuple

import msgspec

from penstock.raft.types import (
    HardState,
    NodeId,
    RaftEntry,
    RaftMessage,
    ReadState,
    Role,
    SnapshotMeta,
)


class SoftState(NamedTuple):
    """What others may want to know and nobody needs to write down."""

    lead: NodeId
    role: Role


class PersistMark(msgspec.Struct, frozen=True, gc=False):
    """Says which batch is on the disk; to be given back as it is.

    ``index`` and ``log_term`` are the last entry that was unstable then (0: there was none), and
    ``term`` when that was. ``own`` are the messages to the node itself that waited for it.
    """

    term: int
    index: int = 0
    log_term: int = 0
    snapshot: SnapshotMeta | None = None
    own: tuple[RaftMessage, ...] = ()


class Ready(msgspec.Struct, frozen=True, gc=False):
    """A batch of work.

    Write it in one step; when that is durable, call ``persisted(mark)`` and send ``after_persist``.
    Apply ``committed`` at any time, in order.

    Batches are written in the order in which they were taken. The next may be taken before this one
    is durable.
    """

    mark: PersistMark
    soft_state: SoftState | None = None
    """None: as it was."""
    hard_state: HardState | None = None
    """To be written; None: as it was."""
    entries: tuple[RaftEntry, ...] = ()
    """To be written. What the log has from the first of them on goes."""
    snapshot: SnapshotMeta | None = None
    """To be installed before anything else of the batch, in place of the whole log."""
    messages: tuple[RaftMessage, ...] = ()
    """May leave at once, beside the writing."""
    after_persist: tuple[RaftMessage, ...] = ()
    """May leave only after this and all earlier batches are durable.

    Those to the node itself are stepped by ``persisted``; they are not to be sent.
    """
    committed: tuple[RaftEntry, ...] = ()
    read_states: tuple[ReadState, ...] = ()
    must_sync: bool = False
    """Whether entries, term or vote are to be written. A commit index alone may be lost. (A
    snapshot is made durable by whoever installs it, before ``persisted`` is called.)"""
