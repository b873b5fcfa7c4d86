"""``access``: the book of users and rules as a whole; exported, planned, applied as a document."""

import asyncio
from itertools import islice

from penstock.access.documents import document_of
from penstock.access.plans import DIFFERENCES_MAX, Difference, RowChange
from penstock.admin.access_documents import DocumentPages
from penstock.admin.guard import check_may_make_secrets
from penstock.admin.pages import SLICE_ITEMS, text_of
from penstock.api.call import Call
from penstock.api.documents.access import (
    AccessApplied,
    AccessExport,
    AccessPlan,
    AccessProposal,
    AccessState,
    NarrowedSubscription,
    RightChanged,
    RowChanged,
    WithheldMessage,
    WithheldMessages,
)
from penstock.api.documents.common import Current, Limit, Query
from penstock.api.named import moment_or_none
from penstock.api.operations import Resource, operation
from penstock.api.parts import Parts
from penstock.core.retained import RetainedMessage
from penstock.limits import ACCESS_DOCUMENT_BYTES_MAX
from penstock.trust.rules import Action


class StateQuery(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How fresh the answer must be."""

    current: Current = False


class ExportQuery(StateQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to export."""

    hashes: bool = False


class WithheldQuery(StateQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many."""

    limit: Limit = 100


class AccessBookPages(Resource):
    """Users, roles and bans together."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._pages = DocumentPages(parts.access_admin)

    @operation("GET", "access", Action.MONITOR)
    async def state(self, call: Call, query: StateQuery) -> AccessState:  # noqa: ARG002 - as all
        """Show how many users, roles, tokens and bans there are, and the version of the book."""
        book = self._pages.book
        return AccessState(
            version=book.version,
            open=book.is_open,
            users=len(book.users),
            admins=sum(map(book.is_admin, book.users)),
            roles=len(book.roles),
            tokens=len(book.tokens),
            bans=len(book.bans),
        )

    @operation("GET", "access/export", Action.ADMIN)
    async def export(self, call: Call, query: ExportQuery) -> AccessExport:
        """Export users, roles and bans; with `hashes` also what passwords are verified with."""
        if query.hashes:
            check_may_make_secrets(call.request)
        book = self._pages.book
        document = document_of(book, with_hashes=query.hashes)
        return AccessExport(document=document, version=book.version)

    @operation("POST", "access/plan", Action.ADMIN, body_bytes_max=ACCESS_DOCUMENT_BYTES_MAX)
    async def plan(self, call: Call, body: AccessProposal) -> AccessPlan:  # noqa: ARG002
        """Tell what applying a document would do: rows, rights, subscriptions. Nothing changes."""
        pages, version = self._pages, self._pages.book.version
        plan, affected = await pages.planned(body.document, prune=body.prune)
        longest = max(len(plan.losses), len(plan.gains))
        return AccessPlan(
            changes=_rows(plan.rows),
            loses=_rights(plan.losses),
            gains=_rights(plan.gains),
            more=longest > DIFFERENCES_MAX,
            locked_out=plan.locked_out,
            subscriptions=[NarrowedSubscription(**one._asdict()) for one in affected],
            version=version,
        )

    @operation("POST", "access/apply", Action.ADMIN, body_bytes_max=ACCESS_DOCUMENT_BYTES_MAX)
    async def apply(self, call: Call, body: AccessProposal) -> AccessApplied:
        """Make users, roles and bans as a document says: all of it, or nothing."""
        rows = await self._pages.store(
            call.request, body.document, prune=body.prune, expected=body.expected
        )
        return AccessApplied(changes=_rows(rows), version=self._pages.book.version)

    @operation("GET", "access/withheld", Action.ADMIN)
    async def withheld(self, call: Call, query: WithheldQuery) -> WithheldMessages:  # noqa: ARG002
        """List retained messages that nobody is sent: their author may not publish there now."""
        found = list[RetainedMessage]()
        for step, message in enumerate(self.parts.access_admin.withheld(), 1):
            if message is not None:
                found.append(message)
            if len(found) > query.limit:
                break
            if step % SLICE_ITEMS == 0:
                await asyncio.sleep(0)
        items = [_withheld(message) for message in islice(found, query.limit)]
        return WithheldMessages(items=items, more=len(found) > query.limit)


def _rows(found: list[RowChange]) -> list[RowChanged]:
    return [RowChanged(**row._asdict()) for row in found]


def _rights(found: list[Difference]) -> list[RightChanged]:
    return [
        RightChanged(
            user=one.user,
            action=one.action,
            filter=one.topic_filter,
            before=one.before,
            after=one.after,
        )
        for one in found[:DIFFERENCES_MAX]
    ]


def _withheld(message: RetainedMessage) -> WithheldMessage:
    return WithheldMessage(
        topic=text_of(message.topic),
        author=message.author,
        time=moment_or_none(message.time_ms),
        payload_bytes=len(message.payload),
    )
