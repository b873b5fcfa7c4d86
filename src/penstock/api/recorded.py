"""What was recorded: ends, refusals, drops, newest first."""

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import NamedTuple

from penstock.api.call import Call
from penstock.api.cursors import cursor_of, key_of
from penstock.api.documents.common import moment
from penstock.api.documents.events import Event, EventQuery, Events
from penstock.api.operations import Resource, operation
from penstock.api.problems import Problem
from penstock.explain.wording import tell
from penstock.obs import events as ring
from penstock.obs.reasons import advice_for
from penstock.trust.rules import Action

_LIST = "events"


class _Key(NamedTuple):
    """The order of the list: by time, then by node."""

    ms: int
    node: int
    number: int


class Recorded(Resource):
    """Events."""

    @operation("GET", "events", Action.MONITOR)
    async def list(self, call: Call, query: EventQuery) -> Events:
        """List what was recorded on all nodes, newest first.

        Of each node the last 65,536 records are kept in memory; the topic `$events/clients` has
        those about clients on disk.
        """
        own = await self._own(call, query)
        return _page(query.limit, [own])

    async def _own(self, call: Call, query: EventQuery) -> Events:
        explainer = self.parts.explainer
        if explainer is None:
            raise Problem(404, "not_found", "this broker records nothing", "ask a real one")
        if query.kind and query.kind not in ring.KINDS:
            kinds = ", ".join(ring.KINDS)
            raise Problem(400, "invalid_parameter", "there is no such kind", f"one of {kinds}")
        kept, node = explainer.events, explainer.node
        after = key_of(_LIST, query.cursor, _Key)
        found = await call.read(
            partial(
                kept.find,
                query.limit + 1,
                client=query.client_id.encode() if query.client_id else None,
                topic=query.topic.encode() if query.topic else None,
                kind=query.kind,
                reason=query.reason,
                since_ms=kept.now_ms() - query.since_s * 1000 if query.since_s else 0,
                is_before=_before(node, after),
            )
        )
        items = [document(event, node) for event in found[: query.limit]]
        oldest = kept.oldest_ms
        more = "more" if len(found) > query.limit else None
        return Events(items, more, [], moment(oldest) if oldest else None)


def _page(limit: int, parts: list[Events]) -> Events:
    """One page of those of several nodes; the first is our own."""
    found = [event for part in parts for event in part.items]
    found.sort(key=_key, reverse=True)
    items = found[:limit]
    has_more = len(found) > len(items) or any(part.next for part in parts)
    cursor = cursor_of(_LIST, _key(items[-1])) if has_more and items else None
    return Events(items, cursor, [], parts[0].kept_since)


def _before(node: int, key: _Key | None) -> Callable[[ring.Event], bool] | None:
    """Whether a record of this node is older than the last of the page before."""
    if key is None:
        return None
    return lambda event: _Key(event.ms, node, event.number) < key


def _key(event: Event) -> _Key:
    ms = round(datetime.fromisoformat(event.at).timestamp() * 1000)
    return _Key(ms, event.node, int(event.id.partition("-")[2]))


def document(event: ring.Event, node: int) -> Event:
    """A record as documents have it."""
    is_drop = event.kind == ring.DROPPED
    return Event(
        id=f"{node}-{event.number:012d}",
        at=moment(event.ms),
        kind=event.kind,
        reason=event.reason,
        node=node,
        text=tell(event),
        count=event.count,
        client_id=_text(event.client),
        topic=_text(event.topic),
        group=_text(event.group),
        offset=event.offset if event.offset >= 0 else None,
        sequence=event.sequence or None,
        user=event.user or None,
        peer=event.peer or None,
        detail=event.detail,
        advice=advice_for(event.reason, is_drop=is_drop) if event.reason else "",
    )


def _text(name: bytes) -> str | None:
    return name.decode(errors="replace") if name else None
