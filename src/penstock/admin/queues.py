"""``/queues``: topics that are worked on, listed, made, steered and deleted.

Every topic can be worked on. Listed are those that somebody made or steered, and those that have
groups; what is in the names of the broker's own (``$...``) only if the prefix says so. The settings
of a topic are changed one by one: what a request does not name stays as it is.

What clients see of the same is in the queue protocol. All pages here are for administrators.
"""

from heapq import nsmallest
from itertools import chain
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
from penstock.core.commands import TopicConfigured
from penstock.core.rate import milli_rate
from penstock.core.topics import TopicSettings
from penstock.model.dead_letters import PREFIX
from penstock.model.topic import topic_fault
from penstock.obs.log import get_logger

if TYPE_CHECKING:
    from starlette.requests import Request

    from penstock.admin.view import QueueAdmin


LISTED_DEFAULT, LISTED_MAX = 100, 1_000
"""Topics in one answer."""

_YEAR_S = 365 * 24 * 3600

_Count = Annotated[int, Meta(ge=0, le=2**53)]
"""More than there will ever be, and exact in the JSON of any language."""

Seconds = Annotated[float, Meta(ge=0, le=100 * _YEAR_S)]

_UNSTEERED = TopicSettings(b"", keep=True)
"""How a topic behaves that nobody has made or steered: a log, under the configured limits."""

_log = get_logger("queues")


class _Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What steers a topic; 0 is without limit."""

    rate_per_s: Annotated[float, Meta(ge=0, le=1e9)] | None = None
    burst: Annotated[int, Meta(ge=0, le=2**31)] | None = None
    max_messages: _Count | None = None
    max_age_s: Seconds | None = None
    max_bytes: _Count | None = None
    keep: bool | None = None


def routes(admin: "QueueAdmin", token: str) -> list[Route]:
    """The pages of one broker; ``token`` is the administrators', empty if there is none."""
    pages = _QueuePages(admin)
    return [
        reading_page("/queues", token, admin, pages.show_all, ("prefix", "after", "limit")),
        reading_page("/queues/{topic:path}", token, admin, pages.show),
        administrators_page("/queues/{topic:path}", "PUT", token, pages.configure),
        administrators_page("/queues/{topic:path}", "DELETE", token, pages.delete),
    ]


class _QueuePages:
    """Answers the requests. Whoever gets here may do everything."""

    def __init__(self, admin: "QueueAdmin") -> None:
        self._admin = admin

    async def show_all(self, request: "Request") -> dict[str, Any]:
        prefix = request.query_params.get("prefix", "").encode()
        after = request.query_params.get("after", "").encode()
        limit = number(request, "limit", LISTED_DEFAULT, LISTED_MAX)
        listed = {
            name
            for name in chain(self._admin.topics.by_name, self._admin.groups.by_topic)
            if name > after and name.startswith(prefix) and _is_shown(name, prefix)
        }
        page = nsmallest(limit, listed)
        shown = await in_turns(page, lambda name: _describe(self._admin, name))
        return {"queues": shown, "more": len(listed) > len(page)}

    async def show(self, request: "Request") -> dict[str, Any]:
        return _describe(self._admin, known_topic(self._admin, request.path_params["topic"]))

    async def configure(self, request: "Request") -> dict[str, Any]:
        wanted = await read_body(request, _Settings)
        topic = lawful_topic(request.path_params["topic"])
        await kept(self._admin.configure_topic(_command(topic, wanted)))
        _log.info("queue_configured", topic=text_of(topic), **_given(wanted))
        return _describe(self._admin, topic)

    async def delete(self, request: "Request") -> dict[str, Any]:
        topic = lawful_topic(request.path_params["topic"])
        known_topic(self._admin, request.path_params["topic"])
        deleted = _describe(self._admin, topic)
        await kept(self._admin.delete_topic(topic))
        _log.info("queue_deleted", topic=text_of(topic), messages=deleted["messages"])
        return deleted


def is_topic(admin: "QueueAdmin", topic: bytes) -> bool:
    """Tell whether there is such a topic: made, worked on, or with messages."""
    return (
        admin.topics.get(topic) is not None
        or topic in admin.groups.by_topic
        or admin.store.topic(topic) is not None
    )


def known_topic(admin: "QueueAdmin", name: str) -> bytes:
    """Return a topic's name if there is such a topic."""
    topic = name.encode()
    if not is_topic(admin, topic):
        raise RequestRefused(
            404,
            f"there is no topic {name!r}",
            "penstock queue list shows those that are worked on; penstock queue create makes one",
        )
    return topic


def _is_shown(name: bytes, prefix: bytes) -> bool:
    """As with the filters of MQTT: names of the broker's own are not among all names."""
    return not name.startswith(b"$") or prefix.startswith(b"$")


def lawful_topic(name: str) -> bytes:
    """Return a topic's name if there may be such a topic."""
    topic = name.encode()
    fault = topic_fault(topic)
    if not fault and topic.startswith(b"$") and not topic.startswith(PREFIX):
        fault = "names that begin with $ are the broker's own"
    if fault:
        raise RequestRefused(
            400, f"the topic {name!r} cannot be steered: {fault}", "choose another name"
        )
    return topic


def _given(wanted: _Settings) -> dict[str, Any]:
    settings = msgspec.structs.asdict(wanted)
    return {name: value for name, value in settings.items() if value is not None}


def _command(topic: bytes, wanted: _Settings) -> TopicConfigured:
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


def _describe(admin: "QueueAdmin", name: bytes) -> dict[str, Any]:
    info = admin.store.topic(name)
    settings = admin.topics.get(name) or _UNSTEERED
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
