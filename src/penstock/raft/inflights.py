"""How much is on its way to one follower: a window bounded by messages and by bytes."""

from collections import deque


class Inflights:
    """Append messages that were sent and are not acknowledged, oldest first.

    Each is known by the index of its last entry: acknowledging an index ends all messages up to it.
    The bound in bytes may be overstepped by the last message, for it is not known before how large
    that will be; ``bytes_max`` 0 means that only messages are counted.
    """

    __slots__ = ("_sent", "bytes", "bytes_max", "count_max")

    def __init__(self, count_max: int, bytes_max: int = 0) -> None:
        self.count_max = count_max
        self.bytes_max = bytes_max
        self.bytes = 0
        self._sent: deque[tuple[int, int]] = deque()

    @property
    def count(self) -> int:
        """How many messages are on their way."""
        return len(self._sent)

    def full(self) -> bool:
        """Whether nothing more may be sent for now."""
        return len(self._sent) >= self.count_max or 0 < self.bytes_max <= self.bytes

    def add(self, index: int, size: int) -> None:
        """Note a message: the index of its last entry, the bytes of all its entries."""
        assert not self.full(), "sent although the window is full"
        self._sent.append((index, size))
        self.bytes += size

    def free_le(self, index: int) -> None:
        """Forget all messages up to ``index``: they have arrived."""
        sent = self._sent
        while sent and sent[0][0] <= index:
            self.bytes -= sent.popleft()[1]

    def reset(self) -> None:
        """Forget all messages: the follower is asked anew where it stands."""
        self._sent.clear()
        self.bytes = 0
