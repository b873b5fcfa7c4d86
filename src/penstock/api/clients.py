"""``clients``, ``sessions``, ``subscriptions``: who is here, who was, and what they want."""

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from heapq import nsmallest
from operator import itemgetter
from typing import Annotated, Literal, NamedTuple

from msgspec import Meta

from penstock.admin.pages import map_in_slices
from penstock.api.call import Call
from penstock.api.cursors import cursor_of, key_of
from penstock.api.documents.clients import (
    Client,
    Clients,
    Kicked,
    KickRequest,
    Session,
    SessionEnded,
    SessionEndRequest,
    Sessions,
    Subscription,
    Subscriptions,
    Will,
)
from penstock.api.documents.common import ListQuery, moment, name_of
from penstock.api.merging import NodePage, merged
from penstock.api.names import matcher, moment_or_none, topic_of
from penstock.api.operations import Resource, operation
from penstock.api.paging import first_of
from penstock.api.peer_requests import Others
from penstock.api.problems import Elsewhere, Problem, not_found
from penstock.api.reading.pace import paced
from penstock.api.views import ClientAdmin, Connection, ConnectionFacts, Subscribers
from penstock.core.commands import WillMessage
from penstock.core.session import Session as SessionState
from penstock.core.shares import is_shared
from penstock.core.subscription_options import (
    id_of,
    is_no_local,
    is_retain_as_published,
    qos_of,
    retain_handling_of,
)
from penstock.trust.rules import Action

Prefix = Annotated[str, Meta(description="Client ids begin with this.", max_length=65_535)]
_VERSIONS = {4: "3.1.1", 5: "5"}


