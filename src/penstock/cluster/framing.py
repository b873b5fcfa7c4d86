"""Bytes between nodes: frames with a length, a place in the order and a checksum that is a proof.

::

    length    u32, little-endian: bytes of the payload
    payload
    mac       16 bytes: BLAKE2b under the connection's key over (number of the frame, length,
              payload)

The number is not sent: both sides count. So a frame that was changed, repeated, left out or moved
fails, and a frame of another connection does too, since each has its own key. Before the keys are
agreed upon, during the handshake, the key is empty and the mac is a plain checksum.

The reader is incremental and bounded: an announced length above the bound is refused before
anything is kept for it, and no more is kept than what was received.
"""

from hashlib import blake2b
from hmac import compare_digest
from struct import Struct

from penstock.cluster.faults import PeerFault
from penstock.obs.reasons import PeerReason

MAC_BYTES = 16

_LENGTH = Struct("<I")
_NUMBERED = Struct("<QI")

FRAME_OVERHEAD_BYTES = _LENGTH.size + MAC_BYTES
"""What a frame has beside its payload."""


class _Macs:
    """The checksums of one direction of a connection, in order."""

    __slots__ = ("_keyed", "_number")

    def __init__(self, key: bytes) -> None:
        self._keyed = blake2b(key=key, digest_size=MAC_BYTES)  # copied: the key is mixed in once
        self._number = 0

    def next(self, payload: bytes | memoryview) -> bytes:
        mac = self._keyed.copy()
        mac.update(_NUMBERED.pack(self._number, len(payload)))
        mac.update(payload)
        self._number += 1
        return mac.digest()


class PeerFrameWriter:
    """Makes frames of payloads. They must be sent in the order in which they were made."""

    __slots__ = ("_macs",)

    def __init__(self, key: bytes = b"") -> None:
        self._macs = _Macs(key)

    def frame(self, payload: bytes) -> tuple[bytes, bytes, bytes]:
        """The pieces of a frame: the payload, which may be large, is not copied."""
        return _LENGTH.pack(len(payload)), payload, self._macs.next(payload)


class PeerFrameReader:
    """Finds frames in a stream of bytes that is cut anywhere."""

    __slots__ = ("_buffer", "_bytes_max", "_macs", "_start")

    def __init__(self, bytes_max: int, key: bytes = b"") -> None:
        self._buffer = bytearray()
        self._start = 0
        """Where the next frame begins."""
        self.rekey(bytes_max, key)

    def rekey(self, bytes_max: int, key: bytes) -> None:
        """Read what comes after the frame just returned with another key and another bound."""
        self._bytes_max = bytes_max
        self._macs = _Macs(key)

    def append(self, data: bytes) -> None:
        """Take what was received."""
        self._buffer += data

    def next(self) -> bytes | None:
        """The payload of the next frame, None if it is not complete; raises PeerFault.

        After a fault the stream has no meaning any more: the connection must end.
        """
        length = self._length()
        start = self._start + _LENGTH.size
        end = start + length + MAC_BYTES
        if len(self._buffer) < end:
            self._forget()
            return None
        payload = bytes(memoryview(self._buffer)[start : start + length])
        if not compare_digest(self._macs.next(payload), self._buffer[start + length : end]):
            raise PeerFault(
                PeerReason.MALFORMED_FRAME,
                "a frame fails its checksum: it was changed, repeated or moved on the way, or the"
                " other side is no node",
            )
        self._start = end
        return payload

    def _length(self) -> int:
        """Bytes of the next payload; as long as they are not known, 0 will do."""
        if len(self._buffer) - self._start < _LENGTH.size:
            return 0
        length = int(_LENGTH.unpack_from(self._buffer, self._start)[0])
        if length > self._bytes_max:
            raise PeerFault(
                PeerReason.FRAME_TOO_LARGE,
                f"a frame of {length} bytes was announced, {self._bytes_max} are allowed here",
            )
        return length

    def _forget(self) -> None:
        """Let go of what was returned; taking from the front of a bytearray moves nothing."""
        del self._buffer[: self._start]
        self._start = 0
