"""``/groups``: who works on which topic and how far they are; made, moved, steered and deleted.

A group is named by two names that may contain anything, so both are parameters of the query, or
fields of the body, and never parts of the path. It may be there before its topic is: so nothing
passes it by.
"""

from datetime import UTC, datetime
from heapq import nsmallest
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta
from starlette.routing import Route

from penstock.admin.pages import (
    RequestRefused,
    administrators_page,
    in_turns,
    kept,
    number,
    read_body,
    reading_page,
    text_of,
)
from penstock.admin.queues import Seconds, is_topic, known_topic, lawful_topic
from penstock.config.units import with_unit
from penstock.core.commands import GroupConfigured
from penstock.core.groups import Group
from penstock.limits import BACKOFF_MS_DEFAULT, GROUP_BYTES_MAX, GROUPS_MAX
from penstock.obs.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.requests import Request

    from penstock.admin.view import QueueAdmin


LISTED_DEFAULT, LISTED_MAX = 100, 1_000
"""Groups in one answer."""

_Place = Annotated[int, Meta(ge=0, le=2**63 - 1)] | str
"""An offset; "earliest" or "latest"; or a time, as in "2030-01-01T00:00:00Z"."""

_Times = Annotated[int, Meta(ge=0, le=2**32 - 1)]
"""How often; no more than the queue protocol has bits for."""

_LISTING = ("topic", "group", "after_topic", "after_group", "limit")
"""Parameters of the list."""

_log = get_logger("queues")


class _GroupRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What makes, moves or steers a group."""

    topic: str
    group: str
    start: _Place | None = None
    """Where it begins if there is none yet: at the earliest unless said."""
    seek: _Place | None = None
    """Where it goes on from."""
    max_deliveries: _Times | None = None
    backoff_s: Seconds | None = None
    backoff_max_s: Seconds | None = None


def routes(admin: "QueueAdmin", token: str) -> list[Route]:
    """The pages of one broker; ``token`` is the administrators', empty if there is none."""
    pages = _GroupPages(admin)
    return [
        reading_page("/groups", token, admin, pages.show_all, _LISTING),
        administrators_page("/groups", "PUT", token, pages.put),
        administrators_page("/groups", "DELETE", token, pages.delete, ("topic", "group")),
    ]


def names(request: "Request") -> tuple[str, str]:
    """Return the topic and the group that a request's query names."""
    topic, group = request.query_params.get("topic"), request.query_params.get("group")
    if topic is None or group is None:
        raise RequestRefused(400, "which group is meant?", "name it: ?topic=TOPIC&group=GROUP")
    return topic, group


