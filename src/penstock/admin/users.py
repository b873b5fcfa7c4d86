"""``/users``: list, add, change and remove users.

A password or a secret is never shown: of a generated secret only the response that makes it has the
text. Chosen passwords are hashed one at a time, off the event loop.
"""

import asyncio
from collections.abc import Callable
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import replace
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.routing import Route

from penstock.access.new_secrets import (
    NO_PASSWORD,
    NewSecret,
    PasswordHashes,
    new_hashes,
    new_secret,
    with_hashes,
)
from penstock.admin.access_changes import AccessPages, expiry
from penstock.admin.guard import Guard, check_may_make_secrets
from penstock.admin.pages import (
    admin_page,
    admin_read_page,
    list_limit,
    read_body,
    time_of,
)
from penstock.admin.refusals import RequestRefused
from penstock.admin.view import AccessAdmin
from penstock.limits import KIB
from penstock.trust.book import AccessBook, Change, put, removed
from penstock.trust.passwords import password_fault
from penstock.trust.rows import NAME, NAME_FAULT, Quotas, User
from penstock.trust.scram_verifier import read_verifier

SECRETS_KEPT = 2  # the new one, and the one it replaces

_Text = Annotated[str, Meta(max_length=4 * KIB)]
_Count = Annotated[int, Meta(ge=0, le=2**53)]
_Seconds = Annotated[int, Meta(ge=0, le=100 * 365 * 24 * 3600)]


