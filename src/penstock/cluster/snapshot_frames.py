"""The frames of a connection that carries a snapshot.

::

    sender                                        receiver
      │── SnapshotBegin: the core's message ───────────►│  may answer at once: not now
      │── SnapshotSize: how much it is ────────────────►│  is there room?
      │── SnapshotChunk …, SnapshotEnd: the database ──►│  reads in it which blocks there are
      │◄── SnapshotWanted: blocks that are not here ────│  repeated until all are here
      │── SnapshotBlock, SnapshotChunk …, SnapshotEnd ─►│  for each of them
      │◄── SnapshotAnswer: taken, or why not ───────────│

An end has length and digest of what came before it. A chunk may be empty: the sender is still busy.
A sender of an earlier version has no blocks, and sends no size; the database is everything then.
"""

from typing import Annotated, TypeAlias, TypeVar

import msgspec
from msgspec import Meta

from penstock.cluster.faults import PeerFault
from penstock.limits import KIB, MIB
from penstock.obs.reasons import PeerReason
from penstock.raft.types import RaftMessage

CHUNK_BYTES = 256 * KIB  # takes the event loop well under a millisecond
DIGEST_BYTES = 32
WANTED_MAX = 256  # blocks that are asked for at a time

Count = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]


class SnapshotBegin(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """A copy of the sender's store follows; ``message`` is the core's."""

    message: RaftMessage
    has_blocks: bool = False  # an earlier version has none, and does not know the field
    source: Annotated[str, Meta(max_length=64)] = ""  # identity of the sender's store


class SnapshotChunk(msgspec.Struct, frozen=True, array_like=True, tag=2, gc=False):
    """The next bytes of the database or of a block."""

    data: Annotated[bytes, Meta(max_length=MIB)]


class SnapshotEnd(msgspec.Struct, frozen=True, array_like=True, tag=3, gc=False):
    """The database or a block is complete."""

    size: Count
    digest: Annotated[bytes, Meta(min_length=DIGEST_BYTES, max_length=DIGEST_BYTES)]


class SnapshotAnswer(msgspec.Struct, frozen=True, array_like=True, tag=4, gc=False):
    """The outcome, from the receiver."""

    is_ok: bool
    message: Annotated[str, Meta(max_length=512)] = ""


class SnapshotWanted(msgspec.Struct, frozen=True, array_like=True, tag=5, gc=False):
    """Blocks that the receiver lacks; none: it is still looking. Also how much it has by now."""

    numbers: Annotated[tuple[Count, ...], Meta(max_length=WANTED_MAX)]
    blocks: Count
    size: Count


class SnapshotBlock(msgspec.Struct, frozen=True, array_like=True, tag=6, gc=False):
    """A block follows; one without any bytes is lost at the sender, too."""

    number: Count
    size: Count


class SnapshotSize(msgspec.Struct, frozen=True, array_like=True, tag=7, gc=False):
    """All there is: blocks, and bytes of them and of the database."""

    blocks: Count
    size: Count


_T = TypeVar("_T")
SnapshotFrame: TypeAlias = (
    SnapshotBegin | SnapshotSize | SnapshotBlock | SnapshotChunk | SnapshotEnd
)
SnapshotReply: TypeAlias = SnapshotAnswer | SnapshotWanted

encode_snapshot_frame = msgspec.msgpack.Encoder().encode
_frames: msgspec.msgpack.Decoder[SnapshotFrame] = msgspec.msgpack.Decoder(SnapshotFrame)
_replies: msgspec.msgpack.Decoder[SnapshotReply] = msgspec.msgpack.Decoder(SnapshotReply)


def decode_snapshot_frame(payload: bytes) -> SnapshotFrame:
    return _decoded(_frames, payload)


def decode_snapshot_reply(payload: bytes) -> SnapshotReply:
    return _decoded(_replies, payload)


def _decoded(decoder: msgspec.msgpack.Decoder[_T], payload: bytes) -> _T:
    try:
        return decoder.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        text = f"not a frame of a snapshot: {error}"
        raise PeerFault(PeerReason.MALFORMED_FRAME, text) from error
