"""What the API says about keys, users, roles, tokens, bans, verdicts and the audit log.

Secrets are shown once, in the answer that makes them, and nowhere else. ``version`` is that of the
access book: a change that names it as ``expected`` is refused if somebody else was faster.
"""

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from penstock.api.documents.common import Count
from penstock.api.documents.lists import Missing

Text = Annotated[str, Meta(max_length=1_024)]
Password = Annotated[str, Meta(max_length=4_096)]
Lifetime = Annotated[int, Meta(ge=0, le=100 * 365 * 24 * 3600)]
Version = Annotated[int, Meta(ge=-1, le=2**53)]  # of the access book; -1: any

# ── keys of devices ───────────────────────────────────────────────────────────────────────────


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """A public key that a device signs with."""

    id: int
    device: str
    topics: str
    public_key: str  # hexadecimal
    state: str  # active, revoked, expired
    created: str | None
    expires: str | None
    revoked: str | None
    successor: int | None


class Keys(msgspec.Struct, frozen=True, kw_only=True):
    """Keys by id."""

    items: list[Key]
    next: str | None = None
    incomplete: list[Missing] = []


class NewKey(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """POST ``keys``: without ``id`` the broker chooses one."""

    device: Text
    topics: Text
    public_key: Text
    id: Annotated[int, Meta(ge=0, le=2**32)] | None = None
    expires_s: Lifetime | None = None


class KeyChange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """POST ``keys/revoke`` and ``keys/enable``."""

    id: Annotated[int, Meta(ge=0, le=2**32)]


class KeyRotation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """POST ``keys/rotate``: the new key, and how long both are valid."""

    id: Annotated[int, Meta(ge=0, le=2**32)]
    public_key: Text
    overlap_s: Lifetime


class RotatedKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key and the one that it follows."""

    key: Key
    previous: Key


# ── users ─────────────────────────────────────────────────────────────────────────────────────


class UserQuotas(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of a user on each node; 0 is no limit."""

    messages_per_s: Count = 0
    bytes_per_s: Count = 0
    connections: Count = 0
    subscriptions: Count = 0
    sessions: Count = 0


class User(msgspec.Struct, frozen=True, kw_only=True):
    """A user, without secrets."""

    name: str
    roles: list[str]
    admin: bool
    disabled: bool
    password: bool
    scram: bool
    secrets: int  # how many are valid
    client_ids: list[str]
    quotas: UserQuotas
    created: str | None
    expires: str | None
    note: str
    version: int
    secret: str | UnsetType = UNSET  # only in the answer that makes it


class Users(msgspec.Struct, frozen=True, kw_only=True):
    """Users by name."""

    items: list[User]
    next: str | None = None
    incomplete: list[Missing] = []


class NewUser(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """POST ``users``."""

    name: Text
    roles: list[str] = []
    password: Password | UnsetType = UNSET
    generate_secret: bool = False
    client_ids: list[str] = []
    disabled: bool = False
    quotas: UserQuotas = UserQuotas()
    expires_s: Lifetime = 0
    note: Text = ""
    expected: Version = -1

    def __repr__(self) -> str:
        return f"NewUser({self.name!r})"  # a password must not get into a log


class UserChange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """PATCH ``users``: what is left out does not change."""

    name: Text
    roles: list[str] | UnsetType = UNSET
    password: Password | UnsetType = UNSET  # empty: it has none any more
    generate_secret: bool = False
    replace_secrets: bool = False  # the new secret ends those there are
    client_ids: list[str] | UnsetType = UNSET
    disabled: bool | UnsetType = UNSET
    quotas: UserQuotas | UnsetType = UNSET
    expires_s: Lifetime | UnsetType = UNSET
    note: Text | UnsetType = UNSET
    expected: Version = -1

    def __repr__(self) -> str:
        return f"UserChange({self.name!r})"


# ── roles ─────────────────────────────────────────────────────────────────────────────────────


class Role(msgspec.Struct, frozen=True, kw_only=True):
    """A role: its rules by number. A deny wins wherever it stands."""

    name: str
    rules: list[str]
    roles: list[str]  # that it includes
    note: str
    built_in: bool
    users: int  # that have it
    version: int


class Roles(msgspec.Struct, frozen=True, kw_only=True):
    """Roles by name, built-in ones included."""

    items: list[Role]
    next: str | None = None
    incomplete: list[Missing] = []


class RoleDefinition(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """PUT ``roles``: the whole role."""

    name: Text
    rules: list[str] = []
    roles: list[str] = []
    note: Text = ""
    expected: Version = -1


# ── tokens and bans ───────────────────────────────────────────────────────────────────────────


class Token(msgspec.Struct, frozen=True, kw_only=True):
    """An API token, without its text."""

    id: str
    owner: str
    roles: list[str]  # none: all of the owner
    purpose: str  # api or invite
    created: str | None
    expires: str | None
    expired: bool
    note: str
    token: str | UnsetType = UNSET  # only in the answer that makes it


class Tokens(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens by id."""

    items: list[Token]
    next: str | None = None
    incomplete: list[Missing] = []


class NewToken(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """POST ``tokens``. An invitation sets its owner's password, once."""

    owner: Text
    roles: list[str] = []
    expires_s: Lifetime | None = None  # None: 90 days; an hour for an invitation
    note: Text = ""
    invitation: bool = False


class ChosenPassword(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """POST ``users/password``: an invitation, and the password that its owner chooses."""

    invitation: Text
    password: Password

    def __repr__(self) -> str:
        return "ChosenPassword(…)"


class PasswordSet(msgspec.Struct, frozen=True, kw_only=True):
    """Whose password was set."""

    name: str


class Ban(msgspec.Struct, frozen=True, kw_only=True):
    """Who may not connect: ``user:NAME``, ``client:ID`` or ``ip:RANGE``."""

    name: str
    until: str | None  # None: until it is removed
    expired: bool
    created: str | None
    note: str


class Bans(msgspec.Struct, frozen=True, kw_only=True):
    """Bans by name."""

    items: list[Ban]
    next: str | None = None
    incomplete: list[Missing] = []


class NewBan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """PUT ``bans``. ``expires_s`` of 0: until it is removed."""

    name: Text
    expires_s: Lifetime = 0
    note: Text = ""


# ── verdicts and the audit log ────────────────────────────────────────────────────────────────


class DecidingRule(msgspec.Struct, frozen=True, kw_only=True):
    """The rule that decided."""

    role: str
    number: int
    text: str


class AccessVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """Whether somebody may do something, and why."""

    subject: str  # user:NAME or role:NAME
    action: str
    topic: str
    allowed: bool
    coverage: str | None  # of a filter: all, some, none
    text: str
    rule: DecidingRule | None  # None: no rule says anything, which denies
    advice: str


class AccessDenial(msgspec.Struct, frozen=True, kw_only=True):
    """Something that was denied on this node."""

    time: str | None
    user: str
    door: str
    address: str
    action: str
    topic: str


class AccessDenials(msgspec.Struct, frozen=True, kw_only=True):
    """The latest denials of this node, the newest first."""

    items: list[AccessDenial]
    next: str | None = None
    incomplete: list[Missing] = []


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One record of the audit log."""

    offset: int
    time: str | None
    node: int
    action: str  # access, keys, topic, group, cluster, login_failed and others
    door: str
    user: str
    address: str
    note: str
    count: int  # of failed logins, or of repetitions
    changes: list[dict[str, Any]]  # rows before and after, without secrets


class AuditEntries(msgspec.Struct, frozen=True, kw_only=True):
    """Records, the newest first."""

    items: list[AuditEntry]
    next: str | None = None
    incomplete: list[Missing] = []


class Removed(msgspec.Struct, frozen=True, kw_only=True):
    """The row that was removed."""

    kind: str  # user, role, token, ban
    name: str
    version: int
    owner: str = ""  # of a token
