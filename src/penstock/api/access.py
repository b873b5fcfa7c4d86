"""``roles``, ``bans``, ``access/check``, ``access/denials`` and ``audit``."""

from time import monotonic
from typing import Annotated

from msgspec import Meta

from penstock.access import audit
from penstock.admin.access_changes import AccessPages, expiry
from penstock.admin.pages import text_of
from penstock.api.call import Call
from penstock.api.cursors import cursor_of, key_of
from penstock.api.documents.common import Current, CurrentListQuery, Limit, Query
from penstock.api.documents.security import (
    AccessDenial,
    AccessDenials,
    AccessVerdict,
    AuditEntries,
    AuditEntry,
    Ban,
    Bans,
    DecidingRule,
    NewBan,
    Removed,
    Role,
    RoleDefinition,
    Roles,
)
from penstock.api.named import moment_or_none
from penstock.api.operations import Resource, operation
from penstock.api.paging import first_of
from penstock.api.parts import Parts
from penstock.api.problems import Problem
from penstock.api.users import CurrentNameQuery, NamedQuery
from penstock.limits import MIB
from penstock.model.topic import has_wildcard
from penstock.store.store import Store
from penstock.trust import rows
from penstock.trust.book import put, removed
from penstock.trust.rights import Coverage, Rights, Verdict
from penstock.trust.rows import BUILT_IN
from penstock.trust.rules import TOPICLESS, Action
from penstock.trust.touched import touched

AUDIT_AT_ONCE = 500  # records read at a time, the newest first
AUDIT_S = 2.0

_ROLES, _BANS, _AUDIT = "roles", "bans", "audit"
_ACTIONS = {action.word: action for action in Action}


