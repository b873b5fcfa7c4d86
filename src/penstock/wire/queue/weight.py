"""What a request would cost to read, told before the library reads it.

Two bytes can ask for a whole message: 16 MiB of empty headers took 3 seconds and 600 MB. So a large
body is looked at first. It must be one request of a kind that can be large, with its id before or
behind, and nothing else; and where a kind has messages within (headers), there must be few.

Few bodies are looked through field by field. A field of headers cannot be without a byte of its
tag, and to count bytes is fast; only where there are many of those can there be many headers.
"""

from typing import Final

from penstock.limits import HEADERS_MAX, KIB
from penstock.wire.queue.fields import BYTES, REQUEST_ID, length_at, tag

__all__ = ["SMALL_BYTES_MAX", "is_too_heavy"]

SMALL_BYTES_MAX: Final = 64 * KIB
"""Nothing of this size takes the library longer than some milliseconds."""

_PRODUCE: Final = b"\x0a"
_PRODUCE_MANY: Final = b"\x82\x01"
_OTHERS: Final = (b"\x8a\x01", b"\x92\x01", b"\x9a\x01", b"\xe2\x01")
"""AckMany, NackMany, Extend and Locate: many numbers, and no messages within."""

_HEADER: Final = tag(9, BYTES)
_LONGER: Final = 0x80
"""A tag may be spelled with this bit, and more bytes behind."""

HEADERS_CHEAP: Final = 8 * KIB
"""Headers that the library reads in some milliseconds; the door will refuse them."""

FIELDS_MAX: Final = 128 * KIB
"""Fields of one request that are looked through; twice as many as it may have payloads."""


def is_too_heavy(body: bytes) -> bool:
    """Whether a body is no request that somebody could mean, and large."""
    if len(body) <= SMALL_BYTES_MAX:
        return False
    start = _after_id(body, 0)
    for kind in (_PRODUCE, _PRODUCE_MANY, *_OTHERS):
        if body.startswith(kind, start):
            length, at = length_at(body, start + len(kind))
            is_whole = length >= 0 and _after_id(body, at + length) == len(body)
            return not is_whole or (kind not in _OTHERS and _is_crowded(body, at, at + length))
    return True


def _after_id(body: bytes, at: int) -> int:
    """Where the id of a request ends that may stand here."""
    if at >= len(body) or body[at] != REQUEST_ID:
        return at
    return _after_number(body, at + 1)


def _after_number(body: bytes, at: int) -> int:
    while at < len(body) and body[at] >= _LONGER:
        at += 1
    return at + 1


def _is_crowded(body: bytes, at: int, end: int) -> bool:
    """Whether a message has more headers than it may, and so many that it matters."""
    suspects = body.count(_HEADER) + body.count(_HEADER | _LONGER)
    if suspects <= HEADERS_CHEAP:
        return False
    headers = 0
    for _ in range(FIELDS_MAX):
        if at >= end:
            return False
        headers += body[at] == _HEADER
        at = _after_field(body, at)
        if at < 0 or headers > HEADERS_MAX:
            return True
    return True


def _after_field(body: bytes, at: int) -> int:
    """Where a field ends; -1: it is spelled as no writer does."""
    if body[at] >= _LONGER:
        return -1
    if body[at] & 7 == BYTES:
        length, start = length_at(body, at + 1)
        return start + length if length >= 0 else -1
    return _after_number(body, at + 1) if body[at] & 7 == 0 else -1
