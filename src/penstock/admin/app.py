"""The HTTP application. Each page is in a module with a function ``routes``, listed below.

``/health`` answers whenever the event loop runs; a supervisor restarts the broker when it does not.
``/ready`` tells whether new work should come here: not while the storage is full or failing, the
broker is stopping, or a node knows no leader. A restart would not help then.
"""

import asyncio
from collections.abc import Collection

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp

from penstock.admin import (
    access,
    access_documents,
    bans,
    cluster,
    dead_letters,
    groups,
    keys,
    metrics,
    queues,
    roles,
    status,
    tls,
    tokens,
    topics,
    users,
)
from penstock.admin.guard import Guard
from penstock.admin.hardening import Hardened
from penstock.admin.pages import JsonLine, check_parameters, int_parameter
from penstock.admin.refusals import Misdirected, RequestRefused
from penstock.admin.survey import SERIES_DEFAULT, SERIES_MAX
from penstock.admin.view import (
    AccessAdmin,
    BrokerView,
    ClusterAdmin,
    KeyAdmin,
    QueueAdmin,
    TlsAdmin,
    TopicPublisher,
)
from penstock.console.routes import routes as console_routes
from penstock.console.routes import to_console, wants_page
from penstock.trust.rules import Action

API_BASE = "/api/v1"


def create_app(
    view: BrokerView,
    key_admin: KeyAdmin | None = None,
    token: str = "",
    queue_admin: QueueAdmin | None = None,
    cluster_admin: ClusterAdmin | None = None,
    *,
    access_admin: AccessAdmin | None = None,
    tls_admin: TlsAdmin | None = None,
    publisher: TopicPublisher | None = None,
    hosts: Collection[str] = (),
    guard: Guard | None = None,
    api: ASGIApp | None = None,
) -> Starlette:
    """Pages whose part is None are left out. ``hosts`` are further names for the Host header.

    Without a ``guard`` there are no users, and ``token`` is that of administrators.
    """
    guard = guard or Guard(token)
    app = Starlette(
        routes=[
            *_probe_routes(view, guard),
            *console_routes(),
            *status.routes(view, guard),
            *topics.routes(view, guard, publisher),
            *(keys.routes(key_admin, guard) if key_admin else []),
            *(queues.routes(queue_admin, guard) if queue_admin else []),
            *(groups.routes(queue_admin, guard) if queue_admin else []),
            *(dead_letters.routes(queue_admin, guard) if queue_admin else []),
            *(cluster.routes(cluster_admin, guard) if cluster_admin else []),
            *(tls.routes(tls_admin, guard) if tls_admin else []),
            *(_access_routes(access_admin, guard) if access_admin else []),
            *([Mount(API_BASE, app=api)] if api else []),
        ],
        middleware=[Middleware(Hardened)],
        exception_handlers={HTTPException: _error_response},
    )
    app.state.guard = guard
    app.state.hosts = frozenset(host.lower() for host in hosts)
    return app


def _access_routes(admin: AccessAdmin, guard: Guard) -> list[Route]:
    modules = (users, roles, tokens, bans, access, access_documents)
    return [route for module in modules for route in module.routes(admin, guard)]


def _probe_routes(view: BrokerView, guard: Guard) -> list[Route]:
    surveying = asyncio.Lock()

    async def index(request: Request) -> Response:
        if wants_page(request):
            return to_console()
        return PlainTextResponse(_index_line(view.version, request.scope.get("server")))

    async def health(_request: Request) -> Response:
        return JsonLine({"status": "ok"})

    async def ready(_request: Request) -> Response:
        is_ready, why_not = view.ready()
        if is_ready:
            return JsonLine({"status": "ready"})
        return JsonLine({"status": "not ready", "reason": why_not}, 503)

    async def metrics_page(request: Request) -> Response:
        await guard.admit(request, Action.MONITOR, is_public=True)
        check_parameters(request, ("topics", "groups"))
        text = await metrics.render_off_loop(
            view,
            surveying,
            with_topics="topics" in request.query_params,
            group_series=int_parameter(request, "groups", SERIES_DEFAULT, SERIES_MAX),
        )
        headers = {"cache-control": "no-store"}
        return Response(text, media_type=metrics.CONTENT_TYPE, headers=headers)

    return [
        Route("/", index),
        Route("/health", health),
        Route("/ready", ready),
        Route("/metrics", metrics_page),
        Route("/metrics/", metrics_page),
    ]


def _index_line(version: str, server: tuple[str, int | None] | None) -> str:
    port = f" {server[1]}" if server and server[1] else ""
    return (
        f"Penstock {version}: MQTT 5 and 3.1.1 (WebSocket: /mqtt), RESP (Redis), the binary"
        f" protocol, the queue protocol and HTTP on this same port{port};"
        " pages: /health /ready /status /metrics /topics /clients /keys /queues /groups /dlq"
        " /cluster /users /roles /tokens /bans /access\n"
    )


async def _error_response(_request: Request, refused: Exception) -> Response:
    assert isinstance(refused, HTTPException)
    advice = {"advice": refused.advice} if isinstance(refused, RequestRefused) else {}
    leader = {"leader_addr": refused.leader_addr} if isinstance(refused, Misdirected) else {}
    content = {"error": refused.detail, **advice, **leader}
    return JsonLine(content, refused.status_code, dict(refused.headers or {}))
