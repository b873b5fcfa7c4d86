"""Filters that a client was granted and that its session may not have yet.

The limit on subscriptions counts both. A filter joins the session when its command is applied, and
the answer leaves a moment later; in between it is in both places and must count once. Filters join
in the order in which they were asked for, so only the oldest pending ones need to be looked at.
"""

from collections import deque
from collections.abc import Container, Iterable


class PendingFilters:
    """New filters of one client by the SUBSCRIBE that asked for them, the oldest first."""

    __slots__ = ("_pending",)

    def __init__(self) -> None:
        self._pending: deque[tuple[int, bytes]] = deque()

    def add(self, packet_id: int, filters: Iterable[bytes]) -> None:
        """These were granted."""
        self._pending.extend((packet_id, topic_filter) for topic_filter in filters)

    def answered(self, packet_id: int) -> None:
        """The session has these, or has lost them again by an UNSUBSCRIBE."""
        while self._pending and self._pending[0][0] == packet_id:
            self._pending.popleft()

    def beside(self, known: Container[bytes]) -> int:
        """How many there are beside those that the session has."""
        while self._pending and self._pending[0][1] in known:
            self._pending.popleft()
        return len(self._pending)
