"""Payloads as people read them: JSON, MessagePack, text or hex; cut for a list, and saying so."""

import base64
from typing import Final, Literal, NamedTuple

import msgspec

from penstock.api.documents.payloads import Header, Payload
from penstock.api.reading import msgpack
from penstock.limits import KIB
from penstock.model.mqtt_headers import Headers

Form = Literal["auto", "json", "text", "hex", "msgpack"]

TEXT_TYPE, JSON_TYPE, MSGPACK_TYPE = 1, 2, 3  # as in the flags of the journal
PARSED_BYTES_MAX: Final = 256 * KIB  # larger ones are shown, but not looked into
_BEGINS_JSON: Final = frozenset(b'{["-0123456789tfn \t\r\n')
_BEGINS_PACKED: Final = frozenset([*range(0x80, 0xA0), 0xDC, 0xDD, 0xDE, 0xDF])  # map or array


class Shown(NamedTuple):
    """A payload as it is shown."""

    payload: Payload
    format: str
    cut: bool
    fault: str | None = None


def shown(payload: bytes, form: Form, bytes_max: int, content_type: int = 0) -> Shown:
    """Show a payload in a form; ``auto``: in the one that fits. At most so many bytes of it."""
    if form == "auto":
        return _fitting(payload, bytes_max, content_type)
    if form == "hex":
        return _hex(payload, bytes_max)
    if form == "text":
        return _text(payload, bytes_max) or _base64(payload, bytes_max, "not UTF-8")
    parsed = _json(payload, bytes_max) if form == "json" else _msgpack(payload, bytes_max)
    if isinstance(parsed, Shown):
        return parsed
    fallback = _text(payload, bytes_max) or _hex(payload, bytes_max)
    return fallback._replace(fault=parsed)


def _fitting(payload: bytes, bytes_max: int, content_type: int) -> Shown:
    first = payload[0] if payload else 0
    if content_type == MSGPACK_TYPE or first in _BEGINS_PACKED:  # which no UTF-8 begins with
        found = _msgpack(payload, bytes_max)
        if isinstance(found, Shown):
            return found
    if content_type != TEXT_TYPE and first in _BEGINS_JSON:
        found = _json(payload, bytes_max)
        if isinstance(found, Shown):
            return found
    return _text(payload, bytes_max) or _hex(payload, bytes_max)


def _json(payload: bytes, bytes_max: int) -> Shown | str:
    """The payload as it came, if it is JSON; else what is wrong with it."""
    if len(payload) > PARSED_BYTES_MAX:
        return f"larger than {PARSED_BYTES_MAX} bytes"
    try:
        msgspec.json.decode(payload, type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        return f"not JSON: {error}"
    text = _text(payload, bytes_max)
    return text._replace(format="json") if text else "not UTF-8"


def _msgpack(payload: bytes, bytes_max: int) -> Shown | str:
    if len(payload) > PARSED_BYTES_MAX:
        return f"larger than {PARSED_BYTES_MAX} bytes"
    try:
        value = msgpack.decode(payload)
    except msgpack.MessagePackError as error:
        return f"not MessagePack: {error}"
    text = _text(msgspec.json.encode(value), bytes_max)
    assert text is not None  # JSON is UTF-8
    return text._replace(format="msgpack")


def _text(payload: bytes, bytes_max: int) -> Shown | None:
    is_cut = len(payload) > bytes_max
    part = payload[:bytes_max]
    try:
        text = part.decode()
    except UnicodeDecodeError as error:
        is_last_cut = is_cut and error.start >= len(part) - 3 and error.end == len(part)
        if not is_last_cut:
            return None
        text = part[: error.start].decode()
    if "\0" in text:
        return None
    return Shown(Payload(text=text), "text", is_cut)


def _hex(payload: bytes, bytes_max: int) -> Shown:
    return Shown(Payload(text=payload[:bytes_max].hex(" ")), "hex", len(payload) > bytes_max)


def _base64(payload: bytes, bytes_max: int, fault: str) -> Shown:
    text = base64.b64encode(payload[:bytes_max]).decode()
    return Shown(Payload(base64=text), "base64", len(payload) > bytes_max, fault)


def headers_of(headers: Headers) -> list[Header]:
    """Headers as the API shows them."""
    return [_header(name, value) for name, value in headers]


def _header(name: bytes, value: bytes) -> Header:
    shown_name = name.decode("utf-8", "backslashreplace")
    try:
        return Header(shown_name, value.decode())
    except UnicodeDecodeError:
        return Header(shown_name, base64.b64encode(value).decode(), is_base64=True)
