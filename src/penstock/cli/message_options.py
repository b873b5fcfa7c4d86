"""Options for the properties of a message in MQTT 5."""

from collections.abc import Callable
from functools import wraps
from math import ceil
from typing import Any, Final

import click

from penstock.cli.inputs import option_set, time_option
from penstock.client import PublishProperties

HEX: Final = "hex:"
_FORMATS: Final = {"bytes": 0, "utf-8": 1}


def name_value_pairs(
    _context: click.Context, _parameter: click.Parameter, texts: tuple[str, ...]
) -> tuple[tuple[str, str], ...]:
    pairs = [text.partition("=") for text in texts]
    if wrong := [name for name, equals, _ in pairs if not equals]:
        raise click.BadParameter(f"{wrong[0]!r} must be NAME=VALUE, as in unit=bar")
    return tuple((name, value) for name, _, value in pairs)


def _correlation(
    _context: click.Context, _parameter: click.Parameter, text: str | None
) -> bytes | None:
    if text is None or not text.startswith(HEX):
        return None if text is None else text.encode(errors="surrogateescape")
    try:
        return bytes.fromhex(text.removeprefix(HEX))
    except ValueError:
        raise click.BadParameter(f"{text!r} must be text, or hex: and hexadecimal digits") from None


_options = option_set(
    click.option(
        "-D",
        "--property",
        "user_properties",
        multiple=True,
        callback=name_value_pairs,
        metavar="NAME=VALUE",
        help="User property of the message; repeatable.",
    ),
    click.option("--content-type", metavar="TYPE", help="As in application/json."),
    time_option("--expiry", "Drop the message if it is not delivered within TIME, as in 90s."),
    click.option(
        "--payload-format",
        type=click.Choice(list(_FORMATS)),
        help="Say that the payload is text, or that it may be anything.",
    ),
)
_answer_options = option_set(
    click.option("--response-topic", metavar="TOPIC", help="Where an answer is expected."),
    click.option(
        "--correlation",
        callback=_correlation,
        metavar="DATA",
        help="Data that identifies the answer: text, or hex:00ff.",
    ),
)


def property_options(*, is_request: bool = False) -> Callable[..., Callable[..., object]]:
    """Give a command these options; call it with ``properties``, None if none was given.

    A request has its own response topic and correlation data.
    """

    def decorate(command: Callable[..., object]) -> Callable[..., object]:
        @wraps(command)
        def with_properties(
            *arguments: object,
            user_properties: tuple[tuple[str, str], ...],
            content_type: str | None,
            expiry: float | None,
            payload_format: str | None,
            response_topic: str | None = None,
            correlation: bytes | None = None,
            **parameters: Any,
        ) -> object:
            properties = PublishProperties(
                expiry_s=None if expiry is None else ceil(expiry),
                content_type=content_type,
                user_properties=user_properties,
                payload_format=None if payload_format is None else _FORMATS[payload_format],
                response_topic=response_topic,
                correlation_data=correlation,
            )
            is_given = properties != PublishProperties()
            return command(*arguments, properties=properties if is_given else None, **parameters)

        options = (_options,) if is_request else (_options, _answer_options)
        return option_set(*options)(with_properties)

    return decorate
