"""Refusals as problem details (RFC 9457), for every error below ``/api/v1``.

A handler raises :class:`Problem`. What the guard and the parts of the broker raise becomes a
problem as well, with a code by its status or its class.
"""

from collections.abc import Sequence
from http import HTTPStatus

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from penstock.admin.refusals import Misdirected, RequestRefused
from penstock.api.documents.common import FieldFault, ProblemDocument
from penstock.errors import (
    AccessConflict,
    ClusterError,
    NotLeader,
    PenstockError,
    Refused,
    StorageError,
)

MEDIA_TYPE = "application/problem+json"
URN = "urn:penstock:problem:"

_CODES = {
    400: "bad_request",
    401: "unauthenticated",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    408: "too_slow",
    409: "conflict",
    413: "too_large",
    415: "unsupported_media_type",
    421: "not_leader",
    429: "too_many_requests",
    500: "internal_error",
    503: "unavailable",
}


class Problem(RequestRefused):
    """Why a request is refused, and what to do instead. ``code`` is for programs."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        advice: str = "",
        *,
        reason: str | None = None,
        fields: Sequence[FieldFault] = (),
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(status, detail, advice, headers)
        self.code = code
        self.reason = reason
        self.fields = list(fields)


class Elsewhere(Problem):
    """Only another node can do it; it is asked, unless the request comes from a node."""

    def __init__(self, node: int) -> None:
        advice = "try again in a moment: the client has just moved"
        super().__init__(409, "client_elsewhere", f"the client is at node {node}", advice)
        self.node = node


def not_found(detail: str, advice: str = "") -> Problem:
    return Problem(404, "not_found", detail, advice)


async def http_problem(request: Request, refused: Exception) -> Response:
    """Answer what was refused with a status: by us, by the guard, or by the router."""
    assert isinstance(refused, HTTPException)
    return response(request, refused)


async def broker_problem(request: Request, error: Exception) -> Response:
    """Answer an error of a part of the broker."""
    assert isinstance(error, PenstockError)
    return response(request, refusal_of(error))


async def internal_problem(request: Request, _error: Exception) -> Response:
    """Answer a bug; the door writes it to the log."""
    advice = "the log of the broker has the details; please report them"
    return response(request, Problem(500, "internal_error", "the broker failed to answer", advice))


def refusal_of(error: PenstockError) -> RequestRefused:
    match error:
        case NotLeader():
            return Misdirected(error)
        case StorageError():
            return Problem(503, "storage_failed", error.message, error.advice or "try again")
        case ClusterError():
            return Problem(503, "no_quorum", error.message, error.advice or "try again")
        case AccessConflict():
            return Problem(409, "conflict", error.message, error.advice)
        case Refused():
            return Problem(409, "refused", error.message, error.advice)
        case _:
            return Problem(503, "unavailable", error.message, error.advice or "try again")


def response(request: Request, refused: HTTPException) -> Response:
    document = describe(refused, request.url.path)
    headers = {"cache-control": "no-store", **(refused.headers or {})}
    body = msgspec.json.encode(document) + b"\n"
    return Response(body, refused.status_code, headers, MEDIA_TYPE)


def describe(refused: HTTPException, instance: str) -> ProblemDocument:
    status = refused.status_code
    code = refused.code if isinstance(refused, Problem) else _CODES.get(status, "refused")
    return ProblemDocument(
        type=URN + code,
        title=HTTPStatus(status).phrase,
        status=status,
        detail=refused.detail,
        instance=instance,
        code=code,
        reason=refused.reason if isinstance(refused, Problem) else None,
        advice=refused.advice if isinstance(refused, RequestRefused) else "",
        fields=refused.fields if isinstance(refused, Problem) else [],
        leader_addr=refused.leader_addr if isinstance(refused, Misdirected) else None,
    )
