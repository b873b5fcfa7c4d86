"""``/groups``: list, create, configure, move and delete consumer groups.

The names of topic and group may contain anything, so they are parameters or fields of the body. A
group can be created before its topic, so that it misses no message.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from heapq import nsmallest
from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.routing import Route

from penstock.admin.guard import Guard
from penstock.admin.pages import (
    admin_page,
    admin_read_page,
    applied,
    list_limit,
    map_in_slices,
    may,
    read_body,
    require,
    text_of,
)
from penstock.admin.queues import Seconds, is_topic, known_topic, valid_topic
from penstock.admin.refusals import RequestRefused
from penstock.admin.view import QueueAdmin
from penstock.config.units import with_unit
from penstock.core.commands import GroupConfigured
from penstock.core.groups import Group
from penstock.limits import BACKOFF_MS_DEFAULT, GROUP_BYTES_MAX, GROUPS_MAX
from penstock.obs.log import get_logger
from penstock.trust.rules import Action

_Position = Annotated[int, Meta(ge=0, le=2**63 - 1)] | str
"""An offset; "earliest" or "latest"; or a time, as in "2030-01-01T00:00:00Z"."""

_Deliveries = Annotated[int, Meta(ge=0, le=2**32 - 1)]  # the range of the queue protocol

_LIST_PARAMETERS = ("topic", "group", "after_topic", "after_group", "limit")

_log = get_logger("queues")


class _GroupSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Creates, moves or configures a group."""

    topic: str
    group: str
    start: _Position | None = None  # for a new group; the earliest by default
    seek: _Position | None = None  # for an existing group
    max_deliveries: _Deliveries | None = None
    backoff_s: Seconds | None = None
    backoff_max_s: Seconds | None = None


def routes(admin: QueueAdmin, guard: Guard) -> list[Route]:
    pages = _GroupPages(admin)
    return [
        admin_read_page("/groups", guard, admin, pages.show_all, _LIST_PARAMETERS, None),
        admin_page("/groups", "PUT", guard, pages.put, action=None),
        admin_page("/groups", "DELETE", guard, pages.delete, ("topic", "group"), None),
    ]


def names(request: Request) -> tuple[str, str]:
    topic, group = request.query_params.get("topic"), request.query_params.get("group")
    if topic is None or group is None:
        raise RequestRefused(400, "the group is missing", "add ?topic=TOPIC&group=GROUP")
    return topic, group


