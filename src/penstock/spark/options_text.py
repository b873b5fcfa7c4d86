"""Values of Spark options: texts, read with errors that name the option."""

from collections.abc import Callable, Mapping
from typing import TypeAlias, TypeVar

from penstock.errors import ConfigError

T = TypeVar("T")
Given: TypeAlias = Mapping[str, str]  # options by lower-case name


def option_error(name: str, fault: str, advice: str) -> ConfigError:
    return ConfigError(f"option {name}: {fault}", advice)


def read_option(given: Given, name: str, read: Callable[[str], T], default: T) -> T:
    """Parse a value; a ``ValueError`` of ``read`` becomes an error that names the option."""
    text = given.get(name.lower())
    if text is None:
        return default
    try:
        return read(text.strip())
    except ValueError as error:
        raise option_error(name, f"{text!r} is invalid", str(error)) from None


def count_of(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise ValueError("write a whole number, 0 or more")
    return int(text)


def positive(given: Given, name: str) -> int | None:
    def read(text: str) -> int | None:
        if count_of(text) == 0:
            raise ValueError("write a number greater than 0, or leave it out")
        return int(text)

    return read_option(given, name, read, None)


def boolean(given: Given, name: str, *, default: bool = False) -> bool:
    def read(text: str) -> bool:
        if text.lower() not in {"true", "false"}:
            raise ValueError("write true or false")
        return text.lower() == "true"

    return read_option(given, name, read, default)
