"""What a broker must do of itself: end what nobody is there to end.

Sessions expire, durable subscribers are forgotten, connections end with the broker that had them.
All of that is journaled like what clients ask for. In a cluster each of it is done by one node:

=================================================  ============================================
connections of an earlier incarnation of the node  this node, when it has started and caught up
those of a node that died, or was removed          the leader, when ``present`` says so
sessions that are away for too long                the leader
durable subscribers that were not seen for long    the leader; who has one connected sees to it
                                                   that it is seen
groups, dead letters, sinks                        the leader (``led`` of their parts)
=================================================  ============================================

A leader that is one no longer stops; the next begins with what it finds. Two that take themselves
for the leader do no harm: all commands say what they found, and are void if that has changed. Only
a will may be published twice then.

**Late commands.** What this node has submitted may be applied when no client waits for it any more:
its last incarnation submitted it, or the client was refused without a quorum. A session that is
opened so has no connection, and is ended at once.
"""

from collections.abc import Collection
from itertools import islice

from penstock.clock import SteadyClock
from penstock.cluster.consensus import Consensus, Leadership
from penstock.commit.pipeline import Pipeline
from penstock.core.broker import Broker
from penstock.core.commands import Closed, Expired, Forgotten, Progressed, WillMessage
from penstock.core.effects import OpenedForNobody
from penstock.core.session import Session
from penstock.dispatch.dispatchers import Dispatchers
from penstock.errors import PenstockError
from penstock.net.connection_ids import must_clean_up, node_of
from penstock.net.connections import Connections
from penstock.node.wills import Wills
from penstock.staging.sink_commits import SinkCommits

FORGET_AT_ONCE = 256
"""Durable subscribers looked at per turn."""

