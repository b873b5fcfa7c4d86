"""``users`` and ``tokens``. A secret is in the answer that makes it, and nowhere else."""

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta
from msgspec.structs import replace

from penstock.access.new_secrets import NewSecret
from penstock.admin.tokens import EXPIRES_S_DEFAULT, INVITE_S, TokenPages
from penstock.admin.users import QuotaFields, UserFields, UserPages, removal_of
from penstock.api.call import Call
from penstock.api.cursors import key_of
from penstock.api.documents.common import Current, CurrentListQuery, Query
from penstock.api.documents.security import (
    ChosenPassword,
    NewToken,
    NewUser,
    PasswordSet,
    Removed,
    Token,
    Tokens,
    User,
    UserChange,
    UserQuotas,
    Users,
)
from penstock.api.named import moment_or_none
from penstock.api.operations import Resource, operation
from penstock.api.paging import first_of
from penstock.api.parts import Parts
from penstock.trust import rows
from penstock.trust.book import AccessBook, removed
from penstock.trust.rules import Action
from penstock.trust.scram_verifier import read_verifier

_USERS, _TOKENS = "users", "tokens"


class NamedQuery(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One thing, by its name."""

    name: Annotated[str, Meta(description="Its name.", max_length=1_024)]


class CurrentNameQuery(NamedQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The same, as all nodes agree on it."""

    current: Current = False


class TokenQuery(CurrentListQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which tokens."""

    owner: Annotated[str | None, Meta(description="Only tokens of this user.")] = None


class UsersOfBroker(Resource):
    """Users."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._pages = UserPages(parts.access_admin)

    @operation("GET", "users", Action.ADMIN)
    async def list(self, call: Call, query: CurrentListQuery) -> Users:  # noqa: ARG002 - as all
        """List users by name."""
        book, after = self._pages.book, key_of(_USERS, query.cursor, str)
        names = sorted(name for name in book.users if after is None or name > after)
        part = first_of(_USERS, names, query.limit, self._describe, str)
        return Users(items=part.items, next=part.next)

    @operation("GET", "users/detail", Action.ADMIN)
    async def detail(self, call: Call, query: CurrentNameQuery) -> User:  # noqa: ARG002
        """Show one user."""
        self._pages.known(self._pages.book.users, query.name, "user")
        return self._describe(query.name)

    @operation("POST", "users", Action.ADMIN)
    async def add(self, call: Call, body: NewUser) -> User:
        """Add a user, with a password, or with a secret that the broker makes."""
        wanted = UserFields(
            name=body.name,
            roles=tuple(body.roles),
            password=body.password,
            generate_secret=body.generate_secret,
            client_ids=tuple(body.client_ids),
            disabled=body.disabled,
            quotas=_quotas(body.quotas),
            expires_s=body.expires_s,
            note=body.note,
            expected=body.expected,
        )
        return self._told(body.name, await self._pages.add_user(call.request, wanted))

    @operation("PATCH", "users", Action.ADMIN)
    async def change(self, call: Call, body: UserChange) -> User:
        """Change a user; what is left out stays as it is."""
        pages = self._pages

        def current() -> rows.User:
            user = pages.known(pages.book.users, body.name, "user")
            return replace(user, secrets=()) if body.replace_secrets else user

        wanted = UserFields(
            name=body.name,
            roles=UNSET if body.roles is UNSET else tuple(body.roles),
            password=body.password,
            generate_secret=body.generate_secret,
            client_ids=UNSET if body.client_ids is UNSET else tuple(body.client_ids),
            disabled=body.disabled,
            quotas=QuotaFields() if body.quotas is UNSET else _quotas(body.quotas),
            expires_s=body.expires_s,
            note=body.note,
            expected=body.expected,
        )
        current()
        return self._told(body.name, await pages.store(call.request, body.name, current, wanted))

    @operation("DELETE", "users", Action.ADMIN)
    async def remove(self, call: Call, query: NamedQuery) -> Removed:
        """Remove a user with its tokens."""
        pages = self._pages

        def known() -> rows.User:
            return pages.known(pages.book.users, query.name, "user")

        known()
        await pages.submit(call.request, lambda: removal_of(pages.book, known()))
        return Removed(kind="user", name=query.name, version=pages.book.version)

    def _told(self, name: str, secret: NewSecret | None) -> User:
        user = self._describe(name)
        return user if secret is None else replace(user, secret=secret.text)

    def _describe(self, name: str) -> User:
        return describe_user(self._pages.book, self._pages.book.users[name])


def _quotas(wanted: UserQuotas) -> QuotaFields:
    return QuotaFields(**msgspec.structs.asdict(wanted))


def describe_user(book: AccessBook, user: rows.User) -> User:
    return User(
        name=user.name,
        roles=list(user.roles),
        admin=book.is_admin(user.name),
        disabled=user.is_disabled,
        password=bool(user.password),
        scram=read_verifier(user.scram, user.password) is not None,
        secrets=len(user.secrets),
        client_ids=list(user.client_ids),
        quotas=UserQuotas(**msgspec.structs.asdict(user.quotas)),
        created=moment_or_none(user.created_ms),
        expires=moment_or_none(user.expires_ms),
        note=user.note,
        version=book.version,
    )


class ApiTokens(Resource):
    """API tokens, and invitations to set a password."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._pages = TokenPages(parts.access_admin)

    @operation("GET", "tokens", Action.ADMIN)
    async def list(self, call: Call, query: TokenQuery) -> Tokens:  # noqa: ARG002 - as all
        """List tokens by id, without their text."""
        after = key_of(_TOKENS, query.cursor, str)
        found = [
            token
            for name, token in sorted(self._pages.book.tokens.items())
            if (after is None or name > after) and query.owner in {None, token.owner}
        ]
        part = first_of(_TOKENS, found, query.limit, self._describe, lambda token: token.name)
        return Tokens(items=part.items, next=part.next)

    @operation("POST", "tokens", Action.ADMIN)
    async def add(self, call: Call, body: NewToken) -> Token:
        """Make a token of a user; its text is in this answer alone."""
        pages, roles = self._pages, tuple(body.roles)
        if body.invitation:
            expires_s = INVITE_S if body.expires_s is None else body.expires_s
            made = await pages.add_invitation(call.request, body.owner, expires_s)
        else:
            expires_s = EXPIRES_S_DEFAULT if body.expires_s is None else body.expires_s
            made = await pages.add_token(call.request, body.owner, roles, expires_s, body.note)
        return replace(self._describe(made.token), token=made.text)

    @operation("DELETE", "tokens", Action.ADMIN)
    async def remove(self, call: Call, query: NamedQuery) -> Removed:
        """Remove a token, by its id; who uses it is cut off."""
        pages = self._pages
        token = pages.known(pages.book.tokens, query.name, "token")
        await pages.submit(call.request, lambda: [removed(token)])
        return Removed(kind="token", name=query.name, version=pages.book.version, owner=token.owner)

    @operation("POST", "users/password", None, is_public=True)
    async def set_password(self, call: Call, body: ChosenPassword) -> PasswordSet:
        """Set one's own password: the invitation of an administrator is the proof, once."""
        return PasswordSet(name=await self._pages.use(call.request, body.invitation, body.password))

    def _describe(self, token: rows.Token) -> Token:
        return Token(
            id=token.name,
            owner=token.owner,
            roles=list(token.roles),
            purpose=token.purpose or "api",
            created=moment_or_none(token.created_ms),
            expires=moment_or_none(token.expires_ms),
            expired=bool(token.expires_ms) and token.expires_ms <= self._pages.now_ms(),
            note=token.note,
        )
