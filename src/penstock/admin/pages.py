"""What pages have in common: who may ask, what may be sent, how answers and refusals look.

**Browsers** reach loopback addresses too, on behalf of any web page. Pages of other origins cannot
read the answers, unless they make their own name point here (DNS rebinding); so where an address is
all that is asked for, a request must name an address, ``localhost`` or one of the configured names
(``admin.hosts``) as its host. And they can post, blindly; but with an ``Origin``, which no
administrator's tool sends.

**Administrators** present the token of the configuration. Where none is configured, whoever is on
this machine is one. A proxy on this machine makes everybody so: give it a token to pass on. Whoever
is refused is in the log, a few lines a second at most, by address and never with what was
presented: an administrator's slip of the finger is nearly the token.
"""

import asyncio
import base64
import hmac
import re
from datetime import UTC, datetime
from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from penstock.errors import NoQuorum, NotLeader, PenstockError, StorageError
from penstock.limits import KIB
from penstock.obs.log import ThrottledLogger, get_logger, printable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from starlette.requests import Request

    from penstock.admin.view import Confirmed


BODY_BYTES_MAX = 16 * KIB
"""Largest body of a request; a key with the longest list of topics is a quarter of it."""

SHOWN_AT_ONCE = 20
"""Topics or groups described before others have a turn."""

_PORT = re.compile(r":[0-9]*\Z")

_Body = TypeVar("_Body")
_Item = TypeVar("_Item")
_Value = TypeVar("_Value")

_log = ThrottledLogger(get_logger("admin"))


class JsonLine(JSONResponse):
    """JSON and a newline: the answer is read in terminals."""

    def render(self, content: Any) -> bytes:
        """Return the bytes of the answer (called by Starlette)."""
        return super().render(content) + b"\n"


class RequestRefused(HTTPException):
    """A request that is not granted; ``advice`` says what would be."""

    def __init__(
        self, status: int, error: str, advice: str, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(status, error, headers)
        self.advice = advice


class Misdirected(RequestRefused):
    """A request for the leader that was sent to another node; it says where the leader is."""

    def __init__(self, error: NotLeader) -> None:
        super().__init__(421, error.message, error.advice)
        self.leader_addr = error.leader_addr


# ── who may ask ───────────────────────────────────────────────────────────────────────────────


def administrators_page(
    path: str,
    method: str,
    token: str,
    answer: "Callable[[Request], Awaitable[Any]]",
    parameters: "Sequence[str]" = (),
) -> Route:
    """Make a page for administrators, who present ``token``; its answer is JSON.

    ``parameters`` are those that the query may have.
    """

    async def endpoint(request: "Request") -> Response:
        check_administrator(request, token)
        check_parameters(request, parameters)
        return JsonLine(await answer(request), headers={"cache-control": "no-store"})

    return Route(path, endpoint, methods=[method])


def reading_page(
    path: str,
    token: str,
    admin: "Confirmed",
    answer: "Callable[[Request], Awaitable[Any]]",
    parameters: "Sequence[str]" = (),
) -> Route:
    """Make a page that shows administrators what the cluster has agreed upon."""

    async def current(request: "Request") -> Any:
        await check_current(request, admin)
        return await answer(request)

    return administrators_page(path, "GET", token, current, (*parameters, "stale"))


async def check_current(request: "Request", admin: "Confirmed") -> None:
    """Wait until what is shown is current, unless the client is content with what is here."""
    if not flag(request, "stale"):
        await kept(admin.confirmed())


def check_host(request: "Request") -> None:
    """Let only those pass who ask by address, as localhost, or by a name that is configured.

    Asked is what the client has sent. ``request.url`` puts our own address in the place of a name
    that it does not take for one, and which names those are differs between versions.
    """
    asked = request.headers.get("host")
    if asked is None:
        return  # HTTP/1.0 by hand: browsers always send one
    host = asked if asked.endswith("]") else _PORT.sub("", asked)
    try:
        ip_address(host[1:-1] if host.startswith("[") and host.endswith("]") else host)
    except ValueError:
        if host.lower() not in {"localhost", *request.app.state.hosts}:
            raise RequestRefused(
                403,
                f"this broker is not asked by the name {printable(host)}",
                "ask by address or as localhost, or add the name to admin.hosts at the broker",
            ) from None


def check_no_web_page(request: "Request") -> None:
    """Refuse what a browser sends on behalf of a page, wherever that is from."""
    if "origin" in request.headers:
        raise RequestRefused(
            403,
            "requests of web pages are not taken",
            "use the penstock command, or a program that sends no Origin header",
        )


def check_administrator(request: "Request", token: str) -> None:
    """Let only administrators pass; ``token`` is the configured one, empty if there is none."""
    try:
        _check_administrator(request, token)
    except HTTPException as refusal:
        _log.warning(
            "administrator_refused",
            client=request.client.host if request.client else "unknown",
            path=request.url.path,
            why=refusal.detail,
        )
        raise


def _check_administrator(request: "Request", token: str) -> None:
    check_no_web_page(request)
    if token:
        _check_token(request, token)
    elif not _is_loopback(request):
        raise RequestRefused(
            403,
            "only for those on the broker's own machine, since no token is configured",
            "set admin.token (PENSTOCK_ADMIN_TOKEN) at the broker and present it",
        )
    else:
        check_host(request)


def _check_token(request: "Request", token: str) -> None:
    presented = request.headers.get("authorization", "")
    given = presented.encode("utf-8", "surrogateescape")
    # Compared in constant time: how long it takes must not tell how much of it was right.
    if not hmac.compare_digest(given, f"Bearer {token}".encode()):
        raise RequestRefused(
            401,
            f"the administrator's token is {'wrong' if presented else 'missing'}",
            "send it as Authorization: Bearer TOKEN (the penstock command: --token)",
            {"www-authenticate": "Bearer"},
        )


def _is_loopback(request: "Request") -> bool:
    if request.client is None:
        return False
    try:
        address = ip_address(request.client.host)
    except ValueError:
        return False
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return address.is_loopback


# ── what may be sent ──────────────────────────────────────────────────────────────────────────


def check_parameters(request: "Request", known: "Sequence[str]") -> None:
    """Refuse a query with parameters that the page does not have.

    To ignore a misspelt ``offset`` would answer a question that nobody asked.
    """
    unknown = [name for name in request.query_params if name not in known]
    if unknown:
        advice = f"this page takes {', '.join(known)}" if known else "this page takes no parameters"
        raise RequestRefused(400, f"unknown parameter {printable(unknown[0])}", advice)


def number(request: "Request", name: str, default: int, maximum: int) -> int:
    """Return a parameter of the query that is a number."""
    text = request.query_params.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdecimal()) or int(text) > maximum:
        raise HTTPException(400, f"{name} must be a number from 0 to {maximum}")
    return int(text)


