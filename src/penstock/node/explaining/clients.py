"""Facts about a client: its connection, its session, what is recorded of it."""

from functools import partial

from penstock.core.session import Session
from penstock.explain.facts import ClientFacts, Connection, SessionState
from penstock.net.connection_ids import node_of
from penstock.net.connections import ConnectedClient
from penstock.node.client_events import StoredEvent, stored_of
from penstock.node.explaining.parts import ExplainingParts, Reading, text
from penstock.obs.events import Event

EVENTS_MAX = 300
LOOKED_AT = 20_000  # the newest records of $events/clients
FILTERS_MAX = 50


async def client_facts(parts: ExplainingParts, client_id: bytes, read: Reading) -> ClientFacts:
    events = await read(partial(_events, parts, client_id))
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


def _events(parts: ExplainingParts, client_id: bytes) -> list[Event]:
    """What this node remembers, and what the journal has of before and of other nodes."""
    found = parts.events.find(EVENTS_MAX, client=client_id)
    own, started_ms = parts.cluster.node_id, parts.client_events.started_ms
    for number, one in enumerate(stored_of(parts.store, client_id, LOOKED_AT, EVENTS_MAX)):
        if one.node != own or one.time_ms < started_ms:
            found.append(_remembered(-1 - number, one))
    return sorted(found, key=lambda event: -event.ms)[:EVENTS_MAX]


def _remembered(number: int, one: StoredEvent) -> Event:
    return Event(
        number,
        one.time_ms,
        one.kind,
        one.reason,
        one.client_id.encode(),
        one.topic.encode(),
        sequence=one.sequence,
        last_sequence=one.last_sequence,
        user=one.user,
        peer=one.peer,
        detail=one.detail,
        count=one.count,
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