class _GroupPages:
    """Answers the requests. Whoever gets here may do everything."""

    def __init__(self, admin: "QueueAdmin") -> None:
        self._admin = admin

    async def show_all(self, request: "Request") -> dict[str, Any]:
        if "group" in request.query_params:
            group = known_group(self._admin, *names(request))
            return {"groups": [self._describe(group)], "more": False}
        asked = request.query_params
        after = (asked.get("after_topic", "").encode(), asked.get("after_group", "").encode())
        limit = number(request, "limit", LISTED_DEFAULT, LISTED_MAX)
        candidates = self._candidates(asked.get("topic"))
        found = [group for group in candidates if (group.topic, group.name) > after]
        page = nsmallest(limit, found, key=lambda group: (group.topic, group.name))
        shown = await in_turns(page, self._describe)
        return {"groups": shown, "more": len(found) > len(page)}

    def _candidates(self, topic: str | None) -> "Iterable[Group]":
        if topic is not None:
            name = known_topic(self._admin, topic)
            return self._admin.groups.by_topic.get(name, {}).values()
        return (group for group in self._admin.groups if not group.topic.startswith(b"$"))

    async def put(self, request: "Request") -> dict[str, Any]:
        wanted = await read_body(request, _GroupRequest)
        start = _place("start", "earliest" if wanted.start is None else wanted.start)
        seek = None if wanted.seek is None else _place("seek", wanted.seek)
        topic, group = self._lawful(wanted, is_there=seek is not None)
        if await kept(self._admin.make_group(topic, group, *start)):
            _log.info("group_made", topic=wanted.topic, group=wanted.group)
        await self._configure(topic, group, wanted)
        if seek is not None:
            await kept(self._admin.move_group(topic, group, *seek))
            _log.info("group_moved", topic=wanted.topic, group=wanted.group, to=wanted.seek)
        return self._describe(known_group(self._admin, wanted.topic, wanted.group))

    def _lawful(self, wanted: _GroupRequest, *, is_there: bool) -> tuple[bytes, bytes]:
        """Return topic and group if the group can be as wanted: before anything of it is done."""
        topic, name = wanted.topic.encode(), wanted.group.encode()
        if is_there:
            known_group(self._admin, wanted.topic, wanted.group)
        elif not is_topic(self._admin, topic):
            lawful_topic(wanted.topic)
        group = self._admin.groups.get(topic, name)
        if group is None:
            _check_new(wanted.group, self._admin.groups.count)
        _check_pauses(wanted, group)
        return topic, name

    async def _configure(self, topic: bytes, group: bytes, wanted: _GroupRequest) -> None:
        pause_ms, longest_ms = _milliseconds(wanted.backoff_s), _milliseconds(wanted.backoff_max_s)
        settings = (wanted.max_deliveries, pause_ms, longest_ms)
        if settings != (None, None, None):
            await kept(self._admin.configure_group(GroupConfigured(topic, group, *settings)))
            _log.info("group_configured", topic=wanted.topic, group=wanted.group)

    async def delete(self, request: "Request") -> dict[str, Any]:
        topic, name = names(request)
        group = known_group(self._admin, topic, name)
        consumers = self._admin.consumers(group.topic, group.name)
        if consumers:
            raise RequestRefused(
                409,
                f"the group {name!r} of {topic!r} has consumers now: {consumers}",
                "stop them first; they would make it anew, from the beginning",
            )
        deleted = self._describe(group)
        await kept(self._admin.delete_group(group.topic, group.name))
        _log.info("group_deleted", topic=topic, group=name)
        return deleted

    def _describe(self, group: Group) -> dict[str, Any]:
        return {
            "topic": text_of(group.topic),
            "group": text_of(group.name),
            "position": group.oldest_unsettled,
            "lag": self._admin.lag(group),
            "in_flight": group.in_hand,
            "returned": group.returned_count,
            "delayed": len(group.waiting),
            "dead_letters": group.dead_letters,
            "redeliveries": group.redeliveries,
            "consumers": self._admin.consumers(group.topic, group.name),
            "max_deliveries": group.max_deliveries,
            "backoff_s": group.backoff_ms / 1000,
            "backoff_max_s": group.backoff_max_ms / 1000,
            "reader": group.reader,
            "began": group.start,
        }


def known_group(admin: "QueueAdmin", topic: str, name: str) -> Group:
    """Return a group if there is such a group."""
    group = admin.groups.get(known_topic(admin, topic), name.encode())
    if group is None:
        raise RequestRefused(
            404,
            f"there is no group {name!r} of the topic {topic!r}",
            "penstock groups list shows all groups; penstock groups create makes one",
        )
    return group


def _check_new(name: str, count: int) -> None:
    """Refuse what every protocol would refuse."""
    if len(name.encode()) > GROUP_BYTES_MAX:
        raise RequestRefused(
            400, f"longer than {GROUP_BYTES_MAX} bytes: {name!r}", "choose another name"
        )
    if count >= GROUPS_MAX:
        raise RequestRefused(409, f"there are {GROUPS_MAX} groups", "delete some that nobody needs")


def _check_pauses(wanted: _GroupRequest, group: Group | None) -> None:
    """Refuse a longest pause below the first one: what is not wanted stays as the group has it."""
    first_s, longest_s = wanted.backoff_s, wanted.backoff_max_s
    if first_s is None:
        first_s = (group.backoff_ms if group else BACKOFF_MS_DEFAULT) / 1000
    if longest_s is None:
        longest_s = group.backoff_max_ms / 1000 if group and group.is_backoff_chosen else 0
    if 0 < longest_s < first_s:
        raise RequestRefused(
            400,
            f"the longest pause, {with_unit(longest_s, 's')}, is less than the first one,"
            f" {with_unit(first_s, 's')}",
            "raise backoff_max or lower backoff; a backoff_max of 0 is no limit",
        )


def _milliseconds(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1000)


def _place(field: str, place: int | str) -> tuple[str, int]:
    """Return where a group is to begin, as a ``QueueAdmin`` takes it."""
    if isinstance(place, int):
        return "offset", place
    if place in ("earliest", "latest"):
        return place, 0
    try:
        time = datetime.fromisoformat(place)
        aware = time if time.tzinfo else time.replace(tzinfo=UTC)
        return "time", max(round(aware.timestamp() * 1000), 0)
    except (ValueError, OverflowError):
        raise RequestRefused(
            400,
            f"{field} is no place in a topic: {place!r}",
            'send "earliest", "latest", an offset as a number, or a time as in'
            ' "2030-01-01T00:00:00Z"',
        ) from None
