"""``/status``: a broker in one answer; ``/clients``: who is connected to it.

``/status`` is for everybody, like ``/ready`` and ``/metrics``, from which all of it could be put
together. ``/clients`` names clients and their addresses, and is for administrators.
"""

from typing import TYPE_CHECKING, Any

from starlette.concurrency import run_in_threadpool
from starlette.routing import Route

from penstock.admin.pages import (
    JsonLine,
    administrators_page,
    flag,
    number,
    text_of,
)

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from penstock.admin.view import BrokerView
    from penstock.obs.client_view import ClientView


LISTED_DEFAULT, LISTED_MAX = 100, 1_000
"""Clients in one answer."""


def routes(view: "BrokerView", token: str) -> list[Route]:
    """The two pages; ``token`` is the administrators', empty if there is none."""

    async def status(_request: "Request") -> "Response":
        return JsonLine(await _status(view), headers={"cache-control": "no-store"})

    async def clients(request: "Request") -> dict[str, Any]:
        limit = number(request, "limit", LISTED_DEFAULT, LISTED_MAX)
        prefix = request.query_params.get("prefix", "").encode()
        found = view.clients(prefix, limit + 1, are_away=flag(request, "away"))
        shown = [_shown(client) for client in found[:limit]]
        return {"clients": shown, "more": len(found) > limit}

    return [
        Route("/status", status),
        administrators_page("/clients", "GET", token, clients, ("prefix", "away", "limit")),
    ]


async def _status(view: "BrokerView") -> dict[str, Any]:
    is_ready, why_not = view.ready()
    connected, away = view.sessions()
    cluster = view.cluster()
    document = {
        "version": view.version,
        "uptime_s": round(view.uptime_s(), 1),
        "ready": is_ready,
        "reason": why_not or None,
        "connections": view.connections(),
        "sessions": {"connected": connected, "away": away},
        "subscriptions": view.subscriptions(),
        "retained": view.retained(),
        "queued": view.queued(),
        "node_id": cluster.node_id,
        "node_state": cluster.state,
        "leader_id": cluster.leader or None,
        "nodes": len(cluster.members) or 1,
    }
    journal = await run_in_threadpool(view.journal)
    held = {"messages": journal.messages, "bytes": journal.bytes}
    return document | {"journal": held | {"newest_sequence": journal.newest_sequence}}


def _shown(client: "ClientView") -> dict[str, Any]:
    idle_s = client.idle_s
    return {
        "client_id": text_of(client.client_id),
        "protocol": client.protocol,
        "address": client.peer or None,
        "idle_s": None if idle_s is None else round(idle_s, 1),
        "persistent": client.is_persistent,
        "subscriptions": client.subscriptions,
        "in_flight": client.in_flight,
        "waiting": client.waiting,
    }
