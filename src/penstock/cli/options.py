"""Configuration flags for a command, made from the schema.

``@configured`` gives a command ``--config``, ``--set``, and an option for each key that the schema
names a flag for; the command itself receives one argument, ``loaded``. Values go to the loader as
text, so that a flag is judged by the same rules, in the same words, as a line of the file.
"""

import os
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, TypeVar

import click
import msgspec

from penstock.config.keys import KEYS, ConfigKey
from penstock.config.load import FILE_VARIABLE, Loaded, load
from penstock.config.problems import ConfigProblemsError, Problem

LISTED_ADVICE = "penstock config explain lists all keys, and with a KEY the variable that sets it"
"""What to do about a name that resembles none of ours."""

_Command = TypeVar("_Command", bound=Callable[..., Any])

_FLAGGED = {key.flag.removeprefix("--").replace("-", "_"): key for key in KEYS.values() if key.flag}
"""Click's name for the parameter → its key."""


def configured(command: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a click command: it takes configuration flags, and is called with ``loaded``."""

    @wraps(command)
    def with_loaded(
        *arguments: Any, config_file: str | None, settings: tuple[str, ...], **parameters: Any
    ) -> Any:
        flags = {key.name: _given(parameters.pop(name)) for name, key in _FLAGGED.items()}
        flags |= dict(_setting(text) for text in settings)
        try:
            loaded = load_or_advise(config_file, flags)
        except ConfigProblemsError as error:
            if all(problem.origin.kind == "flag" for problem in error.problems):
                raise _WrongFlagsError(str(error)) from error
            raise
        return command(*arguments, loaded=loaded, **parameters)

    for key in reversed(_FLAGGED.values()):  # click lists options from the last applied
        with_loaded = _option(key)(with_loaded)
    return config_file_option(_set_option(with_loaded))


class _WrongFlagsError(click.UsageError):
    """Flags that the loader refuses: in its words, with the exit status of a usage error."""

    def show(self, file: Any = None) -> None:
        click.echo(f"penstock: {self.message}", err=True, file=file)


def load_or_advise(file: str | None, flags: Mapping[str, Any]) -> Loaded:
    """Load the configuration; where a name is unknown and none is like it, say where all are."""
    try:
        return load(file, os.environ, flags)
    except ConfigProblemsError as error:
        raise ConfigProblemsError([_advised(problem) for problem in error.problems]) from error


def _advised(problem: Problem) -> Problem:
    if problem.advice or not problem.what.startswith("unknown"):
        return problem
    return msgspec.structs.replace(problem, advice=LISTED_ADVICE)


config_file_option = click.option(
    "--config",
    "config_file",
    metavar="FILE",
    help=f"Configuration file, in TOML.  [env: {FILE_VARIABLE}]",
)
_set_option = click.option(
    "--set",
    "settings",
    metavar="KEY=VALUE",
    multiple=True,
    help="Set any other key, as in limits.inflight_max=100; may be repeated.",
)


def _option(key: ConfigKey) -> Callable[[_Command], _Command]:
    """Make the option for a key. None, or an empty tuple, then stands for "not given"."""
    if key.kind == "boolean":
        return click.option(f"{key.flag}/--no-{key.flag[2:]}", default=None, help=key.text)
    if key.kind == "choice":
        return click.option(key.flag, type=click.Choice(key.choices), help=key.text)
    metavar = "HOST:PORT" if key.form == "address" else key.leaf.upper()
    if key.kind == "list":
        text = f"{key.text} May be repeated."
        return click.option(key.flag, metavar=metavar, multiple=True, help=text)
    return click.option(key.flag, metavar=metavar, help=key.text)


def _given(value: Any) -> Any:
    """Join what a repeated option gathered, so that it may hold commas as well."""
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
