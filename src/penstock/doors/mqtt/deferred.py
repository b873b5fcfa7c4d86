"""Deliveries that wait until a client has read what it was sent: numbers only, in columns.

A client that does not read may have 32,767 of them, and there may be ten thousand such clients. So
a delivery takes eleven bytes here: packet id, flags and sequence. Its payload is read from the
journal when its turn comes.
"""

from array import array

_COMPACT_AT = 1_024
"""Places at the front that are done with before the columns are moved up."""


class PutOff:
    """Deliveries in order, as ``(flags, packet id, sequence)`` each."""

    __slots__ = ("_done", "_flags", "_packet_ids", "_sequences")

    def __init__(self) -> None:
        self._flags = bytearray()
        self._packet_ids = array("H")
        self._sequences = array("Q")
        self._done = 0

    def __len__(self) -> int:
        return len(self._flags) - self._done

    def add(self, flags: int, packet_id: int, sequence: int) -> None:
        """Put one off, behind all others."""
        self._flags.append(flags)
        self._packet_ids.append(packet_id)
        self._sequences.append(sequence)

    def first(self, count: int) -> list[tuple[int, int, int]]:
        """The next ones; they stay until they are ``done``."""
        part = slice(self._done, self._done + count)
        flags, packet_ids = self._flags[part], self._packet_ids[part]
        return list(zip(flags, packet_ids, self._sequences[part], strict=True))

    def done(self, count: int) -> None:
        """The first ones were sent."""
        self._done += count
        if self._done >= _COMPACT_AT or self._done == len(self._flags):
            del self._flags[: self._done]
            del self._packet_ids[: self._done], self._sequences[: self._done]
            self._done = 0