SEEN_GRACE_MS = 60_000
"""How much longer the leader waits before it forgets a subscriber that may be connected elsewhere:
by then the node that has it has said so."""


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
    ) -> None:
        """``identities``: client ids of durable subscribers that are connected to this node."""
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
        self._first_connection = 0
        """All connections of this incarnation have greater numbers."""
        self._left: dict[bytes, int] = {}
        """Sessions that were connected when the last incarnation ended, by their connection.

        Not told by their numbers: those grow with the clock, which may have been set back.
        """
        self._expiring: dict[bytes, int] = {}
        """Sessions whose ``Expired`` is in the line, by the last connection they had."""
        self._forgetting: dict[bytes, int] = {}
        """Durable subscribers whose ``Forgotten`` is in the line, by when they were last seen."""
        self._ending: dict[bytes, int] = {}
        """Sessions whose ``Closed`` is in the line, by their connection."""
        self._is_buried = False
        """Whether the sessions of this node's last incarnation were ended."""
        self._is_asking = False
        """Whether we wait to be as far as the others, to look for it."""
        self._is_leading = False
        self._present: frozenset[int] | None = None
        """The nodes that were there when it was last looked for what others have left."""

    # ── coming to power ───────────────────────────────────────────────────────────────────────

    def start(self) -> None:
        """Before the first client: note what the last incarnation has left."""
        self._first_connection = self._connections.ids.next()
        orphans = (s for s in self._broker.orphans() if self._is_own(s.connection))
        self._left = {session.client_id: session.connection for session in orphans}
        own = self._cluster.node_id
        self._dispatchers.return_workers(lambda node: node == own)
        self.led(self._cluster.leadership)

    def bury_own(self) -> None:
        """End the sessions whose connections ended with the last incarnation; wills are due.

        Not before we know what the others know: if we were away for long, the leader has ended them
        and published their wills, and our journal does not say so yet.
        """
        self._is_asking = True
        self._cluster.read_barrier(self._caught_up)

    def _caught_up(self, error: PenstockError | None) -> None:
        self._is_asking = False
        if error is not None:
            return  # no quorum: asked again at the next turn
        self._is_buried = True
        for session in self._broker.orphans():
            if self._left.get(session.client_id) == session.connection:
                self._end(session)
        self._left = {}
        self._look_for_absent()

    def led(self, leadership: Leadership) -> None:
        """Take up or drop the leader's work."""
        is_leading = leadership.is_leader
        if is_leading == self._is_leading:
            return
        self._is_leading = is_leading
        self._expiring, self._forgetting = {}, {}
        self._present = None
        self._dispatchers.led(is_leader=is_leading)
        self._sinks.led(is_leader=is_leading)
        if not is_leading:
            for client in list(self._connections.clients):
                client.leadership_lost()

    # ── while it runs ─────────────────────────────────────────────────────────────────────────

    def turn(self) -> None:
        """Do what time asks for."""
        if not self._is_buried and not self._is_asking:
            self.bury_own()
        if self._is_leading:
            self._expire_sessions()
            self._forget_subscribers()
            self._look_for_absent()
        else:
            self._refresh_subscribers()

    def _expire_sessions(self) -> None:
        """Sessions are in the order in which they left: look at the first ones only."""
        due_ms = self._steady_ms() - self._limits.session_expiry_s * 1000
        expiring = {}
        for client_id, session in list(self._broker.away.items()):
            if session.away_since_ms > due_ms:
                break
            expiring[client_id] = session.connection
            if self._expiring.get(client_id) != session.connection:
                expired = Expired(client_id, session.connection)
                self._pipeline.submit(expired, None, durable=True)
        self._expiring = expiring

    # ── durable subscribers ───────────────────────────────────────────────────────────────────

    def _forget_subscribers(self) -> None:
        """Who was seen longest ago stands first; who is connected is seen."""
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
                self._see(client_id)
            else:
                self._pipeline.submit(Forgotten(client_id, seen_ms), None, durable=True)
        self._forgetting = forgetting

    def _subscribers_due_ms(self) -> int:
        """Who was seen last before this has been away for too long.

        By the steady clock or the wall clock, whichever is behind. The latter may jump by years
        when the network comes up, either way, and what was acknowledged would come again.
        """
        now_ms = min(self._steady_ms(), self._connections.wall_ms())
        return now_ms - self._limits.subscriber_expiry_s * 1000

    def _refresh_subscribers(self) -> None:
        """Have the leader know that subscribers are here, before it forgets them."""
        due_ms = self._subscribers_due_ms()
        forgetting = {}
        for client_id in self._identities:
            subscriber = self._broker.subscribers.by_id.get(client_id)
            if subscriber is not None and subscriber.seen_ms <= due_ms:
                forgetting[client_id] = subscriber.seen_ms
                if self._forgetting.get(client_id) != subscriber.seen_ms:
                    self._see(client_id)
        self._forgetting = forgetting

    def _see(self, client_id: bytes) -> None:
        seen = Progressed(client_id, b"", [], self._connections.wall_ms())
        self._pipeline.submit(seen, None, durable=True)

    # ── the dead ──────────────────────────────────────────────────────────────────────────────

    def _look_for_absent(self) -> None:
        """If a node is gone, or we lead only since now, look for what it has left behind.

        What comes of it later is ended when it comes: ``opened_for_nobody``,
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
        """End a session that has no connection, once; its will is due."""
        if self._ending.get(session.client_id) == session.connection:
            return
        self._ending[session.client_id] = session.connection
        self.close_session(session.client_id, session.connection, session.will, durable=True)

    def close_session(
        self, client_id: bytes, connection: int, will: WillMessage | None, *, durable: bool
    ) -> None:
        """Publish the will, then end the connection: the journal has them in that order."""
        if will is not None:
            self._wills.publish(will)
        closed = Closed(client_id, connection, self._steady_ms())
        self._pipeline.submit(closed, None, durable=durable)

    def inherit(self, session: Session) -> int:
        """A client comes to us that was another node's: see to its will, tell its connection."""
        if session.will is not None and self._ending.get(session.client_id) != session.connection:
            self._wills.publish(session.will)
        return session.connection

    def opened_for_nobody(self, effect: OpenedForNobody) -> None:
        """A session was opened that is another node's, or ours and too late."""
        client_id, connection = effect.client_id, effect.connection
        session = self._broker.sessions.get(client_id)
        if session is None or not self._is_open(client_id, connection):
            return  # not any more
        if not must_clean_up(self._cluster, node_of(connection)):
            return
        if self._is_own(connection) and connection > self._first_connection:
            # Its client was refused: no will.
            self.close_session(client_id, connection, None, durable=True)
        elif self._is_buried or not self._is_own(connection):
            self._end(session)