class ClientQuery(ListQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which clients."""

    prefix: Prefix = ""
    protocol: Literal["", "mqtt", "redis", "binary", "queue"] = ""
    away: Annotated[
        bool | None, Meta(description="Only those that are away, or only those that are not.")
    ] = None
    backlog: Annotated[bool, Meta(description="Only those for which messages wait.")] = False
    dropped: Annotated[bool, Meta(description="Only those that missed messages.")] = False


class SessionQuery(ListQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which sessions."""

    prefix: Prefix = ""
    away: Annotated[
        bool | None, Meta(description="Only those whose client is away, or is not.")
    ] = None
    backlog: Annotated[bool, Meta(description="Only those for which messages wait.")] = False


class SubscriptionQuery(ListQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which subscriptions: of a client, or those that match a topic."""

    client_id: Annotated[str, Meta(max_length=65_535)] = ""
    topic: Annotated[str, Meta(max_length=65_535)] = ""


class Place(NamedTuple):
    """Where a client is in the list: those that are connected have an address."""

    name: bytes
    peer: str


def everywhere(own: Clients, there: Others[Clients], limit: int) -> Clients:
    """The clients of all nodes. Each page ends somewhere: what is beyond the first end waits."""
    pages = [own, *there.answers]
    ends = [_place(page.items[-1]) for page in pages if page.next and page.items]
    found = {_place(row): row for page in reversed(pages) for row in page.items}
    connected = {row.client_id for row in found.values() if not row.away}
    rows = [
        (place, row)
        for place, row in sorted(found.items(), key=itemgetter(0))
        if place <= min(ends, default=place) and not (row.away and row.client_id in connected)
    ]
    more = len(rows) > limit or bool(ends)
    rows = rows[:limit]
    end = rows[-1][0] if rows else min(ends, default=None)
    return Clients(
        [row for _, row in rows],
        cursor_of("clients", end) if more and end is not None else None,
        there.missing,
    )


def sessions_of_all(own: Sessions, there: Others[Sessions], limit: int) -> Sessions:
    """The sessions of all nodes; why its client left is known to the node that it left."""
    pages = [own, *there.answers]
    told = {row.client_id: row for page in pages for row in page.items if row.ended}
    rows, has_more = merged(
        [NodePage(page.items, page.next is not None) for page in pages], limit, _session_key
    )
    items = [told.get(row.client_id, row) if not row.connected else row for row in rows]
    cursor = cursor_of("sessions", _session_key(rows[-1])[0]) if has_more and rows else None
    return Sessions(items, cursor, there.missing)


def _session_key(row: Session) -> tuple[bytes, bytes]:
    return _id_of(row.client_id), b""


def subscriptions_of_all(
    own: Subscriptions, there: Others[Subscriptions], limit: int
) -> Subscriptions:
    """The subscriptions of all nodes; each counts its own live subscribers."""
    pages = [own, *there.answers]
    rows, has_more = merged(
        [NodePage(page.items, page.next is not None) for page in pages], limit, _subscription_key
    )
    cursor = cursor_of("subscriptions", _subscription_key(rows[-1])) if has_more and rows else None
    return Subscriptions(rows, sum(page.live for page in pages), cursor, there.missing)


def _subscription_key(row: Subscription) -> tuple[bytes, bytes]:
    share = f"$share/{row.share}/" if row.share is not None else ""
    return _id_of(row.client_id), f"{share}{row.filter}".encode()


def _place(row: Client) -> Place:
    return Place(_id_of(row.client_id), row.address or "")


class Chosen(NamedTuple):
    """A row before it is looked at; without a connection it is the session of a client away."""

    place: Place
    connection: Connection | None


def choose(
    connected: Iterable[Connection],
    away: Iterable[bytes],
    after: Place | None,
    count: int,
    is_wanted: Callable[[Chosen], bool],
) -> list[Chosen]:
    """The first clients of a page, in order. Any thread: it looks at all, but cheaply."""

    def candidates() -> Iterator[Chosen]:
        for one in connected:
            yield Chosen(Place(one.name, one.peer), one)
        for client_id in away:
            yield Chosen(Place(client_id, ""), None)

    found = (
        one
        for one in paced(candidates())
        if (after is None or one.place > after) and is_wanted(one)
    )
    return nsmallest(count, found, key=lambda one: one.place)


class ClientPages(Resource):
    """Clients of this node."""

    @property
    def _admin(self) -> ClientAdmin:
        if self.parts.clients is None:
            raise not_found("this broker tells nothing about clients")
        return self.parts.clients

    # ── clients ───────────────────────────────────────────────────────────────────────────────

    @operation("GET", "clients", Action.MONITOR)
    async def clients(self, call: Call, query: ClientQuery) -> Clients:
        """List clients by id: those that are connected to any node, and those that are away.

        A client without an id comes first. Bytes are those that the system counted for the
        connection, with all of TCP's payload, encrypted or not.
        """
        admin = self._admin
        after = key_of("clients", query.cursor, Place)
        connected = admin.connected() if query.away is not True else tuple
        away = admin.away_ids() if query.away is not False and not query.dropped else []
        wanted = _client_filter(admin, query)
        page = await call.read(lambda: choose(connected(), away, after, query.limit + 1, wanted))
        rows = await map_in_slices(page, lambda chosen: (chosen.place, self._row(chosen)))
        known = [(place, row) for place, row in rows if row is not None]
        part = first_of(
            "clients", known, query.limit, itemgetter(1), itemgetter(0), call.page_bytes
        )
        own, there = Clients(*part), await call.others(Clients)
        return everywhere(own, there, query.limit) if there.answers or there.missing else own

    def _row(self, chosen: Chosen) -> Client | None:
        """None: the session ended since it was chosen."""
        if chosen.connection is not None:
            return _connected(chosen.connection, chosen.connection.facts(), self._admin.node_id)
        session = self._admin.session(chosen.place.name)
        if session is None or session.connected:
            return None
        return _away(session, self._admin)

    @operation("DELETE", "clients", Action.ADMIN)
    async def kick(self, call: Call, body: KickRequest) -> Kicked:
        """End the connections of a client at all nodes; its will is published, its session stays.

        It may come back at once: `penstock bans add` keeps it out.
        """
        if not body.client_id and not body.address:
            raise Problem(400, "invalid_body", "neither a client id nor an address is given")
        count = await self._admin.kick(_id_of(body.client_id), body.address)
        there = await call.others(Kicked, body)
        count += sum(kicked.connections for kicked in there.answers)
        if not count and not there.missing and not call.is_of_node:
            raise not_found(f"client {body.client_id} is not connected")
        return Kicked(body.client_id, count, there.missing)

    # ── sessions ──────────────────────────────────────────────────────────────────────────────

    @operation("GET", "sessions", Action.MONITOR)
    async def sessions(self, call: Call, query: SessionQuery) -> Sessions:
        """List MQTT sessions by client id, those of all nodes."""
        admin = self._admin
        after = key_of("sessions", query.cursor, bytes)
        ids = admin.away_ids() if query.away else admin.session_ids()
        prefix = query.prefix.encode("utf-8", "replace")

        def is_wanted(client_id: bytes) -> bool:
            if not client_id.startswith(prefix) or (after is not None and client_id <= after):
                return False
            session = admin.session(client_id)
            return session is not None and _is_session_wanted(session, query)

        page = await call.read(lambda: nsmallest(query.limit + 1, filter(is_wanted, paced(ids))))
        rows = await map_in_slices(page, lambda one: (one, self._session_row(one)))
        known = [(client_id, row) for client_id, row in rows if row is not None]
        part = first_of(
            "sessions", known, query.limit, itemgetter(1), itemgetter(0), call.page_bytes
        )
        return sessions_of_all(Sessions(*part), await call.others(Sessions), query.limit)

    def _session_row(self, client_id: bytes) -> Session | None:
        session = self._admin.session(client_id)
        return None if session is None else _session(session, self._admin)

    @operation("DELETE", "sessions", Action.ADMIN)
    async def end(self, call: Call, body: SessionEndRequest) -> SessionEnded:
        """End a session: its subscriptions and queued messages go, and its connection ends.

        The node does it to which the client is connected.
        """
        client_id = _id_of(body.client_id)
        session = self._admin.session(client_id)
        if session is None:
            return await _ended_elsewhere(call, body)
        if self._admin.is_elsewhere(session):
            raise Elsewhere(self._admin.node_of(session))
        ended = SessionEnded(
            client_id=body.client_id,
            dry_run=body.dry_run,
            connected=session.connected,
            subscriptions=len(session.subscriptions or ()),
            in_flight=session.inflight_count,
            queued=session.queue_count,
        )
        if not body.dry_run:
            await self._admin.end_session(client_id)
        return ended

    # ── subscriptions ─────────────────────────────────────────────────────────────────────────

    @operation("GET", "subscriptions", Action.MONITOR)
    async def subscriptions(self, call: Call, query: SubscriptionQuery) -> Subscriptions:
        """List the subscriptions of a client, or those that match a topic.

        The latter without shared ones: these are consumer groups, see `topics/detail`.
        """
        if bool(query.client_id) == bool(query.topic):
            raise Problem(400, "invalid_parameter", "give either client_id or topic")
        after = key_of("subscriptions", query.cursor, tuple[bytes, bytes])
        admin = self._admin
        if query.client_id:
            session = admin.session(_id_of(query.client_id))
            found = Subscribers([session] if session is not None else [], 0)
            is_wanted: Callable[[bytes], bool] = lambda _filter: True  # noqa: E731
        else:
            topic = topic_of(query.topic)
            found = await call.read(admin.subscribers(topic))
            is_wanted = cache(lambda text: matcher(text)(topic))
        page = await call.read(_subscriptions, found.sessions, is_wanted, after, query.limit + 1)
        part = first_of(
            "subscriptions",
            page,
            query.limit,
            lambda one: _subscription(*one, self._admin),
            lambda one: (one[0].client_id, one[1]),
            call.page_bytes,
        )
        own, there = Subscriptions(part.items, found.live, part.next), call.others(Subscriptions)
        return subscriptions_of_all(own, await there, query.limit)


async def _ended_elsewhere(call: Call, body: SessionEndRequest) -> SessionEnded:
    """End a session of which only another node knows."""
    there = await call.others(SessionEnded, body)
    unheard = [one for one in there.missing if one.reason != "refused"]
    if there.answers:
        return there.answers[0]
    if unheard:
        detail = f"node {unheard[0].node} did not answer, and the others have no such session"
        raise Problem(503, unheard[0].reason, detail, "try again in a moment")
    raise not_found(f"client {body.client_id} has no session")


# ── rows ──────────────────────────────────────────────────────────────────────────────────────


def _client_filter(admin: ClientAdmin, query: ClientQuery) -> Callable[[Chosen], bool]:
    prefix = query.prefix.encode("utf-8", "replace")

    def is_wanted(chosen: Chosen) -> bool:
        if not chosen.place.name.startswith(prefix):
            return False
        one = chosen.connection
        if one is None:
            return _is_away_wanted(admin.session(chosen.place.name), query)
        return (
            (not query.protocol or one.protocol == query.protocol)
            and not (query.backlog and not one.backlog)
            and not (query.dropped and not one.dropped)
        )

    return is_wanted


def _is_away_wanted(session: SessionState | None, query: ClientQuery) -> bool:
    if session is None or session.connected or query.protocol not in {"", "mqtt"}:
        return False
    return not query.backlog or session.queue_count > 0


def _is_session_wanted(session: SessionState, query: SessionQuery) -> bool:
    if query.away is not None and query.away is session.connected:
        return False
    return not query.backlog or session.queue_count > 0


def _connected(one: Connection, facts: ConnectionFacts, node: int) -> Client:
    session = facts.session
    return Client(
        client_id=name_of(one.name),
        node=node,
        protocol=one.protocol,
        version=_VERSIONS[session.version] if session is not None else "",
        away=False,
        address=one.peer,
        since=moment(facts.since_ms),
        seen=moment(facts.seen_ms),
        idle_s=facts.idle_s,
        user=facts.user,
        encrypted=facts.is_encrypted,
        websocket=facts.is_websocket,
        persistent=session is not None and session.durable,
        keep_alive_s=facts.keep_alive_s,
        expires=None,
        subscriptions=len(session.subscriptions or ()) if session is not None else 0,
        in_flight=session.inflight_count if session is not None else 0,
        queued=session.queue_count if session is not None else 0,
        dropped=one.dropped,
        bytes_in=facts.bytes_in,
        bytes_out=facts.bytes_out,
        output_bytes=facts.output_bytes,
        will=_will(session.will) if session is not None else None,
    )


def _away(session: SessionState, admin: ClientAdmin) -> Client:
    end = admin.last_end(session.client_id)
    return Client(
        client_id=name_of(session.client_id),
        node=admin.node_of(session),
        protocol="mqtt",
        version=_VERSIONS[session.version],
        away=True,
        address=None,
        since=moment_or_none(session.away_since_ms),
        seen=None,
        idle_s=None,
        user=session.user,
        encrypted=None,
        websocket=None,
        persistent=session.durable,
        keep_alive_s=None,
        expires=moment_or_none(admin.ends_ms(session)),
        subscriptions=len(session.subscriptions or ()),
        in_flight=session.inflight_count,
        queued=session.queue_count,
        dropped=None,
        bytes_in=None,
        bytes_out=None,
        output_bytes=None,
        will=None,
        ended=end.reason if end is not None else None,
    )


def _session(session: SessionState, admin: ClientAdmin) -> Session:
    is_away = not session.connected
    end = admin.last_end(session.client_id) if is_away else None
    return Session(
        client_id=name_of(session.client_id),
        node=admin.node_of(session),
        connected=session.connected,
        persistent=session.durable,
        user=session.user,
        version=_VERSIONS[session.version],
        subscriptions=len(session.subscriptions or ()),
        in_flight=session.inflight_count,
        queued=session.queue_count,
        away_since=moment_or_none(session.away_since_ms) if is_away else None,
        expires=moment_or_none(admin.ends_ms(session)) if is_away else None,
        ended=end.reason if end is not None else None,
        ended_at=moment(end.ms) if end is not None else None,
        detail=(end.detail or None) if end is not None else None,
        will=_will(session.will),
    )


def _will(will: WillMessage | None) -> Will | None:
    if will is None:
        return None
    return Will(name_of(will.topic), len(will.payload), will.qos, will.retain, will.delay_s)


def _subscriptions(
    sessions: Iterable[SessionState],
    is_wanted: Callable[[bytes], bool],
    after: tuple[bytes, bytes] | None,
    count: int,
) -> list[tuple[SessionState, bytes, int]]:
    """Session, filter and options of the first subscriptions of a page."""
    found = (
        (session, text, options)
        for session in paced(sessions)
        for text, options in list((session.subscriptions or {}).items())
        if (after is None or (session.client_id, text) > after) and is_wanted(text)
    )
    return nsmallest(count, found, key=lambda one: (one[0].client_id, one[1]))


def _bare(text: bytes) -> tuple[bytes | None, bytes]:
    """The name of a shared subscription, and the filter without it."""
    if not is_shared(text):
        return None, text
    _, share, topic_filter = text.split(b"/", 2)
    return share, topic_filter


def _subscription(
    session: SessionState, text: bytes, options: int, admin: ClientAdmin
) -> Subscription:
    share, topic_filter = _bare(text)
    return Subscription(
        client_id=name_of(session.client_id),
        protocol="mqtt",
        node=admin.node_of(session),
        filter=name_of(topic_filter),
        share=name_of(share) if share is not None else None,
        qos=qos_of(options),
        no_local=is_no_local(options),
        retain_as_published=is_retain_as_published(options),
        retain_handling=retain_handling_of(options),
        identifier=id_of(options) or None,
        away=not session.connected,
        user=session.user,
    )


def _id_of(client_id: str) -> bytes:
    return client_id.encode("utf-8", "replace")
