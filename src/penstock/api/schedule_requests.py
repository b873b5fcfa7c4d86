"""From a request to what is scheduled: its timing, its message."""

import base64
import binascii
from datetime import datetime
from itertools import chain

from penstock.api.documents.common import FieldFault
from penstock.api.documents.schedules import PreviewQuery, ScheduleRequest
from penstock.api.problems import Problem
from penstock.limits import (
    HEADERS_BYTES_MAX,
    HEADERS_MAX,
    KIB,
    SCHEDULE_NAME_BYTES_MAX,
    SCHEDULE_PAYLOAD_BYTES_MAX,
)
from penstock.model.mqtt_headers import CONTENT_TYPE, Headers, user_headers
from penstock.model.schedule import CRON, EVERY, ONCE, ScheduledMessage, Timing
from penstock.schedules.timing import check, local_ms


def timing_of(asked: PreviewQuery | ScheduleRequest, now_ms: int) -> Timing:
    """Raises Problem."""
    given = [name for name in ("at", "in_s", "every_s", "cron") if getattr(asked, name) is not None]
    if len(given) != 1:
        raise _invalid("at", "give exactly one of at, in_s, every_s and cron")
    if asked.anchor is not None and asked.every_s is None:
        raise _invalid("anchor", "only an interval (every_s) has an anchor")
    try:
        timing = _timing(asked, now_ms)
        check(timing)
    except (ValueError, OverflowError) as error:
        raise _invalid(given[0], str(error)) from None
    return timing


def _timing(asked: PreviewQuery | ScheduleRequest, now_ms: int) -> Timing:
    zone = asked.timezone
    if asked.at is not None:
        return Timing(ONCE, at_ms=_time_of(asked.at, zone), timezone=zone)
    if asked.in_s is not None:
        return Timing(ONCE, at_ms=now_ms + max(round(asked.in_s * 1000), 1), timezone=zone)
    if asked.every_s is not None:
        anchor_ms = now_ms if asked.anchor is None else _time_of(asked.anchor, zone)
        interval_ms = round(asked.every_s * 1000)
        return Timing(EVERY, interval_ms=interval_ms, anchor_ms=anchor_ms, timezone=zone)
    return Timing(CRON, cron=" ".join((asked.cron or "").split()), timezone=zone)


def _time_of(text: str, zone: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is no time: write 2026-01-31T08:00:00Z") from None
    return local_ms(moment, zone)


def name_of_schedule(asked: ScheduleRequest) -> bytes:
    name = _bytes("name", asked.name)
    if len(name) > SCHEDULE_NAME_BYTES_MAX or not asked.name.isprintable():
        fault = f"a name has at most {SCHEDULE_NAME_BYTES_MAX} bytes, all printable"
        raise _invalid("name", fault)
    return name


def message_of(asked: ScheduleRequest) -> ScheduledMessage:
    return ScheduledMessage(
        _bytes("topic", asked.topic),
        _payload(asked),
        asked.qos,
        asked.retain,
        _headers(asked),
        asked.priority,
        round(asked.expires_s * 1000),
    )


def _payload(asked: ScheduleRequest) -> bytes:
    if asked.text is not None and asked.base64 is not None:
        raise _invalid("base64", "the payload is either text or base64")
    try:
        payload = base64.b64decode(asked.base64 or "", validate=True)
    except (binascii.Error, ValueError):
        raise _invalid("base64", "is not base64") from None
    payload = payload or _bytes("text", asked.text or "")
    if len(payload) > SCHEDULE_PAYLOAD_BYTES_MAX:
        field = "text" if asked.base64 is None else "base64"
        most = SCHEDULE_PAYLOAD_BYTES_MAX // KIB
        raise _invalid(field, f"a payload of a schedule has at most {most} KiB")
    return payload


def _headers(asked: ScheduleRequest) -> Headers:
    given = [(_bytes("headers", name), _bytes("headers", value)) for name, value in asked.headers]
    if any(not name for name, _ in given):
        raise _invalid("headers", "a header has a name")
    headers = user_headers(given)
    if asked.content_type:
        headers = ((CONTENT_TYPE, _bytes("content_type", asked.content_type)), *headers)
    if len(headers) > HEADERS_MAX or sum(map(len, chain(*headers))) > HEADERS_BYTES_MAX:
        fault = f"a message has at most {HEADERS_MAX} headers of {HEADERS_BYTES_MAX} bytes"
        raise _invalid("headers", fault)
    return headers


def _bytes(field: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise _invalid(field, "is not Unicode") from None


def _invalid(field: str, fault: str) -> Problem:
    return Problem(400, "invalid_schedule", fault, fields=[FieldFault(field, fault)])
