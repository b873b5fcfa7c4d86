"""Building blocks of the HTTP pages: access control, request parsing, responses and errors.

To add a page, write a module with a function ``routes`` and list it in :mod:`penstock.admin.app`.

**Browsers** can reach loopback addresses on behalf of any web page. The same-origin policy keeps
other origins from reading the response, unless they point their own name here (DNS rebinding). So
a request without a token must have an address, ``localhost`` or a configured name
(``admin.hosts``) as its host. Browsers can also post blindly, but then they send ``Origin``, which
no administrator's tool does.

**Administrators** present the configured token. Without one, everybody on this machine is an
administrator. A proxy on this machine would make everybody one: configure a token and let it pass
that on. Refused requests are logged, throttled, with the address and never with the credentials: a
mistyped token is nearly the token.
"""

import asyncio
import base64
import hmac
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import UTC, datetime
from ipaddress import IPv6Address, ip_address
from typing import TypeVar

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from penstock.admin.view import Confirmed
from penstock.errors import NoQuorum, NotLeader, PenstockError, StorageError
from penstock.limits import KIB
from penstock.net.http import ORIGIN
from penstock.net.origin import Origin
from penstock.obs.log import ThrottledLogger, get_logger, printable
from penstock.trust.principal import ANYONE, Principal

BODY_BYTES_MAX = 16 * KIB  # a key with the longest list of topics needs a quarter of it
SLICE_ITEMS = 20  # described before the event loop serves others

_PORT = re.compile(r":[0-9]*\Z")

_Body = TypeVar("_Body", bound=msgspec.Struct)
_Item = TypeVar("_Item")
_Value = TypeVar("_Value")

_log = ThrottledLogger(get_logger("admin"))


class JsonLine(JSONResponse):
    """JSON with a final newline, for terminals. It describes this moment: it is never cached."""

    def __init__(
        self, content: object, status_code: int = 200, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(content, status_code, {"cache-control": "no-store", **(headers or {})})

    def render(self, content: object) -> bytes:
        return super().render(content) + b"\n"


class RequestRefused(HTTPException):
    """A request that is refused; ``advice`` tells the client what to do instead."""

    def __init__(
        self, status: int, error: str, advice: str, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(status, error, headers)
        self.advice = advice


class Misdirected(RequestRefused):
    """A request that only the leader can serve; it carries the leader's address."""

    def __init__(self, error: NotLeader) -> None:
        super().__init__(421, error.message, error.advice)
        self.leader_addr = error.leader_addr


# ── Access control ────────────────────────────────────────────────────────────────────────────


def admin_page(
    path: str,
    method: str,
    token: str,
    answer: Callable[[Request], Awaitable[object]],
    parameters: Sequence[str] = (),
) -> Route:
    async def endpoint(request: Request) -> Response:
        check_administrator(request, token)
        check_parameters(request, parameters)
        return JsonLine(await answer(request))

    return Route(path, endpoint, methods=[method])


def admin_read_page(
    path: str,
    token: str,
    source: Confirmed,
    answer: Callable[[Request], Awaitable[object]],
    parameters: Sequence[str] = (),
) -> Route:
    """Make a page for administrators that shows replicated state, linearizably by default."""

    async def current(request: Request) -> object:
        await check_current(request, source)
        return await answer(request)

    return admin_page(path, "GET", token, current, (*parameters, "stale"))


async def check_current(request: Request, source: Confirmed) -> None:
    if not bool_parameter(request, "stale"):
        await applied(source.confirmed())


def check_host(request: Request) -> None:
    # Not ``request.url``: it replaces names that it considers invalid by our own address, and which
    # names those are differs between versions of Starlette.
    header = request.headers.get("host")
    if header is None:
        return  # HTTP/1.0 by hand: browsers always send one
    host = header if header.endswith("]") else _PORT.sub("", header)
    try:
        ip_address(host[1:-1] if host.startswith("[") and host.endswith("]") else host)
    except ValueError:
        if host.lower() not in {"localhost", *request.app.state.hosts}:
            advice = "use an IP address or localhost, or add the name to admin.hosts on the broker"
            raise RequestRefused(403, f"unknown host name {printable(host)}", advice) from None


def check_no_web_page(request: Request) -> None:
    if "origin" in request.headers:
        advice = "use the penstock command, or a program that sends no Origin header"
        raise RequestRefused(403, "requests from web pages are not accepted", advice)


def check_administrator(request: Request, token: str) -> None:
    try:
        _check_administrator(request, token)
    except HTTPException as refused:
        _log.warning(
            "administrator_refused",
            client=request.client.host if request.client else "unknown",
            path=request.url.path,
            why=refused.detail,
        )
        raise


def origin_of(request: Request) -> Origin:
    """Where the request came from; without a socket (in a test), what its scope says."""
    found = request.scope.get(ORIGIN)
    if isinstance(found, Origin):
        return found
    host, port = request.client or ("", 0)
    return Origin(0.0, host, port, is_local=_is_loopback(request))


def author_of(request: Request) -> Principal:
    """Who makes a change, for the journal."""
    origin = origin_of(request)
    return ANYONE._replace(user=origin.owner, door="http", address=origin.peer)


def _check_administrator(request: Request, token: str) -> None:
    check_no_web_page(request)
    if origin_of(request).owner:
        return
    if token:
        _check_token(request, token)
    elif not _is_loopback(request):
        what = "administration is limited to the broker's own machine while no token is configured"
        advice = "set admin.token (PENSTOCK_ADMIN_TOKEN) on the broker and present it"
        raise RequestRefused(403, what, advice)
    else:
        check_host(request)


def _check_token(request: Request, token: str) -> None:
    presented = request.headers.get("authorization", "")
    given = presented.encode("utf-8", "surrogateescape")
    # In constant time: the time it takes must not reveal how much of the token was right.
    if not hmac.compare_digest(given, f"Bearer {token}".encode()):
        what = f"the administrator token is {'wrong' if presented else 'missing'}"
        advice = "send it as Authorization: Bearer TOKEN (the penstock command: --token)"
        raise RequestRefused(401, what, advice, {"www-authenticate": "Bearer"})


def _is_loopback(request: Request) -> bool:
    if request.client is None:
        return False
    try:
        address = ip_address(request.client.host)
    except ValueError:
        return False
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return address.is_loopback


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


async def read_payload(request: Request, bytes_max: int, what: str) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > bytes_max:
            raise RequestRefused(413, f"{what} is too large", f"send at most {bytes_max} bytes")
    return bytes(body)


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
