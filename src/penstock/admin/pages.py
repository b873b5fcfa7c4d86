"""Building blocks of the HTTP pages: request parsing, responses and errors.

To add a page, write a module with a function ``routes`` and list it in :mod:`penstock.admin.app`.
Each page names the action that it needs; :mod:`penstock.admin.guard` decides who may have it.
"""

import asyncio
import base64
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import TypeVar

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from penstock.admin.guard import Guard
from penstock.admin.refusals import Misdirected, RequestRefused
from penstock.admin.view import Confirmed
from penstock.errors import NoQuorum, NotLeader, PenstockError, StorageError
from penstock.limits import KIB
from penstock.model.mqtt_headers import Headers
from penstock.model.trace_context import TRACEPARENT, TRACESTATE, is_traced, valid_headers
from penstock.obs.printable import printable
from penstock.trust.rules import Action

BODY_BYTES_MAX = 16 * KIB  # a key with the longest list of topics needs a quarter of it
SLICE_ITEMS = 20  # described before the event loop serves others

_Body = TypeVar("_Body", bound=msgspec.Struct)
_Item = TypeVar("_Item")
_Value = TypeVar("_Value")


class JsonLine(JSONResponse):
    """JSON with a final newline, for terminals. It describes this moment: it is never cached."""

    def __init__(
        self, content: object, status_code: int = 200, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(content, status_code, {"cache-control": "no-store", **(headers or {})})

    def render(self, content: object) -> bytes:
        return super().render(content) + b"\n"


# ── Pages ─────────────────────────────────────────────────────────────────────────────────────


def admin_page(
    path: str,
    method: str,
    guard: Guard,
    answer: Callable[[Request], Awaitable[object]],
    parameters: Sequence[str] = (),
    action: Action | None = Action.ADMIN,
) -> Route:
    """``action`` is what the page needs; None: the page judges the topics that it touches."""

    async def endpoint(request: Request) -> Response:
        await guard.admit(request, action)
        check_parameters(request, parameters)
        return JsonLine(await answer(request))

    return Route(path, endpoint, methods=[method])


def admin_read_page(
    path: str,
    guard: Guard,
    source: Confirmed,
    answer: Callable[[Request], Awaitable[object]],
    parameters: Sequence[str] = (),
    action: Action | None = Action.ADMIN,
) -> Route:
    """Make a page for administrators that shows replicated state, linearizably by default."""

    async def current(request: Request) -> object:
        await check_current(request, source)
        return await answer(request)

    return admin_page(path, "GET", guard, current, (*parameters, "stale"), action)


def require(request: Request, action: Action, topic: bytes) -> None:
    """Raise RequestRefused unless the caller may do this to a topic."""
    guard: Guard = request.app.state.guard
    guard.require(request, action, topic)


def may(request: Request, action: Action, topic: bytes) -> bool:
    """Whether the caller may do this; for lists, which leave out the rest."""
    guard: Guard = request.app.state.guard
    return guard.may(request, action, topic)


async def check_current(request: Request, source: Confirmed) -> None:
    if not bool_parameter(request, "stale"):
        await applied(source.confirmed())


# ── Requests ──────────────────────────────────────────────────────────────────────────────────


def check_parameters(request: Request, known: Sequence[str]) -> None:
    """Refuse unknown parameters: ignoring a misspelt ``offset`` would answer another question."""
    unknown = [name for name in request.query_params if name not in known]
    if unknown:
        advice = f"this page takes {', '.join(known)}" if known else "this page takes no parameters"
        raise RequestRefused(400, f"unknown parameter {printable(unknown[0])}", advice)


def int_parameter(request: Request, name: str, default: int, maximum: int) -> int:
    text = request.query_params.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdecimal()) or int(text) > maximum:
        raise HTTPException(400, f"{name} must be a number from 0 to {maximum}")
    return int(text)


def list_limit(request: Request) -> int:
    return int_parameter(request, "limit", 100, 1_000)


def bool_parameter(request: Request, name: str) -> bool:
    """Return a flag of the query; a bare name is true."""
    text = request.query_params.get(name, "false").lower()
    if text not in {"", "1", "true", "0", "false"}:
        raise HTTPException(400, f"{name} must be true or false")
    return text not in {"0", "false"}


async def read_payload(request: Request, bytes_max: int, what: str, limit: str = "") -> bytes:
    """``limit``: the option that sets ``bytes_max``, if one does."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > bytes_max:
            raise RequestRefused(413, f"{what} is too large", at_most(bytes_max, limit))
    guard: Guard = request.app.state.guard
    await guard.readmit(request)
    return bytes(body)


PAYLOAD_LIMIT = "limits.packet_bytes_max, and no more than 1 MiB by HTTP"


def at_most(bytes_max: int, limit: str = "") -> str:
    """What to do about something that is too large."""
    return f"send at most {bytes_max:,} bytes" + (f": {limit}" if limit else "")


async def read_body(request: Request, kind: type[_Body]) -> _Body:
    body = await read_payload(request, BODY_BYTES_MAX, "the request body")
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError as error:
        fields = ", ".join(field.name for field in msgspec.structs.fields(kind))
        advice = f"send a JSON object with {fields}"
        raise RequestRefused(400, f"invalid request body: {error}", advice) from None


async def applied(change: Awaitable[_Value], status: int = 503) -> _Value:
    """``status`` is for changes refused although the disk and the cluster are available."""
    try:
        return await change
    except NotLeader as error:
        raise Misdirected(error) from error
    except (StorageError, NoQuorum) as error:
        raise RequestRefused(503, error.message, error.advice or "try again") from error
    except PenstockError as error:
        raise RequestRefused(status, error.message, error.advice or "try again") from error


# ── Responses ─────────────────────────────────────────────────────────────────────────────────


async def map_in_slices(
    items: Iterable[_Item], describe: Callable[[_Item], _Value]
) -> list[_Value]:
    described = []
    for count, item in enumerate(items, 1):
        described.append(describe(item))
        if count % SLICE_ITEMS == 0:
            await asyncio.sleep(0)
    return described


def text_of(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")


def time_of(time_ms: int) -> str | None:
    if not time_ms:
        return None
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds")


def payload_fields(payload: bytes) -> dict[str, str]:
    try:
        return {"payload": payload.decode()}
    except UnicodeDecodeError:
        return {"payload_base64": base64.b64encode(payload).decode()}


def trace_headers(request: Request, headers: Headers) -> Headers:
    """Headers for a message: the span of the request that publishes it, unless it names one."""
    if is_traced(headers):
        return ()
    parent, state = (request.headers.get(name.decode(), "") for name in (TRACEPARENT, TRACESTATE))
    return valid_headers(parent.encode("latin-1"), state.encode("latin-1"))
