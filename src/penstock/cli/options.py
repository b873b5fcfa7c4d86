"""Configuration flags for a command, made from the schema.

Values are passed to the loader as text, so that flags and files have the same rules and errors.
"""

import os
from collections.abc import Callable, Mapping
from functools import wraps
from typing import IO

import click
import msgspec

from penstock.cli.inputs import CommandDecorator, option_set
from penstock.config.keys import KEYS, ConfigKey
from penstock.config.load import FILE_VARIABLE, Loaded, load
from penstock.config.problems import ConfigProblemsError, Problem

LISTED_ADVICE = (
    "penstock config explain lists all options; penstock config explain OPTION shows its variable"
)

_FLAGGED = {key.flag.removeprefix("--").replace("-", "_"): key for key in KEYS.values() if key.flag}
"""Click's parameter name → the option."""


def configured(command: Callable[..., object]) -> Callable[..., object]:
    """Decorate a click command: it takes configuration flags, and is called with ``loaded``."""

    @wraps(command)
    def with_loaded(
        *arguments: object, config_file: str | None, settings: tuple[str, ...], **parameters: object
    ) -> object:
        flags = {key.name: _given(parameters.pop(name)) for name, key in _FLAGGED.items()}
        flags |= dict(_setting(text) for text in settings)
        try:
            loaded = load_or_advise(config_file, flags)
        except ConfigProblemsError as error:
            if all(problem.origin.kind == "flag" for problem in error.problems):
                raise _InvalidFlagsError(str(error)) from error
            raise
        return command(*arguments, loaded=loaded, **parameters)

    return option_set(
        click.option(
            "--config",
            "config_file",
            metavar="FILE",
            help=f"Configuration file (TOML).  [env: {FILE_VARIABLE}]",
        ),
        click.option(
            "--set",
            "settings",
            metavar="KEY=VALUE",
            multiple=True,
            help="Set any configuration option, as in limits.inflight_max=100; repeatable.",
        ),
        *map(_option, _FLAGGED.values()),
    )(with_loaded)


class _InvalidFlagsError(click.UsageError):
    """The loader's message, with the exit status of a usage error."""

    def show(self, file: IO[str] | None = None) -> None:
        click.echo(f"penstock: {self.message}", err=True, file=file)


def load_or_advise(file: str | None, flags: Mapping[str, object]) -> Loaded:
    try:
        return load(file, os.environ, flags)
    except ConfigProblemsError as error:
        raise ConfigProblemsError([_advised(problem) for problem in error.problems]) from error


def _advised(problem: Problem) -> Problem:
    if problem.advice or not problem.what.startswith("unknown"):
        return problem
    return msgspec.structs.replace(problem, advice=LISTED_ADVICE)


def _option(key: ConfigKey) -> CommandDecorator:
    """Make the flag of an option. None, or an empty tuple, means that it was not given."""
    if key.kind == "boolean":
        return click.option(f"{key.flag}/--no-{key.flag[2:]}", default=None, help=key.text)
    if key.kind == "choice":
        return click.option(key.flag, type=click.Choice(key.choices), help=key.text)
    metavar = "HOST:PORT" if key.form == "address" else key.leaf.upper()
    if key.kind == "list":
        text = f"{key.text} Repeatable."
        return click.option(key.flag, metavar=metavar, multiple=True, help=text)
    return click.option(key.flag, metavar=metavar, help=key.text)


def _given(value: object) -> object:
    """Join the values of a repeated flag: each may be a list separated by commas itself."""
    if isinstance(value, tuple):
        return ",".join(value) if value else None
    return value


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise click.UsageError(
            f"--set takes KEY=VALUE, as in limits.inflight_max=100, not {text!r}"
        )
    return key.strip(), value.strip()
