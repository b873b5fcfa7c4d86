"""Load and check the configuration from file, environment and flags.

Flags override the environment, which overrides the file. An overridden value is checked all the
same: its mistake would surface on the day that the flag is dropped. All problems are raised
together. The rules between options ignore those whose value is unknown because of a mistake.
"""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from penstock.config.checks import cross_faults
from penstock.config.keys import ENVIRONMENT_PREFIX, KEYS, closest
from penstock.config.lines import key_lines
from penstock.config.problems import (
    DEFAULT,
    ConfigFault,
    ConfigProblemsError,
    Origin,
    Problem,
    did_you_mean,
    faults_in,
)
from penstock.config.schema import SECTIONS, Config
from penstock.config.secret_files import expanded, with_secret_files
from penstock.config.values import decode
from penstock.kernel import SPEED_VARIABLE

FILE_VARIABLE = ENVIRONMENT_PREFIX + "CONFIG"  # the path of the file, if no flag gives it

NOT_OPTIONS: Final = frozenset(
    {FILE_VARIABLE, SPEED_VARIABLE}
    | {
        ENVIRONMENT_PREFIX + name
        for name in ("USER", "PASSWORD_FILE", "TOKEN_FILE", "CA_FILE", "CONTEXT", "CONTEXTS")
    }
)
"""Variables that are no options: of the broker's file and speed, and of commands that connect."""

_LAYER_ORDER: Final = ("file", "environment", "flag", "default")


class Loaded(msgspec.Struct, frozen=True):
    """A valid configuration, and the source of every value."""

    config: Config
    sources: dict[str, str]  # by option, as in "environment PENSTOCK_X", "file x.toml line 3"
    file: str | None = None
    flags: Mapping[str, object] = {}  # as they were given, to load again

    def __repr__(self) -> str:
        return f"Loaded({self.config!r})"  # flags may have secrets

    def value(self, name: str) -> object:
        section, _, leaf = name.rpartition(".")
        value: object = getattr(getattr(self.config, section) if section else self.config, leaf)
        return value


class _Layer(msgspec.Struct):
    """The values of one source, by option name, with their origins and problems."""

    values: dict[str, object] = {}
    origins: dict[str, Origin] = {}
    problems: list[Problem] = []
    unknown: set[str] = set()  # options whose values could not be read

    def origin(self, name: str) -> Origin:
        return self.origins.get(name) or self.origins[_key_name(name)]


def _key_name(name: str) -> str:
    return name.partition("[")[0]


def load(path: str | None, environ: Mapping[str, str], flags: Mapping[str, object]) -> Loaded:
    """Raises :class:`ConfigProblemsError`. ``flags`` maps option names to values or their text."""
    path = path or environ.get(FILE_VARIABLE) or None
    layers = [_file_layer(path, environ), _environment_layer(environ), _flag_layer(flags)]
    values: dict[str, object] = {}
    unknown: set[str] = set()
    for layer in layers:
        decoded = _decoded(layer)
        values |= decoded
        unknown = (unknown - decoded.keys()) | layer.unknown
    config, faults = with_secret_files(_build(values))
    problems = [problem for layer in layers for problem in layer.problems]
    problems += [_located(fault, _origin(layers, fault.key)) for fault in faults]
    problems += [
        _located(fault, _origin(layers, fault.key)) for fault in cross_faults(config, unknown)
    ]
    if problems:
        raise ConfigProblemsError(sorted(problems, key=_order))
    return Loaded(config, {name: str(_origin(layers, name)) for name in KEYS}, path, dict(flags))


def _order(problem: Problem) -> tuple[int, int]:
    return _LAYER_ORDER.index(problem.origin.kind), problem.origin.line


def _decoded(layer: _Layer) -> dict[str, object]:
    values: dict[str, object] = {}
    for name, raw in layer.values.items():
        try:
            values[name] = decode(KEYS[name], raw)
        except* ConfigFault as group:
            layer.unknown.add(name)
            for fault in faults_in(group):
                fault.key = fault.key or name
                layer.problems.append(_located(fault, layer.origin(fault.key)))
    return values


def _located(fault: ConfigFault, origin: Origin) -> Problem:
    return Problem(origin, fault.key, fault.what, fault.advice)


def _origin(layers: list[_Layer], name: str) -> Origin:
    for layer in reversed(layers):
        if _key_name(name) in layer.values:
            return layer.origin(name)
    return DEFAULT


