"""Topics as they will be once the tail of the log is applied.

A leader encodes an entry while earlier ones are still on their way through the quorum. Its topic
ids and offsets follow from the applied topics and from the tail; nothing can come between, for
only this leader appends to the log. So there is no state to undo: everything here is computed from
the entries of the tail, and computed anew when these are replaced.

Only a leader asks, so followers pay nothing. An entry that drops topics cannot be looked ahead
over: the leader encodes it, and what follows it, when all of the log is applied.
"""

from collections import deque
from collections.abc import Sequence

from penstock.store.entry import Entry
from penstock.store.topics import StoredTopic


class TopicsAhead:
    """``states`` has each topic of the tail: its id, and the next offset after the tail."""

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self.states: dict[bytes, StoredTopic] = {}  # nothing else of these is set
        self.next_id = 0  # after the last id in the tail; 0: it has none
        self._seen: deque[tuple[Entry, list[bytes]]] = deque()  # entries with their topics
        self._last: dict[bytes, int] = {}  # index of the last entry that has a topic

    def follow(self, tail: Sequence[Entry]) -> None:
        """Look at the tail again; what has not changed since the last time costs nothing."""
        if tail:
            self._forget_before(tail[0].index)
        if any(a is not b for (a, _), b in zip(self._seen, tail, strict=False)) or not tail:
            self._clear()
        for entry in tail[len(self._seen) :]:
            self._add(entry)

    def _forget_before(self, index: int) -> None:
        """Forget entries that were applied: the applied topics have them."""
        while self._seen and self._seen[0][0].index < index:
            entry, names = self._seen.popleft()
            for name in names:
                if self._last[name] == entry.index:
                    del self._last[name], self.states[name]

    def _add(self, entry: Entry) -> None:
        assert not entry.dropped, "topics are dropped only when all of the log is applied"
        names = []
        for _, topic_id, name, first_offset, count, _ in entry.extents(0, entry.group_count):
            self.states[name] = StoredTopic(topic_id, name, 0, first_offset + count)
            self._last[name] = entry.index
            self.next_id = max(self.next_id, topic_id + 1)
            names.append(name)
        self._seen.append((entry, names))
