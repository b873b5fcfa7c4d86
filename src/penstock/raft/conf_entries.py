"""Configuration changes as log entries: MessagePack, without names.

The change that leaves a joint configuration is empty and is encoded as no bytes at all, so that no
bound on uncommitted bytes can keep a leader in a joint configuration.
"""

import msgspec

from penstock.raft.types import ConfChange, ConfChangeTransition, EntryKind, RaftEntry

_EMPTY = ConfChange()
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(ConfChange).decode


def change_entry(change: ConfChange) -> RaftEntry:
    """The entry that proposes a change, without index and term."""
    kind = EntryKind.CONF_CHANGE if change.is_single else EntryKind.CONF_CHANGE_V2
    return RaftEntry(0, 0, b"" if change == _EMPTY else _encode(change), kind)


def decode_change(entry: RaftEntry) -> ConfChange:
    """Raises msgspec.DecodeError."""
    return _decode(entry.data) if entry.data else _EMPTY


def joint_auto_leave(change: ConfChange) -> bool | None:
    """Whether a joint configuration is left automatically; None if the change enters none."""
    if change.transition is ConfChangeTransition.AUTO and len(change.steps) <= 1:
        return None
    return change.transition is not ConfChangeTransition.JOINT_EXPLICIT
