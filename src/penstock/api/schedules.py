"""``schedules``: what is published later, and again and again.

A schedule is seen by its owner, by whoever may monitor the broker, and by whoever manages its
topic. The owner and the latter may cancel it.
"""

import base64

from msgspec.structs import replace

from penstock.admin.view import ScheduleAdmin
from penstock.api.call import Call
from penstock.api.cursors import key_of
from penstock.api.documents.common import moment, name_of
from penstock.api.documents.payloads import Header, Payload
from penstock.api.documents.schedules import (
    CancelQuery,
    FiringPreview,
    LastFiring,
    PreviewQuery,
    ScheduleCancelled,
    ScheduleCreated,
    ScheduleQuery,
    ScheduleRequest,
    ScheduleRow,
    Schedules,
)
from penstock.api.documents.schedules import Timing as TimingDocument
from penstock.api.operations import Resource, operation
from penstock.api.paging import first_of
from penstock.api.problems import Problem, not_found
from penstock.api.schedule_requests import message_of, name_of_schedule, timing_of
from penstock.core.schedules import ACTIVE, Schedule
from penstock.limits import KIB, SCHEDULE_PAYLOAD_BYTES_MAX
from penstock.model.mqtt_headers import CONTENT_TYPE, CONTENT_TYPES, content_type_of
from penstock.model.schedule import EVERY, ONCE, ScheduledMessage, Timing
from penstock.schedules.timing import in_words, next_firings, next_ms
from penstock.trust.rules import Action

FIRINGS_SHOWN = 5
SHOWN_BYTES_MAX = 1 * KIB  # of a payload in a list
REQUEST_BYTES_MAX = 6 * SCHEDULE_PAYLOAD_BYTES_MAX + 128 * KIB  # JSON may escape every byte

_OF = "schedules"


