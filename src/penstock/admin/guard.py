"""Who asks for a page, and whether they may: the HTTP side of access control.

**Without users** everything is as open as the listener: some pages are public, the others are for
administrators, who present ``admin.token`` or, if none is configured, are on the broker's machine.

**With users** a request is somebody's: by Basic (user and password), by Bearer (an API token), by a
client certificate, or by where it comes from (the roles ``local`` and ``anonymous``). Every page
names the action that it needs, and the same rules decide as at every other door. ``admin.token``
stays a token of an administrator. The administrator's socket has full rights in any case.

**Browsers** can reach loopback addresses on behalf of any web page. The same-origin policy keeps
other origins from reading the response, unless they point their own name here (DNS rebinding). So
a request without credentials must have an address, ``localhost`` or a configured name
(``admin.hosts``) as its host. Browsers can also post blindly, but then they send ``Origin``: a
change from a web page must come from this very host, with the header ``X-Penstock: 1``, which no
form can send.

Refused requests are logged, throttled, with the address and never with the credentials: a mistyped
token is nearly the token.
"""

import asyncio
import base64
import binascii
import hmac
from collections.abc import Callable
from math import ceil
from typing import NamedTuple

from msgspec.structs import replace
from starlette.exceptions import HTTPException
from starlette.requests import Request

from penstock.access.admission import Admission
from penstock.access.audit import CALLER
from penstock.access.logins import Credentials, LoginFault, LoginRefusal, Logins
from penstock.admin.refusals import RequestRefused
from penstock.model.ip import is_loopback
from penstock.net.http import ORIGIN
from penstock.net.origin import Origin
from penstock.net.web_origin import is_known_host, is_same_origin, without_port
from penstock.obs.log import ThrottledLogger, get_logger, printable
from penstock.obs.reasons import DisconnectReason
from penstock.trust.book import AccessBook
from penstock.trust.principal import ANYONE, Principal
from penstock.trust.rules import Action
from penstock.trust.touched import touched

DOOR = "http"
CONFIGURED_TOKEN = "admin.token"  # noqa: S105 - who has presented it, for the journal
BOOTSTRAP = "bootstrap token"
_TOKEN_KINDS = {"token", "jwt"}
_CHALLENGE = {"www-authenticate": 'Basic realm="penstock", charset="UTF-8", Bearer'}

_log = ThrottledLogger(get_logger("admin"))


class Caller(NamedTuple):
    """Whose request it is."""

    principal: Principal
    has_api_token: bool = False  # such a request may make neither passwords nor tokens


class _Admitted(NamedTuple):
    """By which version of the access book a request was judged, and what it needs."""

    version: int
    is_public: bool
    demands: list[tuple[Action, bytes]]


class AccessParts(NamedTuple):
    """What decides about users; a broker of a test may have none."""

    book: AccessBook
    logins: Logins
    admission: Admission


