"""The frames between nodes, as MessagePack: arrays without names, type-checked when decoded.

Consensus has its messages (``RaftFrame``). Beside them travel batches for the leader
(``Forward``), its refusals (``ForwardRefused``), messages that are not journaled
(``LiveMessages``), questions of any kind with their answers, and frames about membership. Any frame
may be lost, duplicated or late: a node that needs an answer asks again.

The transport looks into frames only to see which may be large (``is_bulk``).
"""

from enum import StrEnum
from typing import TypeAlias

import msgspec

from penstock.errors import RemoteProtocolError
from penstock.limits import BATCH_BYTES_MAX, MIB
from penstock.raft.types import MessageKind, NodeId, RaftMessage

FORWARD_BYTES_MAX = BATCH_BYTES_MAX + 32 * MIB
"""Largest batch for the leader: a sealed one, with its last command, and all columns."""

FRAME_BYTES_MAX = FORWARD_BYTES_MAX + 8 * MIB  # a batch, and what the leader merged with it


class RefusalReason(StrEnum):
    """Why a leader will never write a batch."""

    LEADERSHIP_LOST = "leadership_lost"  # only the leader of another term could have written it
    DAMAGED = "damaged"
    TOO_LARGE = "too_large"
    LATE = "late"  # a client has since repeated its content at another node


class ChangeKind(StrEnum):
    """Membership changes that may be requested. Promotion is up to the leader."""

    ADD = "add"
    REMOVE = "remove"
    MOVE = "move"  # new addresses of a node; only the node itself may request it


class Member(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A node and its addresses, for other nodes and for clients (empty: unknown)."""

    id: NodeId
    peer_addr: str = ""
    client_addr: str = ""


class RaftFrame(msgspec.Struct, frozen=True, array_like=True, tag=0):
    """A Raft message. ``now_ms``: the leader's steady time; 0 from all others.

    ``forwards``: how many batches of one node a leader takes at a time; 0 from all others, and from
    leaders of former versions, which take one.
    """

    message: RaftMessage
    now_ms: int = 0
    forwards: int = 0


class Forward(msgspec.Struct, frozen=True, array_like=True, tag=1, gc=False):
    """A node's batch for the leader. ``term``: the only one that may write it; 0: any.

    ``follows``: the number of the batch that must be in the log before it; 0: none.
    """

    incarnation: int
    number: int
    batch: bytes
    term: int = 0
    follows: int = 0


class ForwardRefused(msgspec.Struct, frozen=True, array_like=True, tag=2, gc=False):
    """The batch is not in the log and never will be."""

    incarnation: int
    number: int
    reason: RefusalReason


class LiveMessages(msgspec.Struct, frozen=True, array_like=True, tag=3, gc=False):
    """Messages for current subscribers that are not journaled."""

    topic: bytes
    payloads: tuple[bytes, ...]
    headers: tuple[tuple[bytes, bytes], ...] = ()  # of each
    expires_ms: int = 0  # 0: never
    flags: int = 0  # as in the journal: the content type


class ChangeRequest(msgspec.Struct, frozen=True, array_like=True, tag=4, gc=False):
    """A membership change that a follower forwards. ``number`` is the follower's."""

    number: int
    kind: ChangeKind
    member: Member


class ChangeRefused(msgspec.Struct, frozen=True, array_like=True, tag=5, gc=False):
    """Why a change was refused, for the person who requested it."""

    number: int
    message: str
    advice: str = ""


class MemberRemoved(msgspec.Struct, frozen=True, array_like=True, tag=6, gc=False):
    """The receiver was removed from the cluster by entry ``index``."""

    index: int


class Welcome(msgspec.Struct, frozen=True, array_like=True, tag=7, gc=False):
    """Tells a new node its cluster: ``genesis``, the first voters, and the current ``members``."""

    cluster_id: bytes
    genesis: tuple[Member, ...]
    members: tuple[Member, ...]


class Blank(msgspec.Struct, frozen=True, array_like=True, tag=8, gc=False):
    """The sender is in no cluster and has an empty store."""


class Emptied(msgspec.Struct, frozen=True, array_like=True, tag=9, gc=False):
    """The receiver was part of this cluster, so it has lost its data."""

    cluster_id: bytes
    is_removed: bool = False


class AnswerKind(StrEnum):
    """Whether a question has an answer, or why not."""

    ANSWER = "answer"
    BUSY = "busy"
    TOO_LARGE = "too_large"
    FAILED = "failed"
    LOST = "lost"  # said by nobody: the connection is gone


class Question(msgspec.Struct, frozen=True, array_like=True, tag=10, gc=False):
    """What a node wants to know of another one, or wants it to do. ``number`` is the asker's."""

    number: int
    body: bytes


class Answer(msgspec.Struct, frozen=True, array_like=True, tag=11, gc=False):
    """The answer to the question of that number."""

    number: int
    kind: AnswerKind
    body: bytes = b""


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
    | Question
    | Answer
)

_encode = msgspec.msgpack.Encoder().encode
_decoder: msgspec.msgpack.Decoder[Frame] = msgspec.msgpack.Decoder(Frame)

_LARGE = (MessageKind.APPEND, MessageKind.SNAPSHOT)


def encode_frame(frame: Frame) -> bytes:
    return _encode(frame)


def decode_frame(data: bytes | memoryview) -> Frame:
    """Decode a frame of bounded length; raises RemoteProtocolError."""
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        message = f"a node sent a malformed frame: {error}"
        raise RemoteProtocolError(message, "All nodes must run the same version.") from error


def is_bulk(frame: Frame) -> bool:
    """Whether a frame may be large, so that it must not delay heartbeats and votes.

    Appends without entries are small, but followers would reject them if they overtook those with
    entries. They use the same link.
    """
    if isinstance(frame, RaftFrame):
        return frame.message.kind in _LARGE
    return isinstance(frame, Forward | LiveMessages | Question | Answer)
