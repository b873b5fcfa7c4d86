"""Changes of the configuration as entries of the log: MessagePack, without names.

The change that leaves a joint configuration is the empty one. It is written as no bytes at all, so
that no bound on uncommitted bytes can keep a leader from getting out of a joint configuration.
"""

import msgspec

from penstock.raft.types import ConfChange, ConfChangeTransition, EntryKind, RaftEntry

_EMPTY = ConfChange()
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(ConfChange).decode


def change_entry(change: ConfChange) -> RaftEntry:
    """The entry that proposes a change; its place in the log is given to it later."""
    kind = EntryKind.CONF_CHANGE if change.is_single else EntryKind.CONF_CHANGE_V2
    return RaftEntry(0, 0, b"" if change == _EMPTY else _encode(change), kind)


def decode_change(entry: RaftEntry) -> ConfChange:
    """What an entry changes. Raises msgspec.DecodeError if that cannot be read."""
    return _decode(entry.data) if entry.data else _EMPTY


def is_conf_change(entry: RaftEntry) -> bool:
    """Whether an entry changes the configuration."""
    return entry.kind is not EntryKind.NORMAL


def leaves_joint(change: ConfChange) -> bool:
    """Whether a change is the one that leaves a joint configuration: whatever has no steps."""
    return not change.steps


def joint_auto_leave(change: ConfChange) -> bool | None:
    """Whether the joint configuration that a change enters is left by itself; None: enters none."""
    if change.transition is ConfChangeTransition.AUTO and len(change.steps) <= 1:
        return None
    return change.transition is not ConfChangeTransition.JOINT_EXPLICIT
