"""``/topics``: what the journal holds, readable with nothing but ``curl``.

The other end of every front door: a message published by MQTT a moment ago is here as soon as it is
journaled, until retention removes it. Read only. Reading happens in a worker thread, off the event
loop, and is bounded in messages and bytes.

A request must name an address or ``localhost`` as its host; :mod:`penstock.admin.exchange` says
why.
"""

from itertools import islice
from typing import TYPE_CHECKING, Any

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.routing import Route

from penstock.admin.exchange import (
    JsonLine,
    check_current,
    check_host,
    number,
    payload_fields,
    text_of,
    time_of,
)
from penstock.limits import MIB

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request
    from starlette.responses import Response

    from penstock.admin.view import View
    from penstock.model.message import Extras, Message
    from penstock.store.store import Store, TopicInfo

__all__ = ["routes"]

LISTED_DEFAULT, LISTED_MAX = 100, 1_000
"""Topics in one answer."""

MESSAGES_DEFAULT, MESSAGES_MAX = 10, 1_000
"""Messages in one answer; by default the last ones."""

BYTES_MAX = 4 * MIB
"""Payload bytes in one answer."""


def routes(view: "View") -> list[Route]:
    """The two pages."""

    def page(path: str, read: "Callable[[Request, Store], dict[str, Any]]") -> Route:
        async def answer(request: "Request") -> "Response":
            check_host(request)
            await check_current(request, view)
            return JsonLine(await run_in_threadpool(read, request, view.store))

        return Route(path, answer)

    return [page("/topics", _topics), page("/topics/{topic:path}", _messages)]


def _topics(request: "Request", store: "Store") -> dict[str, Any]:
    prefix = request.query_params.get("prefix", "").encode()
    limit = number(request, "limit", LISTED_DEFAULT, LISTED_MAX)
    return {"topics": [_describe(info) for info in islice(store.topics(prefix), limit)]}


def _messages(request: "Request", store: "Store") -> dict[str, Any]:
    name: str = request.path_params["topic"]
    info = store.topic(name.encode())
    if info is None:
        raise HTTPException(404, f"nothing was ever journaled for the topic {name!r}")
    limit = number(request, "limit", MESSAGES_DEFAULT, MESSAGES_MAX)
    last = max(info.first_offset, info.next_offset - limit)
    offset = number(request, "offset", last, 2**63)
    found = store.read_topic(name.encode(), offset, limit, BYTES_MAX)
    return {**_describe(info), "messages": [_show(message) for message in found.messages()]}


def _describe(info: "TopicInfo") -> dict[str, Any]:
    return {
        "topic": info.name.decode("utf-8", "replace"),
        "first_offset": info.first_offset,
        "next_offset": info.next_offset,
        "bytes": info.bytes,
    }


def _show(message: "Message") -> dict[str, Any]:
    return {
        "offset": message.offset,
        "sequence": message.sequence,
        "time": time_of(message.time_ms),
        "qos": message.qos,
        "retain": message.retain,
        **_extras(message.extras),
        **payload_fields(message.payload),
    }


def _extras(extras: "Extras | None") -> dict[str, Any]:
    """Who signed the message, and its headers; nothing of what it does not have."""
    shown: dict[str, Any] = {}
    if extras is not None and extras.signature is not None:
        shown["key_id"] = extras.signature.key_id
        shown["signature_version"] = extras.signature.version
    if extras is not None and extras.headers:
        shown["headers"] = [[text_of(name), text_of(value)] for name, value in extras.headers]
    return shown
