"""``/roles``: list, show, store and remove roles. Built-in ones are listed, too."""

from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.routing import Route

from penstock.admin.access_changes import AccessPages
from penstock.admin.guard import Guard
from penstock.admin.pages import admin_page, admin_read_page, list_limit, read_payload
from penstock.admin.refusals import RequestRefused
from penstock.admin.view import AccessAdmin
from penstock.limits import MIB
from penstock.trust.book import AccessBook, put, removed
from penstock.trust.rows import BUILT_IN, Role

ROLE_BYTES_MAX = MIB  # a thousand rules of a thousand bytes

_Text = Annotated[str, Meta(max_length=1_024)]


class _Fields(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A whole role: what is left out is empty."""

    rules: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    note: _Text = ""
    expected: int = -1


def routes(admin: AccessAdmin, guard: Guard) -> list[Route]:
    pages = _RolePages(admin)
    return [
        admin_read_page("/roles", guard, admin, pages.show_all, ("after", "limit")),
        admin_read_page("/roles/{name}", guard, admin, pages.show),
        admin_page("/roles/{name}", "PUT", guard, pages.store),
        admin_page("/roles/{name}", "DELETE", guard, pages.remove),
    ]


class _RolePages(AccessPages):
    async def show_all(self, request: Request) -> dict[str, object]:
        limit, book = list_limit(request), self.book
        after = request.query_params.get("after", "")
        names = sorted(name for name in BUILT_IN | book.roles if name > after)
        shown = [_describe(book, name) for name in names[:limit]]
        return {"roles": shown, "more": len(names) > limit, "version": book.version}

    async def show(self, request: Request) -> dict[str, object]:
        name = request.path_params["name"]
        self.known(BUILT_IN | self.book.roles, name, "role")
        return _describe(self.book, name) | {"version": self.book.version}

    async def store(self, request: Request) -> dict[str, object]:
        body = await read_payload(request, ROLE_BYTES_MAX, "the role")
        try:
            wanted = msgspec.json.decode(body, type=_Fields)
        except msgspec.DecodeError as error:
            advice = "send a JSON object with rules, roles, note"
            raise RequestRefused(400, f"invalid request body: {error}", advice) from None
        name = request.path_params["name"]
        role = Role(name, wanted.rules, wanted.roles, wanted.note)
        await self.submit(request, lambda: [put(role)], wanted.expected)
        return _describe(self.book, name) | {"version": self.book.version}

    async def remove(self, request: Request) -> dict[str, object]:
        role = self.known(self.book.roles, request.path_params["name"], "role")
        described = _describe(self.book, role.name)
        await self.submit(request, lambda: [removed(role)])
        return described


def _describe(book: AccessBook, name: str) -> dict[str, object]:
    role = book.role(name)
    assert role is not None
    holders = [user.name for user in book.users.values() if name in user.roles]
    return {
        "name": name,
        "rules": list(role.rules),
        "roles": list(role.roles),
        "note": role.note,
        "built_in": name not in book.roles,
        "users": len(holders),
    }