def _build(values: dict[str, object]) -> Config:
    if values.get("listeners"):
        values.setdefault("listen", ())
    if values.get("listen") or values.get("listeners"):
        values.setdefault("http_listen", ())
    sections: dict[str, dict[str, object]] = {}
    for name, value in values.items():
        section, _, leaf = name.rpartition(".")
        sections.setdefault(section, {})[leaf] = value
    rules = values.get("retention.rules")
    if isinstance(rules, tuple):
        inherited = {leaf: v for leaf, v in sections["retention"].items() if leaf != "rules"}
        sections["retention"]["rules"] = [inherited | rule for rule in rules]
    return msgspec.convert(sections.pop("", {}) | sections, Config)


# ── The file ──────────────────────────────────────────────────────────────────────────────────


def _file_layer(path: str | None, environ: Mapping[str, str]) -> _Layer:
    if path is None:
        return _Layer()
    try:
        text = Path(path).read_text(encoding="utf-8")
        document = tomllib.loads(text)
    except OSError as error:
        return _unreadable(Origin("file", path), f"cannot be read: {error.strerror}")
    except UnicodeDecodeError:
        return _unreadable(Origin("file", path), "is not UTF-8 text")
    except tomllib.TOMLDecodeError as error:
        return _syntax_error(path, text, str(error))
    lines = key_lines(text)
    layer = _Layer(origins={name: Origin("file", path, line) for name, line in lines.items()})
    for name, value in document.items():
        _take(layer, name, value)
    _expand(layer, environ)
    return layer


def _expand(layer: _Layer, environ: Mapping[str, str]) -> None:
    for name, value in list(layer.values.items()):
        try:
            layer.values[name] = expanded(KEYS[name], value, environ)
        except ConfigFault as fault:
            del layer.values[name]
            layer.unknown.add(name)
            layer.problems.append(_located(fault, layer.origin(name)))


def _unreadable(origin: Origin, what: str) -> _Layer:
    return _Layer(problems=[Problem(origin, "", what)], unknown=set(KEYS))


def _syntax_error(path: str, text: str, message: str) -> _Layer:
    what, _, position = message.partition(" (at ")
    numbers = re.findall(r"\d+", position) or [str(text.count("\n") + 1), "0"]
    origin = Origin("file", path, int(numbers[0]), int(numbers[1]))
    return _unreadable(origin, f"not valid TOML: {what[:1].lower()}{what[1:]}")


def _take(layer: _Layer, name: str, value: object) -> None:
    if name not in SECTIONS or not name:
        _take_key(layer, name, value)
    elif isinstance(value, dict):
        for leaf, inner in value.items():
            _take_key(layer, f"{name}.{leaf}", inner)
    else:
        what, advice = "is a section, not an option", f"write [{name}] and its options below"
        layer.problems.append(Problem(layer.origins[name], name, what, advice))


def _take_key(layer: _Layer, name: str, value: object) -> None:
    if name in KEYS:
        layer.values[name] = value
        return
    what, names = "unknown option", list(KEYS)
    if isinstance(value, dict):
        what, names = "unknown section", [section for section in SECTIONS if section]
    advice = did_you_mean(guess := closest(name, names))
    if guess in KEYS and "." in name and "." not in guess:
        advice += " Options without a section come before the first [section]"
    layer.problems.append(Problem(layer.origins[name], name, what, advice))
    layer.unknown.add(guess)


# ── Environment and flags ─────────────────────────────────────────────────────────────────────


def _environment_layer(environ: Mapping[str, str]) -> _Layer:
    layer = _Layer()
    names = {key.environment: key.name for key in KEYS.values()}
    for variable in sorted(environ):
        if not variable.startswith(ENVIRONMENT_PREFIX) or variable in NOT_OPTIONS:
            continue
        origin = Origin("environment", variable)
        if variable in names:
            layer.values[names[variable]] = environ[variable]
            layer.origins[names[variable]] = origin
        else:
            guess = _closest_variable(variable, [*names, FILE_VARIABLE])
            layer.problems.append(Problem(origin, "", "unknown option", did_you_mean(guess)))
            layer.unknown.add(names.get(guess, ""))
    return layer


def _closest_variable(variable: str, variables: list[str]) -> str:
    bare = [name.removeprefix(ENVIRONMENT_PREFIX) for name in variables]
    guess = closest(variable.removeprefix(ENVIRONMENT_PREFIX), bare)
    return ENVIRONMENT_PREFIX + guess if guess else ""


def _flag_layer(flags: Mapping[str, object]) -> _Layer:
    layer = _Layer()
    for name, value in flags.items():
        if name not in KEYS:
            advice = did_you_mean(guess := closest(name, list(KEYS)))
            layer.problems.append(Problem(Origin("flag"), name, "unknown option", advice))
            layer.unknown.add(guess)
        elif value is not None:
            layer.values[name] = value
            layer.origins[name] = Origin("flag")
    return layer