class CheckQuery(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who wants to do what. One of ``user`` and ``role``."""

    action: Annotated[str, Meta(description=f"One of {', '.join(_ACTIONS)}.")]
    topic: Annotated[str, Meta(description="A topic, or a filter.", max_length=65_535)] = ""
    user: str | None = None
    role: str | None = None
    client_id: Annotated[str, Meta(description="For rules that name it.")] = ""
    current: Current = False


class DenialQuery(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whose denials."""

    user: Annotated[str | None, Meta(description="Only of this user.")] = None
    limit: Limit = 100


class AuditQuery(CurrentListQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which records."""

    action: Annotated[str | None, Meta(description="As in access, keys, group, cluster.")] = None
    user: Annotated[str | None, Meta(description="Who did it.")] = None
    find: Annotated[str, Meta(description="A text in its note or changes.", max_length=256)] = ""


class AccessRules(Resource):
    """Roles, bans, verdicts, denials and the audit log."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._pages = AccessPages(parts.access_admin)

    # ── roles ─────────────────────────────────────────────────────────────────────────────────

    @operation("GET", "roles", Action.ADMIN)
    async def roles(self, call: Call, query: CurrentListQuery) -> Roles:  # noqa: ARG002 - as all
        """List roles by name, with their rules by number; a deny wins wherever it stands."""
        after = key_of(_ROLES, query.cursor, str)
        names = BUILT_IN | self._pages.book.roles
        found = sorted(name for name in names if after is None or name > after)
        part = first_of(_ROLES, found, query.limit, self._role, str)
        return Roles(items=part.items, next=part.next)

    @operation("GET", "roles/detail", Action.ADMIN)
    async def role(self, call: Call, query: CurrentNameQuery) -> Role:  # noqa: ARG002
        """Show one role."""
        self._pages.known(BUILT_IN | self._pages.book.roles, query.name, "role")
        return self._role(query.name)

    @operation("PUT", "roles", Action.ADMIN, body_bytes_max=MIB)
    async def store_role(self, call: Call, body: RoleDefinition) -> Role:
        """Store a role: what is left out is empty."""
        role = rows.Role(body.name, tuple(body.rules), tuple(body.roles), body.note)
        await self._pages.submit(call.request, lambda: [put(role)], body.expected)
        return self._role(body.name)

    @operation("DELETE", "roles", Action.ADMIN)
    async def remove_role(self, call: Call, query: NamedQuery) -> Removed:
        """Remove a role that nobody has."""
        pages = self._pages
        role = pages.known(pages.book.roles, query.name, "role")
        await pages.submit(call.request, lambda: [removed(role)])
        return Removed(kind="role", name=query.name, version=pages.book.version)

    def _role(self, name: str) -> Role:
        book = self._pages.book
        role = book.role(name)
        assert role is not None
        return Role(
            name=name,
            rules=list(role.rules),
            roles=list(role.roles),
            note=role.note,
            built_in=name not in book.roles,
            users=sum(name in user.roles for user in book.users.values()),
            version=book.version,
        )

    # ── bans ──────────────────────────────────────────────────────────────────────────────────

    @operation("GET", "bans", Action.ADMIN)
    async def bans(self, call: Call, query: CurrentListQuery) -> Bans:  # noqa: ARG002 - as all
        """List users, client ids and addresses that may not connect."""
        after = key_of(_BANS, query.cursor, str)
        found = sorted(n for n in self._pages.book.bans if after is None or n > after)
        part = first_of(_BANS, found, query.limit, self._ban, str)
        return Bans(items=part.items, next=part.next)

    @operation("PUT", "bans", Action.ADMIN)
    async def store_ban(self, call: Call, body: NewBan) -> Ban:
        """Ban a user, a client id or a range of addresses; connections of it end."""
        now_ms = self._pages.now_ms()
        ban = rows.Ban(body.name, expiry(body.expires_s, now_ms), now_ms, body.note)
        await self._pages.submit(call.request, lambda: [put(ban)])
        return self._ban(body.name)

    @operation("DELETE", "bans", Action.ADMIN)
    async def remove_ban(self, call: Call, query: NamedQuery) -> Removed:
        """Remove a ban."""
        pages = self._pages
        ban = pages.known(pages.book.bans, query.name, "ban")
        await pages.submit(call.request, lambda: [removed(ban)])
        return Removed(kind="ban", name=query.name, version=pages.book.version)

    def _ban(self, name: str) -> Ban:
        ban = self._pages.book.bans[name]
        return Ban(
            name=ban.name,
            until=moment_or_none(ban.until_ms),
            expired=bool(ban.until_ms) and ban.until_ms <= self._pages.now_ms(),
            created=moment_or_none(ban.created_ms),
            note=ban.note,
        )

    # ── verdicts and denials ──────────────────────────────────────────────────────────────────

    @operation("GET", "access/check", Action.ADMIN)
    async def check(self, call: Call, query: CheckQuery) -> AccessVerdict:  # noqa: ARG002
        """Tell whether a user or a role may do something, and which rule decides."""
        asked, rights, subject = _action(query.action), self._rights(query), _subject(query)
        topic, action = touched(query.topic.encode(), asked)
        if not action & TOPICLESS and not topic:
            raise Problem(400, "invalid_parameter", f"{asked.word} is about a topic", "add it")
        if has_wildcard(topic):
            return _coverage(rights, action, query, subject)
        verdict = rights.explain(action, topic)
        return AccessVerdict(
            subject=subject,
            action=query.action,
            topic=query.topic,
            allowed=verdict.is_allowed,
            coverage=None,
            text=verdict.text,
            rule=_rule(verdict),
            advice="" if verdict.is_allowed else _advice(verdict, query, subject),
        )

    def _rights(self, query: CheckQuery) -> Rights:
        book = self._pages.book
        if query.user is not None:
            self._pages.known(book.users, query.user, "user")
            return book.rights_of(query.user, query.client_id)
        if query.role is None:
            raise Problem(400, "invalid_parameter", "whose right?", "add user or role")
        if book.role(query.role) is None:
            raise Problem(404, "not_found", f"there is no role {query.role}", "GET roles names all")
        return book.rights_of_roles((query.role,), "", query.client_id)

    @operation("GET", "access/denials", Action.ADMIN)
    async def denials(self, call: Call, query: DenialQuery) -> AccessDenials:  # noqa: ARG002
        """List what was denied lately on this node, the newest first."""
        kept, limit = self.parts.access_admin.denials, query.limit
        found = kept.latest(limit) if query.user is None else kept.of(query.user)[::-1][:limit]
        items = [
            AccessDenial(
                time=moment_or_none(denial.time_ms),
                user=denial.user,
                door=denial.door,
                address=denial.address,
                action=denial.action.word,
                topic=text_of(denial.topic),
            )
            for denial in found
        ]
        return AccessDenials(items=items)

    # ── the audit log ─────────────────────────────────────────────────────────────────────────

    @operation("GET", "audit", Action.ADMIN)
    async def audit(self, call: Call, query: AuditQuery) -> AuditEntries:
        """List the audit log, the newest record first: who changed what, without secrets.

        A search stops after two seconds; `next` goes on.
        """
        before = key_of(_AUDIT, query.cursor, int)
        return await call.read(_audited, self.parts.view.store, before, query)


def _subject(query: CheckQuery) -> str:
    return f"user:{query.user}" if query.user is not None else f"role:{query.role}"


def _action(word: str) -> Action:
    if word not in _ACTIONS:
        advice = f"there are {', '.join(_ACTIONS)}"
        raise Problem(400, "invalid_parameter", f"{word!r} is no action", advice)
    return _ACTIONS[word]


_COVERAGE = {
    Coverage.ALL: "allowed: every topic that matches",
    Coverage.SOME: "allowed in part: a subscription is narrowed to what the rules allow",
    Coverage.NONE: "denied: no topic that matches is allowed",
}


def _coverage(rights: Rights, action: Action, query: CheckQuery, subject: str) -> AccessVerdict:
    """For a filter: whether all of it is allowed, or some."""
    found = rights.coverage(action, query.topic.encode())
    is_allowed = found is not Coverage.NONE
    return AccessVerdict(
        subject=subject,
        action=query.action,
        topic=query.topic,
        allowed=is_allowed,
        coverage=found.value,
        text=_COVERAGE[found],
        rule=None,
        advice="" if is_allowed else _grant(query, subject),
    )


def _rule(verdict: Verdict) -> DecidingRule | None:
    named = verdict.decided_by
    if named is None:
        return None
    return DecidingRule(role=named.role, number=named.number, text=named.rule.text)


def _advice(verdict: Verdict, query: CheckQuery, subject: str) -> str:
    named = verdict.decided_by
    if named is None:
        return _grant(query, subject)
    return (
        f"a deny wins wherever it stands: remove rule {named.number} of the role {named.role}, or"
        " narrow its filter"
    )


def _grant(query: CheckQuery, subject: str) -> str:
    rule = f"allow {query.action} {query.topic}".strip()
    whose = subject.removeprefix("role:") if query.user is None else f"a role of {query.user}"
    return f"add `{rule}` to {whose}"


def _audited(store: Store, before: int | None, query: AuditQuery) -> AuditEntries:
    """Records before an offset. Reads the disk, backwards."""
    info = store.topic(audit.TOPIC)
    if info is None:
        return AuditEntries(items=[])
    end = info.next_offset if before is None else min(before, info.next_offset)
    deadline, items = monotonic() + AUDIT_S, list[AuditEntry]()
    while end > info.first_offset and len(items) < query.limit and monotonic() < deadline:
        start = max(info.first_offset, end - AUDIT_AT_ONCE)
        found = [one for one in audit.read(store, start, end - start) if one.offset < end]
        for entry in reversed(found):
            if _fits(entry.record, query):
                items.append(_entry(entry))
            end = entry.offset
            if len(items) == query.limit:
                break
        else:
            end = start
    more = end > info.first_offset
    return AuditEntries(items=items, next=cursor_of(_AUDIT, end) if more else None)


def _fits(record: audit.AuditRecord, query: AuditQuery) -> bool:
    if query.action not in {None, record.action} or query.user not in {None, record.user}:
        return False
    return not query.find or query.find in f"{record.note} {record.changes}"


def _entry(entry: audit.Entry) -> AuditEntry:
    record = entry.record
    return AuditEntry(
        offset=entry.offset,
        time=moment_or_none(record.time_ms),
        node=record.node,
        action=record.action,
        door=record.door,
        user=record.user,
        address=record.address,
        note=record.note,
        count=record.count,
        changes=record.changes,
    )