class Guard:
    """Finds out whose a request is, and refuses what they may not do."""

    def __init__(
        self,
        token: str = "",
        parts: AccessParts | None = None,
        bootstrap: Callable[[], str] = lambda: "",
    ) -> None:
        """``bootstrap``: the token for the first administrator; empty if there is none."""
        self._token = token
        self._parts = parts
        self._bootstrap = bootstrap

    @property
    def _is_open(self) -> bool:
        return self._parts is None or self._parts.book.is_open

    async def admit(
        self, request: Request, action: Action | None, *, is_public: bool = False
    ) -> None:
        """Note the caller in ``request.state.caller``, or raise RequestRefused.

        ``is_public``: without users, everybody may have the page.
        """
        try:
            if not (is_public and request.method in {"GET", "HEAD"}):
                check_web_page(request)
            request.state.admitted = _Admitted(self._version, is_public, [])
            request.state.caller = await self._caller(request, is_public=is_public)
            CALLER.set(request.state.caller.principal)
            if action is not None:
                self.require(request, action)
        except HTTPException as refused:
            _log.warning(
                "administrator_refused" if not is_public else "request_refused",
                client=origin_of(request).host or origin_of(request).owner,
                path=request.url.path,
                why=refused.detail,
            )
            raise

    async def readmit(self, request: Request) -> None:
        """Judge a request again whose body is there now: the sender decides how long that took."""
        before: _Admitted | None = getattr(request.state, "admitted", None)
        if before is None or before.version == self._version:
            return
        await self.admit(request, None, is_public=before.is_public)
        for action, topic in before.demands:
            self.require(request, action, topic)

    @property
    def _version(self) -> int:
        return 0 if self._parts is None else self._parts.book.version

    # ── what they may do ──────────────────────────────────────────────────────────────────────

    def require(self, request: Request, action: Action, topic: bytes = b"") -> None:
        """Raise RequestRefused unless the caller may do this to a topic."""
        admitted: _Admitted = request.state.admitted
        admitted.demands.append((action, topic))
        principal = caller_of(request).principal
        if self._parts is None:
            return
        refusal = self._parts.admission.judge(principal, action, topic)
        if refusal is None:
            return
        if not principal.is_known:
            raise _unauthenticated("this page needs a login")
        raise RequestRefused(403, refusal.text, _advice(principal, action, topic))

    def may(self, request: Request, action: Action, topic: bytes) -> bool:
        """Whether the caller may do this; not counted as denied. For lists."""
        topic, action = touched(topic, action)
        return caller_of(request).principal.rights.may(action, topic)

    # ── whose request it is ───────────────────────────────────────────────────────────────────

    async def _caller(self, request: Request, *, is_public: bool) -> Caller:
        origin = origin_of(request)
        if origin.owner:
            return Caller(_administrator(origin, origin.owner))
        bearer = _bearer(request)
        if bearer:
            self._check_may_try(origin, bearer)
        if bearer and self._is_bootstrap(bearer):
            return Caller(_administrator(origin, BOOTSTRAP))
        if self._is_open:
            return self._caller_without_users(request, origin, bearer, is_public=is_public)
        if self._token and _is_same(bearer, self._token):
            return Caller(_administrator(origin, CONFIGURED_TOKEN))
        if "authorization" in request.headers:
            return await self._logged_in(request, origin)
        return self._unnamed(request, origin)

    def _check_may_try(self, origin: Origin, bearer: str) -> None:
        """Whoever guesses has to wait, also for tokens of the configuration."""
        if self._parts is None:
            return
        refusal = self._parts.logins.must_wait(origin, Credentials("", bearer.encode()))
        if refusal is not None:
            raise _login_refused(refusal)

    def _caller_without_users(
        self, request: Request, origin: Origin, bearer: str, *, is_public: bool
    ) -> Caller:
        if is_public:
            return Caller(_administrator(origin, ""))
        if self._token:
            if bearer and self._parts is not None and not _is_same(bearer, self._token):
                credentials = Credentials("", bearer.encode())
                self._parts.logins.note(origin, DOOR, credentials, is_right=False)
            _check_token(request, bearer, self._token)
            return Caller(_administrator(origin, CONFIGURED_TOKEN))
        if not origin.is_local:
            what = "administration is limited to the broker's own machine while there are no users"
            advice = "on that machine: penstock users add NAME --admin; or set admin.token"
            raise RequestRefused(403, what, advice)
        check_host(request)
        return Caller(_administrator(origin, ""))

    def _unnamed(self, request: Request, origin: Origin) -> Caller:
        assert self._parts is not None
        check_host(request)
        if origin.is_local and not self._token and not self._parts.book.has_admin():
            return Caller(_administrator(origin, ""))  # until there is an administrator
        principal = self._parts.logins.welcome(origin, DOOR)
        if not principal.is_known:
            raise _unauthenticated("this page needs a login")
        return Caller(principal)

    def _is_bootstrap(self, bearer: str) -> bool:
        has_admin = self._parts is not None and self._parts.book.has_admin()
        expected = "" if has_admin else self._bootstrap()
        return bool(expected) and _is_same(bearer, expected)

    async def _logged_in(self, request: Request, origin: Origin) -> Caller:
        assert self._parts is not None
        credentials = _credentials(request)
        done: asyncio.Future[Principal | LoginRefusal] = asyncio.get_running_loop().create_future()

        def note(result: Principal | LoginRefusal) -> None:
            if not done.done():
                done.set_result(result)

        self._parts.logins.log_in(origin, DOOR, credentials, note)
        result = await done
        if isinstance(result, LoginRefusal):
            raise _login_refused(result)
        return Caller(result, has_api_token=result.via in _TOKEN_KINDS)


def origin_of(request: Request) -> Origin:
    """Where the request came from; without a socket (in a test), what its scope says."""
    found = request.scope.get(ORIGIN)
    if isinstance(found, Origin):
        return found
    if request.client is None:
        return Origin(0.0)
    host, port = request.client
    return Origin(0.0, f"{host}:{port}", is_local=is_loopback(host))


def caller_of(request: Request) -> Caller:
    caller: Caller = request.state.caller
    return caller


