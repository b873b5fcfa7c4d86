"""``messages``: pages of a topic, payloads, numbers over time, publishing."""

import base64
from time import monotonic
from typing import Annotated, Final
from urllib.parse import quote

from msgspec import Meta, field
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from penstock.admin.pages import PAYLOAD_LIMIT, at_most, trace_headers
from penstock.api.call import Call
from penstock.api.cursors import cursor_of, key_of
from penstock.api.documents.common import Count, ListQuery, Query, moment, name_of
from penstock.api.documents.messages import (
    Messages,
    PublishCheck,
    Published,
    PublishRequest,
    Receivers,
    Series,
    SeriesLine,
)
from penstock.api.names import TopicName, When, invalid, moment_or_none, ms_of, topic_of
from penstock.api.operations import Resource, operation
from penstock.api.problems import Problem, not_found
from penstock.api.reading.decoding import Form
from penstock.api.reading.pages import DeviceOf, Look, Order, look
from penstock.api.reading.scanning import (
    BYTES_MAX,
    MESSAGES_MAX,
    SECONDS_MAX,
    Bounds,
    backwards,
    forwards,
)
from penstock.api.reading.series import (
    Sample,
    bucket_ms,
    number_in,
    numeric_fields,
    points_of,
    value_of,
)
from penstock.api.views import Audience, Draft, Publishing
from penstock.limits import HEADERS_BYTES_MAX, HEADERS_MAX, HTTP_PAYLOAD_BYTES_MAX, KIB
from penstock.model.message import CONTENT_TYPE_SHIFT, PRIORITY_MAX, PRIORITY_SHIFT, Extras, Message
from penstock.model.mqtt_headers import CONTENT_TYPE, CONTENT_TYPES, Headers
from penstock.obs.reasons import DisconnectReason
from penstock.store.search import offset_at_time
from penstock.store.store import Store, TopicInfo
from penstock.trust.rules import Action

LINES_MAX: Final = 16  # of a chart: topics times fields
POINTS_MAX: Final = 2_000
PAYLOAD_SHOWN_MAX: Final = 256 * KIB
DURATION_S_MAX: Final = (1 << 32) - 1  # as in MQTT
BODY_BYTES_MAX: Final = HTTP_PAYLOAD_BYTES_MAX * 4 // 3 + 256 * KIB  # in base64, with headers


