"""``/bans``: users, client ids and address ranges that may not connect."""

from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.routing import Route

from penstock.admin.access_changes import AccessPages, expiry
from penstock.admin.guard import Guard
from penstock.admin.pages import admin_page, admin_read_page, list_limit, read_body, time_of
from penstock.admin.view import AccessAdmin
from penstock.limits import KIB
from penstock.trust.book import put, removed
from penstock.trust.rows import Ban


class _Fields(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How long (0: until it is removed), and why."""

    expires_s: Annotated[int, Meta(ge=0, le=100 * 365 * 24 * 3600)] = 0
    note: Annotated[str, Meta(max_length=KIB)] = ""


def routes(admin: AccessAdmin, guard: Guard) -> list[Route]:
    pages = _BanPages(admin)
    return [
        admin_read_page("/bans", guard, admin, pages.show_all, ("after", "limit")),
        admin_page("/bans/{name:path}", "PUT", guard, pages.add),
        admin_page("/bans/{name:path}", "DELETE", guard, pages.remove),
    ]


class _BanPages(AccessPages):
    async def show_all(self, request: Request) -> dict[str, object]:
        limit, after = list_limit(request), request.query_params.get("after", "")
        names = sorted(name for name in self.book.bans if name > after)
        shown = [_describe(self.book.bans[name], self.now_ms()) for name in names[:limit]]
        return {"bans": shown, "more": len(names) > limit, "version": self.book.version}

    async def add(self, request: Request) -> dict[str, object]:
        wanted = await read_body(request, _Fields)
        now_ms = self.now_ms()
        until_ms = expiry(wanted.expires_s, now_ms)
        ban = Ban(request.path_params["name"], until_ms, now_ms, wanted.note)
        await self.submit(request, lambda: [put(ban)])
        return _describe(ban, now_ms)

    async def remove(self, request: Request) -> dict[str, object]:
        ban = self.known(self.book.bans, request.path_params["name"], "ban")
        await self.submit(request, lambda: [removed(ban)])
        return _describe(ban, self.now_ms())


def _describe(ban: Ban, now_ms: int) -> dict[str, object]:
    return {
        "name": ban.name,
        "until": time_of(ban.until_ms),
        "expired": bool(ban.until_ms) and ban.until_ms <= now_ms,
        "created": time_of(ban.created_ms),
        "note": ban.note,
    }
