"""Numbers in payloads over time: of a field of JSON or MessagePack, or the payload itself."""

from collections.abc import Iterator
from math import isfinite
from typing import Final, NamedTuple

import msgspec

from penstock.api.documents.common import moment
from penstock.api.documents.messages import Point
from penstock.api.reading import msgpack
from penstock.api.reading.decoding import PARSED_BYTES_MAX
from penstock.model.message import Message

FIELDS_MAX: Final = 100
DEPTH_MAX: Final = 4

Sample = tuple[int, float]  # time in ms, number


class _Nothing(NamedTuple):
    """No value; None is one."""


_NOTHING: Final = _Nothing()


def value_of(message: Message) -> object:
    """What a payload says, if it is JSON or MessagePack; numbers may have spaces around them."""
    payload = message.payload
    if len(payload) > PARSED_BYTES_MAX:
        return _NOTHING
    try:
        return msgspec.json.decode(payload)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        pass
    try:
        if payload[:1] >= b"\x80":
            return msgpack.decode(payload)
        return float(payload)
    except ValueError:
        return _NOTHING


def number_in(value: object, field: str) -> float | None:
    """The number of a field; names of nested ones are joined by dots. Empty: the value itself."""
    found = _member(value, field) if field else value
    if isinstance(found, bool) or not isinstance(found, int | float):
        return None
    try:
        number = float(found)
    except OverflowError:
        return None
    return number if isfinite(number) else None


def _member(value: object, field: str) -> object:
    """A field by its name, which may have dots, or by its path."""
    if isinstance(value, dict):
        if field in value:
            return value[field]
        name, dot, rest = field.partition(".")
        while dot:
            if name in value:
                found = _member(value[name], rest)
                if found is not _NOTHING:
                    return found
            more, dot, rest = rest.partition(".")
            name = f"{name}.{more}"
        return _NOTHING
    if isinstance(value, list):
        name, _, rest = field.partition(".")
        if name.isascii() and name.isdecimal() and len(name) < 10 and int(name) < len(value):
            return _member(value[int(name)], rest) if rest else value[int(name)]
    return _NOTHING


def numeric_fields(value: object) -> list[str]:
    """Names of the fields of a value that are numbers; an empty one: it is a number itself."""
    found: list[str] = []
    for name in _numeric(value, "", 0):
        found.append(name)
        if len(found) == FIELDS_MAX:
            break
    return found


def _numeric(value: object, name: str, depth: int) -> Iterator[str]:
    if number_in(value, "") is not None:
        yield name
    elif depth < DEPTH_MAX:
        members: list[tuple[object, object]] = []
        if isinstance(value, dict):
            members = list(value.items())
        elif isinstance(value, list):
            members = list(enumerate(value[:FIELDS_MAX]))
        for key, member in members:
            yield from _numeric(member, f"{name}.{key}" if name else str(key), depth + 1)


def bucket_ms(samples: list[list[Sample]], points_max: int) -> tuple[int, int, int]:
    """The first and the last time of all lines, and a width of buckets for so many points."""
    times = [time for line in samples for time, _ in line]
    if not times:
        return 0, 0, 1
    first, last = min(times), max(times)
    return first, last, max(1, -(-(last - first + 1) // points_max))


def points_of(samples: list[Sample], first_ms: int, width_ms: int) -> list[Point]:
    """Least, greatest and last number of each bucket that has some; samples in their order."""
    buckets: dict[int, list[float]] = {}
    for time_ms, number in samples:
        bucket = (time_ms - first_ms) // width_ms
        seen = buckets.get(bucket)
        if seen is None:
            buckets[bucket] = [number, number, number, 1]
        else:
            seen[0] = min(seen[0], number)
            seen[1] = max(seen[1], number)
            seen[2] = number
            seen[3] += 1
    return [
        Point(moment(first_ms + bucket * width_ms), least, greatest, last, int(count))
        for bucket, (least, greatest, last, count) in sorted(buckets.items())
    ]