class MessageQuery(ListQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which messages."""

    topic: TopicName
    order: Annotated[
        Order, Meta(description="Newest or oldest first; offset and time are where to begin.")
    ] = "newest"
    offset: Count | None = None
    at: When = ""
    find: Annotated[
        str,
        Meta(description="Only messages with this text in them, in any case.", max_length=1_024),
    ] = ""
    decode: Annotated[Form, Meta(description="How to show payloads.")] = "auto"
    payload_max: Annotated[
        int, Meta(description="Bytes of a payload that are shown.", ge=1, le=PAYLOAD_SHOWN_MAX)
    ] = 1_024
    limit: Annotated[int, Meta(description="How many items, at most.", ge=1, le=1_000)] = 50


class PayloadQuery(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which message."""

    topic: TopicName
    offset: Count


class SeriesQuery(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which numbers."""

    topic: Annotated[
        list[str], Meta(description="One or more topics.", min_length=1, max_length=LINES_MAX)
    ]
    field: Annotated[
        list[str],
        Meta(
            description="Fields of the payloads; names of nested ones are joined by dots. Without"
            " one, or empty: the payload itself.",
            max_length=LINES_MAX,
        ),
    ] = field(default_factory=list)
    since: When = ""
    until: When = ""
    last: Annotated[
        int, Meta(description="Without `since`: so many messages.", ge=1, le=MESSAGES_MAX)
    ] = 1_000
    points: Annotated[int, Meta(description="At most so many of a line.", ge=1, le=POINTS_MAX)] = (
        300
    )


class MessagePages(Resource):
    """Messages."""

    @property
    def _store(self) -> Store:
        return self.parts.view.store

    @property
    def _device_of(self) -> DeviceOf:
        known = self.parts.keys.keys() if self.parts.keys is not None else []
        return {key.id: key.device for key in known}.get

    def _known(self, topic: bytes) -> TopicInfo:
        info = self._store.topic(topic)
        if info is None:
            advice = "GET topics lists the topics that have some"
            raise not_found(f"topic {name_of(topic)} has no messages in the journal", advice)
        return info

    # ── reading ───────────────────────────────────────────────────────────────────────────────

    @operation("GET", "messages", None)
    async def browse(self, call: Call, query: MessageQuery) -> Messages:
        """Show messages of a topic, by offset or time, newest first.

        A search looks at 100,000 messages, 64 MiB or for 2 s; then `stopped` says which, and `next`
        goes on. JSON and MessagePack are shown as JSON text; a cut payload says so.
        """
        topic = topic_of(query.topic)
        call.require(Action.READ, topic)
        key = key_of("messages", query.cursor, tuple[bytes, str, int])
        if key is not None and key[:2] != (topic, query.order):
            raise Problem(400, "invalid_cursor", "the cursor is of another topic or order")
        wanted = Look(
            order=query.order,
            offset=key[2] if key is not None else query.offset,
            at_ms=ms_of(query.at, "at") if query.at else None,
            find=query.find.lower().encode(),
            form=query.decode,
            payload_bytes_max=query.payload_max,
            limit=query.limit,
        )
        return await call.read(self._page, topic, wanted, self._device_of)

    def _page(self, topic: bytes, wanted: Look, device_of: DeviceOf) -> Messages:
        page, next_offset = look(self._store, self._known(topic), wanted, device_of)
        if next_offset is None:
            return page
        return replace(page, next=cursor_of("messages", (topic, wanted.order, next_offset)))

    @operation("GET", "messages/payload", None, media_type="application/octet-stream")
    async def payload(self, call: Call, query: PayloadQuery) -> Response:
        """Download one payload, whole, as it was published."""
        topic = topic_of(query.topic)
        call.require(Action.READ, topic)
        message = await call.read(self._message, topic, query.offset)
        name = quote(query.topic.replace("/", "_")[:100], safe="")
        plain = f'filename="message-{query.offset}.bin"'  # for those who know no other form
        disposition = f"attachment; {plain}; filename*=UTF-8''{name}-{query.offset}"
        headers = {
            "cache-control": "no-store",
            "content-disposition": disposition,
            "x-content-type-options": "nosniff",
        }
        return Response(message.payload, 200, headers, "application/octet-stream")

    def _message(self, topic: bytes, offset: int) -> Message:
        found = self._store.read_topic(topic, offset, 1, 1)
        message = next(found.messages(), None)
        if message is None or message.offset != offset:
            raise not_found(f"topic {name_of(topic)} has no message with offset {offset}")
        return message

    @operation("GET", "messages/series", None)
    async def series(self, call: Call, query: SeriesQuery) -> Series:
        """Show numbers of payloads over time: the least, the greatest and the last per bucket.

        Together the lines look at 100,000 messages, or for 2 s; a line that stopped says so.
        """
        topics = [topic_of(name) for name in query.topic]
        for topic in topics:
            call.require(Action.READ, topic)
        if len(topics) * max(len(query.field), 1) > LINES_MAX:
            raise invalid("field", f"more than {LINES_MAX} lines")
        since = ms_of(query.since, "since") if query.since else None
        until = ms_of(query.until, "until") if query.until else None
        return await call.read(self._series, topics, query, since, until)

    def _series(
        self, topics: list[bytes], query: SeriesQuery, since: int | None, until: int | None
    ) -> Series:
        fields = query.field or [""]
        ends_at = monotonic() + SECONDS_MAX
        lines: list[SeriesLine] = []
        samples: list[list[Sample]] = []
        for topic in topics:
            bounds = Bounds(MESSAGES_MAX // len(topics), BYTES_MAX, max(ends_at - monotonic(), 0.1))
            found, next_offset = self._numbers(topic, fields, (since, until, query.last), bounds)
            for name, line in zip(fields, found, strict=True):
                samples.append(line)
                lines.append(
                    SeriesLine(
                        name_of(topic),
                        name,
                        [],
                        bounds.scanned,
                        len(line),
                        bounds.stopped,
                        next_offset,
                    )
                )
        first, last, width = bucket_ms(samples, query.points)
        return Series(
            bucket_s=width / 1000,
            since=moment_or_none(first),
            until=moment_or_none(last),
            items=[
                replace(line, points=points_of(found, first, width))
                for line, found in zip(lines, samples, strict=True)
            ],
            fields=self._fields(topics[0]),
        )

    def _numbers(
        self,
        topic: bytes,
        fields: list[str],
        span: tuple[int | None, int | None, int],
        bounds: Bounds,
    ) -> tuple[list[list[Sample]], int]:
        """The numbers of each field, and the offset after the last message looked at."""
        since, until, last = span
        found: list[list[Sample]] = [[] for _ in fields]
        info = self._store.topic(topic)
        if info is None:
            return found, 0
        end = info.next_offset if until is None else offset_at_time(self._store, topic, until + 1)
        start = max(info.first_offset, end - last)
        if since is not None:
            start = offset_at_time(self._store, topic, since)
        reached = start
        for message in forwards(self._store, topic, start, end, bounds):
            reached = message.offset + 1
            value = value_of(message)
            for name, line in zip(fields, found, strict=True):
                number = number_in(value, name)
                if number is not None:
                    line.append((message.time_ms, number))
        return found, reached

    def _fields(self, topic: bytes) -> list[str]:
        info = self._store.topic(topic)
        if info is None:
            return []
        newest = backwards(self._store, topic, info.first_offset, info.next_offset, Bounds(1))
        return [name for message in newest for name in numeric_fields(value_of(message))]

    # ── publishing ────────────────────────────────────────────────────────────────────────────

    @operation("POST", "messages", None, body_bytes_max=BODY_BYTES_MAX)
    async def publish(self, call: Call, body: PublishRequest) -> Published:
        """Publish a message; answered once it is durable.

        `dry_run` publishes nothing and says what would happen: whether the message is accepted, and
        who gets it.
        """
        topic = topic_of(body.topic)
        publishing = self.parts.publishing
        if publishing is None:
            raise not_found("this broker publishes nothing by HTTP")
        draft = _draft(topic, body, publishing.wall_ms(), call.request)
        if body.dry_run:
            return await self._checked(call, publishing, body, draft)
        if refusal := publishing.refusal(call.principal, topic):
            raise _refused(*refusal)
        if len(draft.payload) > publishing.payload_bytes_max:
            advice = at_most(publishing.payload_bytes_max, PAYLOAD_LIMIT)
            raise Problem(413, "too_large", "the message is too large", advice)
        offset = await publishing.publish(draft)
        stored = await call.read(self._stored, topic, offset)
        return Published(
            topic=body.topic,
            dry_run=False,
            accepted=True,
            payload_bytes=len(draft.payload),
            offset=offset,
            sequence=stored.sequence if stored else None,
            time=moment(stored.time_ms) if stored else None,
        )

    def _stored(self, topic: bytes, offset: int) -> Message | None:
        """None: it was removed already."""
        message = next(self._store.read_topic(topic, offset, 1, 1).messages(), None)
        return message if message is not None and message.offset == offset else None

    async def _checked(
        self, call: Call, publishing: Publishing, body: PublishRequest, draft: Draft
    ) -> Published:
        checks = publishing.check(call.principal, draft)
        audience = Audience(0, 0, 0, [])
        if self.parts.topics is not None and checks[0].is_ok:
            audience = await call.read(self.parts.topics.audience(draft.topic))
        groups = self.parts.view.queues.groups.by_topic.get(draft.topic, {})
        named = [name_of(name) for name in sorted(groups)]
        must = [check.is_ok for check in checks if check.check != "retained"]
        return Published(
            topic=body.topic,
            dry_run=True,
            accepted=all(must),
            payload_bytes=len(draft.payload),
            offset=None,
            sequence=None,
            time=None,
            checks=[PublishCheck(*check) for check in checks],
            receivers=Receivers(
                audience.sessions, audience.away, audience.live, named, audience.examples
            ),
        )


def _draft(topic: bytes, body: PublishRequest, now_ms: int, request: Request) -> Draft:
    """The message that a request describes. Raises Problem."""
    if body.text is not None and body.base64 is not None:
        raise invalid("base64", "there is a text, too", "send one of them")
    if body.qos not in {0, 1, 2}:
        raise invalid("qos", "not 0, 1 or 2")
    if not 0 <= body.priority <= PRIORITY_MAX:
        raise invalid("priority", f"not from 0 to {PRIORITY_MAX}")
    for name, duration in (("delay_s", body.delay_s), ("expires_s", body.expires_s)):
        if not 0 <= duration <= DURATION_S_MAX:
            raise invalid(name, f"not from 0 to {DURATION_S_MAX} seconds")
    kind = body.content_type.encode()
    number = CONTENT_TYPES.index(kind) if kind in CONTENT_TYPES else 0
    headers = _headers(body, kind if kind and not number else b"", request)
    due_ms = now_ms + round(body.delay_s * 1000) if body.delay_s else 0
    expires_ms = now_ms + round(body.expires_s * 1000) if body.expires_s else 0
    extras = Extras(headers, due_ms=due_ms, expires_ms=expires_ms)
    marks = body.priority << PRIORITY_SHIFT | number << CONTENT_TYPE_SHIFT
    has_extras = bool(headers or due_ms or expires_ms)
    payload = _payload(body)
    return Draft(topic, payload, body.qos, body.retain, marks, extras if has_extras else None)


def _payload(body: PublishRequest) -> bytes:
    if body.base64 is None:
        try:
            return (body.text or "").encode()
        except UnicodeEncodeError:
            raise invalid("text", "not UTF-8", "send it as base64") from None
    try:
        return base64.b64decode(body.base64, validate=True)
    except ValueError as error:  # binascii.Error among them
        raise invalid("base64", str(error)) from None


def _headers(body: PublishRequest, content_type: bytes, request: Request) -> Headers:
    headers = [(name.encode(), value.encode()) for name, value in body.headers]
    if any(not name for name, _ in headers):
        raise invalid("headers", "a header has no name")
    if content_type:
        headers.append((CONTENT_TYPE, content_type))
    headers += trace_headers(request, tuple(headers))
    size = sum(len(name) + len(value) for name, value in headers)
    if len(headers) > HEADERS_MAX or size > HEADERS_BYTES_MAX:
        raise invalid("headers", f"more than {HEADERS_MAX}, or {HEADERS_BYTES_MAX} bytes together")
    return tuple(headers)


def _refused(reason: DisconnectReason, text: str) -> Problem:
    if reason in {DisconnectReason.TOPIC_INVALID, DisconnectReason.TOPIC_RESERVED}:
        return Problem(400, reason.value, text, "publish to another topic", reason=reason.value)
    advice = "POST messages with dry_run says what decides"
    return Problem(403, reason.value, text, advice, reason=reason.value)