def flag(request: "Request", name: str) -> bool:
    """Return a parameter of the query that is true or false; a bare name is true."""
    text = request.query_params.get(name, "false").lower()
    if text not in {"", "1", "true", "0", "false"}:
        raise HTTPException(400, f"{name} must be true or false")
    return text not in {"0", "false"}


async def read_body(request: "Request", kind: type[_Body]) -> _Body:
    """Return the body, JSON of the given kind; no more is read than the bound allows."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > BODY_BYTES_MAX:
            raise RequestRefused(
                413, "the request's body is too large", f"send {BODY_BYTES_MAX} at most"
            )
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError as error:
        fields = ", ".join(field.name for field in msgspec.structs.fields(kind))  # type: ignore[arg-type]
        raise RequestRefused(
            400, f"the request's body cannot be used: {error}", f"send JSON with {fields}"
        ) from None


async def kept(change: "Awaitable[_Value]", status: int = 503) -> _Value:
    """Wait for something to be durable; if the disk or the cluster refuses, so does the answer.

    ``status`` is for what is refused for other reasons than that nobody can do it now.
    """
    try:
        return await change
    except NotLeader as error:
        raise Misdirected(error) from error
    except (StorageError, NoQuorum) as error:
        raise RequestRefused(503, error.message, error.advice or "try again") from error
    except PenstockError as error:
        raise RequestRefused(status, error.message, error.advice or "try again") from error


# ── what is answered ──────────────────────────────────────────────────────────────────────────


async def in_turns(items: "Iterable[_Item]", show: "Callable[[_Item], _Value]") -> list[_Value]:
    """Show items one by one; in a long list others have a turn now and then."""
    shown = []
    for place, item in enumerate(items, 1):
        shown.append(show(item))
        if place % SHOWN_AT_ONCE == 0:
            await asyncio.sleep(0)
    return shown


def text_of(data: bytes) -> str:
    """Whatever a client chose, as text."""
    return data.decode("utf-8", "backslashreplace")


def time_of(time_ms: int) -> str | None:
    """A time in UTC; None for none."""
    if not time_ms:
        return None
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds")


def payload_fields(payload: bytes) -> dict[str, str]:
    """A payload as text, if it is UTF-8."""
    try:
        return {"payload": payload.decode()}
    except UnicodeDecodeError:
        return {"payload_base64": base64.b64encode(payload).decode()}
