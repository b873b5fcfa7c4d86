"""The application below ``/api/v1``: from the declarations of operations to routes.

Each request passes the same steps: it is no other web page's, the guard admits the caller, who does
not ask too often; the parameters and the body are checked, the handler answers, the answer is
encoded and its size is checked. Whatever goes wrong becomes a problem document.
"""

import asyncio
from collections.abc import Collection
from hashlib import sha256
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from penstock.admin.guard import caller_of, check_browser, check_host, origin_of
from penstock.admin.pages import applied, read_payload
from penstock.admin.refusals import Misdirected
from penstock.api.call import Call
from penstock.api.idempotency import Answers
from penstock.api.operations import JSON, Operation, Resource, operations_of
from penstock.api.paging import BYTES_FOR_NODE
from penstock.api.parts import Parts
from penstock.api.peer_requests import is_of_node, passed_on, passed_to
from penstock.api.problems import Elsewhere, Problem, broker_problem, http_problem, internal_problem
from penstock.api.requests import body_of, check_no_query, read_query
from penstock.api.resources import RESOURCES
from penstock.api.throttle import Throttle
from penstock.errors import NotLeader, PenstockError
from penstock.limits import API_ANSWER_BYTES_MAX, API_READERS_MAX


def create_api(
    parts: Parts,
    hosts: Collection[str] = (),
    resources: Collection[type[Resource]] = RESOURCES,
) -> Starlette:
    """``hosts`` are further names for the Host header."""
    shared = _Shared(parts)
    by_path: dict[str, dict[str, _Endpoint]] = {}
    for resource in resources:
        served = resource(parts)
        for operation in operations_of(resource):
            endpoint = _Endpoint(operation, served, shared)
            by_path.setdefault(operation.path, {})[operation.method] = endpoint
    app = Starlette(
        routes=[_route(path, endpoints) for path, endpoints in by_path.items()],
        exception_handlers={
            HTTPException: http_problem,
            PenstockError: broker_problem,
            Exception: internal_problem,
        },
    )
    app.router.redirect_slashes = False
    app.state.guard = parts.guard
    app.state.hosts = frozenset(host.lower() for host in hosts)
    return app


class _Shared:
    """What all operations share."""

    def __init__(self, parts: Parts) -> None:
        self.guard = parts.guard
        self.view = parts.view
        self.counters = parts.counters
        self.throttle = Throttle()
        self.answers = Answers()
        self.reading = asyncio.Semaphore(API_READERS_MAX)
        self.nodes = parts.nodes


def _route(path: str, endpoints: "dict[str, _Endpoint]") -> Route:
    """One route for all methods of a path, so that a refusal of others names them all."""

    async def endpoint(request: Request) -> Response:
        method = "GET" if request.method == "HEAD" else request.method
        return await endpoints[method].serve(request)

    return Route(f"/{path}", endpoint, methods=list(endpoints))


class _Endpoint:
    """Serves one operation."""

    def __init__(self, operation: Operation, resource: Resource, shared: _Shared) -> None:
        self._operation = operation
        self._handler = getattr(resource, operation.name)
        self._shared = shared

    async def serve(self, request: Request) -> Response:
        operation = self._operation
        check_browser(request)
        if operation.is_public:
            check_host(request)
        else:
            await self._shared.guard.admit(request, operation.action)
        if not is_of_node(request):  # else the node that was asked has checked it
            self._check_rate(request)
        arguments, body = await self._arguments(request)
        call = Call(request, self._shared.guard, self._shared.reading, self._shared.nodes)
        key = request.headers.get("idempotency-key")
        if key is None or not operation.is_change:
            return await self._answer(call, arguments, body)
        asked = f"{request.method} {request.url.path}?{request.url.query}\n".encode() + body
        return await self._shared.answers.once(
            self._login(request),
            key,
            sha256(asked).digest(),
            asyncio.get_running_loop().time(),
            lambda: self._answer(call, arguments, body),
        )

    async def _answer(self, call: Call, arguments: dict[str, Any], body: bytes) -> Response:
        try:
            if getattr(arguments.get("query"), "current", False) and not call.is_of_node:
                await applied(self._shared.view.confirmed())
            answer = await self._handler(call, **arguments)
        except (NotLeader, Misdirected) as refused:
            nodes = self._shared.nodes
            can_pass = nodes is not None and nodes.leader() and len(body) <= BYTES_FOR_NODE
            if nodes is None or (refused.leader_addr and not can_pass):
                raise  # the caller can go there
            return await passed_on(nodes, call.request, body)
        except Elsewhere as refused:
            if self._shared.nodes is None or call.is_of_node:
                raise
            return await passed_to(self._shared.nodes, refused.node, call.request, body)
        return answer if isinstance(answer, Response) else _encoded(answer, call.headers)

    def _check_rate(self, request: Request) -> None:
        now = asyncio.get_running_loop().time()
        try:
            self._shared.throttle.check(self._login(request), now)
        except Problem:
            self._shared.counters.api_throttled_total += 1
            raise

    def _login(self, request: Request) -> object:
        """Whose request it is, for limits: a user, or an address."""
        origin = origin_of(request)
        user = "" if self._operation.is_public else caller_of(request).principal.user
        return user or origin.host or origin.owner

    async def _arguments(self, request: Request) -> tuple[dict[str, Any], bytes]:
        """What the handler is called with, and the body as it came."""
        operation, body = self._operation, b""
        arguments: dict[str, Any] = {}
        if operation.query is None:
            check_no_query(request)
        else:
            arguments["query"] = read_query(request, operation.query)
        if operation.body is not None:
            body = await read_payload(request, operation.body_bytes_max, "the request body")
            is_raw = operation.body is bytes
            arguments["body"] = body if is_raw else body_of(body, operation.body)
        return arguments, body


def _encoded(answer: object, headers: dict[str, str]) -> Response:
    body = msgspec.json.encode(answer) + b"\n"
    if len(body) > API_ANSWER_BYTES_MAX:
        advice = "ask for fewer items (limit)"
        raise Problem(400, "answer_too_large", "the answer would be too large", advice)
    return Response(body, headers={"cache-control": "no-store", **headers}, media_type=JSON)
