"""``/access``: the state of access control, checks of single verdicts, and what was denied."""

import asyncio

from starlette.requests import Request
from starlette.routing import Route

from penstock.access.denials import Denial
from penstock.admin.access_changes import AccessPages
from penstock.admin.guard import Guard
from penstock.admin.pages import (
    SLICE_ITEMS,
    admin_page,
    admin_read_page,
    check_current,
    list_limit,
    text_of,
    time_of,
)
from penstock.admin.refusals import RequestRefused
from penstock.admin.view import AccessAdmin
from penstock.core.retained import RetainedMessage
from penstock.model.topic import has_wildcard
from penstock.trust.rights import Coverage, Rights, Verdict
from penstock.trust.rules import TOPICLESS, Action
from penstock.trust.touched import touched

_CHECKED = ("user", "role", "action", "topic", "client_id", "stale")
_ACTIONS = {action.word: action for action in Action}


def routes(admin: AccessAdmin, guard: Guard) -> list[Route]:
    pages = _StatePages(admin)
    return [
        admin_read_page("/access", guard, admin, pages.show, action=Action.MONITOR),
        admin_page("/access/check", "GET", guard, pages.check, _CHECKED),
        admin_page("/access/denials", "GET", guard, pages.denials, ("user", "limit")),
        admin_read_page("/access/withheld", guard, admin, pages.withheld, ("limit",)),
    ]


class _StatePages(AccessPages):
    async def show(self, _request: Request) -> dict[str, object]:
        book = self.book
        return {
            "version": book.version,
            "open": book.is_open,
            "users": len(book.users),
            "admins": sum(map(book.is_admin, book.users)),
            "roles": len(book.roles),
            "tokens": len(book.tokens),
            "bans": len(book.bans),
        }

    async def check(self, request: Request) -> dict[str, object]:
        await check_current(request, self._admin)
        query = request.query_params
        action, rights = _action(query.get("action", "")), self._rights(request)
        topic, action = touched(query.get("topic", "").encode(), action)
        if not action & TOPICLESS and not topic:
            raise RequestRefused(400, f"{action.word} is about a topic", "add the topic")
        if has_wildcard(topic):
            return _coverage(rights, action, topic)
        verdict = rights.explain(action, topic)
        return {"allowed": verdict.is_allowed, "text": verdict.text, **_rule(verdict)}

    def _rights(self, request: Request) -> Rights:
        query, book = request.query_params, self.book
        client_id = query.get("client_id", "")
        if "user" in query:
            self.known(book.users, query["user"], "user")
            return book.rights_of(query["user"], client_id)
        name = query.get("role", "")
        if book.role(name) is None:
            raise RequestRefused(404, "there is no such user or role", "add ?user=NAME")
        return book.rights_of_roles((name,), "", client_id)

    async def denials(self, request: Request) -> dict[str, object]:
        limit, kept = list_limit(request), self._admin.denials
        user = request.query_params.get("user")
        found = kept.latest(limit) if user is None else kept.of(user)[::-1][:limit]
        return {"denials": [_describe(denial) for denial in found]}

    async def withheld(self, request: Request) -> dict[str, object]:
        limit, found = list_limit(request), list[RetainedMessage]()
        for step, message in enumerate(self._admin.withheld(), 1):
            if message is not None:
                found.append(message)
            if len(found) > limit:
                break
            if step % SLICE_ITEMS == 0:
                await asyncio.sleep(0)
        shown = [_withheld(message) for message in found[:limit]]
        return {"withheld": shown, "more": len(found) > limit}


def _withheld(message: RetainedMessage) -> dict[str, object]:
    return {
        "topic": text_of(message.topic),
        "author": message.author,
        "time": time_of(message.time_ms),
        "bytes": len(message.payload),
    }


def _action(word: str) -> Action:
    if word not in _ACTIONS:
        raise RequestRefused(400, f"{word!r} is no action", f"there are {', '.join(_ACTIONS)}")
    return _ACTIONS[word]


def _coverage(rights: Rights, action: Action, topic_filter: bytes) -> dict[str, object]:
    """For a filter: whether all of it is allowed, or some, and which rules have a say."""
    found = rights.coverage(action, topic_filter)
    texts = {
        Coverage.ALL: "allowed: every topic that matches",
        Coverage.SOME: "allowed in part: a subscription is narrowed to what the rules allow",
        Coverage.NONE: "denied: no topic that matches is allowed",
    }
    is_allowed = found is not Coverage.NONE
    return {"allowed": is_allowed, "coverage": found.value, "text": texts[found], "rule": None}


def _rule(verdict: Verdict) -> dict[str, object]:
    named = verdict.decided_by
    if named is None:
        return {"rule": None}
    return {"rule": {"role": named.role, "number": named.number, "text": named.rule.text}}


def _describe(denial: Denial) -> dict[str, object]:
    return {
        "time": time_of(denial.time_ms),
        "user": denial.user,
        "door": denial.door,
        "address": denial.address,
        "action": denial.action.word,
        "topic": text_of(denial.topic),
    }
