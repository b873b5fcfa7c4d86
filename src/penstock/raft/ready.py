"""The work that a participant hands out."""

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
    """State that need not be durable."""

    lead: NodeId
    role: Role


class PersistMark(msgspec.Struct, frozen=True, gc=False):
    """Identifies a ready for ``persisted``.

    ``index`` and ``log_term`` are the last unstable entry (0: none), ``term`` the term at that
    time. ``own`` are the messages to the node itself that waited for it.
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

    Readies are written in the order in which they were taken. The next may be taken before this one
    is durable.
    """

    mark: PersistMark
    soft_state: SoftState | None = None  # None: unchanged
    hard_state: HardState | None = None  # to be written; None: unchanged
    entries: tuple[RaftEntry, ...] = ()  # to be written; they replace the log from the first on
    snapshot: SnapshotMeta | None = None  # to be installed first, in place of the whole log
    messages: tuple[RaftMessage, ...] = ()  # may leave at once
    after_persist: tuple[RaftMessage, ...] = ()
    """May leave once all readies so far are durable. ``persisted`` handles those to ourselves."""
    committed: tuple[RaftEntry, ...] = ()
    read_states: tuple[ReadState, ...] = ()
    must_sync: bool = False  # entries, term or vote are written; a commit index alone may be lost
