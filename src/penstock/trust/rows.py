"""Users, roles, tokens and bans as rows, and what a valid one looks like.

Rows are durable and replicated, so a field is only ever added at the end, with a default.
Passwords and secrets are kept as hashes only; they are not part of ``repr``.
"""

import re
from ipaddress import ip_network
from typing import ClassVar

import msgspec

from penstock.errors import StorageDamaged
from penstock.model.user_name import USER_NAME, USER_NAME_FAULT
from penstock.trust.rules import RULE_BYTES_MAX, parse_rule

USERS_MAX = 100_000
ROLES_MAX = 10_000
TOKENS_MAX = 100_000
BANS_MAX = 10_000
RULES_MAX = 1_000  # of one role
NAMES_MAX = 64  # roles of a user or role; secrets and client id patterns of a user

NAME = USER_NAME
NAME_FAULT = USER_NAME_FAULT
TOKEN_ID = re.compile(r"[a-z0-9]{8,32}", re.ASCII)
TEXT_MAX = 1_024


class _Row(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A row of the access book. ``kind`` and ``name`` identify it."""

    kind: ClassVar[str]

    def encode(self) -> bytes:
        return msgspec.msgpack.encode(self)

    def fault(self) -> str:
        """What is wrong with this row by itself; empty if nothing."""
        raise NotImplementedError


class Quotas(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Limits of one user, on each node; 0 is no limit."""

    messages_per_s: int = 0
    bytes_per_s: int = 0
    connections: int = 0
    subscriptions: int = 0
    sessions: int = 0


class User(_Row, frozen=True):
    """Somebody, or a device, that can log in. A time of 0 means never."""

    kind: ClassVar[str] = "user"

    name: str
    roles: tuple[str, ...] = ()
    password: str = ""  # PHC string of a chosen password (``trust.passwords``); "": there is none
    secrets: tuple[bytes, ...] = ()  # SHA-256 of generated secrets; two while one is replaced
    client_ids: tuple[str, ...] = ()  # patterns with * that its client ids must match; none: any
    is_disabled: bool = False
    quotas: Quotas = Quotas()
    created_ms: int = 0
    expires_ms: int = 0
    scram: str = ""  # of the same password (``trust.scram_verifier``); "": there is none
    note: str = ""
    rehashed: bytes = b""  # ``passwords.rehash_mark``: the last new hash was of the same password

    def __repr__(self) -> str:
        return f"User({self.name!r}, roles={self.roles!r})"

    def fault(self) -> str:
        if not NAME.fullmatch(self.name):
            return NAME_FAULT
        for names in (self.roles, self.secrets, self.client_ids):
            if len(names) > NAMES_MAX:
                return f"user {self.name}: at most {NAMES_MAX} of each"
        if max(map(len, (self.password, self.scram, self.note, *self.client_ids))) > TEXT_MAX:
            return f"user {self.name}: a text is longer than {TEXT_MAX} characters"
        return ""


class Role(_Row, frozen=True):
    """Rules under a name, and the roles that it includes."""

    kind: ClassVar[str] = "role"

    name: str
    rules: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    note: str = ""

    def fault(self) -> str:
        if not NAME.fullmatch(self.name):
            return NAME_FAULT
        if len(self.rules) > RULES_MAX or len(self.roles) > NAMES_MAX:
            return f"role {self.name}: at most {RULES_MAX} rules and {NAMES_MAX} roles"
        for number, text in enumerate(self.rules, 1):
            try:
                parse_rule(text)
            except ValueError as error:
                return f"role {self.name}, rule {number}: {error}"
        return "" if len(self.note) <= RULE_BYTES_MAX else f"role {self.name}: the note is too long"


class Token(_Row, frozen=True):
    """An API token of a user; it has some of its owner's roles, all if none are named."""

    kind: ClassVar[str] = "token"

    name: str  # its id, the middle part of pst_ID_SECRET
    owner: str
    digest: bytes  # SHA-256 of the secret
    roles: tuple[str, ...] = ()
    created_ms: int = 0
    expires_ms: int = 0
    note: str = ""
    purpose: str = ""  # "invite": only to set the owner's password, once; "console"; "": API

    def __repr__(self) -> str:
        return f"Token({self.name!r}, owner={self.owner!r})"

    def fault(self) -> str:
        if not TOKEN_ID.fullmatch(self.name) or len(self.digest) != 32:
            return "a token's id has 8 to 32 lower-case letters and digits; its digest 32 bytes"
        return "" if len(self.note) <= TEXT_MAX else f"token {self.name}: the note is too long"


class Ban(_Row, frozen=True):
    """Somebody who may not connect: ``user:NAME``, ``client:ID`` or ``address:RANGE``."""

    kind: ClassVar[str] = "ban"

    name: str
    until_ms: int = 0
    created_ms: int = 0
    note: str = ""

    def fault(self) -> str:
        what, _, value = self.name.partition(":")
        if what not in {"user", "client", "address"} or not value or len(self.name) > TEXT_MAX:
            return f"ban {self.name!r}: write user:NAME, client:ID or address:RANGE"
        return _range_fault(value) if what == "address" else ""


def _range_fault(text: str) -> str:
    try:
        ip_network(text)
    except ValueError as error:
        return f"ban address:{text}: {error}; write it as in address:192.0.2.0/24"
    return ""


Row = User | Role | Token | Ban
KINDS: dict[str, type[Row]] = {kind.kind: kind for kind in (User, Role, Token, Ban)}
LIMITS = {"user": USERS_MAX, "role": ROLES_MAX, "token": TOKENS_MAX, "ban": BANS_MAX}


def decode_row(kind: str, row: bytes) -> Row:
    """Raises StorageDamaged."""
    try:
        return msgspec.msgpack.decode(row, type=KINDS[kind])
    except msgspec.DecodeError as error:
        raise StorageDamaged(f"a row of kind {kind} cannot be read: {error}") from error


BUILT_IN: dict[str, Role] = {
    role.name: role
    for role in (
        Role("admin", ("allow all",), note="everything"),
        Role(
            "operator",
            ("allow read,manage #", "allow subscribe,read,manage $dlq/#"),
            ("monitor",),
            note="topics, groups and dead letters, without users and keys",
        ),
        Role("monitor", ("allow monitor", "allow subscribe $SYS/#"), note="metrics and clients"),
        Role("client", ("allow publish,subscribe,read,work #",), note="all topics of clients"),
        Role(
            "local",
            ("allow publish,subscribe,read,work,manage #", "allow manage $dlq/#"),
            ("monitor",),
            note="clients on the broker's machine that do not log in",
        ),
        Role("anonymous", (), ("client",), note="clients of allow_anonymous"),
        Role("keys", note="who logs in with a signing key, besides publishing to its topics"),
    )
}
"""Roles that exist from the start. All but ``admin`` can be replaced by a role of that name."""
