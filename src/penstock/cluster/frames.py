"""What nodes say to each other, as MessagePack: arrays without names, read back checked by type.

Consensus has its messages (``RaftFrame``). Beside them travel batches for the leader
(``Forward``), its refusals (``ForwardRefused``), messages that are not journaled
(``LiveMessages``), and frames about membership. Any frame may be lost, duplicated or late: a node
that needs an answer asks again.

The transport carries frames; it looks into them only to see what may be large (``is_bulk``).
"""

from enum import StrEnum
from typing import TypeAlias

import msgspec

from penstock.errors import RemoteProtocolError
from penstock.limits import BATCH_BYTES_MAX, MIB
from penstock.raft.types import MessageKind, NodeId, RaftMessage

FORWARD_BYTES_MAX = BATCH_BYTES_MAX + 32 * MIB
"""Largest batch that a node may send to the leader. A batch is closed to newcomers once it has
``BATCH_BYTES_MAX``; what joined last, and the columns beside the payloads, come on top."""

FRAME_BYTES_MAX = FORWARD_BYTES_MAX + 8 * MIB
"""Largest frame: a batch with what the leader merged with it, in one message to a follower."""


class RefusalReason(StrEnum):
    """Why a leader will not write a batch: for good, unlike silence."""

    LEADERSHIP_LOST = "leadership_lost"
    """It holds what only the leader of another term may decide, and it is not in the log."""
    DAMAGED = "damaged"
    TOO_LARGE = "too_large"
    LATE = "late"
    """It holds what a client has repeated at another node since."""


class ChangeKind(StrEnum):
    """What may be asked of the configuration; promotion comes by itself."""

    ADD = "add"
    REMOVE = "remove"
    MOVE = "move"
    """A node says of itself where it is reached; nobody else may."""


class Member(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A node and where to find it: for other nodes, and for clients (empty: not told)."""

    id: NodeId
    peer_addr: str = ""
    client_addr: str = ""


class RaftFrame(msgspec.Struct, frozen=True, array_like=True, tag=0):
    """A message of the consensus. ``now_ms``: the leader's steady time; 0 from all others."""

    message: RaftMessage
    now_ms: int = 0


class Forward(msgspec.Struct, frozen=True, array_like=True, tag=1, gc=False):
    """A node's batch for the leader's log: the ``number``-th of this incarnation of the node.

    Sent until the node sees it applied. ``term`` is 0, or the only term in which it may be written.
    """

    incarnation: int
    number: int
    batch: bytes
    term: int = 0


class ForwardRefused(msgspec.Struct, frozen=True, array_like=True, tag=2, gc=False):
    """That batch is not in the log and never will be."""

    incarnation: int
    number: int
    reason: RefusalReason


class LiveMessages(msgspec.Struct, frozen=True, array_like=True, tag=3, gc=False):
    """Messages for whoever listens now; nobody keeps them."""

    topic: bytes
    payloads: tuple[bytes, ...]


class ChangeRequest(msgspec.Struct, frozen=True, array_like=True, tag=4, gc=False):
    """A follower passes on what it was asked: to add or remove a node. ``number`` is its own."""

    number: int
    kind: ChangeKind
    member: Member


class ChangeRefused(msgspec.Struct, frozen=True, array_like=True, tag=5, gc=False):
    """Why not, in words for the person who asked."""

    number: int
    message: str
    advice: str = ""


class MemberRemoved(msgspec.Struct, frozen=True, array_like=True, tag=6, gc=False):
    """The receiver is no longer part of the cluster, since entry ``index``."""

    index: int


class Welcome(msgspec.Struct, frozen=True, array_like=True, tag=7, gc=False):
    """A node tells another one, of which it has heard nothing yet, which cluster they are in.

    ``genesis`` are the voters that the cluster began with, ``members`` those to speak to now. A
    node that is in a cluster already takes no notice.
    """

    cluster_id: bytes
    genesis: tuple[Member, ...]
    members: tuple[Member, ...]


class Blank(msgspec.Struct, frozen=True, array_like=True, tag=8, gc=False):
    """The sender is in no cluster and knows of nothing."""


class Emptied(msgspec.Struct, frozen=True, array_like=True, tag=9, gc=False):
    """The receiver, who says that it knows of nothing, was part of this cluster."""

    cluster_id: bytes
    is_removed: bool = False
    """Whether it has been removed by now."""


Frame: TypeAlias = (
    RaftFrame
    | Forward
    | ForwardRefused
    | LiveMessages
    | ChangeRequest
    | ChangeRefused
    | MemberRemoved
    | Welcome
    | Blank
    | Emptied
)

_encode = msgspec.msgpack.Encoder().encode
_decoder: msgspec.msgpack.Decoder[Frame] = msgspec.msgpack.Decoder(Frame)

_LARGE = (MessageKind.APPEND, MessageKind.SNAPSHOT)


def encode_frame(frame: Frame) -> bytes:
    """A frame as bytes."""
    return _encode(frame)


def decode_frame(data: bytes | memoryview) -> Frame:
    """The frame again; RemoteProtocolError if it is none. Whoever calls has bounded its length."""
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        message = f"a node sent what is no frame: {error}"
        raise RemoteProtocolError(message, "All nodes must run the same version.") from error


def is_bulk(frame: Frame) -> bool:
    """Whether a frame may be large, so that it must not stand before heartbeats and votes.

    Appends without entries only tell how far the log is committed: they are small, but overtaking
    those with entries would make followers refuse them. They stay on the same way.
    """
    if isinstance(frame, RaftFrame):
        return frame.message.kind in _LARGE
    return isinstance(frame, Forward | LiveMessages)
