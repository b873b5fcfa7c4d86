"""Who asks for a page, and whether they may: the HTTP side of access control.

**Without users** everything is as open as the listener: some pages are public, the others are for
administrators, who present ``admin.token`` or, if none is configured, are on the broker's machine.

**With users** a request is somebody's: by Basic (user and password), by Bearer (an API token), by a
client certificate, or by where it comes from (the roles ``local`` and ``anonymous``). Every page
names the action that it needs, and the same rules decide as at every other door. ``admin.token``
stays a token of an administrator. The administrator's socket has full rights in any case.

The **console** logs in once, and then presents a cookie (:mod:`penstock.admin.web_sessions`).

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
from penstock.admin.web_sessions import WebSessions
from penstock.clock import SystemClock
from penstock.model.ip import is_loopback
from penstock.net.http import ORIGIN
from penstock.net.origin import Approach, Origin
from penstock.net.web_origin import is_known_host, is_same_origin, without_port
from penstock.obs.log import ThrottledLogger, get_logger
from penstock.obs.printable import printable
from penstock.obs.reasons import DisconnectReason
from penstock.trust.book import AccessBook
from penstock.trust.principal import ANYONE, Principal
from penstock.trust.rights import ALL_RIGHTS
from penstock.trust.rules import Action
from penstock.trust.touched import touched

DOOR = "http"
ASKER = "penstock.asker"  # key of a request's scope: the ``Caller`` of a request of another node
CONFIGURED_TOKEN = "admin.token"  # noqa: S105 - who has presented it, for the journal
BOOTSTRAP = "bootstrap token"
_TOKEN_KINDS = {"token", "jwt"}
_CHALLENGE = {"www-authenticate": 'Basic realm="penstock", charset="UTF-8", Bearer'}

_log = ThrottledLogger(get_logger("admin"))


class Caller(NamedTuple):
    """Whose request it is."""

    principal: Principal
    has_api_token: bool = False  # such a request may make neither passwords nor tokens
    session: bytes = b""  # id of the session of a browser; empty: there is none


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
        sessions: WebSessions | None = None,
    ) -> None:
        """``bootstrap``: the token for the first administrator; empty if there is none."""
        self._token = token
        self._parts = parts
        self._bootstrap = bootstrap
        self._sessions = WebSessions(SystemClock()) if sessions is None else sessions

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
        asker: Caller | None = request.scope.get(ASKER)
        if asker is not None:
            return self._vouched(asker)
        origin = origin_of(request)
        if origin.owner:
            return Caller(_administrator(origin, origin.owner))
        bearer = _bearer(request)
        if named := self._by_configuration(origin, bearer):
            return named
        if "authorization" not in request.headers and (found := self._by_cookie(request)):
            return found
        if self._is_open:
            return self._caller_without_users(request, origin, bearer, is_public=is_public)
        if "authorization" in request.headers:
            return await self._logged_in(origin, _credentials(request))
        return self._unnamed(request, origin)

    def _by_configuration(self, origin: Origin, secret: str) -> Caller | None:
        """The administrator who has a token of the configuration."""
        if not secret:
            return None
        self._check_may_try(origin, secret)
        if self._is_bootstrap(secret):
            return Caller(_administrator(origin, BOOTSTRAP))
        if self._token and not self._is_open and _is_same(secret, self._token):
            return Caller(_administrator(origin, CONFIGURED_TOKEN))
        return None

    # ── sessions of browsers ──────────────────────────────────────────────────────────────────

    async def log_in(self, request: Request, user: str, secret: str) -> tuple[Caller, str]:
        """Begin a session; without a user the secret is a token. Returns the cookie's text, too."""
        origin = origin_of(request)
        caller = None if user else self._by_configuration(origin, secret)
        if caller is None and self._is_open:
            if user or not self._token:
                what, advice = "there are no users yet", "penstock users add NAME --admin adds one"
                raise RequestRefused(401, what, advice)
            self._check_configured_token(origin, secret, is_given=bool(secret))
            caller = Caller(_administrator(origin, CONFIGURED_TOKEN))
        if caller is None:
            caller = await self._logged_in(origin, Credentials(user, secret.encode()))
        principal, has_api_token = caller.principal, caller.has_api_token
        text = self._sessions.begin(principal, self._version, has_api_token=has_api_token)
        return self._by_text(text, origin) or caller, text

    def log_out(self, caller: Caller) -> None:
        self._sessions.end(caller.session)

    async def still(self, request: Request) -> None:
        """Raise HTTPException if what a long request was admitted by has ended."""
        await self.readmit(request)
        caller = caller_of(request)
        if caller.session and not self._sessions.look(caller.session, self._version, self._renewed):
            raise _unauthenticated("the session has ended")
        principal = caller.principal
        if principal.expires_ms and self._sessions.wall_ms() >= principal.expires_ms:
            raise _unauthenticated("the credentials have expired")

    def _by_cookie(self, request: Request) -> Caller | None:
        text = request.cookies.get(cookie_name(request))
        return self._by_text(text, origin_of(request)) if text else None

    def _by_text(self, text: str, origin: Origin) -> Caller | None:
        found = self._sessions.find(text, self._version, self._renewed)
        if found is None:
            return None
        principal = replace(found.principal, address=origin.peer)
        if self._parts is not None and self._parts.logins.ban(principal, origin):
            return None
        return Caller(principal, found.has_api_token, found.id)

    def _renewed(self, principal: Principal) -> Principal | None:
        """The same by the users and rules of now; None: it may not go on."""
        if self._parts is None:
            return principal
        if principal.user == BOOTSTRAP:
            return None if self._parts.book.has_admin() else principal
        if principal.user == CONFIGURED_TOKEN:
            return principal
        renewed = self._parts.logins.renewed(principal)
        return renewed if isinstance(renewed, Principal) and renewed.is_known else None

    # ── without a session ─────────────────────────────────────────────────────────────────────
    def _vouched(self, asker: Caller) -> Caller:
        """Who another node says it is, with the rights that they have here and now."""
        who = asker.principal
        if self._parts is None:
            return asker
        has_admin, may_do_all = self._parts.book.has_admin(), who.rights is ALL_RIGHTS
        if may_do_all and not who.via and who.user not in {"", BOOTSTRAP}:
            return asker  # by ``admin.token``, or by the administrator's socket of that node
        if may_do_all and not who.via and not has_admin:
            return asker  # as ``_unnamed`` has it, or by the bootstrap token
        if self._is_open and not may_do_all:
            raise RequestRefused(503, "this node does not know the users yet", "try again")
        renewed = self._parts.logins.renewed(who)
        if not isinstance(renewed, Principal):
            raise _login_refused(renewed)
        return Caller(renewed, asker.has_api_token)

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
            is_given = "authorization" in request.headers
            self._check_configured_token(origin, bearer, is_given=is_given)
            return Caller(_administrator(origin, CONFIGURED_TOKEN))
        if not origin.is_local:
            what = "administration is limited to the broker's own machine while there are no users"
            advice = "on that machine: penstock users add NAME --admin; or set admin.token"
            raise RequestRefused(403, what, advice)
        check_host(request)
        return Caller(_administrator(origin, ""))

    def _check_configured_token(self, origin: Origin, secret: str, *, is_given: bool) -> None:
        if _is_same(secret, self._token):
            return
        if secret and self._parts is not None:
            credentials = Credentials("", secret.encode("utf-8", "surrogateescape"))
            self._parts.logins.note(origin, DOOR, credentials, is_right=False)
        what = f"the administrator token is {'wrong' if is_given else 'missing'}"
        advice = "send it as Authorization: Bearer TOKEN (the penstock command: --token-file)"
        raise RequestRefused(401, what, advice, {"www-authenticate": "Bearer"})

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

    async def _logged_in(self, origin: Origin, credentials: Credentials) -> Caller:
        assert self._parts is not None
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
    return Origin(0.0, f"{host}:{port}", Approach(is_local=is_loopback(host)))


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