class QuotaFields(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of one user on each node; 0 is no limit. What is left out does not change."""

    messages_per_s: _Count | UnsetType = UNSET
    bytes_per_s: _Count | UnsetType = UNSET
    connections: _Count | UnsetType = UNSET
    subscriptions: _Count | UnsetType = UNSET
    sessions: _Count | UnsetType = UNSET


class UserFields(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is left out does not change."""

    name: _Text = ""
    roles: tuple[str, ...] | UnsetType = UNSET
    password: _Text | UnsetType = UNSET  # chosen, in clear text
    generate_secret: bool = False
    client_ids: tuple[str, ...] | UnsetType = UNSET
    disabled: bool | UnsetType = UNSET
    quotas: QuotaFields = QuotaFields()
    expires_s: _Seconds | UnsetType = UNSET
    note: _Text | UnsetType = UNSET
    expected: int = -1  # version of the book that the change is based on; -1: any

    def __repr__(self) -> str:
        return f"UserFields({self.name!r})"


class _SecretFields(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``replace`` ends the secrets there are; otherwise the last one stays valid beside it."""

    replace: bool = False


def routes(admin: AccessAdmin, guard: Guard) -> list[Route]:
    pages = UserPages(admin)
    return [
        admin_read_page("/users", guard, admin, pages.show_all, ("after", "limit")),
        admin_page("/users", "POST", guard, pages.add),
        admin_read_page("/users/{name}", guard, admin, pages.show),
        admin_page("/users/{name}", "PUT", guard, pages.change),
        admin_page("/users/{name}", "DELETE", guard, pages.remove),
        admin_page("/users/{name}/secret", "POST", guard, pages.make_secret),
    ]


class UserPages(AccessPages):
    """Users, changed one at a time."""

    def __init__(self, admin: AccessAdmin) -> None:
        super().__init__(admin)
        self._hashing = asyncio.Lock()

    async def show_all(self, request: Request) -> dict[str, object]:
        limit, book = list_limit(request), self.book
        after = request.query_params.get("after", "")
        names = sorted(name for name in book.users if name > after)
        shown = [describe(book, book.users[name]) for name in names[:limit]]
        return {"users": shown, "more": len(names) > limit, "version": book.version}

    async def show(self, request: Request) -> dict[str, object]:
        return self._described(self._known(request).name)

    async def add(self, request: Request) -> dict[str, object]:
        wanted = await read_body(request, UserFields)
        secret = await self.add_user(request, wanted)
        return self._described(wanted.name) | _shown(secret)

    async def add_user(self, request: Request, wanted: UserFields) -> NewSecret | None:
        """Add a user; return the secret, if one was to be generated."""
        name = wanted.name
        if not NAME.fullmatch(name):
            raise RequestRefused(400, NAME_FAULT, "choose another name")

        def new_user() -> User:
            if name in self.book.users:
                error = f"there is a user {name} already"
                raise RequestRefused(409, error, "penstock users --help has what changes it")
            return User(name, created_ms=self.now_ms())

        return await self.store(request, name, new_user, wanted)

    async def change(self, request: Request) -> dict[str, object]:
        wanted = await read_body(request, UserFields)
        name = self._known(request).name
        if wanted.name not in {"", name}:
            advice = "add another user and remove this one: rules may name the user"
            raise RequestRefused(400, "a user keeps its name", advice)
        secret = await self.store(request, name, lambda: self._known(request), wanted)
        return self._described(name) | _shown(secret)

    async def store(
        self, request: Request, name: str, current: Callable[[], User], wanted: UserFields
    ) -> NewSecret | None:
        """Store what ``wanted`` makes of a user; return the secret that was generated."""
        if wanted.generate_secret or wanted.password is not UNSET:
            check_may_make_secrets(request)
        secret = new_secret() if wanted.generate_secret else None
        hashes = None if wanted.password is UNSET else await self._hashes(name, wanted.password)

        def changes() -> list[Change]:
            user = _changed(current(), wanted, self.now_ms())
            if secret is not None:
                user = _with_secret(user, secret)
            return [put(user if hashes is None else with_hashes(user, hashes))]

        await self.submit(request, changes, wanted.expected)
        return secret

    async def make_secret(self, request: Request) -> dict[str, object]:
        check_may_make_secrets(request)
        wanted = await read_body(request, _SecretFields)
        secret = new_secret()

        def changes() -> list[Change]:
            user = self._known(request)
            base = replace(user, secrets=()) if wanted.replace else user
            return [put(_with_secret(base, secret))]

        await self.submit(request, changes)
        return self._described(self._known(request).name) | _shown(secret)

    async def remove(self, request: Request) -> dict[str, object]:
        described = self._described(self._known(request).name)
        await self.submit(request, lambda: removal_of(self.book, self._known(request)))
        return described

    async def _hashes(self, name: str, password: str) -> PasswordHashes:
        if not password:
            return NO_PASSWORD
        if fault := password_fault(password.encode()):
            raise RequestRefused(400, fault, "choose another one, or let the broker make a secret")
        async with self._hashing:
            cost, salt_key = self._admin.password_cost, self.book.salt_key
            return await run_in_threadpool(new_hashes, name, password, cost, salt_key)

    def _known(self, request: Request) -> User:
        return self.known(self.book.users, request.path_params["name"], "user")

    def _described(self, name: str) -> dict[str, object]:
        return describe(self.book, self.book.users[name]) | {"version": self.book.version}


def removal_of(book: AccessBook, user: User) -> list[Change]:
    """A user goes with its tokens."""
    tokens = [token for token in book.tokens.values() if token.owner == user.name]
    return [*map(removed, tokens), removed(user)]


def _changed(user: User, wanted: UserFields, now_ms: int) -> User:
    fields: dict[str, object] = {
        "roles": wanted.roles,
        "client_ids": wanted.client_ids,
        "is_disabled": wanted.disabled,
        "note": wanted.note,
    }
    if wanted.expires_s is not UNSET:
        fields["expires_ms"] = expiry(wanted.expires_s, now_ms)
    quotas = _given(msgspec.structs.asdict(wanted.quotas))
    return replace(user, quotas=replace(user.quotas, **quotas), **_given(fields))


def _given(fields: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in fields.items() if value is not UNSET}


def _with_secret(user: User, secret: NewSecret) -> User:
    return replace(user, secrets=(secret.digest, *user.secrets)[:SECRETS_KEPT])


def _shown(secret: NewSecret | None) -> dict[str, object]:
    return {} if secret is None else {"secret": secret.text}


def describe(book: AccessBook, user: User) -> dict[str, object]:
    return {
        "name": user.name,
        "roles": list(user.roles),
        "admin": book.is_admin(user.name),
        "disabled": user.is_disabled,
        "password": bool(user.password),
        "scram": read_verifier(user.scram, user.password) is not None,
        "secrets": len(user.secrets),
        "client_ids": list(user.client_ids),
        "quotas": quota_fields(user.quotas),
        "created": time_of(user.created_ms),
        "expires": time_of(user.expires_ms),
        "note": user.note,
    }


def quota_fields(quotas: Quotas) -> dict[str, int]:
    return {name: value for name, value in msgspec.structs.asdict(quotas).items() if value}
