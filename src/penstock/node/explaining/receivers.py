"""Who receives a topic now: sessions whose subscriptions match, and the topic's groups."""

import asyncio
from collections.abc import Iterator
from itertools import islice

from penstock.core.group import Group, Pending
from penstock.core.pending import NO_LEASE
from penstock.core.session import Session
from penstock.explain.explanation import RECEIVERS_MAX
from penstock.explain.facts import GroupReceiver, SessionReceiver
from penstock.explain.near import matches, near
from penstock.model.queue_names import PREFIX as QUEUES
from penstock.net.connections import ConnectedClient
from penstock.node.explaining.clients import connected_since_ms
from penstock.node.explaining.parts import ExplainingParts, text
from penstock.store.store import TopicInfo

SLICE = 20  # receivers looked at before the event loop serves others
_SHIFT = 3  # of a sequence in a session's queue


def targets(parts: ExplainingParts, topic: bytes) -> list[object]:
    """Everybody whose subscriptions match."""
    routes = parts.broker.routes
    route = routes.cached.get(topic) or routes.resolve(topic)
    return [target for target, _ in route.targets]


def names_of(parts: ExplainingParts, topic: bytes, count_max: int = 20) -> list[str]:
    """Some of the clients that receive a topic."""
    return [text(_name(target)) for target in islice(targets(parts, topic), count_max)]


def _name(target: object) -> bytes:
    if isinstance(target, Session):
        return target.client_id
    client = getattr(target, "client", None)
    name: bytes = getattr(client, "name", b"")
    peer: str = getattr(client, "peer", "")
    return name or peer.encode() or b"a live subscriber"


async def session_receivers(
    parts: ExplainingParts, topic: bytes, sequence: int
) -> tuple[list[SessionReceiver], int]:
    """The receivers of a message, some at a time, and how many there are."""
    every = targets(parts, topic)
    here = {client.name: client for client in parts.connections.clients if client.name}
    found: list[SessionReceiver] = []
    for place, target in enumerate(every[:RECEIVERS_MAX]):
        if place and not place % SLICE:
            await asyncio.sleep(0)
        if isinstance(target, Session):
            found.append(_receiver(parts, target, topic, sequence, here.get(target.client_id)))
        else:
            name = text(_name(target))
            found.append(SessionReceiver(name, "", 0, is_persistent=False, is_connected=True))
    return found, len(every)


def _receiver(
    parts: ExplainingParts,
    session: Session,
    topic: bytes,
    sequence: int,
    client: ConnectedClient | None,
) -> SessionReceiver:
    filters = session.subscriptions or {}
    name = next((one for one in filters if matches(text(one), text(topic))), b"")
    place, ahead = _place(session, sequence)
    end = parts.events.ends.get(session.client_id)
    return SessionReceiver(
        client_id=text(session.client_id),
        filter=text(name),
        qos=filters.get(name, 0) & 3,
        is_persistent=session.durable,
        is_connected=session.connected,
        since_sequence=session.birth_of(name),
        connected_ms=connected_since_ms(parts, client) if client is not None else 0,
        away_since_ms=0 if session.connected else session.away_since_ms,
        place=place,
        ahead=ahead,
        queued=session.queue_count,
        queue_max=parts.broker.queues.messages_max,
        ended_ms=end.ms if end is not None else 0,
        is_local=client is not None,
    )


def _place(session: Session, sequence: int) -> tuple[str, int]:
    for packed in (session.inflight or {}).values():
        if packed >> _SHIFT == sequence:
            return "in_flight", 0
    for ahead, packed in enumerate(session.queue or ()):
        if packed >> _SHIFT == sequence:
            return "queued", ahead
    return "", 0


# ── groups ────────────────────────────────────────────────────────────────────────────────────


def group_receivers(
    parts: ExplainingParts, info: TopicInfo | None, topic: bytes, offset: int, priority: int = 0
) -> Iterator[GroupReceiver]:
    settings = parts.broker.topics.get(topic)
    rate = settings.rate_milli / 1000 if settings is not None else 0.0
    for group in islice(parts.broker.groups.by_topic.get(topic, {}).values(), RECEIVERS_MAX):
        yield _group(parts, group, info, offset, priority, rate)


def _group(
    parts: ExplainingParts,
    group: Group,
    info: TopicInfo | None,
    offset: int,
    priority: int,
    rate: float,
) -> GroupReceiver:
    pending = group.pending.get(offset)
    head = group.heads[min(priority, len(group.heads) - 1)]
    first = info.first_offset if info is not None else 0
    state = _state(group, offset, pending) if pending is not None else ""
    return GroupReceiver(
        name=text(group.name),
        head=head,
        start=max(group.since, 0),
        is_reader=group.reader,
        state=state,
        holder=_holder(parts, pending) if state == "leased" and pending else "",
        taken_ms=pending.taken_ms if pending is not None else 0,
        until_ms=max(pending.until_ms, 0) if pending is not None else 0,
        attempts=pending.deliveries if pending is not None else 0,
        attempts_max=group.max_deliveries,
        reason=text(pending.reason) if pending is not None else "",
        ahead=max(0, offset - max(head, first)) + len(group.returned),
        workers=parts.dispatchers.workers(group.topic, group.name),
        rate_per_s=rate,
    )


def _state(group: Group, offset: int, pending: Pending) -> str:
    if offset in group.exhausted:
        return "exhausted"
    if pending.consumer is not None:
        return "leased"
    return "delayed" if pending.until_ms else "returned"


def _holder(parts: ExplainingParts, pending: Pending) -> str:
    """Who has a message: a consumer by name, or a connection that was given the lease."""
    if pending.consumer:
        return _worker(parts, pending.consumer)
    if pending.lease == NO_LEASE:
        return ""
    return _worker(parts, parts.dispatchers.leases.holder(pending.lease))


def _worker(parts: ExplainingParts, name: bytes) -> str:
    """A worker's name with its user and address, if its connection is one of this node."""
    for client in parts.connections.clients:
        prefix: bytes = getattr(client, "worker_prefix", b"")
        is_numbered = name == b"#%d" % getattr(client, "number", -1)
        if (prefix and name.startswith(prefix)) or client.name == name or is_numbered:
            who = client.principal.user or text(client.name) or client.protocol_name
            return f"{who} at {client.peer}"
    return text(name)


def almost(parts: ExplainingParts, topic: bytes) -> list[str]:
    """Filters that nearly match; takes a tenth of a second at most: for a thread."""
    return near(text(topic), [text(name) for name in list(parts.broker.routes.filters())[:5_000]])


def is_queue(topic: bytes) -> bool:
    return topic.startswith(QUEUES)
