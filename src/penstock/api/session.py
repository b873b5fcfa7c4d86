"""``session``: who is asking, what they may do; logging in with a browser, and out."""

from typing import Any

from starlette.requests import Request

from penstock.admin.guard import caller_of, cookie_name, origin_of
from penstock.admin.web_sessions import IDLE_S
from penstock.api.call import Call
from penstock.api.documents.session import LoggedOut, Login, Right, SessionDocument
from penstock.api.operations import Resource, operation
from penstock.trust.principal import Principal
from penstock.trust.rights import Coverage
from penstock.trust.rules import TOPICLESS, Action


class Session(Resource):
    """Who is asking."""

    @operation("GET", "session", None)
    async def show(self, call: Call) -> SessionDocument:
        """Show who is asking, and which actions they may take.

        The console hides what is not allowed. Each request is judged all the same.
        """
        return self._described(call)

    @operation("POST", "session", None, is_public=True)
    async def log_in(self, call: Call, body: Login) -> SessionDocument:
        """Log in with a browser.

        The answer has a cookie that no script can read and no other site can send. The session ends
        after eight hours without a request, with its credentials, and with the broker.
        """
        caller, text = await self.parts.guard.log_in(call.request, body.user, body.secret)
        call.request.state.caller = caller
        call.headers["set-cookie"] = _cookie(call.request, text)
        return self._described(call)

    @operation("DELETE", "session", None)
    async def log_out(self, call: Call) -> LoggedOut:
        """Log out: end the session of the cookie."""
        caller = caller_of(call.request)
        self.parts.guard.log_out(caller)
        call.headers["set-cookie"] = _cookie(call.request, "", "; Max-Age=0")
        return LoggedOut(ended=bool(caller.session))

    def _described(self, call: Call) -> SessionDocument:
        view, access, principal = self.parts.view, self.parts.access, call.principal
        has_session = bool(caller_of(call.request).session)
        return SessionDocument(
            user=principal.user,
            via=principal.via,
            roles=self._roles(principal),
            has_users=access is not None and not access.book.is_open,
            rights=[_right(principal, action) for action in Action],
            node=view.cluster().node_id,
            version=view.version,
            cookie=has_session,
            idle_s=IDLE_S if has_session else None,
        )

    def _roles(self, principal: Principal) -> list[str]:
        access = self.parts.access
        row: Any = access.book.users.get(principal.user) if access is not None else None
        return list(principal.roles or (row.roles if row is not None else ()))


def _right(principal: Principal, action: Action) -> Right:
    covered = principal.rights.coverage(action, b"#")
    topics = "" if action & TOPICLESS else covered.value
    return Right(action.word, covered is not Coverage.NONE, topics)


def _cookie(request: Request, text: str, more: str = "") -> str:
    secure = "; Secure" if origin_of(request).is_encrypted else ""
    return f"{cookie_name(request)}={text}; Path=/; HttpOnly; SameSite=Strict{secure}{more}"
