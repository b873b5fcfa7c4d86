"""Decoded parts of blocks that were read last, for all readers of a store."""

import threading
from collections import OrderedDict
from typing import Final, TypeAlias

from penstock.store.entry import Entry

CACHE_BYTES: Final = 16 << 20

# a part, or a block's order: its positions and the numbers of the runs
Cached: TypeAlias = Entry | tuple[memoryview, memoryview]
Key: TypeAlias = tuple[int, int, int]  # number of the block, its checksum, number of the part


class PartCache:
    """Bounded by bytes; what was not used for longest goes first. For any thread."""

    def __init__(self, bytes_max: int = CACHE_BYTES) -> None:
        self._bytes_max = bytes_max
        self._lock = threading.Lock()
        self._found: OrderedDict[Key, tuple[Cached, int]] = OrderedDict()
        self.bytes = 0

    def get(self, key: Key) -> Cached | None:
        with self._lock:
            found = self._found.get(key)
            if found is None:
                return None
            self._found.move_to_end(key)
            return found[0]

    def put(self, key: Key, found: Cached, size: int) -> None:
        """Keep it, unless it is larger than half the cache."""
        if size > self._bytes_max // 2:
            return
        with self._lock:
            _, before = self._found.pop(key, (None, 0))
            self._found[key] = found, size
            self.bytes += size - before
            while self.bytes > self._bytes_max:
                _, (_, gone) = self._found.popitem(last=False)
                self.bytes -= gone

    def forget(self, number: int) -> None:
        """Let go of a block that was removed."""
        with self._lock:
            for key in [key for key in self._found if key[0] == number]:
                self.bytes -= self._found.pop(key)[1]
