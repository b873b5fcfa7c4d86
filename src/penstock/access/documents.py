"""Users, roles and bans as a document: what ``access export`` writes and ``access apply`` reads.

A document states everything about the users, roles and bans that it names, except credentials: a
user without ``password`` and ``secrets`` keeps those it has. So a document can be kept with other
configuration, and an export without hashes applies without a difference. Tokens are in no document:
they belong to those who made them.

Credentials are hashes. A password in clear text is refused: the file would be a secret, and whoever
wrote it knows the password of somebody else.
"""

import tomllib
from collections.abc import Iterator

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from penstock.trust.book import AccessBook, Change, put, removed
from penstock.trust.passwords import hash_fault
from penstock.trust.rows import Ban, Quotas, Role, User
from penstock.trust.scram_verifier import read_verifier, verifier_fault

DIGEST_BYTES = 32


class _Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A table of a document; defaults are left out when it is written."""


class QuotaPart(_Part, frozen=True):
    """Limits of a user on each node."""

    messages_per_s: int = 0
    bytes_per_s: int = 0
    connections: int = 0
    subscriptions: int = 0
    sessions: int = 0


class UserPart(_Part, frozen=True):
    """A user; ``password`` is a hash, ``secrets`` are SHA-256 digests in hexadecimal digits.

    ``scram`` is the verifier that belongs to the hash.
    """

    roles: tuple[str, ...] = ()
    password: str | UnsetType = UNSET
    secrets: tuple[str, ...] | UnsetType = UNSET
    client_ids: tuple[str, ...] = ()
    disabled: bool = False
    quotas: QuotaPart = QuotaPart()
    expires_ms: int = 0
    note: str = ""
    scram: str | UnsetType = UNSET

    def __repr__(self) -> str:
        return f"UserPart(roles={self.roles!r})"


class RolePart(_Part, frozen=True):
    """A role."""

    rules: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    note: str = ""


class BanPart(_Part, frozen=True):
    """A ban, named ``user:NAME``, ``client:ID`` or ``address:RANGE``."""

    until_ms: int = 0
    note: str = ""


class AccessDocument(_Part, frozen=True):
    """Users, roles and bans by name."""

    users: dict[str, UserPart] = {}
    roles: dict[str, RolePart] = {}
    bans: dict[str, BanPart] = {}

    def has_credentials(self) -> bool:
        return any(
            field is not UNSET
            for part in self.users.values()
            for field in (part.password, part.secrets, part.scram)
        )

    def builtins(self) -> dict[str, object]:
        fields: dict[str, object] = msgspec.to_builtins(self)
        return fields


def read_document(text: str) -> AccessDocument:
    """Read TOML or JSON. Raises ValueError, with a sentence about what is wrong."""
    try:
        content = msgspec.json.decode(text) if text.lstrip()[:1] == "{" else tomllib.loads(text)
        return msgspec.convert(content, AccessDocument)
    except (msgspec.ValidationError, msgspec.DecodeError, tomllib.TOMLDecodeError) as error:
        raise ValueError(str(error)) from None


# ── book to document ──────────────────────────────────────────────────────────────────────────


def document_of(book: AccessBook, *, with_hashes: bool = False) -> AccessDocument:
    return AccessDocument(
        {name: _user_part(book.users[name], with_hashes) for name in sorted(book.users)},
        {
            name: RolePart(role.rules, role.roles, role.note)
            for name, role in sorted(book.roles.items())
        },
        {name: BanPart(ban.until_ms, ban.note) for name, ban in sorted(book.bans.items())},
    )


def _user_part(user: User, with_hashes: bool) -> UserPart:
    return UserPart(
        user.roles,
        user.password if with_hashes and user.password else UNSET,
        tuple(digest.hex() for digest in user.secrets) if with_hashes and user.secrets else UNSET,
        user.client_ids,
        user.is_disabled,
        QuotaPart(**msgspec.structs.asdict(user.quotas)),
        user.expires_ms,
        user.note,
        user.scram if with_hashes and user.scram else UNSET,
    )


# ── document to changes ───────────────────────────────────────────────────────────────────────


def changes_of(
    book: AccessBook, document: AccessDocument, now_ms: int, *, prune: bool = False
) -> list[Change]:
    """What makes the book say what the document says. Raises ValueError.

    ``prune`` also removes what the document does not name.
    """
    changes = [*_role_changes(book, document), *_user_changes(book, document, now_ms)]
    changes += _ban_changes(book, document, now_ms)
    return changes + (list(_pruned(book, document)) if prune else [])


def _role_changes(book: AccessBook, document: AccessDocument) -> Iterator[Change]:
    for name, part in document.roles.items():
        row = Role(name, part.rules, part.roles, part.note)
        if row != book.roles.get(name):
            yield put(row)


def _user_changes(book: AccessBook, document: AccessDocument, now_ms: int) -> Iterator[Change]:
    for name, part in document.users.items():
        known = book.users.get(name)
        row = _user_row(known or User(name, created_ms=now_ms), part)
        if row != known:
            yield put(row)


def _user_row(user: User, part: UserPart) -> User:
    if part.password is not UNSET and part.password and (fault := hash_fault(part.password)):
        raise ValueError(f"user {user.name}: password: {fault}")
    user = replace(
        user,
        roles=part.roles,
        client_ids=part.client_ids,
        is_disabled=part.disabled,
        quotas=Quotas(**msgspec.structs.asdict(part.quotas)),
        expires_ms=part.expires_ms,
        note=part.note,
    )
    if part.password is not UNSET and part.password != user.password:
        user = replace(user, password=part.password, scram="")
    if part.scram is not UNSET:
        user = replace(user, scram=_verifier(user, part.scram))
    if part.secrets is not UNSET:
        digests = tuple(_digest(user.name, text) for text in part.secrets)
        user = replace(user, secrets=digests)
    return user


def _verifier(user: User, text: str) -> str:
    if text and (fault := verifier_fault(text)):
        raise ValueError(f"user {user.name}: scram: {fault}")
    if text and read_verifier(text, user.password) is None:
        raise ValueError(f"user {user.name}: scram: it is not of the password's hash")
    return text


def _digest(name: str, text: str) -> bytes:
    try:
        digest = bytes.fromhex(text)
    except ValueError:
        digest = b""
    if len(digest) != DIGEST_BYTES:
        raise ValueError(f"user {name}: a secret is 64 hexadecimal digits, the SHA-256 of its text")
    return digest


def _ban_changes(book: AccessBook, document: AccessDocument, now_ms: int) -> Iterator[Change]:
    for name, part in document.bans.items():
        known = book.bans.get(name)
        row = Ban(name, part.until_ms, known.created_ms if known else now_ms, part.note)
        if row != known:
            yield put(row)


def _pruned(book: AccessBook, document: AccessDocument) -> Iterator[Change]:
    users = [user for name, user in book.users.items() if name not in document.users]
    gone = {user.name for user in users}
    yield from (removed(token) for token in book.tokens.values() if token.owner in gone)
    yield from map(removed, users)
    yield from (removed(role) for name, role in book.roles.items() if name not in document.roles)
    yield from (removed(ban) for name, ban in book.bans.items() if name not in document.bans)
