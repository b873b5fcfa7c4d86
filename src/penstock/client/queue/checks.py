"""Whether arguments are what a request can carry, before anything is sent.

The broker would refuse some of them, misread others (0 ms of visibility is its default) and never
see the rest, which the library that writes the request turns down in words about its own fields.
Here the *argument* is named, and what is allowed: ``TypeError`` for what is of the wrong kind,
``ArgumentError``, a ``ValueError``, for what is out of bounds.
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
    """Text, which may be empty."""
    if not isinstance(value, str):
        raise wrong_type(argument, "text", value)
    return value


def name(argument: str, value: object) -> str:
    """Text that is not empty."""
    if not value and isinstance(value, str):
        raise ArgumentError(f"{argument} must not be empty")
    return text(argument, value)


def count(argument: str, value: int, least: int = 0, most: int = U32_MAX) -> int:
    """A whole number within bounds."""
    try:
        number = index(value)
    except TypeError:
        raise wrong_type(argument, "a whole number", value) from None
    if not least <= number <= most:
        raise ArgumentError(f"{argument} must be from {least} to {most}, not {number}")
    return number


def rate(argument: str, value: float) -> float:
    """A number per second."""
    return _number(argument, "a number per second, 0 or more", value)


def milliseconds(argument: str, seconds: float) -> int:
    """A time, which may be none; but what is more than none does not become it by rounding."""
    seconds = _number(argument, "0 seconds or more", seconds)
    return max(1, round(seconds * 1000)) if seconds else 0


def span_milliseconds(argument: str, seconds: float) -> int:
    """A time that is not none."""
    length_ms = milliseconds(argument, seconds)
    if not length_ms:
        raise ArgumentError(f"{argument} must be more than 0 seconds")
    return length_ms


def choice(argument: str, value: T, choices: Iterable[T]) -> T:
    """One of some words."""
    if value not in choices:
        words = ", ".join(f'"{word}"' for word in choices)
        raise ArgumentError(f"{argument} must be one of {words}, not {value!r}")
    return value


def header_pairs(headers: object) -> Iterator[tuple[str, bytes]]:
    """Headers one by one, in either form."""
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
    """Messages, more than one of them; bytes alone would be taken for as many numbers."""
    if isinstance(items, str | bytes | bytearray) or not isinstance(items, Iterable):
        raise wrong_type("items", "a list, or the like, of bytes and Items", items)


def check_timeout(timeout_s: float) -> None:
    """How long a call may take."""
    span_milliseconds("timeout_s", timeout_s)


def wrong_type(argument: str, expected: str, value: object) -> TypeError:
    """Say what kind of thing an argument must be."""
    return TypeError(f"{argument} must be {expected}, not {type(value).__name__}")


def _number(argument: str, expected: str, value: object) -> float:
    if not isinstance(value, Real):
        raise wrong_type(argument, expected, value)
    number = float(value)
    if not 0 <= number <= SECONDS_MAX:  # what is not a number at all is not between them either
        raise ArgumentError(f"{argument} must be {expected}, not {value}")
    return number
