"""Facts about a client: its connection, its session, what is recorded of it."""

from functools import partial

from penstock.core.session import Session
from penstock.explain.facts import ClientFacts, Connection, SessionState
from penstock.net.connection_ids import node_of
from penstock.net.connections import ConnectedClient
from penstock.node.explaining.parts import ExplainingParts, Reading, text

EVENTS_MAX = 300
FILTERS_MAX = 50


async def client_facts(parts: ExplainingParts, client_id: bytes, read: Reading) -> ClientFacts:
    events = await read(partial(parts.events.find, EVENTS_MAX, client=client_id))
    session = parts.broker.sessions.get(client_id)
    if session is not None and session.is_over:
        session = None  # nothing is left of it but a will
    return ClientFacts(
        client_id=text(client_id),
        now_ms=parts.now_ms,
        connection=_connection(parts, client_id),
        session=_session(parts, session) if session is not None else None,
        events=tuple(events),
        last_end=parts.events.ends.get(client_id),
        ban=_ban(parts, client_id),
    )


def _connection(parts: ExplainingParts, client_id: bytes) -> Connection | None:
    found = next((one for one in parts.connections.clients if one.name == client_id), None)
    if found is None:
        return None
    silent_s = max(0.0, parts.connections.monotonic() - found.last_packet_at)
    return Connection(found.protocol_name, found.peer, found.principal.user, silent_s)


def connected_since_ms(parts: ExplainingParts, client: ConnectedClient) -> int:
    """When a connection was accepted."""
    age_s = parts.connections.monotonic() - client.origin.accepted_at
    return parts.now_ms - int(age_s * 1000)


def _session(parts: ExplainingParts, session: Session) -> SessionState:
    filters = session.subscriptions or {}
    return SessionState(
        is_persistent=session.durable,
        is_connected=session.connected,
        node=node_of(session.connection),
        away_since_ms=0 if session.connected else session.away_since_ms,
        ends_ms=_ends_ms(parts, session),
        filters=tuple(text(name) for name in list(filters)[:FILTERS_MAX]),
        filters_total=len(filters),
        in_flight=session.inflight_count,
        queued=session.queue_count,
        queue_max=parts.broker.queues.messages_max,
    )


def _ends_ms(parts: ExplainingParts, session: Session) -> int:
    if session.connected or not session.durable:
        return 0
    most_s = parts.config.limits.session_expiry_s
    asked_s = session.expiry_s if session.expiry_s >= 0 else most_s
    return session.away_since_ms + min(asked_s, most_s) * 1000


def _ban(parts: ExplainingParts, client_id: bytes) -> str:
    ban = parts.broker.access.bans.get(f"client:{text(client_id)}")
    if ban is None or 0 < ban.until_ms <= parts.now_ms:
        return ""
    return f"A ban of the client id is in force{f': {ban.note}' if ban.note else ''}."
