"""``/topics``: list topics, read and publish messages, with nothing but ``curl``.

Reads run in a worker thread and are bounded in messages and bytes. ``POST`` publishes the body with
QoS 1 and answers once it is durable. Web pages may not post: a browser would do it for any of them.
"""

from collections.abc import Callable
from itertools import chain, islice
from urllib.parse import quote

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from penstock.admin.guard import Guard, caller_of, check_host_of_nobody
from penstock.admin.pages import (
    PAYLOAD_LIMIT,
    JsonLine,
    applied,
    bool_parameter,
    check_current,
    check_parameters,
    int_parameter,
    list_limit,
    may,
    payload_fields,
    read_payload,
    require,
    text_of,
    time_of,
    trace_headers,
)
from penstock.admin.refusals import RequestRefused
from penstock.admin.view import BrokerView, TopicPublisher
from penstock.limits import HEADERS_BYTES_MAX, HEADERS_MAX, MIB
from penstock.model.message import Extras, Message
from penstock.model.mqtt_headers import Headers
from penstock.model.topic import has_wildcard
from penstock.obs.printable import printable
from penstock.obs.reasons import DisconnectReason
from penstock.store.store import Store, TopicInfo
from penstock.trust.rules import Action
from penstock.wire.resp.names import topic_of

MESSAGES_DEFAULT, MESSAGES_MAX = 10, 1_000  # messages in one response; by default the newest
BYTES_MAX = 4 * MIB  # payload bytes in one response
EXPIRY_S_MAX = (1 << 32) - 1  # as in MQTT

_ADVICE = "publish to another topic, or publish signed messages by MQTT or the binary protocol"


def routes(view: BrokerView, guard: Guard, publisher: TopicPublisher | None = None) -> list[Route]:
    def page(
        path: str, read: Callable[[Request, Store], dict[str, object]], *parameters: str
    ) -> Route:
        async def answer(request: Request) -> Response:
            await guard.admit(request, None, is_public=True)
            check_host_of_nobody(request)
            if "topic" in request.path_params:
                require(request, Action.READ, request.path_params["topic"].encode())
            check_parameters(request, (*parameters, "stale"))
            await check_current(request, view)
            return JsonLine(await run_in_threadpool(read, request, view.store))

        return Route(path, answer)

    async def publish(request: Request) -> Response:
        await guard.admit(request, None, is_public=True)
        check_host_of_nobody(request)
        check_parameters(request, ("retain", "header", "expiry_s"))
        assert publisher is not None
        return JsonLine(await _publish(request, publisher, view.store))

    pages = [
        page("/topics", _topics, "prefix", "limit"),
        page("/topics/{topic:path}", _messages, "offset", "limit"),
    ]
    if publisher is not None:
        pages.append(Route("/topics/{topic:path}", publish, methods=["POST"]))
    return pages


async def _publish(request: Request, publisher: TopicPublisher, store: Store) -> dict[str, object]:
    name: str = request.path_params["topic"]
    topic = name.encode()
    _admit(request, publisher, topic)
    payload = await read_payload(request, publisher.payload_bytes_max, "the message", PAYLOAD_LIMIT)
    _admit(request, publisher, topic)  # again: the sender decides how long a body takes
    published = publisher.publish(
        topic,
        payload,
        retain=bool_parameter(request, "retain"),
        headers=_headers(request),
        expiry_s=int_parameter(request, "expiry_s", 0, EXPIRY_S_MAX),
    )
    offset = await applied(published)
    found = await run_in_threadpool(store.read_topic, topic, offset, 1, BYTES_MAX)
    stored = next((message for message in found.messages() if message.offset == offset), None)
    if stored is None:  # removed already, by retention or a deletion
        return {"topic": name, "offset": offset, "sequence": None, "time": None}
    time = time_of(stored.time_ms)
    return {"topic": name, "offset": offset, "sequence": stored.sequence, "time": time}


def _headers(request: Request) -> Headers:
    """The headers that a request asks for, as ``header=NAME:VALUE``; any number of them."""
    headers: list[tuple[bytes, bytes]] = []
    for text in request.query_params.getlist("header"):
        name, colon, value = text.partition(":")
        if not name or not colon:
            advice = "write header=NAME:VALUE, once for each"
            raise RequestRefused(400, f"{printable(text)} is not a header", advice)
        headers.append((name.encode(), value.encode()))
    headers += trace_headers(request, tuple(headers))
    if len(headers) > HEADERS_MAX or sum(map(len, chain(*headers))) > HEADERS_BYTES_MAX:
        advice = f"a message may have {HEADERS_MAX} headers of {HEADERS_BYTES_MAX} bytes together"
        raise RequestRefused(400, "too many headers, or too large ones", advice)
    return tuple(headers)


def _admit(request: Request, publisher: TopicPublisher, topic: bytes) -> None:
    if refusal := publisher.refusal(caller_of(request).principal, topic):
        raise _refused(topic, *refusal)


def _refused(topic: bytes, reason: DisconnectReason, text: str) -> RequestRefused:
    if not topic:
        advice = "add it to the path, as in POST /topics/plant/a"
        return RequestRefused(400, "the topic is missing", advice)
    if reason is DisconnectReason.TOPIC_INVALID:
        return RequestRefused(400, text, _redis_name_advice(topic) or "publish to another topic")
    return RequestRefused(403, text, _ADVICE)


def _redis_name_advice(name: bytes) -> str:
    if not has_wildcard(name):
        return ""
    topic = topic_of(name).decode()
    return (
        f"a topic has no # or +; the Redis name {name.decode()} is the topic {topic},"
        f" in a URL /topics/{quote(topic)}"
    )


def _topics(request: Request, store: Store) -> dict[str, object]:
    prefix = request.query_params.get("prefix", "").encode()
    limit = list_limit(request)
    found = (info for info in store.topics(prefix) if may(request, Action.READ, info.name))
    return {"topics": [_describe(info) for info in islice(found, limit)]}


def _messages(request: Request, store: Store) -> dict[str, object]:
    name: str = request.path_params["topic"]
    info = store.topic(name.encode())
    if info is None:
        advice = _redis_name_advice(name.encode()) or "GET /topics lists all topics"
        raise RequestRefused(404, f"topic {name!r} has no messages in the journal", advice)
    limit = int_parameter(request, "limit", MESSAGES_DEFAULT, MESSAGES_MAX)
    last = max(info.first_offset, info.next_offset - limit)
    offset = int_parameter(request, "offset", last, 2**63)
    found = store.read_topic(name.encode(), offset, limit, BYTES_MAX)
    return {**_describe(info), "messages": [_show(message) for message in found.messages()]}


def _describe(info: TopicInfo) -> dict[str, object]:
    return {
        "topic": info.name.decode("utf-8", "replace"),
        "first_offset": info.first_offset,
        "next_offset": info.next_offset,
        "bytes": info.bytes,
    }


def _show(message: Message) -> dict[str, object]:
    return {
        "offset": message.offset,
        "sequence": message.sequence,
        "time": time_of(message.time_ms),
        "qos": message.qos,
        "retain": message.retain,
        **_extras(message.extras),
        **payload_fields(message.payload),
    }


def _extras(extras: Extras | None) -> dict[str, object]:
    fields: dict[str, object] = {}
    if extras is not None and extras.signature is not None:
        fields["key_id"] = extras.signature.key_id
        fields["signature_version"] = extras.signature.version
    if extras is not None and extras.expires_ms:
        fields["expires"] = time_of(extras.expires_ms)
    if extras is not None and extras.headers:
        fields["headers"] = [[text_of(name), text_of(value)] for name, value in extras.headers]
    return fields
