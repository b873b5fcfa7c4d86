"""The application below ``/api/v1``: from the declarations of operations to routes.

Each request passes the same steps: the guard admits the caller, the parameters and the body are
checked, the handler answers, the answer is encoded and its size is checked. Whatever goes wrong
becomes a problem document.
"""

import asyncio
from collections.abc import Collection
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from penstock.admin.guard import Guard, check_host, check_web_page
from penstock.admin.pages import read_payload
from penstock.api.call import Call
from penstock.api.operations import JSON, Operation, Resource, operations_of
from penstock.api.parts import Parts
from penstock.api.problems import Problem, broker_problem, http_problem, internal_problem
from penstock.api.requests import check_no_query, read_body, read_query
from penstock.api.resources import RESOURCES
from penstock.errors import PenstockError
from penstock.limits import API_ANSWER_BYTES_MAX, API_READERS_MAX


def create_api(
    parts: Parts,
    hosts: Collection[str] = (),
    resources: Collection[type[Resource]] = RESOURCES,
) -> Starlette:
    """``hosts`` are further names for the Host header."""
    reading = asyncio.Semaphore(API_READERS_MAX)
    by_path: dict[str, dict[str, _Endpoint]] = {}
    for resource in resources:
        served = resource(parts)
        for operation in operations_of(resource):
            endpoint = _Endpoint(operation, served, parts.guard, reading)
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


def _route(path: str, endpoints: "dict[str, _Endpoint]") -> Route:
    """One route for all methods of a path, so that a refusal of others names them all."""

    async def endpoint(request: Request) -> Response:
        method = "GET" if request.method == "HEAD" else request.method
        return await endpoints[method].answer(request)

    return Route(f"/{path}", endpoint, methods=list(endpoints))


class _Endpoint:
    """Serves one operation."""

    def __init__(
        self, operation: Operation, resource: Resource, guard: Guard, reading: asyncio.Semaphore
    ) -> None:
        self._operation = operation
        self._handler = getattr(resource, operation.name)
        self._guard = guard
        self._reading = reading

    async def answer(self, request: Request) -> Response:
        await self._admit(request)
        arguments = await self._arguments(request)
        call = Call(request, self._guard, self._reading)
        answer = await self._handler(call, **arguments)
        return answer if isinstance(answer, Response) else _encoded(answer)

    async def _admit(self, request: Request) -> None:
        if self._operation.is_public:
            check_web_page(request)
            check_host(request)
        else:
            await self._guard.admit(request, self._operation.action)

    async def _arguments(self, request: Request) -> dict[str, Any]:
        operation = self._operation
        arguments: dict[str, Any] = {}
        if operation.query is None:
            check_no_query(request)
        else:
            arguments["query"] = read_query(request, operation.query)
        if operation.body is bytes:
            bytes_max = operation.body_bytes_max
            arguments["body"] = await read_payload(request, bytes_max, "the request body")
        elif operation.body is not None:
            kind, bytes_max = operation.body, operation.body_bytes_max
            arguments["body"] = await read_body(request, kind, bytes_max)
        return arguments


def _encoded(answer: object) -> Response:
    body = msgspec.json.encode(answer) + b"\n"
    if len(body) > API_ANSWER_BYTES_MAX:
        advice = "ask for fewer items (limit)"
        raise Problem(400, "answer_too_large", "the answer would be too large", advice)
    return Response(body, headers={"cache-control": "no-store"}, media_type=JSON)
