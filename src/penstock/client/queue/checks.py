"""Validation of arguments, before anything is sent.

The broker would refuse some of them, misread others (0 ms of visibility is its default) and never
see the rest, which protobuf refuses in terms of its own fields. These errors name the *argument*
and what is allowed: ``TypeError`` for the wrong type, ``ArgumentError``, a ``ValueError``, for
values out of bounds.
"""

from collections.abc import Iterable, Iterator, Mapping
from numbers import Real
from operator import index
from typing import Final, TypeVar

from penstock.client.errors import ArgumentError

T = TypeVar("T")

U32_MAX: Final = 2**32 - 1
U64_MAX: Final = 2**64 - 1

SECONDS_MAX: Final = U64_MAX // 1000


def text(argument: str, value: object) -> str:
    if not isinstance(value, str):
        raise wrong_type(argument, "text", value)
    return value


def name(argument: str, value: object) -> str:
    if not value and isinstance(value, str):
        raise ArgumentError(f"{argument} must not be empty")
    return text(argument, value)


def count(argument: str, value: int, least: int = 0, most: int = U32_MAX) -> int:
    try:
        number = index(value)
    except TypeError:
        raise wrong_type(argument, "a whole number", value) from None
    if not least <= number <= most:
        raise ArgumentError(f"{argument} must be from {least} to {most}, not {number}")
    return number


def rate(argument: str, value: float) -> float:
    return _number(argument, "a number per second, 0 or more", value)


def milliseconds(argument: str, seconds: float) -> int:
    """Convert a time, which may be 0; more than 0 is not rounded down to 0."""
    seconds = _number(argument, "0 seconds or more", seconds)
    return max(1, round(seconds * 1000)) if seconds else 0


def span_milliseconds(argument: str, seconds: float) -> int:
    """Convert a time, which must not be 0."""
    length_ms = milliseconds(argument, seconds)
    if not length_ms:
        raise ArgumentError(f"{argument} must be more than 0 seconds")
    return length_ms


def choice(argument: str, value: T, choices: Iterable[T]) -> T:
    if value not in choices:
        words = ", ".join(f'"{word}"' for word in choices)
        raise ArgumentError(f"{argument} must be one of {words}, not {value!r}")
    return value


def header_pairs(headers: object) -> Iterator[tuple[str, bytes]]:
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    if isinstance(pairs, str) or not isinstance(pairs, Iterable):
        raise wrong_type("headers", HEADERS_FORM, headers)
    for pair in pairs:
        match pair:
            case (str(header), bytes() | bytearray() | memoryview() as value):
                yield header, bytes(value)
            case _:
                raise TypeError(f"headers must be {HEADERS_FORM}, not {pair!r}")


HEADERS_FORM: Final = "a dict of text to bytes, or pairs of text and bytes"


def check_items(items: object) -> None:
    """Refuse a single payload, whose bytes would be taken for items."""
    if isinstance(items, str | bytes | bytearray) or not isinstance(items, Iterable):
        raise wrong_type("items", "a list, or the like, of bytes and Items", items)


def wrong_type(argument: str, expected: str, value: object) -> TypeError:
    return TypeError(f"{argument} must be {expected}, not {type(value).__name__}")


def _number(argument: str, expected: str, value: object) -> float:
    if not isinstance(value, Real):
        raise wrong_type(argument, expected, value)
    number = float(value)
    if not 0 <= number <= SECONDS_MAX:  # NaN is not between them either
        raise ArgumentError(f"{argument} must be {expected}, not {value}")
    return number