def check_may_make_secrets(request: Request) -> None:
    """A token that could make passwords or tokens would outlive its own end."""
    if caller_of(request).has_api_token:
        advice = "log in with a password, or use the administrator's socket: --data DIR"
        raise RequestRefused(403, "an API token can make neither passwords nor tokens", advice)


def _administrator(origin: Origin, user: str) -> Principal:
    return replace(ANYONE, user=user, door=DOOR, address=origin.peer)


# ── credentials ───────────────────────────────────────────────────────────────────────────────


def _bearer(request: Request) -> str:
    scheme, _, value = request.headers.get("authorization", "").partition(" ")
    return value.strip() if scheme.lower() == "bearer" else ""


def _credentials(request: Request) -> Credentials:
    scheme, _, value = request.headers["authorization"].partition(" ")
    if scheme.lower() == "bearer":
        return Credentials("", value.strip().encode("utf-8", "surrogateescape"))
    if scheme.lower() != "basic":
        raise _unauthenticated("the credentials are of an unknown kind")
    try:
        user, colon, password = base64.b64decode(value.strip(), validate=True).partition(b":")
        name = user.decode()
    except (binascii.Error, UnicodeDecodeError):
        colon = b""
    if not colon:
        raise _unauthenticated("the credentials are malformed")
    return Credentials(name, password)


def _is_same(given: str, expected: str) -> bool:
    """In constant time: the time it takes must not reveal how much of a token was right."""
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), expected.encode())


def _check_token(request: Request, bearer: str, token: str) -> None:
    if not _is_same(bearer, token):
        is_given = "authorization" in request.headers
        what = f"the administrator token is {'wrong' if is_given else 'missing'}"
        advice = "send it as Authorization: Bearer TOKEN (the penstock command: --token-file)"
        raise RequestRefused(401, what, advice, {"www-authenticate": "Bearer"})


def _advice(principal: Principal, action: Action, topic: bytes) -> str:
    if not principal.user:
        return (
            "log in (--user, --token-file), or give --data DIR on the broker's machine;"
            f" penstock acl check local {action.word} names the rule"
        )
    what = action.word + (" TOPIC" if topic else "")
    return (
        f"penstock acl check {principal.user} {what} names the rule; an administrator can change it"
    )


def _unauthenticated(what: str) -> RequestRefused:
    advice = (
        "send user and password (Basic) or an API token (Bearer); the penstock command: --user,"
        " --password-file, --token-file"
    )
    return RequestRefused(401, what, advice, _CHALLENGE)


def _login_refused(refusal: LoginRefusal) -> RequestRefused:
    wait = {"retry-after": str(max(1, ceil(refusal.retry_after_s)))}
    match refusal.fault:
        case LoginFault.WRONG:
            return _unauthenticated(refusal.text)
        case LoginFault.BUSY:
            is_flood = refusal.reason is DisconnectReason.LOGIN_BACKOFF
            return RequestRefused(429 if is_flood else 503, refusal.text, "try again later", wait)
        case LoginFault.UNAVAILABLE:
            return RequestRefused(503, refusal.text, "try again later", wait)
        case _:
            return RequestRefused(403, refusal.text, "ask an administrator")


# ── browsers ──────────────────────────────────────────────────────────────────────────────────


def check_host(request: Request) -> None:
    # Not ``request.url``: it replaces names that it considers invalid by our own address, and which
    # names those are differs between versions of Starlette.
    header = request.headers.get("host")
    if header is None:
        return  # HTTP/1.0 by hand: browsers always send one
    is_encrypted = origin_of(request).is_encrypted
    if not is_known_host(header, request.app.state.hosts, is_encrypted=is_encrypted):
        advice = "use an IP address or localhost, or add the name to admin.hosts on the broker"
        raise RequestRefused(403, f"unknown host name {printable(without_port(header))}", advice)


def check_host_of_nobody(request: Request) -> None:
    """``check_host``, unless it is known who asks: no web page knows credentials of ours."""
    if not caller_of(request).principal.user:
        check_host(request)


def check_web_page(request: Request) -> None:
    """Refuse requests of web pages of other origins, and changes that a form could send."""
    origin = request.headers.get("origin")
    if origin is None:
        return
    is_own = is_same_origin(origin, request.headers.get("host", ""))
    is_meant = request.method in {"GET", "HEAD"} or request.headers.get("x-penstock") == "1"
    if not (is_own and is_meant):
        advice = "use the penstock command, or a program that sends no Origin header"
        raise RequestRefused(403, "requests from web pages are not accepted", advice)
    check_host(request)  # a name that somebody else points here is not ours
