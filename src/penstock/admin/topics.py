"""``/topics``: what the journal holds, readable with nothing but ``curl``.

The other end of every front door: a message published by MQTT a moment ago is here as soon as it is
journaled, until retention removes it. Reading happens in a worker thread, off the event loop, and
is bounded in messages and bytes.

``POST`` publishes the body, as any client may: admitted by the same rules, journaled with QoS 1,
and answered when it is on disk. Only web pages may not (``check_no_web_page``): a browser would
post for any of them.

A request must name an address, ``localhost`` or a configured name as its host;
:mod:`penstock.admin.pages` says why.
"""

from itertools import islice
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from starlette.concurrency import run_in_threadpool
from starlette.routing import Route

from penstock.admin.pages import (
    JsonLine,
    RequestRefused,
    check_current,
    check_host,
    check_no_web_page,
    check_parameters,
    flag,
    kept,
    number,
    payload_fields,
    text_of,
    time_of,
)
from penstock.limits import MIB
from penstock.model.topic import has_wildcard
from penstock.obs.reasons import DisconnectReason
from penstock.wire.resp.names import topic_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request
    from starlette.responses import Response

    from penstock.admin.view import BrokerView, TopicPublisher
    from penstock.model.message import Extras, Message
    from penstock.store.store import Store, TopicInfo

    _Read = Callable[[Request, Store], dict[str, Any]]


LISTED_DEFAULT, LISTED_MAX = 100, 1_000
"""Topics in one answer."""

MESSAGES_DEFAULT, MESSAGES_MAX = 10, 1_000
"""Messages in one answer; by default the last ones."""

BYTES_MAX = 4 * MIB
"""Payload bytes in one answer."""

_ADVICE = "publish to another topic; one that demands signatures takes them by MQTT or binary"


def routes(view: "BrokerView", publisher: "TopicPublisher | None" = None) -> list[Route]:
    """The two pages, and with a ``publisher`` the way to publish."""

    def page(path: str, read: "_Read", *parameters: str) -> Route:
        async def answer(request: "Request") -> "Response":
            check_host(request)
            check_parameters(request, (*parameters, "stale"))
            await check_current(request, view)
            return JsonLine(await run_in_threadpool(read, request, view.store))

        return Route(path, answer)

    async def publish(request: "Request") -> "Response":
        check_host(request)
        check_no_web_page(request)
        check_parameters(request, ("retain",))
        assert publisher is not None
        return JsonLine(await _publish(request, publisher, view.store))

    pages = [
        page("/topics", _topics, "prefix", "limit"),
        page("/topics/{topic:path}", _messages, "offset", "limit"),
    ]
    if publisher is not None:
        pages.append(Route("/topics/{topic:path}", publish, methods=["POST"]))
    return pages


async def _publish(
    request: "Request", publisher: "TopicPublisher", store: "Store"
) -> dict[str, Any]:
    """Journal the body as it is; answer when it is on disk."""
    name: str = request.path_params["topic"]
    topic = name.encode()
    if refusal := publisher.refusal(topic):
        raise _refused(topic, *refusal)
    payload = await _payload(request, publisher.payload_bytes_max)
    offset = await kept(publisher.publish(topic, payload, retain=flag(request, "retain")))
    found = await run_in_threadpool(store.read_topic, topic, offset, 1, BYTES_MAX)
    stored = next((message for message in found.messages() if message.offset == offset), None)
    if stored is None:  # removed meanwhile, by retention or by somebody
        return {"topic": name, "offset": offset, "sequence": None, "time": None}
    time = time_of(stored.time_ms)
    return {"topic": name, "offset": offset, "sequence": stored.sequence, "time": time}


def _refused(topic: bytes, reason: DisconnectReason, text: str) -> RequestRefused:
    """The answer to a message that may not be published to a topic, with what would help."""
    if not topic:
        return RequestRefused(
            400, "no topic is named", "add it to the path, as in POST /topics/plant/a"
        )
    if reason is DisconnectReason.TOPIC_INVALID:
        advice = _escaped(topic) or "publish to another topic"
        return RequestRefused(400, text, advice)
    return RequestRefused(403, text, _ADVICE)


def _escaped(name: bytes) -> str:
    """Tell where a name with wildcards is, if it is one of Redis; empty for other names."""
    if not has_wildcard(name):
        return ""
    topic = topic_of(name).decode()
    return (
        f"a topic has no # or +; the Redis name {name.decode()} is the topic {topic},"
        f" in a URL /topics/{quote(topic)}"
    )


async def _payload(request: "Request", bytes_max: int) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > bytes_max:
            raise RequestRefused(413, "the message is too large", f"send {bytes_max} bytes at most")
    return bytes(body)


def _topics(request: "Request", store: "Store") -> dict[str, Any]:
    prefix = request.query_params.get("prefix", "").encode()
    limit = number(request, "limit", LISTED_DEFAULT, LISTED_MAX)
    return {"topics": [_describe(info) for info in islice(store.topics(prefix), limit)]}


def _messages(request: "Request", store: "Store") -> dict[str, Any]:
    name: str = request.path_params["topic"]
    info = store.topic(name.encode())
    if info is None:
        advice = _escaped(name.encode()) or "GET /topics lists the topics that there are"
        raise RequestRefused(404, f"nothing is journaled for the topic {name!r}", advice)
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
