"""The pages: ``/health``, ``/ready``, ``/metrics``, ``/topics`` and more; an index names them.

They tell two questions apart that are often mixed up. *Health* is "does the event loop turn?": the
answer is yes whenever there is one, and a supervisor restarts the broker when there is none.
*Ready* is "should new work come here?": no while the storage is full or failing, the broker is
stopping or a node sees no leader, and a restart would not help. ``/topics`` is in
:mod:`penstock.admin.topics`, ``/status`` and ``/clients`` in :mod:`penstock.admin.status`. What
changes anything is for administrators:
:mod:`~penstock.admin.keys`, :mod:`~penstock.admin.queues`,
:mod:`~penstock.admin.groups`, :mod:`~penstock.admin.dead_letters` and
:mod:`~penstock.admin.cluster`. There is no hidden page.
"""

import asyncio
from collections.abc import Collection
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from penstock.admin import cluster, dead_letters, groups, keys, metrics, queues, status, topics
from penstock.admin.pages import JsonLine, Misdirected, RequestRefused, check_parameters, number
from penstock.admin.survey import SERIES_DEFAULT, SERIES_MAX

if TYPE_CHECKING:
    from starlette.requests import Request

    from penstock.admin.view import BrokerView, ClusterAdmin, KeyAdmin, QueueAdmin, TopicPublisher


NO_STORE = {"cache-control": "no-store"}
"""Every answer is about this very moment."""


def create_app(
    view: "BrokerView",
    key_admin: "KeyAdmin | None" = None,
    token: str = "",
    queue_admin: "QueueAdmin | None" = None,
    cluster_admin: "ClusterAdmin | None" = None,
    *,
    publisher: "TopicPublisher | None" = None,
    hosts: Collection[str] = (),
) -> Starlette:
    """Return the ASGI application that answers for ``view``.

    Pages whose part is None are left out. ``token`` is that of the administrators; without one,
    everybody on this machine is an administrator. ``hosts`` are the names that the Host header may
    have, besides addresses and localhost.
    """
    surveying = asyncio.Lock()

    async def index(request: "Request") -> Response:
        return PlainTextResponse(_index_line(view.version, request.scope.get("server")))

    async def health(_request: "Request") -> Response:
        return JsonLine({"status": "ok"}, headers=NO_STORE)

    async def ready(_request: "Request") -> Response:
        is_ready, why_not = view.ready()
        if is_ready:
            return JsonLine({"status": "ready"}, headers=NO_STORE)
        return JsonLine({"status": "not ready", "reason": why_not}, 503, headers=NO_STORE)

    async def metrics_page(request: "Request") -> Response:
        check_parameters(request, ("topics", "groups"))
        text = await metrics.render_off_loop(
            view,
            surveying,
            with_topics="topics" in request.query_params,
            group_series=number(request, "groups", SERIES_DEFAULT, SERIES_MAX),
        )
        return Response(text, media_type=metrics.CONTENT_TYPE, headers=NO_STORE)

    app = Starlette(
        routes=[
            Route("/", index),
            Route("/health", health),
            Route("/ready", ready),
            Route("/metrics", metrics_page),
            Route("/metrics/", metrics_page),
            *status.routes(view, token),
            *topics.routes(view, publisher),
            *(keys.routes(key_admin, token) if key_admin else []),
            *(_queue_routes(queue_admin, token) if queue_admin else []),
            *(cluster.routes(cluster_admin, token) if cluster_admin else []),
        ],
        exception_handlers={HTTPException: _error_response},
    )
    app.state.hosts = frozenset(host.lower() for host in hosts)
    return app


def _queue_routes(admin: "QueueAdmin", token: str) -> list[Route]:
    parts = (queues, groups, dead_letters)
    return [route for part in parts for route in part.routes(admin, token)]


def _index_line(version: str, server: tuple[str, int | None] | None) -> str:
    port = f" {server[1]}" if server and server[1] else ""
    return (
        f"Penstock {version}: MQTT 3.1.1, RESP (Redis), the binary protocol, the queue protocol and"
        f" HTTP on this same port{port};"
        " pages: /health /ready /status /metrics /topics /clients /keys /queues /groups /dlq"
        " /cluster\n"
    )


async def _error_response(_request: "Request", refused: Exception) -> Response:
    """Answer 404, 405 and every refusal of ours in the form of all other answers."""
    assert isinstance(refused, HTTPException)
    advice = {"advice": refused.advice} if isinstance(refused, RequestRefused) else {}
    leader = {"leader_addr": refused.leader_addr} if isinstance(refused, Misdirected) else {}
    content = {"error": refused.detail, **advice, **leader}
    return JsonLine(content, refused.status_code, headers=refused.headers)
