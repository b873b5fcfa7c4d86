"""All sessions of a broker: who is connected, who is away and until when, their rows on disk."""

from collections.abc import Iterator

from penstock.core.effects import Effects
from penstock.core.journal_position import JournalPosition
from penstock.core.live import LiveSubscriber
from penstock.core.replay_routes import ReplayRoutes
from penstock.core.routes import Routes
from penstock.core.session import Session
from penstock.core.session_ends import SessionTimes
from penstock.core.session_queues import SessionQueues
from penstock.obs.counters import Counters
from penstock.obs.reasons import DropReason


class SessionTable:
    """The sessions by client id, and what concerns all of them."""

    def __init__(
        self,
        counters: Counters,
        position: JournalPosition,
        routes: Routes[Session | LiveSubscriber],
        queues: SessionQueues,
        inflight_max: int,
        expiry_s: int,
    ) -> None:
        """``expiry_s``: when sessions end at the latest, after their client left."""
        self.counters = counters
        self.position = position
        self.queues = queues
        self._routes = routes
        self.replays = ReplayRoutes(routes)
        self.inflight_max = inflight_max
        self._expiry_s = expiry_s
        self.by_id: dict[bytes, Session] = {}
        self.away: dict[bytes, Session] = {}  # those without a connection
        self.with_offers: set[Session] = set()  # durable ones that are owed retained messages
        self.dirty: dict[bytes, None] = {}  # client ids whose row on disk is outdated
        self.ends = SessionTimes(self.away, self.end_ms)
        self.wills = SessionTimes(self.by_id, lambda session: session.next_will_ms)

    def end_ms(self, session: Session) -> int | None:
        """When a session whose client is away ends; None: it is over."""
        if not session.durable:
            return None  # nothing is left of it but a will
        asked_s = session.expiry_s if session.expiry_s >= 0 else self._expiry_s
        return session.away_since_ms + min(asked_s, self._expiry_s) * 1000

    def is_contained(self, session: Session) -> bool:
        """Whether the row this session was loaded from already contains the current entry."""
        return self.position.is_recovering and session.applied >= self.position.index

    def touch(self, session: Session) -> None:
        if session.recorded:
            self.dirty[session.client_id] = None

    def limit_window(self, session: Session) -> None:
        session.limit_window(self.inflight_max, session.receive_maximum)

    def add(self, session: Session) -> None:
        self.by_id[session.client_id] = session

    def left(self, session: Session, now_ms: int) -> None:
        """The client is away; the session waits for it."""
        session.overtaken = None  # the next offer searches again
        self.replays.part(session)
        session.connected = False
        session.client = None
        session.will = None
        session.away_since_ms = now_ms
        self.away[session.client_id] = session
        self.ends.note(session)
        self.touch(session)

    def expired(self, session: Session, effects: Effects) -> None:
        self.counters.drops[DropReason.SESSION_EXPIRED] += session.queue_count
        if session.queue_count and not self.position.is_recovering:
            expired, count = DropReason.SESSION_EXPIRED, session.queue_count
            effects.drop(expired, session.client_id, count, detail="all that waited for it")
        self.end(session)

    def end(self, session: Session) -> None:
        """End a session. Only its name stays while a will of it is to be published."""
        self.away.pop(session.client_id, None)
        self._routes.remove_subscriber(session, session.subscriptions or ())
        self.with_offers.discard(session)
        self.replays.withdraw_all(session)
        self.queues.count -= session.queue_count
        if session.recorded:
            self.dirty[session.client_id] = None
        session.clear()
        if session.wills:
            self.away[session.client_id] = session
            self.wills.note(session)  # they are due now, whatever their delay
        else:
            del self.by_id[session.client_id]

    def orphans(self) -> Iterator[Session]:
        return (s for s in list(self.by_id.values()) if s.connected and s.client is None)

    def oldest_needed(self) -> int | None:
        """The lowest sequence that some durable session still needs."""
        needed = (s.oldest_needed() for s in self.by_id.values() if s.durable)
        return min((sequence for sequence in needed if sequence is not None), default=None)

    # ── checkpoint and recovery ───────────────────────────────────────────────────────────────

    def row(self, client_id: bytes) -> bytes | None:
        """The checkpoint row of a session; None: it has none."""
        session = self.by_id.get(client_id)
        if session is None or not session.recorded:
            return None
        return session.to_row(self.position.index)

    def load(self, row: bytes) -> Session:
        session = Session.from_row(row)
        self.limit_window(session)
        self.by_id[session.client_id] = session
        self.queues.count += session.queue_count
        for topic_filter, options in self.replays.routed(session):
            self._routes.subscribe(topic_filter, session, options)
        self.replays.load(session)
        return session

    def settle(self) -> None:
        """After the last replayed entry: order the sessions that are away by how long they are."""
        away = [session for session in self.by_id.values() if not session.connected]
        away.sort(key=lambda session: session.away_since_ms)
        self.away.clear()
        self.away.update((session.client_id, session) for session in away)
        self.ends.rebuild()
        self.wills.rebuild()
