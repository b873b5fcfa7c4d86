"""What participants send and store; the names are those of Raft and of etcd.

Plain data, immutable where it is shared. Whatever goes over the wire is ``array_like``: MessagePack
without names, type-checked when decoded.
"""

from enum import IntEnum
from typing import Protocol

import msgspec

NodeId = int
NO_NODE: NodeId = 0
NO_LIMIT = (1 << 63) - 1


class Role(IntEnum):
    """The role of a participant."""

    FOLLOWER = 0
    CANDIDATE = 1
    LEADER = 2
    PRE_CANDIDATE = 3


class EntryKind(IntEnum):
    """What an entry's data is."""

    NORMAL = 0
    CONF_CHANGE = 1  # one step, as older versions of etcd write it
    CONF_CHANGE_V2 = 2


class MessageKind(IntEnum):
    """The numbers are etcd's, except for those from 100 on."""

    HUP = 0
    BEAT = 1
    PROPOSE = 2
    APPEND = 3
    APPEND_RESPONSE = 4
    VOTE = 5
    VOTE_RESPONSE = 6
    SNAPSHOT = 7
    HEARTBEAT = 8
    HEARTBEAT_RESPONSE = 9
    UNREACHABLE = 10
    SNAPSHOT_STATUS = 11
    CHECK_QUORUM = 12
    TRANSFER_LEADER = 13
    TIMEOUT_NOW = 14
    READ_INDEX = 15
    READ_INDEX_RESPONSE = 16
    PRE_VOTE = 17
    PRE_VOTE_RESPONSE = 18
    FORGET_LEADER = 23
    COMMITTED = 100  # the entry at ``index``, of ``log_term``, is committed


class RaftEntry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An entry of the log."""

    term: int
    index: int
    data: bytes = b""
    kind: EntryKind = EntryKind.NORMAL


class ConfState(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The configuration. During a joint change ``voters_outgoing`` is not empty."""

    voters: tuple[NodeId, ...] = ()
    learners: tuple[NodeId, ...] = ()
    voters_outgoing: tuple[NodeId, ...] = ()
    learners_next: tuple[NodeId, ...] = ()
    auto_leave: bool = False


class ConfChangeKind(IntEnum):
    """One step of a change."""

    ADD_NODE = 0
    REMOVE_NODE = 1
    UPDATE_NODE = 2
    ADD_LEARNER = 3


class ConfChangeTransition(IntEnum):
    """How to get from one configuration to the next."""

    AUTO = 0  # simple if one voter changes, else joint, left automatically
    JOINT_IMPLICIT = 1
    JOINT_EXPLICIT = 2


class ConfChange(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A change; without steps: leave the joint configuration. ``is_single``: the older form."""

    steps: tuple[tuple[ConfChangeKind, NodeId], ...] = ()
    transition: ConfChangeTransition = ConfChangeTransition.AUTO
    context: bytes = b""
    is_single: bool = False


class HardState(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What must survive a crash beside the log."""

    term: int = 0
    vote: NodeId = NO_NODE
    commit: int = 0


class SnapshotMeta(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Metadata of a snapshot. The state itself is sent by other means."""

    index: int = 0
    term: int = 0
    conf_state: ConfState = ConfState()


class RaftMessage(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A message. Which fields are used depends on ``kind``; see etcd's raft.proto."""

    kind: MessageKind
    to: NodeId = NO_NODE
    sender: NodeId = NO_NODE
    term: int = 0
    log_term: int = 0
    index: int = 0
    entries: tuple[RaftEntry, ...] = ()
    commit: int = 0
    vote: NodeId = NO_NODE
    snapshot: SnapshotMeta | None = None
    reject: bool = False
    reject_hint: int = 0
    context: bytes = b""


class ReadState(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A read with ``context`` is current once ``index`` is applied."""

    index: int
    context: bytes


class Compacted(Exception):  # noqa: N818 - named for what has become of the entries, as in etcd
    """The entries are no longer in the log."""


class EntriesUnavailable(Exception):  # noqa: N818
    """The entries are not there yet."""


class SnapshotUnavailable(Exception):  # noqa: N818
    """No snapshot is available now; try again."""


class LogView(Protocol):
    """The stable log as the core reads it. Must be cheap: it is called on the loop."""

    def initial_state(self) -> tuple[HardState, ConfState]: ...

    def first_index(self) -> int:
        """The first entry; what precedes it is in a snapshot only."""

    def last_index(self) -> int:
        """The last entry, or that of the snapshot if there is none."""

    def term(self, index: int) -> int:
        """The term of an entry, or of ``first_index() - 1``; Compacted, EntriesUnavailable."""

    def entries(self, low: int, high: int, bytes_max: int) -> tuple[RaftEntry, ...]:
        """Entries ``low`` to ``high - 1``: at least one, then up to ``bytes_max`` of data.

        Raises Compacted, EntriesUnavailable.
        """

    def snapshot(self) -> SnapshotMeta:
        """What a snapshot made now would hold; SnapshotUnavailable."""
