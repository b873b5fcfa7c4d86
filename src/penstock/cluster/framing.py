"""Frames between nodes: a length, a payload, and a MAC that also covers the order.

::

    length    u32, little-endian: bytes of the payload
    payload
    mac       16 bytes: BLAKE2b under the connection's key over (frame number, length, payload)

Both sides count frames, so one that was changed, repeated, dropped or moved fails. During the
handshake, before there are keys, the MAC is a plain checksum. The reader refuses an announced
length above its bound before it buffers anything.
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


class _Macs:
    """The MACs of one direction of a connection, in order."""

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
    """Makes frames of payloads, to be sent in the same order."""

    __slots__ = ("_macs",)

    def __init__(self, key: bytes = b"") -> None:
        self._macs = _Macs(key)

    def frame(self, payload: bytes) -> tuple[bytes, bytes, bytes]:
        """The pieces of a frame. The payload, which may be large, is not copied."""
        return _LENGTH.pack(len(payload)), payload, self._macs.next(payload)


class PeerFrameReader:
    """Finds frames in a byte stream."""

    __slots__ = ("_buffer", "_bytes_max", "_macs", "_start")

    def __init__(self, bytes_max: int, key: bytes = b"") -> None:
        self._buffer = bytearray()
        self._start = 0  # of the next frame
        self.rekey(bytes_max, key)

    def rekey(self, bytes_max: int, key: bytes) -> None:
        """Use another key and bound for what follows the frame just returned."""
        self._bytes_max = bytes_max
        self._macs = _Macs(key)

    def append(self, data: bytes) -> None:
        self._buffer += data

    def next(self) -> bytes | None:
        """The payload of the next frame, None if it is incomplete.

        Raises PeerFault; then the connection must end.
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
                "a frame fails its checksum: it was changed, repeated or reordered, or the other"
                " side is no node",
            )
        self._start = end
        return payload

    def _length(self) -> int:
        """Bytes of the next payload; 0 while unknown."""
        if len(self._buffer) - self._start < _LENGTH.size:
            return 0
        length = int(_LENGTH.unpack_from(self._buffer, self._start)[0])
        if length > self._bytes_max:
            raise PeerFault(
                PeerReason.FRAME_TOO_LARGE,
                f"a frame of {length} bytes was announced, the limit is {self._bytes_max}",
            )
        return length

    def _forget(self) -> None:
        """Drop what was returned. Deleting at the front of a bytearray moves nothing."""
        del self._buffer[: self._start]
        self._start = 0