class SchedulePages(Resource):
    """Scheduled publishes."""

    @property
    def _admin(self) -> ScheduleAdmin:
        if self.parts.schedules is None:
            raise not_found("this broker has no schedules")
        return self.parts.schedules

    @operation("GET", "schedules", None)
    async def list(self, call: Call, query: ScheduleQuery) -> Schedules:
        """List scheduled publishes by name, with their next five firings.

        Those that the caller owns, or whose topic the caller manages; all with `monitor`. A list
        cuts payloads after 1 KiB; with `name` there is one, and its payload is whole.
        """
        admin = self._admin
        await admin.confirmed()
        after = key_of(_OF, query.cursor, bytes) or b""
        found = sorted(
            (one for one in admin.schedules if self._is_wanted(call, one, query, after)),
            key=lambda one: one.name,
        )
        shown = SCHEDULE_PAYLOAD_BYTES_MAX if query.name else SHOWN_BYTES_MAX
        return Schedules(
            *first_of(
                _OF,
                found,
                query.limit,
                lambda one: self._describe(call, one, shown),
                lambda one: one.name,
            )
        )

    @operation("POST", "schedules", None, body_bytes_max=REQUEST_BYTES_MAX)
    async def create(self, call: Call, body: ScheduleRequest) -> ScheduleCreated:
        """Schedule a publish: once, every so often, or by a cron expression.

        It needs the right to publish to the topic, now and at every firing.
        """
        admin, now_ms = self._admin, self._admin.wall_ms()
        name, timing, message = name_of_schedule(body), timing_of(body, now_ms), message_of(body)
        self._check_admitted(call, message.topic)
        if body.dry_run:
            first_ms = next_ms(timing, now_ms)
            created = Schedule(
                name, 0, timing, message, body.missed, call.principal.user, (), "", now_ms, first_ms
            )
        else:
            await admin.create(name, timing, message, body.missed, call.principal)
            created = admin.schedules.by_name[name]
        return ScheduleCreated(body.dry_run, self._describe(call, created, SHOWN_BYTES_MAX))

    @operation("DELETE", "schedules", None)
    async def cancel(self, call: Call, query: CancelQuery) -> ScheduleCancelled:
        """Cancel a scheduled publish; it is not listed any more."""
        admin = self._admin
        await admin.confirmed()
        found = admin.schedules.get(query.name.encode("utf-8", "surrogatepass"))
        if found is None or not self._may_see(call, found):
            raise not_found("there is no such schedule", "penstock schedule list has them all")
        if not _is_own(call, found):
            call.require(Action.MANAGE, found.message.topic)
        state = found.state
        if not query.dry_run:
            await admin.cancel(found.name, call.principal)
        return ScheduleCancelled(query.name, query.dry_run, state)

    @operation("GET", "schedules/preview", None)
    async def preview(self, call: Call, query: PreviewQuery) -> FiringPreview:  # noqa: ARG002
        """Show when a timing would fire; nothing is stored."""
        now_ms = self._admin.wall_ms()
        timing = timing_of(query, now_ms)
        return FiringPreview(
            _timing_document(timing), in_words(timing), _next(timing, now_ms, query.count)
        )

    # ── rights ────────────────────────────────────────────────────────────────────────────────

    def _is_wanted(self, call: Call, one: Schedule, query: ScheduleQuery, after: bytes) -> bool:
        name = name_of(one.name)
        is_named = name == query.name if query.name else name.startswith(query.prefix)
        is_next = one.name > after and query.state in {"", one.state}
        return is_named and is_next and self._may_see(call, one)

    def _may_see(self, call: Call, one: Schedule) -> bool:
        topic = one.message.topic
        is_managed = call.may(Action.MANAGE, topic) or call.may(Action.MONITOR)
        return is_managed or _is_own(call, one)

    def _check_admitted(self, call: Call, topic: bytes) -> None:
        publisher = self.parts.publisher
        refusal = publisher.refusal(call.principal, topic) if publisher else None
        if refusal is not None:
            reason, text = refusal
            status = 400 if reason.value == "topic_invalid" else 403
            advice = "choose a topic that you may publish to, without a signature"
            raise Problem(status, "refused", text, advice, reason=reason.value)

    # ── rows ──────────────────────────────────────────────────────────────────────────────────

    def _describe(self, call: Call, one: Schedule, shown: int) -> ScheduleRow:
        message, is_shown = one.message, self._may_read(call, one)
        return ScheduleRow(
            name=name_of(one.name),
            state=one.state,
            topic=name_of(message.topic),
            timing=_timing_document(one.timing),
            timing_text=in_words(one.timing),
            missed=one.missed,
            qos=message.qos,
            retain=message.retain,
            priority=message.priority,
            content_type=_content_type(message),
            expires_s=message.expiry_ms / 1000,
            headers=_headers(message) if is_shown else None,
            payload=_payload(message.payload, shown) if is_shown else None,
            payload_bytes=len(message.payload),
            cut=is_shown and len(message.payload) > shown,
            owner=one.user,
            created=moment(one.created_ms),
            next_firings=_next(one.timing, one.next_ms - 1) if one.state == ACTIVE else [],
            last=_last(one),
            published=one.published,
            refused=one.refused,
            skipped=one.skipped,
        )

    def _may_read(self, call: Call, one: Schedule) -> bool:
        return _is_own(call, one) or call.may(Action.READ, one.message.topic)


def _is_own(call: Call, one: Schedule) -> bool:
    return bool(one.user) and call.principal.user == one.user


def _next(timing: Timing, after_ms: int, count: int = FIRINGS_SHOWN) -> list[str]:
    return [moment(at_ms) for at_ms in next_firings(timing, after_ms, count)]


def _timing_document(timing: Timing) -> TimingDocument:
    found = TimingDocument(timezone=timing.timezone)
    if timing.kind == ONCE:
        return replace(found, at=moment(timing.at_ms))
    if timing.kind == EVERY:
        anchor = moment(timing.anchor_ms)
        return replace(found, every_s=timing.interval_ms / 1000, anchor=anchor)
    return replace(found, cron=timing.cron)


def _last(one: Schedule) -> LastFiring | None:
    if not one.last_due_ms:
        return None
    due, at = moment(one.last_due_ms), moment(one.last_ms)
    return LastFiring(due, at, one.last_result, one.last_reason, one.last_detail)


def _content_type(message: ScheduledMessage) -> str:
    given = [name_of(value) for name, value in message.headers if name == CONTENT_TYPE]
    return given[0] if given else CONTENT_TYPES[content_type_of(message.headers)].decode()


def _headers(message: ScheduledMessage) -> list[Header]:
    found = (header for header in message.headers if header[0] != CONTENT_TYPE)
    return [Header(name_of(name), name_of(value)) for name, value in found]


def _payload(payload: bytes, shown: int) -> Payload:
    try:
        return Payload(text=payload.decode()[:shown])
    except UnicodeDecodeError:
        return Payload(base64=base64.b64encode(payload[:shown]).decode())
