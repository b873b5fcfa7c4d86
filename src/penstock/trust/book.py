"""The access book: all users, roles, tokens and bans, and the rights that follow.

The book follows from the journal: it changes by ``apply`` alone, which takes a whole change or
nothing. It checks every rule that keeps the book usable, because doors on two nodes may have
proposed changes that are valid one by one: roles exist and do not include each other in circles,
tokens have owners, and **one administrator who can log in remains**.

``version`` is the index of the entry that changed the book last. A change that expected another
version is void, so no administrator overwrites another's change unseen.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple
from weakref import WeakSet

from penstock.errors import StorageDamaged
from penstock.trust.rights import ALL_RIGHTS, NO_RIGHTS, NamedRule, Rights
from penstock.trust.rows import BUILT_IN, KINDS, LIMITS, Ban, Role, Row, Token, User, decode_row
from penstock.trust.rules import Action, parse_rule
from penstock.trust.scram_verifier import salt_key_of

ROLE_DEPTH_MAX = 4
RIGHTS_CACHED_MAX = 20_000  # rights objects of users and clients
VERDICTS_IN_ALL_MAX = 1_000_000  # cached by all rights objects; then all caches are emptied

ANY_VERSION = -1

STALE = "somebody else changed users or roles at the same time; look again and retry"
"""Why a change is void that expected another version of the book."""


class Change(NamedTuple):
    """One row to be put; None removes it."""

    kind: str
    name: str
    row: bytes | None


def put(row: Row) -> Change:
    return Change(row.kind, row.name, row.encode())


def removed(row: Row) -> Change:
    return Change(row.kind, row.name, None)


class _Compiled(NamedTuple):
    """The rules of some roles and of those that they include."""

    names: tuple[str, ...]
    rules: list[NamedRule]
    names_user: bool
    names_client: bool


class AccessBook:
    """Who there is and what they may do."""

    def __init__(self, rows: dict[tuple[str, str], Row] | None = None) -> None:
        self._rows = rows or {}
        self.version = 0
        self.loaded_version = 0  # of the rows on disk, when they were loaded
        self.dirty: dict[bytes, None] = {}  # keys of rows that differ from the disk
        self._compiled: dict[tuple[str, ...], _Compiled] = {}
        self._rights: dict[tuple[str, ...], Rights] = {}
        self._in_use: WeakSet[Rights] = WeakSet()
        self._verdicts = 0  # cached since the caches were last emptied
        self._known_admin = ""  # a user that was found to be a usable administrator
        self._salt_key: bytes | None = None  # None: to be looked for
        self._sort()

    def _sort(self) -> None:
        rows = self._rows.values()
        self.users = {row.name: row for row in rows if isinstance(row, User)}
        self.roles = {row.name: row for row in rows if isinstance(row, Role)}
        self.tokens = {row.name: row for row in rows if isinstance(row, Token)}
        self.bans = {row.name: row for row in rows if isinstance(row, Ban)}
        self._salt_key = None
        self._compiled.clear()
        self._rights.clear()

    @property
    def is_open(self) -> bool:
        """Whether there are no users, so that everybody on this machine may do everything."""
        return not self.users

    def has_admin(self) -> bool:
        """Whether there is an administrator who can log in; looks at the last one found first."""
        known = self.users.get(self._known_admin)
        if known is None or not self._is_usable_admin(known):
            self._known_admin = self._find_admin()
        return bool(self._known_admin)

    def _find_admin(self) -> str:
        verdicts: dict[tuple[str, ...], bool] = {}  # few sets of roles, many users
        for user in self.users.values():
            is_admin = verdicts.get(user.roles)
            if is_admin is None:
                rights = self.rights_of_roles(user.roles, user.name)
                is_admin = verdicts[user.roles] = rights.may(Action.ADMIN, b"")
            if is_admin and self._is_usable_admin(user):
                return user.name
        return ""

    @property
    def salt_key(self) -> bytes:
        """What all salts of SCRAM are made of; empty until there is a verifier."""
        if self._salt_key is None:
            salted = (user for user in self.users.values() if user.scram)
            first = min(salted, key=lambda user: (user.created_ms, user.name), default=None)
            self._salt_key = b"" if first is None else salt_key_of(first.scram)
        return self._salt_key

    def get(self, kind: str, name: str) -> Row | None:
        return self._rows.get((kind, name))

    # ── changes ───────────────────────────────────────────────────────────────────────────────

    def apply(self, changes: Sequence[Change], expected: int, index: int) -> str:
        """Make all changes, or none; return why not, or an empty string."""
        if expected not in (ANY_VERSION, self.version):
            return STALE
        after = self.preview(changes)
        if isinstance(after, str):
            return after
        for change in changes:
            self.dirty[row_key(change.kind, change.name)] = None
        self.dirty[b"version"] = None
        self.version = index
        self._take_over(after)
        return ""

    def _take_over(self, other: "AccessBook") -> None:
        """Have the rows of another book, which is not used any more."""
        self._rows = other._rows  # noqa: SLF001 - of the same class
        self.users, self.roles = other.users, other.roles
        self.tokens, self.bans = other.tokens, other.bans
        self._known_admin = other._known_admin  # noqa: SLF001
        self._salt_key = None
        self._compiled.clear()
        self._rights.clear()

    def _copied(self) -> "AccessBook":
        """A book with the same rows; to copy dicts is faster than to sort all rows again."""
        copy = AccessBook()
        copy._rows = dict(self._rows)
        copy.users, copy.roles = dict(self.users), dict(self.roles)
        copy.tokens, copy.bans = dict(self.tokens), dict(self.bans)
        copy._known_admin = self._known_admin
        return copy

    def _put(self, row: Row) -> None:
        self._rows[row.kind, row.name] = row
        match row:
            case User():
                self.users[row.name] = row
            case Role():
                self.roles[row.name] = row
            case Token():
                self.tokens[row.name] = row
            case Ban():
                self.bans[row.name] = row

    def _remove(self, kind: str, name: str) -> None:
        self._rows.pop((kind, name), None)
        for table in (self.users, self.roles, self.tokens, self.bans):
            if table is self._names_by_kind()[kind]:
                table.pop(name, None)

    def preview(self, changes: Iterable[Change]) -> "AccessBook | str":
        """The book as it would be after these changes, or why that cannot be."""
        changes, after = list(changes), self._copied()
        for kind, name, row in changes:
            if kind not in KINDS:
                return f"rows of kind {kind!r} are unknown to this version"
            if row is None:
                after._remove(kind, name)  # noqa: SLF001 - of the same class
                continue
            try:
                decoded = decode_row(kind, row)
            except StorageDamaged as error:
                return error.message
            fault = decoded.fault()
            if fault or decoded.name != name:
                return fault or f"{kind} {name}: the row is of {decoded.name}"
            after._put(decoded)  # noqa: SLF001
        if self.has_admin() and not after.has_admin():
            return "the last administrator must remain: make another one first"
        return after._fault_after(changes) or after  # noqa: SLF001

    def _fault_after(self, changes: list[Change]) -> str:
        """``fault``, if all was well before these changes: most concern their own rows alone."""
        is_wide = any(kind == "role" or row is None for kind, _, row in changes)
        if is_wide or len(changes) > len(self._rows) // 2:
            return self.fault()
        return self._count_fault() or self._row_faults(
            [self._rows[kind, name] for kind, name, _ in changes]
        )

    def _row_faults(self, rows: list[Row]) -> str:
        for row in rows:
            for name in row.roles if isinstance(row, (User, Token)) else ():
                if self.role(name) is None:
                    return f"{row.kind} {row.name}: there is no role {name}"
            if isinstance(row, Token) and row.owner not in self.users:
                return f"token {row.name}: there is no user {row.owner}"
        return ""

    def fault(self) -> str:
        """What is wrong with the book as a whole; empty if nothing."""
        return self._count_fault() or self._role_fault() or self._owner_fault()

    def _count_fault(self) -> str:
        for kind, names in self._names_by_kind().items():
            if len(names) > LIMITS[kind]:
                return f"there are more than {LIMITS[kind]} rows of kind {kind}"
        if "admin" in self.roles:
            return "the role admin is built in and cannot be changed"
        return ""

    def _names_by_kind(self) -> dict[str, Collection[str]]:
        return {"user": self.users, "role": self.roles, "token": self.tokens, "ban": self.bans}

    def _role_fault(self) -> str:
        holders: list[User | Role | Token] = [*self.users.values(), *self.roles.values()]
        for holder in [*holders, *self.tokens.values()]:
            for name in holder.roles:
                if self.role(name) is None:
                    return f"{holder.kind} {holder.name}: there is no role {name}"
        depths: dict[str, int] = {}
        for name in self.roles:
            if self._depth(name, depths) > ROLE_DEPTH_MAX:
                return f"role {name}: roles include each other more than {ROLE_DEPTH_MAX} deep"
        return ""

    def _depth(self, name: str, depths: dict[str, int]) -> int:
        """How many roles stand below each other from this one on; each role is visited once.

        A circle counts as too deep. So do all roles that lead into it.
        """
        if name not in depths:
            depths[name] = ROLE_DEPTH_MAX + 1  # what a role finds that includes itself
            role = self.role(name)
            below = [self._depth(one, depths) for one in role.roles] if role else []
            depths[name] = min(1 + max(below, default=0), ROLE_DEPTH_MAX + 1)
        return depths[name]

    def _owner_fault(self) -> str:
        for token in self.tokens.values():
            if token.owner not in self.users:
                return f"token {token.name}: there is no user {token.owner}"
        return ""

    def _is_usable_admin(self, user: User) -> bool:
        can_log_in = bool(user.password or user.secrets) and not user.is_disabled
        return can_log_in and not user.expires_ms and self.is_admin(user.name)

    # ── rows on disk ──────────────────────────────────────────────────────────────────────────

    def row(self, key: bytes) -> bytes | None:
        kind, _, name = key.decode().partition(" ")
        if kind == "version":
            return b"%d" % self.version
        found = self._rows.get((kind, name))
        return None if found is None else found.encode()

    def row_keys(self) -> Iterator[bytes]:
        yield b"version"
        yield from (row_key(kind, name) for kind, name in sorted(self._rows))

    def load(self, rows: Iterable[tuple[bytes, bytes]]) -> None:
        """Take all rows from disk; nothing counts as changed."""
        for key, row in rows:
            kind, _, name = key.decode().partition(" ")
            if kind == "version":
                self.version = self.loaded_version = int(row)
            else:
                self._rows[kind, name] = decode_row(kind, row)
        self._sort()

    # ── rights ────────────────────────────────────────────────────────────────────────────────

    def role(self, name: str) -> Role | None:
        return self.roles.get(name) or BUILT_IN.get(name)

    def is_admin(self, user: str) -> bool:
        return self.rights_of(user).may(Action.ADMIN, b"")

    def rights_of(self, user: str, client_id: str = "") -> Rights:
        """What a user may do with this client id; nothing if it is disabled or does not exist."""
        found = self.users.get(user)
        if found is None or found.is_disabled:
            return NO_RIGHTS
        return self.rights_of_roles(found.roles, user, client_id)

    def rights_for(
        self, user: str, roles: tuple[str, ...], client_id: bytes | str = "", via: str = ""
    ) -> Rights:
        """What somebody may do who came as ``user`` (nobody: empty), limited to ``roles``.

        Nobody without roles is from before there were users, and not limited. Roles of a JSON web
        token (``via``) are given by its issuer, and the user need not have a row.
        """
        if self.is_open or not (user or roles):
            return ALL_RIGHTS
        if isinstance(client_id, bytes):
            client_id = client_id.decode(errors="replace")
        if not user:
            return self.rights_of_roles(roles, "", client_id)
        found = self.users.get(user)
        if via == "jwt" and (found is None or not found.is_disabled):
            return self.rights_of_roles(roles, user, client_id)
        if found is None or found.is_disabled:
            return NO_RIGHTS
        if roles:
            own = self.with_included(found.roles)
            return self.rights_of_roles(
                tuple(role for role in roles if role in own), user, client_id
            )
        return self.rights_of_roles(found.roles, user, client_id)

    def rights_of_roles(
        self, roles: tuple[str, ...], user: str = "", client_id: str = ""
    ) -> Rights:
        """Rights are shared by all whose rules do not name the user or the client id."""
        compiled = self._compiled.get(roles) or self._compile(roles)
        key = (
            *compiled.names,
            ":",
            user if compiled.names_user else "",
            client_id if compiled.names_client else "",
        )
        rights = self._rights.get(key)
        if rights is None:
            if len(self._rights) >= RIGHTS_CACHED_MAX:
                self._rights.clear()
            rights = self._rights[key] = Rights(compiled.rules, user, client_id, self._spend)
            self._in_use.add(rights)
        return rights

    def _spend(self) -> None:
        """One more verdict is cached; bound how many there are in all."""
        self._verdicts += 1
        if self._verdicts > VERDICTS_IN_ALL_MAX:
            self._verdicts = 0
            for rights in self._in_use:
                rights.forget()

    def _compile(self, roles: tuple[str, ...]) -> _Compiled:
        names = self.with_included(roles)
        rules = [named for name in names for named in self._rules(name)]
        compiled = self._compiled[roles] = _Compiled(
            names,
            rules,
            any(named.rule.names_user for named in rules),
            any(named.rule.names_client for named in rules),
        )
        return compiled

    def with_included(self, roles: Iterable[str]) -> tuple[str, ...]:
        """The roles, and those that they include, each once."""
        found: dict[str, None] = {}
        waiting = list(roles)
        while waiting:
            name = waiting.pop(0)
            role = self.role(name)
            if role is not None and name not in found:
                found[name] = None
                waiting += role.roles
        return tuple(found)

    def _rules(self, name: str) -> Iterator[NamedRule]:
        role = self.role(name)
        for number, text in enumerate(role.rules if role else (), 1):
            yield NamedRule(name, number, parse_rule(text))


def row_key(kind: str, name: str) -> bytes:
    return f"{kind} {name}".encode()
