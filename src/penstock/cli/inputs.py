"""What commands take from the user: options, durations, confirmations, lines of standard input."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, Protocol, TypeVar

import click

from penstock.config.units import without_unit
from penstock.errors import PenstockError

READ_BYTES: Final = 1 << 20  # read at a time

_Command = TypeVar("_Command", bound=Callable[..., object])


class CommandDecorator(Protocol):
    """Adds options to a command."""

    def __call__(self, command: _Command, /) -> _Command: ...


def flag(*names: str, help: str) -> CommandDecorator:  # noqa: A002 - click's name
    """Make a flag that is not a parameter of the command; see ``is_given``."""

    def remember(context: click.Context, _parameter: click.Parameter, given: bool) -> None:
        context.meta[f"penstock{names[-1]}"] = given

    return click.option(*names, is_flag=True, expose_value=False, callback=remember, help=help)


def is_given(name: str) -> bool:
    """Whether the current command has a flag of ``flag``, by its long name, and it was given."""
    return bool(click.get_current_context().meta.get(f"penstock{name}"))


yes_option = flag("-y", "--yes", help="Skip the confirmation prompt.")


def count_option(maximum: int) -> CommandDecorator:
    kind = click.IntRange(1, maximum)
    return click.option(
        "-n", "--max", "count", type=kind, default=10, show_default=True, help="Number of messages."
    )


def option_set(*options: CommandDecorator) -> CommandDecorator:
    """Combine click options into one decorator; the help lists them in this order."""

    def decorate(command: _Command) -> _Command:
        for option in reversed(options):  # click lists options from the last applied
            command = option(command)
        return command

    return decorate


def confirm(question: str) -> None:
    try:
        if is_given("--yes") or click.confirm(question, err=True):
            return
    except click.Abort:
        click.echo(err=True)  # end the line of the question
        raise PenstockError(
            "nothing was changed: no confirmation", "use --yes to skip it"
        ) from None
    raise PenstockError("nothing was changed")


def duration(
    _context: click.Context, _parameter: click.Parameter, text: str | None
) -> float | None:
    """Return seconds (a click callback). The unit is mandatory: a bare 90 may be meant as days."""
    if text is None:
        return None
    try:
        seconds = without_unit(text, "s")
    except ValueError:
        seconds = -1
    has_unit = text.strip()[-1:].isalpha()
    if seconds < 0 or (seconds and not has_unit):
        rule = "must be a number with a unit, as in 500ms, 10s, 15m, 24h or 7d"
        raise click.BadParameter(f"{text!r} {rule}")
    return seconds


def time_option(name: str, text: str) -> CommandDecorator:
    return click.option(name, callback=duration, metavar="TIME", help=text)


def number_option(
    name: str, text: str, kind: click.IntRange | click.FloatRange | None = None
) -> CommandDecorator:
    return click.option(name, type=kind or click.IntRange(0), metavar="NUMBER", help=text)


def in_lines(chunks: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Yield the lines that each chunk completes, so that a typed line is available at once."""
    rest = b""
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        yield lines
    if rest:
        yield [rest]
