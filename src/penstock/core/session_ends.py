"""Times at which something becomes due for a session: its end, or a will.

A heap finds the earliest. An entry is void if the session has another time by now, or none; void
entries are passed over, and removed all at once when there are too many. What is due stays until a
command has changed the session: whoever asks may fail to carry it out.
"""

from collections.abc import Callable, Mapping
from heapq import heapify, heappop, heappush

from penstock.core.session import Session

VOID_MAX = 1_000  # void entries beside as many as there are sessions


class SessionTimes:
    """One kind of time of all sessions; ``time_of`` tells a session's, None if it has none."""

    def __init__(
        self, sessions: Mapping[bytes, Session], time_of: Callable[[Session], int | None]
    ) -> None:
        self._sessions = sessions
        self._time_of = time_of
        self._heap: list[tuple[int, bytes]] = []

    def note(self, session: Session) -> None:
        """Take notice of the session's time."""
        time_ms = self._time_of(session)
        if time_ms is not None:
            heappush(self._heap, (time_ms, session.client_id))
            if len(self._heap) > 2 * len(self._sessions) + VOID_MAX:
                self.rebuild()

    def rebuild(self) -> None:
        times = ((self._time_of(session), session) for session in self._sessions.values())
        self._heap = [(at, session.client_id) for at, session in times if at is not None]
        heapify(self._heap)

    def due(self, now_ms: int, count_max: int) -> list[Session]:
        """The sessions whose time has come, the earliest first."""
        found: dict[bytes, Session] = {}
        while self._heap and self._heap[0][0] <= now_ms and len(found) < count_max:
            time_ms, client_id = heappop(self._heap)
            session = self._sessions.get(client_id)
            if session is not None and self._time_of(session) == time_ms:
                found[client_id] = session
        for session in found.values():
            self.note(session)
        return list(found.values())
