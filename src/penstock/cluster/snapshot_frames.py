"""What is said on a connection that carries a snapshot.

::

    sender                                   receiver
      │── SnapshotBegin: the core's message ─────►│  may answer at once: not now
      │── SnapshotChunk … ───────────────────────►│  into a new file
      │── SnapshotEnd: length, digest of all ────►│  compares, flushes
      │◄── SnapshotAnswer: taken, or why not ─────│
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from penstock.cluster.faults import PeerFault
from penstock.limits import KIB, MIB
from penstock.obs.reasons import PeerReason
from penstock.raft.types import RaftMessage

CHUNK_BYTES = 256 * KIB
"""What is sent at a time: to make and to check it takes the event loop well under a millisecond."""
DIGEST_BYTES = 32


class SnapshotBegin(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """A copy of the sender's store follows; ``message`` is what the core had to say."""

    message: RaftMessage


class SnapshotChunk(msgspec.Struct, frozen=True, array_like=True, tag=2, gc=False):
    """The next bytes of the copy."""

    data: Annotated[bytes, Meta(max_length=MIB)]


class SnapshotEnd(msgspec.Struct, frozen=True, array_like=True, tag=3, gc=False):
    """That was all of it."""

    size: int
    digest: Annotated[bytes, Meta(min_length=DIGEST_BYTES, max_length=DIGEST_BYTES)]


class SnapshotAnswer(msgspec.Struct, frozen=True, array_like=True, tag=4, gc=False):
    """What became of it."""

    is_ok: bool
    message: Annotated[str, Meta(max_length=512)] = ""


encode_snapshot_frame = msgspec.msgpack.Encoder().encode
_word: msgspec.msgpack.Decoder[SnapshotBegin | SnapshotChunk | SnapshotEnd] = (
    msgspec.msgpack.Decoder(SnapshotBegin | SnapshotChunk | SnapshotEnd)
)
_answer = msgspec.msgpack.Decoder(SnapshotAnswer)


def decode_snapshot_frame(payload: bytes) -> SnapshotBegin | SnapshotChunk | SnapshotEnd:
    """What the sender says; raises PeerFault."""
    try:
        return _word.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _no_word(error) from error


def decode_snapshot_answer(payload: bytes) -> SnapshotAnswer:
    """What the receiver says; raises PeerFault."""
    try:
        return _answer.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _no_word(error) from error


def _no_word(error: Exception) -> PeerFault:
    return PeerFault(PeerReason.MALFORMED_FRAME, f"this does not belong to a snapshot: {error}")
