"""Append messages in flight to one follower: a window bounded by messages and bytes."""

from collections import deque


class Inflights:
    """Append messages that are not acknowledged, oldest first.

    Each is identified by the index of its last entry; acknowledging an index ends all up to it. The
    last message may exceed the bound in bytes. ``bytes_max`` 0: only messages are counted.
    """

    __slots__ = ("_sent", "bytes", "bytes_max", "count_max")

    def __init__(self, count_max: int, bytes_max: int = 0) -> None:
        self.count_max = count_max
        self.bytes_max = bytes_max
        self.bytes = 0
        self._sent: deque[tuple[int, int]] = deque()

    @property
    def count(self) -> int:
        return len(self._sent)

    def full(self) -> bool:
        return len(self._sent) >= self.count_max or 0 < self.bytes_max <= self.bytes

    def add(self, index: int, size: int) -> None:
        """Note a message: the index of its last entry, and the bytes of its entries."""
        assert not self.full(), "sent although the window is full"
        self._sent.append((index, size))
        self.bytes += size

    def free_le(self, index: int) -> None:
        sent = self._sent
        while sent and sent[0][0] <= index:
            self.bytes -= sent.popleft()[1]

    def reset(self) -> None:
        self._sent.clear()
        self.bytes = 0
