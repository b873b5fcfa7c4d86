"""The frames of a connection that carries a snapshot.

::

    sender                                   receiver
      │── SnapshotBegin: the core's message ─────►│  may answer at once: not now
      │── SnapshotChunk … ───────────────────────►│  into a new file
      │── SnapshotEnd: length, digest of all ────►│  compares, flushes
      │◄── SnapshotAnswer: taken, or why not ─────│
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


class SnapshotBegin(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """A copy of the sender's store follows; ``message`` is the core's."""

    message: RaftMessage


class SnapshotChunk(msgspec.Struct, frozen=True, array_like=True, tag=2, gc=False):
    """The next bytes of the copy."""

    data: Annotated[bytes, Meta(max_length=MIB)]


class SnapshotEnd(msgspec.Struct, frozen=True, array_like=True, tag=3, gc=False):
    """The copy is complete."""

    size: int
    digest: Annotated[bytes, Meta(min_length=DIGEST_BYTES, max_length=DIGEST_BYTES)]


class SnapshotAnswer(msgspec.Struct, frozen=True, array_like=True, tag=4, gc=False):
    """The outcome, from the receiver."""

    is_ok: bool
    message: Annotated[str, Meta(max_length=512)] = ""


_T = TypeVar("_T")
SnapshotFrame: TypeAlias = SnapshotBegin | SnapshotChunk | SnapshotEnd

encode_snapshot_frame = msgspec.msgpack.Encoder().encode
_frames: msgspec.msgpack.Decoder[SnapshotFrame] = msgspec.msgpack.Decoder(SnapshotFrame)
_answers = msgspec.msgpack.Decoder(SnapshotAnswer)


def decode_snapshot_frame(payload: bytes) -> SnapshotFrame:
    return _decoded(_frames, payload)


def decode_snapshot_answer(payload: bytes) -> SnapshotAnswer:
    return _decoded(_answers, payload)


def _decoded(decoder: msgspec.msgpack.Decoder[_T], payload: bytes) -> _T:
    try:
        return decoder.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        text = f"not a frame of a snapshot: {error}"
        raise PeerFault(PeerReason.MALFORMED_FRAME, text) from error
