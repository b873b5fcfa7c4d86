"""``/queues``: list, create, configure and delete topics that are used as queues.

The list has topics that were created or configured or have groups; names that begin with ``$`` only
if the prefix does. A request changes only the settings that it names.
"""

from heapq import nsmallest
from itertools import chain
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
from penstock.admin.refusals import RequestRefused
from penstock.admin.view import QueueAdmin
from penstock.core.commands import TopicConfigured
from penstock.core.rate import milli_rate
from penstock.core.topics import TopicSettings
from penstock.model.dead_letters import PREFIX
from penstock.model.topic import topic_fault
from penstock.obs.log import get_logger
from penstock.trust.rules import Action

_YEAR_S = 365 * 24 * 3600

_Count = Annotated[int, Meta(ge=0, le=2**53)]  # exact in the JSON of any language

Seconds = Annotated[float, Meta(ge=0, le=100 * _YEAR_S)]

_LIST_PARAMETERS = ("prefix", "after", "limit")

_UNCONFIGURED = TopicSettings(b"", keep=True)  # a log with the configured retention

_log = get_logger("queues")


class _QueueSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The settings of a topic; 0 is no limit."""

    rate_per_s: Annotated[float, Meta(ge=0, le=1e9)] | None = None
    burst: Annotated[int, Meta(ge=0, le=2**31)] | None = None
    max_messages: _Count | None = None
    max_age_s: Seconds | None = None
    max_bytes: _Count | None = None
    keep: bool | None = None


def routes(admin: QueueAdmin, guard: Guard) -> list[Route]:
    pages = _QueuePages(admin)
    return [
        admin_read_page("/queues", guard, admin, pages.show_all, _LIST_PARAMETERS, None),
        admin_read_page("/queues/{topic:path}", guard, admin, pages.show, action=None),
        admin_page("/queues/{topic:path}", "PUT", guard, pages.configure, action=None),
        admin_page("/queues/{topic:path}", "DELETE", guard, pages.delete, action=None),
    ]


class _QueuePages:
    def __init__(self, admin: QueueAdmin) -> None:
        self._admin = admin

    async def show_all(self, request: Request) -> dict[str, object]:
        prefix = request.query_params.get("prefix", "").encode()
        after = request.query_params.get("after", "").encode()
        limit = list_limit(request)
        hidden = () if prefix.startswith(b"$") else b"$"  # as for MQTT filters
        listed = {
            name
            for name in chain(self._admin.topics.by_name, self._admin.groups.by_topic)
            if name > after
            and name.startswith(prefix)
            and not name.startswith(hidden)
            and may(request, Action.MANAGE, name)
        }
        page = nsmallest(limit, listed)
        described = await map_in_slices(page, lambda name: _describe(self._admin, name))
        return {"queues": described, "more": len(listed) > len(page)}

    async def show(self, request: Request) -> dict[str, object]:
        require(request, Action.MANAGE, request.path_params["topic"].encode())
        return _describe(self._admin, known_topic(self._admin, request.path_params["topic"]))

    async def configure(self, request: Request) -> dict[str, object]:
        require(request, Action.MANAGE, request.path_params["topic"].encode())
        wanted = await read_body(request, _QueueSettings)
        topic = valid_topic(request.path_params["topic"])
        await applied(self._admin.configure_topic(_command(topic, wanted)))
        settings = msgspec.structs.asdict(wanted).items()
        given = {name: value for name, value in settings if value is not None}
        _log.info("queue_configured", topic=text_of(topic), **given)
        return _describe(self._admin, topic)

    async def delete(self, request: Request) -> dict[str, object]:
        require(request, Action.MANAGE, request.path_params["topic"].encode())
        topic = valid_topic(request.path_params["topic"])
        known_topic(self._admin, request.path_params["topic"])
        deleted = _describe(self._admin, topic)
        await applied(self._admin.delete_topic(topic))
        _log.info("queue_deleted", topic=text_of(topic), messages=deleted["messages"])
        return deleted


def is_topic(admin: QueueAdmin, topic: bytes) -> bool:
    return (
        admin.topics.get(topic) is not None
        or topic in admin.groups.by_topic
        or admin.store.topic(topic) is not None
    )


def known_topic(admin: QueueAdmin, name: str) -> bytes:
    topic = name.encode()
    if not is_topic(admin, topic):
        advice = "penstock queue list shows all queues; penstock queue create makes one"
        raise RequestRefused(404, f"there is no topic {name!r}", advice)
    return topic


def valid_topic(name: str) -> bytes:
    topic = name.encode()
    fault = topic_fault(topic)
    if not fault and topic.startswith(b"$") and not topic.startswith(PREFIX):
        fault = "names that begin with $ are reserved"
    if fault:
        error = f"the topic {name!r} cannot be configured: {fault}"
        raise RequestRefused(400, error, "choose another name")
    return topic


def _command(topic: bytes, wanted: _QueueSettings) -> TopicConfigured:
    rate, age_s = wanted.rate_per_s, wanted.max_age_s
    return TopicConfigured(
        topic,
        rate_milli=None if rate is None else milli_rate(rate),
        burst=wanted.burst,
        max_messages=wanted.max_messages,
        max_age_ms=None if age_s is None else round(age_s * 1000),
        max_bytes=wanted.max_bytes,
        keep=wanted.keep,
    )


def _describe(admin: QueueAdmin, name: bytes) -> dict[str, object]:
    info = admin.store.topic(name)
    settings = admin.topics.get(name) or _UNCONFIGURED
    return {
        "topic": text_of(name),
        "messages": admin.messages(name),
        "stored": info.count if info else 0,
        "bytes": info.bytes if info else 0,
        "first_offset": admin.first_offset(name),
        "end_offset": info.next_offset if info else 0,
        "rate_per_s": settings.rate_milli / 1000,
        "burst": settings.burst,
        "max_messages": settings.max_messages,
        "max_age_s": settings.max_age_ms / 1000,
        "max_bytes": settings.max_bytes,
        "keep": settings.keep,
        "groups": len(admin.groups.by_topic.get(name, {})),
    }
