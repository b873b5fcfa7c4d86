"""Connections and sessions of this node, for the API (``api.views.ClientAdmin``).

Nothing is gathered ahead: a list of thousands costs a copy of references on the event loop, a
thread chooses what a page shows, and only that is looked at.
"""

from collections.abc import Callable, Iterator
from math import isfinite

from penstock.access.audit import CALLER, AuditLog
from penstock.api.views import ConnectionFacts, Subscribers
from penstock.clock import SteadyClock
from penstock.cluster.consensus import Consensus
from penstock.commit.completion import FutureCompletion
from penstock.commit.feed import Feed
from penstock.commit.pipeline import Pipeline
from penstock.core.broker import Broker
from penstock.core.commands import Expired
from penstock.core.live import LiveSubscriber
from penstock.core.session import Session
from penstock.limits import KEEP_ALIVE_FACTOR
from penstock.net.connection_ids import node_of
from penstock.net.connections import ConnectedClient, Connections
from penstock.obs.events import Event
from penstock.obs.log import get_logger
from penstock.obs.printable import printable
from penstock.obs.reasons import DisconnectReason

_log = get_logger("clients")


class NodeConnection:
    """Implements ``api.views.Connection``."""

    __slots__ = ("_broker", "_client", "_connections")

    def __init__(self, connections: Connections, broker: Broker, client: ConnectedClient) -> None:
        self._connections = connections
        self._broker = broker
        self._client = client

    @property
    def name(self) -> bytes:
        return self._client.name

    @property
    def peer(self) -> str:
        return self._client.peer

    @property
    def protocol(self) -> str:
        return self._client.protocol_name

    @property
    def backlog(self) -> int:
        session = self._session
        return session.queue_count if session is not None else 0

    @property
    def dropped(self) -> int:
        return self._client.output.dropped

    @property
    def _session(self) -> Session | None:
        if self._client.protocol_name != "mqtt":
            return None
        session, client = self._broker.sessions.get(self._client.name), object()
        if session is not None:
            client = session.client  # None, or another one that has taken the session over
        return session if client is self._client else None

    def facts(self) -> ConnectionFacts:
        client, origin = self._client, self._client.origin
        received, sent = client.wire_bytes() or (None, None)
        return ConnectionFacts(
            user=client.principal.user,
            is_encrypted=origin.is_encrypted,
            is_websocket=origin.is_websocket,
            since_ms=self._wall_ms(origin.accepted_at),
            seen_ms=self._wall_ms(client.last_packet_at),
            idle_s=max(0.0, round(self._connections.monotonic() - client.last_packet_at, 3)),
            keep_alive_s=_keep_alive_s(client),
            output_bytes=client.output.waiting_bytes,
            bytes_in=received,
            bytes_out=sent,
            session=self._session,
        )

    def _wall_ms(self, monotonic: float) -> int:
        ago_s = self._connections.monotonic() - monotonic
        return self._connections.wall_ms() - round(ago_s * 1000)


def _keep_alive_s(client: ConnectedClient) -> int | None:
    """As the client asked for it, or was told; 0: it may stay silent. None: it has none."""
    ends_at, reason = client.deadline()
    if reason is not DisconnectReason.KEEP_ALIVE_TIMEOUT:
        return None
    silence_s = ends_at - client.last_packet_at
    return round(silence_s / KEEP_ALIVE_FACTOR) if isfinite(silence_s) else 0


class NodeClientAdmin:
    """Implements ``api.views.ClientAdmin`` for one node."""

    def __init__(
        self,
        broker: Broker,
        connections: Connections,
        pipeline: Pipeline,
        feed: Feed,
        cluster: Consensus,
        steady: SteadyClock,
        audit: AuditLog,
    ) -> None:
        self._broker = broker
        self._connections = connections
        self._pipeline = pipeline
        self._feed = feed
        self._cluster = cluster
        self._steady = steady
        self._audit = audit
        self.wall_ms = connections.wall_ms

    @property
    def node_id(self) -> int:
        return self._cluster.node_id

    # ── reading ───────────────────────────────────────────────────────────────────────────────

    def connected(self) -> Callable[[], Iterator[NodeConnection]]:
        """All connections, unordered; a copy of references, made in a moment."""
        clients = list(self._connections.clients)
        return lambda: (NodeConnection(self._connections, self._broker, one) for one in clients)

    def session(self, client_id: bytes) -> Session | None:
        """A session, unless it is over."""
        found = self._broker.sessions.get(client_id)
        return None if found is None or found.is_over else found

    def session_ids(self) -> list[bytes]:
        return list(self._broker.sessions)

    def away_ids(self) -> list[bytes]:
        return list(self._broker.away)

    def ends_ms(self, session: Session) -> int:
        """When a session whose client is away expires, on the clock that people see."""
        ends_ms = self._broker.session_table.end_ms(session)
        return ends_ms + self.wall_ms() - self._steady.now_ms() if ends_ms else 0

    def node_of(self, session: Session) -> int:
        return node_of(session.connection) or self.node_id

    def is_elsewhere(self, session: Session) -> bool:
        return session.connected and session.client is None

    def last_end(self, client_id: bytes) -> Event | None:
        return self._connections.counters.events.ends.get(client_id)

    def subscribers(self, topic: bytes) -> Callable[[], Subscribers]:
        routes, followed = self._broker.routes, self._feed.routes
        targets = (routes.cached.get(topic) or routes.resolve(topic)).targets
        followers = (followed.cached.get(topic) or followed.resolve(topic)).targets

        def sort_out() -> Subscribers:
            sessions = [one for one, _ in targets if isinstance(one, Session)]
            # a plain LiveSubscriber is the live half of a follower
            live = [one for one, _ in targets if not isinstance(one, Session)]
            others = sum(type(one) is not LiveSubscriber for one in live)
            return Subscribers(sessions, others + len(followers))

        return sort_out

    # ── changing ──────────────────────────────────────────────────────────────────────────────

    async def kick(self, client_id: bytes, address: str | None) -> int:
        """End the connections of a client, or the one from an address; return how many.

        On return their sessions know.
        """
        chosen = [
            client
            for client in self._connections.clients
            if client.name == client_id and (address is None or client.peer == address)
        ]
        by = CALLER.get()
        for client in chosen:
            client.close(DisconnectReason.KICKED)
        if chosen:
            name = printable(client_id)
            row: dict[str, object] = {"kind": "client", "name": name, "count": len(chosen)}
            row |= {"address": address} if address is not None else {}
            self._audit.changed("client", [row], by, self.wall_ms(), "kicked")
            _log.info("kicked", client_id=name, connections=len(chosen), by=by.user)
            waiter = FutureCompletion("the connections were ended all the same")
            self._pipeline.barrier(lambda: waiter.done(None))
            await waiter.future
        return len(chosen)

    async def end_session(self, client_id: bytes) -> None:
        """End a session, and the connection that it has here."""
        session = self._broker.sessions[client_id]
        by, waiter = CALLER.get(), FutureCompletion("the session was not ended")
        if session.client is not None:
            session.client.close(DisconnectReason.KICKED)
        row: dict[str, object] = {"kind": "session", "name": printable(client_id)}
        take_back = self._audit.changed("session", [row], by, self.wall_ms(), "ended")
        command = Expired(client_id, session.connection)
        self._pipeline.submit(command, waiter, durable=True)
        self._pipeline.barrier(lambda: waiter.done(None))
        await self._audit.stored(waiter.future, take_back)
        _log.info("session_ended", client_id=printable(client_id), by=by.user)
