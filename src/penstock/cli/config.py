"""``penstock config``: check a configuration, explain it, print an example of one."""

import json
from typing import Any

import click
import msgspec

from penstock.cli.columns import columns
from penstock.cli.lazy import CommandGroup
from penstock.cli.options import LISTED_ADVICE, configured, load_or_advise
from penstock.config.keys import KEYS, ConfigKey, closest
from penstock.config.load import Loaded
from penstock.config.problems import ConfigProblemsError, Problem, did_you_mean
from penstock.config.reference import example_toml, type_of
from penstock.config.schema import SECTIONS
from penstock.config.values import encode, range_of
from penstock.errors import ConfigError

_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")


@click.group(cls=CommandGroup)
def config() -> None:
    """Check and explain the configuration."""


@config.command()
@click.argument("file", required=False)
@_json_option
def check(file: str | None, as_json: bool) -> None:
    """Check FILE and the environment as the broker would.

    Prints every problem and exits with status 1, or says that all is well.
    """
    try:
        loaded = load_or_advise(file, {})
    except ConfigProblemsError as error:
        if not as_json:
            raise
        _print_json({"ok": False, "problems": [_problem_json(p) for p in error.problems]})
        raise click.exceptions.Exit(1) from None
    if as_json:
        _print_json({"ok": True, "problems": []})
    else:
        print(_all_well(loaded))


def _all_well(loaded: Loaded) -> str:
    where = loaded.file or "no file"
    count = sum(source != "default" for source in loaded.sources.values())
    if not count:
        return f"ok: {where}: nothing set, all keys at their defaults"
    given = "1 key" if count == 1 else f"{count} keys"
    return f"ok: {where}: {given} set, all others at their defaults"


def _problem_json(problem: Problem) -> dict[str, Any]:
    return {
        "source": str(problem.origin),
        "file": problem.origin.name if problem.origin.kind == "file" else None,
        "line": problem.origin.line or None,
        "key": problem.key or None,
        "problem": problem.what,
        "advice": problem.advice or None,
    }


@config.command()
@click.argument("name", required=False, metavar="[KEY|SECTION]")
@configured
@_json_option
def explain(name: str | None, as_json: bool, loaded: Loaded) -> None:
    """Show what is in force and where it comes from.

    Lists all keys, or those of SECTION; of KEY it tells everything.

    Takes the flags of `penstock serve`, to show what they would do.
    """
    if name is None or name in SECTIONS:
        keys = [key for key in KEYS.values() if name is None or key.section == name]
        if as_json:
            _print_json([_facts(key, loaded) for key in keys])
        else:
            print(_table(keys, loaded))
    elif as_json:
        _print_json(_facts(_known(name), loaded))
    else:
        print(_page(_known(name), loaded))


def _known(name: str) -> ConfigKey:
    if name not in KEYS:
        names = [*KEYS, *filter(None, SECTIONS)]
        advice = did_you_mean(closest(name, names)) or LISTED_ADVICE
        raise ConfigError(f"{name}: unknown option or section", advice)
    return KEYS[name]


def _table(keys: list[ConfigKey], loaded: Loaded) -> str:
    return columns(
        [(key.name, encode(key, _shown(key, loaded)), loaded.sources[key.name]) for key in keys]
    )


def _facts(key: ConfigKey, loaded: Loaded) -> dict[str, Any]:
    return {
        "key": key.name,
        "text": key.text,
        "type": type_of(key),
        "default": key.default,
        "minimum": key.low,
        "maximum": key.high,
        "environment": key.environment,
        "flag": key.flag or None,
        "value": _shown(key, loaded),
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


def _shown(key: ConfigKey, loaded: Loaded) -> Any:
    """The value in force; of a secret only whether there is one."""
    value = loaded.value(key.name)
    return "(hidden)" if key.form == "secret" and value else value


@config.command()
def example() -> None:
    """Print an example file with every key.

    Each has its meaning, default and range.
    """
    print(example_toml(), end="")


def _print_json(value: Any) -> None:
    print(json.dumps(msgspec.to_builtins(value), indent=2, ensure_ascii=False))
