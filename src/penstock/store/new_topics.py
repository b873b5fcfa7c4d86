"""Names of topics that may not have a row on disk yet, in order.

Rows of new topics are written when their entries are folded into a block. Until then whoever lists
topics finds their names here. The writer only notes a name; ordering is left to who asks, in pieces
small enough that no other thread waits for it.
"""

import threading
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from heapq import merge

INSERTED_MAX = 64  # names put into their places one by one
SORTED_AT_ONCE = 4_096  # sorting is one step for the interpreter: about a millisecond


class NewTopics:
    """``lock`` is held by the writer while it changes topics; it is the caller's."""

    def __init__(self, lock: threading.Lock) -> None:
        self._lock = lock
        self._names: set[bytes] = set()
        self._added: list[bytes] = []  # since the last ``ordered``
        self._ordered: list[bytes] = []  # some may be gone
        self._ordering = threading.Lock()

    def add(self, name: bytes) -> None:
        """Note a new topic. Writer thread, holding the lock."""
        if name not in self._names:
            self._names.add(name)
            self._added.append(name)

    def discard(self, names: Iterable[bytes]) -> None:
        """Forget topics that have rows, or are gone. Writer thread, holding the lock."""
        self._names.difference_update(names)

    def ordered(self) -> Sequence[bytes]:
        """The names, without repetition; some of them may have rows, or be gone. Any thread.

        What is returned does not change.
        """
        with self._ordering:
            with self._lock:
                added, self._added = self._added, []
                count = len(self._names)
            if added or len(self._ordered) > 2 * count:
                self._ordered = self._merged(added, count)
            return self._ordered

    def _merged(self, added: list[bytes], count: int) -> list[bytes]:
        known = self._ordered
        if len(known) + len(added) > 2 * count:
            present = self._names.copy()
            known = [name for name in known if name in present]
            added = [name for name in added if name in present]
        if len(added) <= INSERTED_MAX:
            known = known.copy()
            for name in added:
                place = bisect_left(known, name)
                if known[place : place + 1] != [name]:
                    known.insert(place, name)
            return known
        slices = range(0, len(added), SORTED_AT_ONCE)
        runs = [sorted(added[first : first + SORTED_AT_ONCE]) for first in slices]
        return list(dict.fromkeys(merge(known, *runs)))
