"""``/tokens``: list, make and remove API tokens; ``/password``: set one's own password.

The text of a token is in the response that makes it, and nowhere else. A token has its owner's
roles, or some of them. An invitation is a token that sets its owner's password, once, and does
nothing else: an administrator need not know the password.
"""

import asyncio
from hmac import compare_digest
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta
from msgspec.structs import replace
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from penstock.access.new_secrets import new_hashes, new_token, with_hashes
from penstock.admin.access_changes import AccessPages, expiry
from penstock.admin.guard import Caller, Guard, check_may_make_secrets, check_web_page, origin_of
from penstock.admin.pages import (
    JsonLine,
    admin_page,
    admin_read_page,
    list_limit,
    read_body,
    time_of,
)
from penstock.admin.refusals import RequestRefused
from penstock.admin.view import AccessAdmin
from penstock.limits import KIB
from penstock.trust.book import Change, put, removed
from penstock.trust.passwords import password_fault
from penstock.trust.principal import STRANGER
from penstock.trust.rows import Token
from penstock.trust.secrets import parse_token

EXPIRES_S_DEFAULT = 90 * 24 * 3600
EXPIRES_S_MAX = 5 * 365 * 24 * 3600
INVITE_S = 3600
INVITE = "invite"  # the purpose of an invitation


