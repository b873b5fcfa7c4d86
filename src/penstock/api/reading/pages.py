"""Pages of a topic: by offset or time, newest or oldest first, all or those with a text in them."""

from collections.abc import Callable
from typing import Literal, NamedTuple

from penstock.api.documents.common import moment, name_of
from penstock.api.documents.messages import MessageRow, Messages, Signer
from penstock.api.reading.decoding import Form, headers_of, shown
from penstock.api.reading.scanning import Bounds, backwards, forwards
from penstock.limits import MIB
from penstock.model.message import Extras, Message
from penstock.model.mqtt_headers import CONTENT_TYPE, CONTENT_TYPES
from penstock.store.search import offset_at_time
from penstock.store.store import Store, TopicInfo

SHOWN_BYTES_MAX = 3 * MIB  # of payloads in an answer, as they are shown

Order = Literal["newest", "oldest"]
DeviceOf = Callable[[int], str | None]


class Look(NamedTuple):
    """What somebody wants to see of a topic. ``offset``: of the first message of the page."""

    order: Order = "newest"
    offset: int | None = None
    at_ms: int | None = None
    find: bytes = b""
    form: Form = "auto"
    payload_bytes_max: int = 1_024
    limit: int = 50


class Found(NamedTuple):
    """A page, and the offset with which the next one begins; None: there is no more."""

    page: Messages
    next_offset: int | None


def look(
    store: Store, info: TopicInfo, wanted: Look, device_of: DeviceOf, bounds: Bounds | None = None
) -> Found:
    """Read a page. ``device_of``: the name of a signer's device, by key."""
    bounds = bounds or Bounds()
    is_newest = wanted.order == "newest"
    start, end = _range(store, info, wanted)
    walk = backwards if is_newest else forwards
    at_once = 1_000 if wanted.find else wanted.limit
    rows: list[MessageRow] = []
    size = 0
    last: int | None = None
    is_full = False
    for message in walk(store, info.name, start, end, bounds, at_once):
        last = message.offset
        if wanted.find and wanted.find not in message.payload.lower():
            continue
        rows.append(row_of(message, wanted.form, wanted.payload_bytes_max, device_of))
        size += min(len(message.payload), wanted.payload_bytes_max)
        if len(rows) == wanted.limit or size >= SHOWN_BYTES_MAX:
            is_full = True
            break
    is_cut = last is not None and (is_full or bool(bounds.stopped))
    page = Messages(
        topic=name_of(info.name),
        first_offset=info.first_offset,
        next_offset=info.next_offset,
        order=wanted.order,
        items=rows,
        scanned=bounds.scanned,
        stopped="" if is_full else bounds.stopped,
    )
    return Found(page, _onward(info, last, is_newest=is_newest) if is_cut else None)


def _onward(info: TopicInfo, last: int | None, *, is_newest: bool) -> int | None:
    if last is None:
        return None
    if is_newest:
        return last - 1 if last > info.first_offset else None
    return last + 1 if last + 1 < info.next_offset else None


def _range(store: Store, info: TopicInfo, wanted: Look) -> tuple[int, int]:
    """Offsets to look at, up to the second."""
    start, end = info.first_offset, info.next_offset
    if wanted.offset is not None:
        if wanted.order == "newest":
            return start, min(end, wanted.offset + 1)
        return max(start, wanted.offset), end
    if wanted.at_ms is not None:
        passed = offset_at_time(store, info.name, wanted.at_ms)
        return (start, passed) if wanted.order == "newest" else (passed, end)
    return start, end


def row_of(
    message: Message, form: Form, bytes_max: int, device_of: DeviceOf = lambda _key: None
) -> MessageRow:
    """A message as the API shows it."""
    extras = message.extras or Extras()
    seen = shown(message.payload, form, bytes_max, message.content_type)
    return MessageRow(
        topic=name_of(message.topic),
        offset=message.offset,
        sequence=message.sequence,
        time=moment(message.time_ms),
        qos=message.qos,
        retain=message.retain,
        priority=message.priority,
        content_type=_content_type(message, extras),
        due=moment(extras.due_ms) if extras.due_ms else None,
        expires=moment(extras.expires_ms) if extras.expires_ms else None,
        headers=headers_of(extras.headers),
        signer=_signer(extras, device_of),
        payload=seen.payload,
        payload_bytes=len(message.payload),
        cut=seen.cut,
        format=seen.format,
        fault=seen.fault,
    )


def _content_type(message: Message, extras: Extras) -> str | None:
    for name, value in extras.headers:
        if name == CONTENT_TYPE:
            return value.decode("utf-8", "backslashreplace")
    number = message.content_type
    return CONTENT_TYPES[number].decode() if number else None


def _signer(extras: Extras, device_of: DeviceOf) -> Signer | None:
    if extras.signature is None:
        return None
    key = extras.signature.key_id
    return Signer(key, extras.signature.version, device_of(key))
