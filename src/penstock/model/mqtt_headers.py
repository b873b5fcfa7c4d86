"""The properties of an MQTT 5 message as headers of the journal, and back.

The journal knows headers, and no protocol. A user property is a header of its name. The other
properties have names of their own, so that any protocol can read and set them::

    Content Type          mqtt-content-type
    Response Topic        mqtt-response-topic
    Correlation Data      mqtt-correlation-data
    Payload Format        mqtt-payload-format     0 or 1
    User Property mqtt-x  mqtt-~mqtt-x            so that no name is taken twice

Message Expiry is not a header: the journal has the time at which a message expires.

Headers may hold any bytes, but user properties are text. A value that is not goes out in base64,
under its name followed by ``;base64``. What MQTT has no form for is left out, and counted.
"""

from base64 import b64encode
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, TypeAlias

Headers: TypeAlias = tuple[tuple[bytes, bytes], ...]

CONTENT_TYPE: Final = b"mqtt-content-type"
RESPONSE_TOPIC: Final = b"mqtt-response-topic"
CORRELATION_DATA: Final = b"mqtt-correlation-data"
PAYLOAD_FORMAT: Final = b"mqtt-payload-format"

RESERVED: Final = b"mqtt-"  # names of headers that are not user properties begin with it
_ESCAPE: Final = b"mqtt-~"
_BASE64: Final = b";base64"
_FIELD_BYTES_MAX: Final = 65_535  # a field of MQTT has a length of two bytes

# the content types that the journal's flags have a number for
CONTENT_TYPES: Final = (b"", b"text/plain", b"application/json", b"application/msgpack")
_CONTENT_TYPE_NUMBERS: Final = {name: number for number, name in enumerate(CONTENT_TYPES) if name}


class HeaderProperties(NamedTuple):
    """Headers as properties of a PUBLISH; ``left_out`` counts those that have no form in MQTT."""

    payload_format: int | None
    content_type: bytes | None
    response_topic: bytes | None
    correlation_data: bytes | None
    user_properties: Headers
    left_out: int


def user_headers(properties: Iterable[tuple[bytes, bytes]]) -> Headers:
    return tuple(
        [
            (_ESCAPE + name if name.startswith(RESERVED) else name, value)
            for name, value in properties
        ]
    )


def content_type_of(headers: Headers) -> int:
    """The number of the content type in the journal's flags; 0: none, or another."""
    for name, value in headers:
        if name == CONTENT_TYPE:
            return _CONTENT_TYPE_NUMBERS.get(value, 0)
    return 0


def properties_of(headers: Headers, content_type: int = 0) -> HeaderProperties:
    """``content_type`` is the number in the journal's flags; a header for it has precedence."""
    found: dict[bytes, bytes] = {}
    user: list[tuple[bytes, bytes]] = []
    left_out = 0
    for name, value in headers:
        if name in _SINGLE and name not in found and _SINGLE[name](value):
            found[name] = value
        elif (pair := _user_property(name, value)) is not None:
            user.append(pair)
        else:
            left_out += 1
    payload_format = found.get(PAYLOAD_FORMAT)
    return HeaderProperties(
        payload_format=None if payload_format is None else int(payload_format),
        content_type=found.get(CONTENT_TYPE, CONTENT_TYPES[content_type] or None),
        response_topic=found.get(RESPONSE_TOPIC),
        correlation_data=found.get(CORRELATION_DATA),
        user_properties=tuple(user),
        left_out=left_out,
    )


def _user_property(name: bytes, value: bytes) -> tuple[bytes, bytes] | None:
    name = name.removeprefix(_ESCAPE)
    if not _is_text(value):
        name, value = name + _BASE64, b64encode(value)
    return (name, value) if _is_text(name) and len(value) <= _FIELD_BYTES_MAX else None


def _is_text(field: bytes) -> bool:
    try:
        field.decode()
    except UnicodeDecodeError:
        return False
    return b"\0" not in field and len(field) <= _FIELD_BYTES_MAX


def _is_topic_name(field: bytes) -> bool:
    return bool(field) and _is_text(field) and b"+" not in field and b"#" not in field


# headers that are single properties, and which values those may have
_SINGLE: Final[dict[bytes, Callable[[bytes], bool]]] = {
    CONTENT_TYPE: _is_text,
    RESPONSE_TOPIC: _is_topic_name,
    CORRELATION_DATA: lambda value: len(value) <= _FIELD_BYTES_MAX,
    PAYLOAD_FORMAT: lambda value: value in {b"0", b"1"},
}
