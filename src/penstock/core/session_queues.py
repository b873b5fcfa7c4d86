"""Messages that wait in sessions whose clients are away, or whose windows are full."""

from penstock.core.delivery import DELIVER_QOS, DELIVER_RETAIN
from penstock.core.session import PACKET_ID_MAX, Session
from penstock.obs.counters import Counters
from penstock.obs.reasons import DropReason


class SessionQueues:
    """The queues of all sessions, each bounded; ``count`` is how many messages wait in them."""

    __slots__ = ("_counters", "_drops_oldest", "_inflight_max", "count", "messages_max")

    def __init__(
        self, counters: Counters, inflight_max: int, messages_max: int, *, drops_oldest: bool
    ) -> None:
        self._counters = counters
        self._inflight_max = inflight_max
        self._drops_oldest = drops_oldest
        self.messages_max = messages_max
        self.count = 0

    def add(self, session: Session, sequence: int, flags: int) -> None:
        if session.queue is not None and len(session.queue) >= self._room(session):
            if not self._drops_oldest:
                self._counters.drops[DropReason.QUEUE_FULL_NEWEST] += 1
                return
            session.queue.popleft()
            self.count -= 1
            self._counters.drops[DropReason.QUEUE_FULL_OLDEST] += 1
        session.enqueue(sequence, flags & DELIVER_QOS, retain=bool(flags & DELIVER_RETAIN))
        self.count += 1

    def _room(self, session: Session) -> int:
        """How many messages may be queued; a paced session may also use the room of its window."""
        if not session.connected:
            return self.messages_max
        window = min(self._inflight_max, PACKET_ID_MAX)
        return self.messages_max + max(0, window - session.inflight_count)
