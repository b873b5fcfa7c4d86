"""What was recorded: ends, refusals, drops, newest first."""

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import NamedTuple

from penstock.api.call import Call
from penstock.api.cursors import cursor_of, key_of
from penstock.api.documents.common import moment
from penstock.api.documents.events import Event, EventQuery, Events
from penstock.api.documents.lists import Missing
from penstock.api.operations import Resource, operation
from penstock.api.paging import first_of
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
        those about clients on disk. What all nodes record alike, because it follows from the
        journal, is listed once, as the node has it that is asked.
        """
        own, there = await self._own(call, query), await call.others(Events)
        return _page(query.limit, [own, *there.answers], there.missing)

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
                is_before=_before(node, after, has_shared=not call.is_of_node),
            )
        )
        part = first_of(
            _LIST,
            found,
            query.limit,
            lambda event: document(event, node),
            lambda event: _Key(event.ms, node, event.number),
            call.page_bytes,
        )
        oldest = kept.oldest_ms
        return Events(*part, [], moment(oldest) if oldest else None)


def _page(limit: int, parts: list[Events], missing: list[Missing]) -> Events:
    """One page of those of several nodes. What is beyond the first end of them waits."""
    found = [event for part in parts for event in part.items]
    ends = [_key(part.items[-1]) for part in parts if part.next and part.items]
    end = max(ends, default=None)
    known = sorted((e for e in found if end is None or _key(e) >= end), key=_key, reverse=True)
    items = known[:limit]
    has_more = len(found) > len(items) or end is not None
    cursor = cursor_of(_LIST, _key(items[-1])) if has_more and items else None
    kept = [part.kept_since for part in parts if part.kept_since]
    return Events(items, cursor, missing, max(kept, default=None))


def _before(
    node: int, key: _Key | None, *, has_shared: bool
) -> Callable[[ring.Event], bool] | None:
    """Which records of this node belong to the page: older ones than the last of that before.

    ``has_shared``: also those that all nodes have.
    """
    if key is None:
        return None if has_shared else lambda event: not event.is_everywhere
    return lambda event: (
        (has_shared or not event.is_everywhere) and _Key(event.ms, node, event.number) < key
    )


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
