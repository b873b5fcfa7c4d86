"""Housekeeping: expires and cleans up what clients left behind.

Sessions expire, durable subscribers are forgotten, connections end with their broker. These changes
are journaled like those of clients. In a cluster one node makes each of them:

=================================================  ============================================
connections of an earlier incarnation of the node  this node, when it has started and caught up
those of a node that died or was removed           the leader, by ``Consensus.present``
sessions that are away for too long, wills         the leader
retained messages that have expired                the leader
durable subscribers that were not seen for long    the leader; the node that has one connected
                                                   refreshes it
groups, dead letters, sinks                        the leader (``led`` of their parts)
=================================================  ============================================

A node that loses leadership stops; the next leader starts from its own state. Two nodes that both
believe to lead do no harm: a command names the state it was based on, and is void if that has
changed. What must not be done twice (a will is published) is void in another term.

**Late commands.** A command of this node may be applied when no client waits for it any more: it is
from the last incarnation, or the client was refused for lack of a quorum. A session that is opened
by one has no connection, and is ended at once.
"""

from collections.abc import Collection
from functools import partial
from itertools import islice

from penstock.clock import SteadyClock
from penstock.cluster.consensus import Consensus, Leadership
from penstock.commit.completion import Callback
from penstock.commit.pipeline import Pipeline
from penstock.core.broker import Broker
from penstock.core.commands import Closed, Expired, Forgotten, Progressed, RetainedExpired
from penstock.core.effects import OpenedForNobody, WillLeft
from penstock.core.session import Session
from penstock.dispatch.dispatchers import Dispatchers
from penstock.errors import PenstockError
from penstock.net.connection_ids import must_clean_up, node_of
from penstock.net.connections import Connections
from penstock.node.wills import Wills
from penstock.obs.reasons import DisconnectReason
from penstock.staging.sink_commits import SinkCommits

EXPIRE_AT_ONCE = 4_096  # sessions ended per turn

WILLS_AT_ONCE = 1_024  # published per turn; those due at once do not wait for it

RETAINED_AT_ONCE = 1_024  # expired ones removed per command

FORGET_AT_ONCE = 256  # durable subscribers checked per turn

SEEN_GRACE_MS = 60_000  # for another node that has a subscriber connected to refresh it


