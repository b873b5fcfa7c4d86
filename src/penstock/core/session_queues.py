"""Messages that wait in sessions whose clients are away, or whose windows are full."""

from penstock.core.delivery import DELIVER_OWN, DELIVER_QOS, DELIVER_RETAIN
from penstock.core.effects import Effects
from penstock.core.session import Session
from penstock.obs.counters import Counters
from penstock.obs.reasons import DropReason

_FULL = {DropReason.QUEUE_FULL_OLDEST, DropReason.QUEUE_FULL_NEWEST}


class SessionQueues:
    """The queues of all sessions, each bounded; ``count`` is how many messages wait in them."""

    __slots__ = ("_counters", "_drops_oldest", "count", "messages_max")

    def __init__(self, counters: Counters, messages_max: int, *, drops_oldest: bool) -> None:
        self._counters = counters
        self._drops_oldest = drops_oldest
        self.messages_max = messages_max
        self.count = 0

    def add(
        self,
        session: Session,
        sequence: int,
        flags: int,
        expires_ms: int,
        now_ms: int,
        effects: Effects | None = None,
    ) -> None:
        """Queue a message, unless it expires at once; ``now_ms`` is when it was published.

        ``effects`` gets what is dropped; None while recovering.
        """
        if 0 < expires_ms <= now_ms:
            self._drop(DropReason.EXPIRED, session, sequence, effects)
            return
        if not self._has_room(session) and session.notes is not None:
            expired = session.drop_expired(now_ms)
            self.count -= expired
            self._drop(DropReason.EXPIRED, session, 0, effects, expired)
        if not self._has_room(session):
            if not self._drops_oldest:
                self._drop(DropReason.QUEUE_FULL_NEWEST, session, sequence, effects)
                return
            oldest = session.drop_oldest()
            self.count -= 1
            self._drop(DropReason.QUEUE_FULL_OLDEST, session, oldest, effects)
        retain = bool(flags & DELIVER_RETAIN)
        session.enqueue(sequence, flags & DELIVER_QOS, retain=retain, expires_ms=expires_ms)
        if flags & DELIVER_OWN:
            session.noted().own[sequence] = True
        self.count += 1

    def _drop(
        self,
        reason: DropReason,
        session: Session,
        sequence: int,
        effects: Effects | None,
        count: int = 1,
    ) -> None:
        self._counters.drops[reason] += count
        if effects is not None and count:
            detail = f"the limit is {self.messages_max}" if reason in _FULL else ""
            effects.drop(reason, session.client_id, count, sequence=sequence, detail=detail)

    def _has_room(self, session: Session) -> bool:
        """Whether one more fits; a paced session may also use the room of its window."""
        if not session.queue:
            return True
        room = self.messages_max
        if session.connected:
            room += max(0, session.window - session.inflight_count)
        return len(session.queue) < room
