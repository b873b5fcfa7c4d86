"""``/status``: a summary of the broker; ``/clients``: who is connected.

Without users ``/status`` is public, like ``/ready`` and ``/metrics``, which contain the same
figures, and ``/clients``, which shows client ids and addresses, is for administrators. With users
both need the action ``monitor``.
"""

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from penstock import kernel
from penstock.admin.guard import Guard
from penstock.admin.pages import JsonLine, admin_page, bool_parameter, list_limit, text_of
from penstock.admin.view import BrokerView
from penstock.obs.client_view import ClientView
from penstock.trust.rules import Action


def routes(view: BrokerView, guard: Guard) -> list[Route]:
    async def status(request: Request) -> Response:
        await guard.admit(request, Action.MONITOR, is_public=True)
        return JsonLine(await _status(view))

    async def clients(request: Request) -> dict[str, object]:
        limit = list_limit(request)
        prefix = request.query_params.get("prefix", "").encode()
        found = view.clients(prefix, limit + 1, are_away=bool_parameter(request, "away"))
        return {"clients": [_describe(c) for c in found[:limit]], "more": len(found) > limit}

    return [
        Route("/status", status),
        admin_page("/clients", "GET", guard, clients, ("prefix", "away", "limit"), Action.MONITOR),
    ]


async def _status(view: BrokerView) -> dict[str, object]:
    is_ready, why_not = view.ready()
    connected, away = view.sessions()
    cluster = view.cluster()
    document = {
        "version": view.version,
        "speed": kernel.speed,
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
    size = {"messages": journal.messages, "bytes": journal.bytes}
    return document | {"journal": size | {"newest_sequence": journal.newest_sequence}}


def _describe(client: ClientView) -> dict[str, object]:
    idle_s = client.idle_s
    return {
        "client_id": text_of(client.client_id),
        "protocol": client.protocol,
        "version": client.version or None,
        "user": client.user or None,
        "address": client.peer or None,
        "encrypted": client.is_encrypted,
        "websocket": client.is_websocket,
        "idle_s": None if idle_s is None else round(idle_s, 1),
        "persistent": client.is_persistent,
        "subscriptions": client.subscriptions,
        "in_flight": client.in_flight,
        "waiting": client.waiting,
    }