class _Fields(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whose token, which of the owner's roles it has (none: all), and how long it is valid."""

    owner: str
    roles: tuple[str, ...] = ()
    expires_s: Annotated[int, Meta(ge=1, le=EXPIRES_S_MAX)] = EXPIRES_S_DEFAULT
    note: Annotated[str, Meta(max_length=KIB)] = ""


class _PasswordFields(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An invitation and the password that its owner chooses."""

    invite: Annotated[str, Meta(max_length=256)]
    password: Annotated[str, Meta(max_length=4 * KIB)]

    def __repr__(self) -> str:
        return "_PasswordFields(…)"


class MadeToken(NamedTuple):
    """A new token with its text, which is in one answer and nowhere else."""

    token: Token
    text: str

    def __repr__(self) -> str:
        return f"MadeToken({self.token.name!r})"


def routes(admin: AccessAdmin, guard: Guard) -> list[Route]:
    pages = TokenPages(admin)
    return [
        admin_read_page("/tokens", guard, admin, pages.show_all, ("owner", "after", "limit")),
        admin_page("/tokens", "POST", guard, pages.add),
        admin_page("/tokens/{name}", "DELETE", guard, pages.remove),
        admin_page("/users/{name}/invite", "POST", guard, pages.invite),
        Route("/password", pages.set_password, methods=["POST"]),
    ]


class TokenPages(AccessPages):
    """Tokens, and what invitations do."""

    def __init__(self, admin: AccessAdmin) -> None:
        super().__init__(admin)
        self._one_at_a_time = asyncio.Lock()

    async def show_all(self, request: Request) -> dict[str, object]:
        limit, query = list_limit(request), request.query_params
        found = sorted(
            (token for token in self.book.tokens.values() if token.name > query.get("after", "")),
            key=lambda token: token.name,
        )
        if "owner" in query:
            found = [token for token in found if token.owner == query["owner"]]
        shown = [_describe(token, self.now_ms()) for token in found[:limit]]
        return {"tokens": shown, "more": len(found) > limit, "version": self.book.version}

    async def add(self, request: Request) -> dict[str, object]:
        check_may_make_secrets(request)
        wanted = await read_body(request, _Fields)
        made = await self.add_token(
            request, wanted.owner, wanted.roles, wanted.expires_s, wanted.note
        )
        return _described(made, self.now_ms())

    async def add_token(
        self, request: Request, owner_name: str, roles: tuple[str, ...], expires_s: int, note: str
    ) -> MadeToken:
        """Make an API token of a user."""
        check_may_make_secrets(request)
        owner = self.known(self.book.users, owner_name, "user")
        beyond = set(roles) - set(self.book.with_included(owner.roles))
        if beyond:
            error = f"{owner.name} does not have the role {min(beyond)}"
            raise RequestRefused(409, error, "a token has roles of its owner")
        token = Token("", owner.name, b"", roles, note=note)
        return await self._store(request, token, expires_s)

    async def invite(self, request: Request) -> dict[str, object]:
        made = await self.add_invitation(request, request.path_params["name"], INVITE_S)
        return _described(made, self.now_ms())

    async def add_invitation(self, request: Request, owner_name: str, expires_s: int) -> MadeToken:
        """Make a token that sets its owner's password, once."""
        check_may_make_secrets(request)
        owner = self.known(self.book.users, owner_name, "user")
        return await self._store(request, Token("", owner.name, b"", purpose=INVITE), expires_s)

    async def _store(self, request: Request, token: Token, expires_s: int) -> MadeToken:
        secret, now_ms = new_token(), self.now_ms()
        token = replace(
            token,
            name=secret.token_id,
            digest=secret.digest,
            created_ms=now_ms,
            expires_ms=expiry(expires_s, now_ms),
        )

        def changes() -> list[Change]:
            ended = [
                removed(old)
                for old in self.book.tokens.values()
                if old.owner == token.owner and old.expires_ms and old.expires_ms <= now_ms
            ]
            return [*ended, put(token)]

        await self.submit(request, changes)
        return MadeToken(token, secret.text)

    async def remove(self, request: Request) -> dict[str, object]:
        token = self.known(self.book.tokens, request.path_params["name"], "token")
        await self.submit(request, lambda: [removed(token)])
        return _describe(token, self.now_ms())

    async def set_password(self, request: Request) -> Response:
        """Open to all: the invitation is the proof. It ends with the change it is used for."""
        check_web_page(request)
        wanted = await read_body(request, _PasswordFields)
        return JsonLine({"name": await self.use(request, wanted.invite, wanted.password)})

    async def use(self, request: Request, invitation: str, password: str) -> str:
        """Set the password of whom an invitation is for; return the name."""
        async with self._one_at_a_time:  # bounds hashing, and nobody uses an invitation twice
            token = self._invitation(invitation)
            if fault := password_fault(password.encode()):
                raise RequestRefused(400, fault, "choose another password")
            hashes = await run_in_threadpool(
                new_hashes, token.owner, password, self._admin.password_cost, self.book.salt_key
            )
            origin = origin_of(request)
            author = replace(STRANGER, user=token.owner, door="invite", address=origin.peer)
            request.state.caller = Caller(author)

            def changes() -> list[Change]:
                self._invitation(invitation)  # still there
                user = self.book.users[token.owner]
                return [put(with_hashes(user, hashes)), removed(token)]

            await self.submit(request, changes)
        return token.owner

    def _invitation(self, text: str) -> Token:
        presented = parse_token(text.encode())
        token = self.book.tokens.get(presented.id) if presented else None
        is_right = (
            presented is not None
            and token is not None
            and compare_digest(presented.digest, token.digest)
        )
        if token is None or not is_right or token.purpose != INVITE:
            raise RequestRefused(401, "the invitation is wrong or was used", "ask for another one")
        if token.expires_ms <= self.now_ms():
            raise RequestRefused(401, "the invitation has expired", "ask for another one")
        return token


def _described(made: MadeToken, now_ms: int) -> dict[str, object]:
    return _describe(made.token, now_ms) | {"token": made.text}


def _describe(token: Token, now_ms: int) -> dict[str, object]:
    return {
        "id": token.name,
        "owner": token.owner,
        "roles": list(token.roles),
        "purpose": token.purpose or "api",
        "created": time_of(token.created_ms),
        "expires": time_of(token.expires_ms),
        "expired": bool(token.expires_ms) and token.expires_ms <= now_ms,
        "note": token.note,
    }
