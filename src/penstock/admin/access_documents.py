"""``/access/export``, ``/access/plan`` and ``/access/apply``: users and rules as one document.

A plan says what applying a document would do, and applies nothing. Applying is one change: all of
it or none. Both are based on the version of the book that the answer names.
"""

from typing import NamedTuple

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.routing import Route

from penstock.access.documents import AccessDocument, changes_of, document_of
from penstock.access.plans import (
    DIFFERENCES_MAX,
    Difference,
    Plan,
    RowChange,
    make_plan,
    row_changes,
)
from penstock.admin.access_changes import AccessPages
from penstock.admin.guard import Guard, check_may_make_secrets
from penstock.admin.pages import (
    admin_page,
    admin_read_page,
    applied,
    bool_parameter,
    read_payload,
)
from penstock.admin.refusals import RequestRefused
from penstock.admin.view import AccessAdmin, AffectedSubscription
from penstock.limits import ACCESS_DOCUMENT_BYTES_MAX
from penstock.trust.book import ANY_VERSION, AccessBook, Change


class _Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A document; ``prune`` also removes what it does not name."""

    document: AccessDocument
    prune: bool = False
    expected: int = ANY_VERSION


class _Proposal(NamedTuple):
    """A change that would be valid."""

    changes: list[Change]
    before: AccessBook
    after: AccessBook


def routes(admin: AccessAdmin, guard: Guard) -> list[Route]:
    pages = DocumentPages(admin)
    return [
        admin_read_page("/access/export", guard, admin, pages.export, ("hashes",)),
        admin_page("/access/plan", "POST", guard, pages.plan),
        admin_page("/access/apply", "POST", guard, pages.apply),
    ]


class DocumentPages(AccessPages):
    """Users and rules as one document."""

    async def export(self, request: Request) -> dict[str, object]:
        with_hashes = bool_parameter(request, "hashes")
        if with_hashes:
            check_may_make_secrets(request)
        document = document_of(self.book, with_hashes=with_hashes)
        return {"document": document.builtins(), "version": self.book.version}

    async def plan(self, request: Request) -> dict[str, object]:
        wanted = await _read(request)
        version = self.book.version
        plan, affected = await self.planned(wanted.document, prune=wanted.prune)
        return _describe(plan, affected) | {"version": version}

    async def planned(
        self, document: AccessDocument, *, prune: bool
    ) -> tuple[Plan, list[AffectedSubscription]]:
        """What a document would change, and whose subscriptions would receive less."""
        proposal = self._proposal(document, prune=prune)
        plan = await run_in_threadpool(make_plan, *proposal[1:], proposal.changes)
        affected = self._admin.affected(proposal.after, DIFFERENCES_MAX) if plan.losses else []
        return plan, affected

    async def apply(self, request: Request) -> dict[str, object]:
        wanted = await _read(request)
        rows = await self.store(
            request, wanted.document, prune=wanted.prune, expected=wanted.expected
        )
        return {"changes": [row._asdict() for row in rows], "version": self.book.version}

    async def store(
        self, request: Request, document: AccessDocument, *, prune: bool, expected: int
    ) -> list[RowChange]:
        """Make the book as the document says; return what that changed."""
        if document.has_credentials():
            check_may_make_secrets(request)
        await applied(self._admin.confirmed())  # else a node that lags finds nothing to change
        proposal = self._proposal(document, prune=prune)
        if proposal.changes:
            await self.submit(
                request, lambda: self._proposal(document, prune=prune).changes, expected
            )
        return row_changes(proposal.before, proposal.after, proposal.changes)

    def _proposal(self, document: AccessDocument, *, prune: bool) -> _Proposal:
        try:
            changes = changes_of(self.book, document, self.now_ms(), prune=prune)
        except ValueError as error:
            raise RequestRefused(400, str(error), "nothing was changed") from None
        before, after = self.book.preview([]), self.book.preview(changes)
        if isinstance(before, str) or isinstance(after, str):
            raise RequestRefused(409, str(after), "nothing was changed")
        return _Proposal(changes, before, after)


async def _read(request: Request) -> _Request:
    body = await read_payload(request, ACCESS_DOCUMENT_BYTES_MAX, "the document")
    try:
        return msgspec.json.decode(body, type=_Request)
    except msgspec.DecodeError as error:
        advice = "send a JSON object with document, prune, expected"
        raise RequestRefused(400, f"invalid document: {error}", advice) from None


def _describe(plan: Plan, affected: list[AffectedSubscription]) -> dict[str, object]:
    return {
        "changes": [row._asdict() for row in plan.rows],
        "loses": _differences(plan.losses),
        "gains": _differences(plan.gains),
        "more": max(len(plan.losses), len(plan.gains)) > DIFFERENCES_MAX,
        "locked_out": plan.locked_out,
        "subscriptions": [one._asdict() for one in affected],
    }


def _differences(found: list[Difference]) -> list[dict[str, object]]:
    return [
        {
            "user": one.user,
            "action": one.action,
            "filter": one.topic_filter,
            "before": one.before,
            "after": one.after,
        }
        for one in found[:DIFFERENCES_MAX]
    ]