def cookie_name(request: Request) -> str:
    """With the port: browsers send a cookie to every port of a host.

    Only a cookie that this host set over TLS, for all its paths, can have the name ``__Host-…``.
    """
    server = request.scope.get("server")
    name = f"penstock-{server[1]}" if server and server[1] else "penstock"
    return f"__Host-{name}" if origin_of(request).is_encrypted else name


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


def check_browser(request: Request) -> None:
    """Refuse what another web page asks for, and changes that are not meant by our own.

    Browsers say where a request comes from (``Sec-Fetch-Site``, ``Origin``), and only they have our
    cookie. A change from a browser needs both signs of our own page: its origin, and a header that
    no form can send.
    """
    check_web_page(request)
    site = request.headers.get("sec-fetch-site", "none")
    is_read = request.method in {"GET", "HEAD"}
    if site not in {"same-origin", "none"}:
        raise _foreign()
    if not is_read and ("cookie" in request.headers or "sec-fetch-site" in request.headers):
        is_meant = "origin" in request.headers and request.headers.get("x-penstock") == "1"
        if not is_meant:
            advice = "a browser must send Origin, and X-Penstock: 1"
            raise RequestRefused(403, "changes by browsers must be meant", advice)


def _foreign() -> RequestRefused:
    advice = "use the console of this broker, or a program"
    return RequestRefused(403, "requests from other web pages are not accepted", advice)
