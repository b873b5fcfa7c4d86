"""``penstock config``: check a configuration, explain it, print an example."""

import click
import msgspec

from penstock.cli.lazy import CommandGroup
from penstock.cli.options import LISTED_ADVICE, configured, load_or_advise
from penstock.cli.output import columns, counted, json_option, print_result, wants_json
from penstock.config.example import example_toml, type_of
from penstock.config.keys import KEYS, ConfigKey, closest
from penstock.config.load import Loaded
from penstock.config.problems import ConfigProblemsError, Problem, did_you_mean
from penstock.config.schema import SECTIONS
from penstock.config.values import encode, range_of
from penstock.errors import ConfigError


@click.group(cls=CommandGroup)
def config() -> None:
    """Check and explain the configuration."""


@config.command()
@click.argument("file", required=False)
@json_option
def check(file: str | None) -> None:
    """Check FILE and the environment as the broker does.

    Prints all problems and exits with status 1, or reports success.
    """
    try:
        loaded = load_or_advise(file, {})
    except ConfigProblemsError as error:
        if not wants_json():
            raise
        problems = [_problem_json(problem) for problem in error.problems]
        print_result({"ok": False, "problems": problems}, "")
        raise click.exceptions.Exit(1) from None
    print_result({"ok": True, "problems": []}, _summary(loaded))


def _summary(loaded: Loaded) -> str:
    where = loaded.file or "no file"
    count = sum(source != "default" for source in loaded.sources.values())
    if not count:
        return f"ok: {where}: all options have their defaults"
    return f"ok: {where}: {counted(count, 'option')} set, all others have their defaults"


def _problem_json(problem: Problem) -> dict[str, object]:
    return {
        "source": str(problem.origin),
        "file": problem.origin.name if problem.origin.kind == "file" else None,
        "line": problem.origin.line or None,
        "key": problem.key or None,
        "problem": problem.what,
        "advice": problem.advice or None,
    }


@config.command()
@click.argument("name", required=False, metavar="[OPTION|SECTION]")
@configured
@json_option
def explain(name: str | None, loaded: Loaded) -> None:
    """Show the values in effect and where they come from.

    Lists all options, or those of SECTION, or describes OPTION.

    Takes the flags of `penstock serve`, to show their effect.
    """
    if name is None or name in SECTIONS:
        keys = [key for key in KEYS.values() if name is None or key.section == name]
        rows = [
            (key.name, encode(key, _shown(key, loaded)), loaded.sources[key.name]) for key in keys
        ]
        print_result([_facts(key, loaded) for key in keys], columns(rows))
    else:
        key = _known(name)
        print_result(_facts(key, loaded), _page(key, loaded))


def _known(name: str) -> ConfigKey:
    if name not in KEYS:
        names = [*KEYS, *filter(None, SECTIONS)]
        advice = did_you_mean(closest(name, names)) or LISTED_ADVICE
        raise ConfigError(f"{name}: unknown option or section", advice)
    return KEYS[name]


def _facts(key: ConfigKey, loaded: Loaded) -> dict[str, object]:
    return {
        "key": key.name,
        "text": key.text,
        "type": type_of(key),
        "default": key.default,
        "minimum": key.low,
        "maximum": key.high,
        "environment": key.environment,
        "flag": key.flag or None,
        "value": msgspec.to_builtins(_shown(key, loaded)),
        "source": loaded.sources[key.name],
    }


def _page(key: ConfigKey, loaded: Loaded) -> str:
    rows = [
        ("type", type_of(key)),
        ("default", encode(key, key.default)),
        ("range", range_of(key)),
        ("environment", key.environment),
        ("flag", key.flag or f"--set {key.name}=VALUE"),
        ("value", encode(key, _shown(key, loaded))),
        ("source", loaded.sources[key.name]),
    ]
    return f"{key.name}\n  {key.text}\n\n" + columns([(f"  {k}", v) for k, v in rows if v])


def _shown(key: ConfigKey, loaded: Loaded) -> object:
    value = loaded.value(key.name)
    return "(hidden)" if key.form == "secret" and value else value


@config.command()
def example() -> None:
    """Print an example file with all options, their defaults and ranges."""
    click.echo(example_toml(), nl=False)