class _GroupPages:
    def __init__(self, admin: QueueAdmin) -> None:
        self._admin = admin

    async def show_all(self, request: Request) -> dict[str, object]:
        if "group" in request.query_params:
            require(request, Action.MANAGE, names(request)[0].encode())
            group = known_group(self._admin, *names(request))
            return {"groups": [self._describe(group)], "more": False}
        query = request.query_params
        after = (query.get("after_topic", "").encode(), query.get("after_group", "").encode())
        limit = list_limit(request)
        candidates = self._candidates(query.get("topic"))
        found = [
            group
            for group in candidates
            if (group.topic, group.name) > after and may(request, Action.MANAGE, group.topic)
        ]
        page = nsmallest(limit, found, key=lambda group: (group.topic, group.name))
        described = await map_in_slices(page, self._describe)
        return {"groups": described, "more": len(found) > len(page)}

    def _candidates(self, topic: str | None) -> Iterable[Group]:
        if topic is not None:
            name = known_topic(self._admin, topic)
            return self._admin.groups.by_topic.get(name, {}).values()
        return (group for group in self._admin.groups if not group.topic.startswith(b"$"))

    async def put(self, request: Request) -> dict[str, object]:
        wanted = await read_body(request, _GroupSettings)
        require(request, Action.MANAGE, wanted.topic.encode())
        start = position("start", "earliest" if wanted.start is None else wanted.start)
        seek = None if wanted.seek is None else position("seek", wanted.seek)
        topic, group = self._check(wanted, must_exist=seek is not None)
        if await applied(self._admin.make_group(topic, group, *start)):
            _log.info("group_made", topic=wanted.topic, group=wanted.group)
        await self._configure(topic, group, wanted)
        if seek is not None:
            await applied(self._admin.move_group(topic, group, *seek))
            _log.info("group_moved", topic=wanted.topic, group=wanted.group, to=wanted.seek)
        return self._describe(known_group(self._admin, wanted.topic, wanted.group))

    def _check(self, wanted: _GroupSettings, *, must_exist: bool) -> tuple[bytes, bytes]:
        topic, name = wanted.topic.encode(), wanted.group.encode()
        if must_exist:
            known_group(self._admin, wanted.topic, wanted.group)
        elif not is_topic(self._admin, topic):
            valid_topic(wanted.topic)
        group = self._admin.groups.get(topic, name)
        if group is None:
            check_new(wanted.group, self._admin.groups.count)
        check_backoff(wanted.backoff_s, wanted.backoff_max_s, group)
        return topic, name

    async def _configure(self, topic: bytes, group: bytes, wanted: _GroupSettings) -> None:
        backoff_ms = _milliseconds(wanted.backoff_s)
        settings = (wanted.max_deliveries, backoff_ms, _milliseconds(wanted.backoff_max_s))
        if settings != (None, None, None):
            await applied(self._admin.configure_group(GroupConfigured(topic, group, *settings)))
            _log.info("group_configured", topic=wanted.topic, group=wanted.group)

    async def delete(self, request: Request) -> dict[str, object]:
        topic, name = names(request)
        require(request, Action.MANAGE, topic.encode())
        group = known_group(self._admin, topic, name)
        consumers = self._admin.consumers(group.topic, group.name)
        if consumers:
            what = f"the group {name!r} of {topic!r} has connected consumers: {consumers}"
            advice = "stop them first; otherwise they would create it again, at the beginning"
            raise RequestRefused(409, what, advice)
        deleted = self._describe(group)
        await applied(self._admin.delete_group(group.topic, group.name))
        _log.info("group_deleted", topic=topic, group=name)
        return deleted

    def _describe(self, group: Group) -> dict[str, object]:
        return {
            "topic": text_of(group.topic),
            "group": text_of(group.name),
            "position": group.oldest_unsettled,
            "lag": self._admin.lag(group),
            "in_flight": group.in_flight,
            "returned": len(group.returned),
            "delayed": len(group.delayed),
            "dead_letters": group.dead_letters,
            "redeliveries": group.redeliveries,
            "consumers": self._admin.consumers(group.topic, group.name),
            "max_deliveries": group.max_deliveries,
            "backoff_s": group.backoff_ms / 1000,
            "backoff_max_s": group.backoff_max_ms / 1000,
            "reader": group.reader,
            "began": group.start,
        }


def known_group(admin: QueueAdmin, topic: str, name: str) -> Group:
    group = admin.groups.get(known_topic(admin, topic), name.encode())
    if group is None:
        advice = "penstock groups list shows all groups; penstock groups create makes one"
        raise RequestRefused(404, f"there is no group {name!r} of the topic {topic!r}", advice)
    return group


def check_new(name: str, count: int) -> None:
    if len(name.encode()) > GROUP_BYTES_MAX:
        error = f"the name is longer than {GROUP_BYTES_MAX} bytes: {name!r}"
        raise RequestRefused(400, error, "choose another name")
    if count >= GROUPS_MAX:
        raise RequestRefused(409, f"there are {GROUPS_MAX} groups", "delete unused ones")


def check_backoff(first_s: float | None, longest_s: float | None, group: Group | None) -> None:
    if first_s is None:
        first_s = (group.backoff_ms if group else BACKOFF_MS_DEFAULT) / 1000
    if longest_s is None:
        longest_s = group.backoff_max_ms / 1000 if group and group.is_backoff_chosen else 0
    if 0 < longest_s < first_s:
        raise RequestRefused(
            400,
            f"backoff_max, {with_unit(longest_s, 's')}, is less than backoff,"
            f" {with_unit(first_s, 's')}",
            "raise backoff_max or lower backoff; a backoff_max of 0 is no limit",
        )


def _milliseconds(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1000)


def position(field: str, position: int | str) -> tuple[str, int]:
    if isinstance(position, int):
        return "offset", position
    if position in ("earliest", "latest"):
        return position, 0
    try:
        time = datetime.fromisoformat(position)
        aware = time if time.tzinfo else time.replace(tzinfo=UTC)
        return "time", max(round(aware.timestamp() * 1000), 0)
    except (ValueError, OverflowError):
        raise RequestRefused(
            400,
            f"{field} is not a position in a topic: {position!r}",
            'send "earliest", "latest", an offset as a number, or a time as in'
            ' "2030-01-01T00:00:00Z"',
        ) from None
