"""Recognise requests that are too expensive to parse, before the library parses them.

Two bytes can stand for a whole message: parsing 16 MiB of empty headers took 3 seconds and 600 MB.
So a large body must be one request of a kind that can be large, and may only have a few nested
messages (headers, parts). Each header needs a byte with its tag, and counting bytes is fast, so few
bodies are examined field by field.
"""

from typing import Final

from penstock.limits import (
    HEADERS_MAX,
    KIB,
    MEASURES_MAX,
    SCAN_TOPICS_MAX,
    STAGED_LOTS_MAX,
    STAGED_PARTS_MAX,
)
from penstock.wire.queue.fields import BYTES, REQUEST_ID, STALE, length_at, tag

SMALL_BYTES_MAX: Final = 64 * KIB  # the library parses this in a few milliseconds at most

_PRODUCE: Final = b"\x0a"
_PRODUCE_MANY: Final = b"\x82\x01"
_LOCATE: Final = b"\xe2\x01"
_COMMIT_STAGE: Final = b"\x82\x02"
_FETCH_MANY: Final = b"\xb2\x02"
# AckMany, NackMany, Extend, Stage, AbortStage: no nested messages
_OTHERS: Final = (b"\x8a\x01", b"\x92\x01", b"\x9a\x01", b"\xfa\x01", b"\x8a\x02")

_HEADER: Final = tag(9, BYTES)
_MEASURE: Final = tag(3, BYTES)
_PART: Final = tag(3, BYTES)
_SCANNED: Final = tag(2, BYTES)
_LOT: Final = tag(1, BYTES)
_LOT_HEADER: Final = tag(5, BYTES)
_WITHIN: Final = {
    _PRODUCE: (_HEADER, HEADERS_MAX),
    _PRODUCE_MANY: (_HEADER, HEADERS_MAX),
    _LOCATE: (_MEASURE, MEASURES_MAX),
    _COMMIT_STAGE: (_PART, STAGED_PARTS_MAX),
    _FETCH_MANY: (_SCANNED, SCAN_TOPICS_MAX),
}  # kinds with nested messages, or many names: their tag, and how many are allowed
_LONGER: Final = 0x80  # a tag with this bit has more bytes

# the library parses this many in a few milliseconds; the door refuses them
HEADERS_CHEAP: Final = 8 * KIB

# fields of one request that are examined: twice as many as it may have payloads
FIELDS_MAX: Final = 128 * KIB


def is_too_heavy(body: bytes) -> bool:
    if len(body) <= SMALL_BYTES_MAX:
        return False
    start = _after_marks(body, 0)
    for kind in (*_WITHIN, *_OTHERS):
        if body.startswith(kind, start):
            length, at = length_at(body, start + len(kind))
            is_whole = length >= 0 and _after_marks(body, at + length) == len(body)
            within = _WITHIN.get(kind)
            return not is_whole or (
                within is not None and _is_crowded(body, at, at + length, *within)
            )
    return True


def is_block_too_heavy(block: bytes) -> bool:
    """Whether a StagedBlock has too many lots, or a lot too many headers."""
    is_suspect = _is_suspect(block, _LOT_HEADER)
    at = lots = 0
    while at < len(block):
        length, start = length_at(block, at + 1)
        if block[at] != _LOT or lots == STAGED_LOTS_MAX or length < 0:
            return True
        if is_suspect and _has_more(block, start, start + length, _LOT_HEADER, HEADERS_MAX):
            return True
        at, lots = start + length, lots + 1
    return False


def _after_marks(body: bytes, at: int) -> int:
    for _ in (STALE, REQUEST_ID):
        if at < len(body) and body[at] in {STALE, REQUEST_ID}:
            at = _after_number(body, at + 1)
    return at


def _after_number(body: bytes, at: int) -> int:
    while at < len(body) and body[at] >= _LONGER:
        at += 1
    return at + 1


def _is_crowded(body: bytes, at: int, end: int, within: int, most: int) -> bool:
    return _is_suspect(body, within) and _has_more(body, at, end, within, most)


def _is_suspect(body: bytes, within: int) -> bool:
    return body.count(within) + body.count(within | _LONGER) > HEADERS_CHEAP


def _has_more(body: bytes, at: int, end: int, within: int, most: int) -> bool:
    found = 0
    for _ in range(FIELDS_MAX):
        if at >= end:
            return False
        found += body[at] == within
        at = _after_field(body, at)
        if at < 0 or found > most:
            return True
    return True


def _after_field(body: bytes, at: int) -> int:
    """End of a field; -1 if no writer encodes it like this."""
    if body[at] >= _LONGER:
        return -1
    if body[at] & 7 == BYTES:
        length, start = length_at(body, at + 1)
        return start + length if length >= 0 else -1
    return _after_number(body, at + 1) if body[at] & 7 == 0 else -1