class Housekeeping:
    """The housekeeping of one node."""

    def __init__(
        self,
        *,
        broker: Broker,
        pipeline: Pipeline,
        connections: Connections,
        cluster: Consensus,
        dispatchers: Dispatchers,
        sinks: SinkCommits,
        wills: Wills,
        steady: SteadyClock,
        identities: Collection[bytes],
        node_grace_s: float = 0.0,
    ) -> None:
        """``identities``: client ids of durable subscribers connected to this node.

        ``node_grace_s`` is told in records of what absent nodes left.
        """
        self._node_grace_s = node_grace_s
        self._broker = broker
        self._pipeline = pipeline
        self._connections = connections
        self._limits = connections.limits
        self._cluster = cluster
        self._dispatchers = dispatchers
        self._sinks = sinks
        self._wills = wills
        self._steady_ms = steady.now_ms
        self._identities = identities
        self._first_connection = 0  # connections of this incarnation have greater ids
        # Sessions that were connected when the last incarnation ended, with their connection. Ids
        # alone are not enough: they grow with the clock, which may have been set back.
        self._left: dict[bytes, int] = {}
        self._expiring: dict[bytes, int] = {}  # ``Expired`` is pending; by last connection
        self._is_expiring_retained = False  # ``RetainedExpired`` is pending
        self._publishing: set[int] = set()  # ``WillSent`` is pending; by connection
        self._forgetting: dict[bytes, int] = {}  # ``Forgotten`` is pending; by time last seen
        self._ending: dict[bytes, int] = {}  # ``Closed`` is pending; by connection
        self._has_ended_own = False  # whether the last incarnation's sessions were ended
        self._is_catching_up = False
        self._is_leading = False
        self._present: frozenset[int] | None = None  # nodes at the last clean-up

    # ── start and leadership ──────────────────────────────────────────────────────────────────

    def start(self) -> None:
        """Note the sessions of the last incarnation; call this before the first client."""
        self._first_connection = self._connections.ids.next()
        orphans = (s for s in self._broker.orphans() if self._is_own(s.connection))
        self._left = {session.client_id: session.connection for session in orphans}
        own = self._cluster.node_id
        self._dispatchers.return_workers(lambda node: node == own)
        self.led(self._cluster.leadership)

    def end_own_sessions(self) -> None:
        """End the sessions whose connections ended with the last incarnation; wills are due.

        First catch up with the leader, which may have ended them and published their wills.
        """
        self._is_catching_up = True
        self._cluster.read_barrier(self._caught_up)

    def _caught_up(self, error: PenstockError | None) -> None:
        self._is_catching_up = False
        if error is not None:
            return  # no quorum: tried again at the next turn
        self._has_ended_own = True
        for session in self._broker.orphans():
            if self._left.get(session.client_id) == session.connection:
                self._end(session)
        self._left = {}
        self._clean_up_absent_nodes()

    def led(self, leadership: Leadership) -> None:
        """Start or stop the leader's tasks."""
        is_leading = leadership.is_leader
        if is_leading == self._is_leading:
            return
        self._is_leading = is_leading
        self._expiring, self._forgetting = {}, {}
        self._publishing, self._is_expiring_retained = set(), False
        self._present = None
        self._dispatchers.led(is_leader=is_leading)
        self._sinks.led(is_leader=is_leading)
        if not is_leading:
            for client in list(self._connections.clients):
                client.leadership_lost()

    # ── periodic tasks ────────────────────────────────────────────────────────────────────────

    def turn(self) -> None:
        if not self._has_ended_own and not self._is_catching_up:
            self.end_own_sessions()
        if self._is_leading:
            self._expire_sessions()
            self._publish_wills()
            self._expire_retained()
            self._forget_subscribers()
            self._clean_up_absent_nodes()
        else:
            self._refresh_subscribers()

    def _expire_sessions(self) -> None:
        expiring = {}
        for session in self._broker.session_table.ends.due(self._steady_ms(), EXPIRE_AT_ONCE):
            client_id = session.client_id
            expiring[client_id] = session.connection
            if self._expiring.get(client_id) != session.connection:
                expired = Expired(client_id, session.connection)
                self._pipeline.submit(expired, None, durable=True)
        self._expiring = expiring

    def _publish_wills(self) -> None:
        for session in self._broker.session_table.wills.due(self._steady_ms(), WILLS_AT_ONCE):
            self._publish_wills_of(session)

    def _publish_wills_of(self, session: Session) -> None:
        now_ms = self._steady_ms()
        for pending in session.wills:
            if pending.at_ms <= now_ms and pending.connection not in self._publishing:
                self._publishing.add(pending.connection)
                done = partial(self._publishing.discard, pending.connection)
                self._wills.publish(pending, done)

    def _expire_retained(self) -> None:
        """Remove retained messages that nobody is sent any more, some at a time."""
        if self._is_expiring_retained:
            return
        due = self._broker.retained.due(self._connections.wall_ms(), RETAINED_AT_ONCE)
        if due:
            self._is_expiring_retained = True
            done = Callback(self._expired_retained, self._expired_retained)
            self._pipeline.submit(RetainedExpired(due), done, durable=True)

    def _expired_retained(self, *_result: object) -> None:
        self._is_expiring_retained = False

    def will_left(self, effect: WillLeft) -> None:
        """Publish a will that is due at once; others wait for a turn."""
        session = self._broker.sessions.get(effect.client_id)
        if self._is_leading and session is not None:
            self._publish_wills_of(session)

    # ── durable subscribers ───────────────────────────────────────────────────────────────────

    def _forget_subscribers(self) -> None:
        """Subscribers are ordered by when they were last seen; refresh those connected here."""
        grace_ms = SEEN_GRACE_MS if self._cluster.is_clustered else 0
        due_ms = self._subscribers_due_ms()
        forgetting = {}
        for subscriber in list(islice(self._broker.subscribers.by_id.values(), FORGET_AT_ONCE)):
            client_id, seen_ms = subscriber.client_id, subscriber.seen_ms
            if seen_ms > due_ms:
                break
            is_here = client_id in self._identities
            if not is_here and seen_ms > due_ms - grace_ms:
                continue
            forgetting[client_id] = seen_ms
            if self._forgetting.get(client_id) == seen_ms:
                continue
            if is_here:
                self._refresh(client_id)
            else:
                self._pipeline.submit(Forgotten(client_id, seen_ms), None, durable=True)
        self._forgetting = forgetting

    def _subscribers_due_ms(self) -> int:
        """Subscribers last seen before this time have expired.

        By the steady clock or the wall clock, whichever is behind: the wall clock may jump by years
        when the network comes up, and a forgotten subscriber gets all messages again.
        """
        now_ms = min(self._steady_ms(), self._connections.wall_ms())
        return now_ms - self._limits.subscriber_expiry_s * 1000

    def _refresh_subscribers(self) -> None:
        """Refresh subscribers connected here before the leader forgets them."""
        due_ms = self._subscribers_due_ms()
        forgetting = {}
        for client_id in self._identities:
            subscriber = self._broker.subscribers.by_id.get(client_id)
            if subscriber is not None and subscriber.seen_ms <= due_ms:
                forgetting[client_id] = subscriber.seen_ms
                if self._forgetting.get(client_id) != subscriber.seen_ms:
                    self._refresh(client_id)
        self._forgetting = forgetting

    def _refresh(self, client_id: bytes) -> None:
        known = self._broker.subscribers.by_id.get(client_id)
        user = known.user if known is not None else ""
        seen = Progressed(client_id, b"", [], self._connections.wall_ms(), user)
        self._pipeline.submit(seen, None, durable=True)

    # ── sessions without a connection ─────────────────────────────────────────────────────────

    def _clean_up_absent_nodes(self) -> None:
        """End what absent nodes left, after a node went away or this one began to lead.

        What is applied of them later is ended by ``opened_for_nobody`` and
        ``Dispatchers.group_changed``.
        """
        present = self._cluster.present()
        if present == self._present or not self._is_leading:
            return
        self._present = present
        self._ending = {c: n for c, n in self._ending.items() if self._is_open(c, n)}
        others = (s for s in self._broker.orphans() if not self._is_own(s.connection))
        for session in others:
            if must_clean_up(self._cluster, node_of(session.connection)):
                self._end(session)
        own = self._cluster.node_id
        self._dispatchers.return_workers(
            lambda node: node != own and must_clean_up(self._cluster, node)
        )

    def _is_own(self, connection: int) -> bool:
        return node_of(connection) == self._cluster.node_id

    def _is_open(self, client_id: bytes, connection: int) -> bool:
        session = self._broker.sessions.get(client_id)
        return session is not None and session.connected and session.connection == connection

    def _end(self, session: Session) -> None:
        """End a session without a connection, once; its will is due."""
        if self._ending.get(session.client_id) == session.connection:
            return
        self._ending[session.client_id] = session.connection
        self._note_end(session)
        self.close_session(session, session.connection, is_will_due=True)

    def _note_end(self, session: Session) -> None:
        """Record why, for whoever asks: no connection of this incarnation has ended."""
        node, reason = node_of(session.connection), DisconnectReason.SESSION_ENDED
        detail = "the broker was restarted"
        if not self._is_own(session.connection):
            grace = f"{self._node_grace_s:g} s, the grace"
            detail = f"node {node} was out of contact for more than {grace}"
        events = self._connections.counters.events
        events.ended(reason.value, session.client_id, user=session.user, peer="", detail=detail)

    def now_ms(self) -> int:
        """The time of sessions: their absence, their ends, the delays of wills."""
        return self._steady_ms()

    def close_session(
        self, session: Session, connection: int, *, is_will_due: bool, expiry_s: int = -1
    ) -> None:
        """End a connection of a session; ``expiry_s`` is a new session expiry, from DISCONNECT.

        The will is due after its delay; the session keeps it until then.
        """
        now_ms = self._steady_ms()
        is_due = is_will_due and session.will is not None
        will_at_ms = now_ms + session.will.delay_s * 1000 if is_due and session.will else 0
        closed = Closed(session.client_id, connection, now_ms, expiry_s, will_at_ms)
        self._pipeline.submit(closed, None, durable=session.recorded)

    def opened_for_nobody(self, effect: OpenedForNobody) -> None:
        """A session was opened by another node, or by this one too late."""
        client_id, connection = effect.client_id, effect.connection
        session = self._broker.sessions.get(client_id)
        if session is None or not self._is_open(client_id, connection):
            return
        if not must_clean_up(self._cluster, node_of(connection)):
            return
        if self._is_own(connection) and connection > self._first_connection:
            self.close_session(session, connection, is_will_due=False)  # its client was refused
        elif self._has_ended_own or not self._is_own(connection):
            self._end(session)
