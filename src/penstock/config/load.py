"""From file, environment and flags to one checked :class:`Config`, and where each value came from.

Three layers, each a flat map from key names to what was written; the strongest that mentions a key
wins: flag, environment, file, default. A value that is overruled is still checked, for a mistake
that hides behind a flag will be met on the day the flag is dropped.

All problems are raised together, in the order of layers and lines. What a mistake leaves unknown
(the value of its key; of the key that was probably meant; in a file that does not parse, of all) is
not held against the keys that depend on it.
"""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

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
from penstock.config.values import decode

FILE_VARIABLE = ENVIRONMENT_PREFIX + "CONFIG"
"""The one variable that is no key: the path of the file, where no flag gives it."""

_LAYER_ORDER: Final = ("file", "environment", "flag", "default")


class Loaded(msgspec.Struct, frozen=True):
    """A configuration that was checked, and for every key where its value came from."""

    config: Config
    sources: dict[str, str]
    """ "flag", "environment PENSTOCK_X", "file x.toml line 3" or "default", by key."""
    file: str | None = None

    def value(self, name: str) -> Any:
        """The value of a key by its dotted name."""
        section, _, leaf = name.rpartition(".")
        return getattr(getattr(self.config, section) if section else self.config, leaf)


class _Layer(msgspec.Struct):
    """What one source says: values by key name, where each stands, and what is wrong with it."""

    values: dict[str, Any] = {}
    origins: dict[str, Origin] = {}
    problems: list[Problem] = []
    unknown: set[str] = set()
    """Keys whose values a mistake keeps from us."""

    def origin(self, name: str) -> Origin:
        """Where ``name`` stands; a part of a key ("rules[0].filter") may have its own place."""
        return self.origins.get(name) or self.origins[_key_name(name)]


def _key_name(name: str) -> str:
    return name.partition("[")[0]


def load(path: str | None, environ: Mapping[str, str], flags: Mapping[str, Any]) -> Loaded:
    """Read the configuration, or raise :class:`ConfigProblemsError` with all that is wrong.

    ``path`` of None means the file that ``PENSTOCK_CONFIG`` names, or none. ``flags`` maps key
    names to values or their text; None stands for a flag that was not given.
    """
    path = path or environ.get(FILE_VARIABLE) or None
    layers = [_file_layer(path), _environment_layer(environ), _flag_layer(flags)]
    values: dict[str, Any] = {}
    unknown: set[str] = set()
    for layer in layers:
        decoded = _decoded(layer)
        values |= decoded
        unknown = (unknown - decoded.keys()) | layer.unknown
    config = _build(values)
    problems = [problem for layer in layers for problem in layer.problems]
    problems += [
        _located(fault, _origin(layers, fault.key)) for fault in cross_faults(config, unknown)
    ]
    if problems:
        raise ConfigProblemsError(sorted(problems, key=_place))
    return Loaded(config, {name: str(_origin(layers, name)) for name in KEYS}, path)


def _place(problem: Problem) -> tuple[int, int]:
    """Order problems as the layers are ordered, and within a file by line."""
    return _LAYER_ORDER.index(problem.origin.kind), problem.origin.line


def _decoded(layer: _Layer) -> dict[str, Any]:
    """Decode a layer's values; what cannot be decoded is added to its problems."""
    values: dict[str, Any] = {}
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
    """Where the value that won stands."""
    for layer in reversed(layers):
        if _key_name(name) in layer.values:
            return layer.origin(name)
    return DEFAULT


def _build(values: dict[str, Any]) -> Config:
    """Nest the flat values and let the schema have the last word on them.

    Whoever chooses addresses gets those alone: the default of ``http_listen`` then is none.
    """
    if values.get("listen"):
        values.setdefault("http_listen", ())
    document: dict[str, Any] = {}
    for name, value in values.items():
        section, _, leaf = name.rpartition(".")
        (document.setdefault(section, {}) if section else document)[leaf] = value
    if rules := values.get("retention.rules"):
        section_wide = {leaf: v for leaf, v in document["retention"].items() if leaf != "rules"}
        document["retention"]["rules"] = [section_wide | rule for rule in rules]
    return msgspec.convert(document, Config)


# ── The file ──────────────────────────────────────────────────────────────────────────────────


def _file_layer(path: str | None) -> _Layer:
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
    return layer


def _unreadable(origin: Origin, what: str) -> _Layer:
    return _Layer(problems=[Problem(origin, "", what)], unknown=set(KEYS))


def _syntax_error(path: str, text: str, message: str) -> _Layer:
    """Place the parser's complaint; it tells the position in words, and not at the end of text."""
    what, _, place = message.partition(" (at ")
    numbers = re.findall(r"\d+", place) or [str(text.count("\n") + 1), "0"]
    origin = Origin("file", path, int(numbers[0]), int(numbers[1]))
    return _unreadable(origin, f"not valid TOML: {what[:1].lower()}{what[1:]}")


def _take(layer: _Layer, name: str, value: Any) -> None:
    """Sort one item of the document: a key of the top level, or a section of keys."""
    if name not in SECTIONS or not name:
        _take_key(layer, name, value)
    elif isinstance(value, dict):
        for leaf, inner in value.items():
            _take_key(layer, f"{name}.{leaf}", inner)
    else:
        what, advice = "is a section, not a key", f"write [{name}] and its keys below"
        layer.problems.append(Problem(layer.origins[name], name, what, advice))


def _take_key(layer: _Layer, name: str, value: Any) -> None:
    if name in KEYS:
        layer.values[name] = value
        return
    what, names = "no such key", list(KEYS)
    if isinstance(value, dict):
        what, names = "no such section", [section for section in SECTIONS if section]
    advice = did_you_mean(guess := closest(name, names))
    if guess in KEYS and "." in name and "." not in guess:
        advice += " Keys without a section stand above the first [section]"
    layer.problems.append(Problem(layer.origins[name], name, what, advice))
    layer.unknown.add(guess)


# ── Environment and flags ─────────────────────────────────────────────────────────────────────


def _environment_layer(environ: Mapping[str, str]) -> _Layer:
    layer = _Layer()
    names = {key.environment: key.name for key in KEYS.values()}
    for variable in sorted(environ):
        if not variable.startswith(ENVIRONMENT_PREFIX) or variable == FILE_VARIABLE:
            continue
        origin = Origin("environment", variable)
        if variable in names:
            layer.values[names[variable]] = environ[variable]
            layer.origins[names[variable]] = origin
        else:
            guess = _closest_variable(variable, [*names, FILE_VARIABLE])
            layer.problems.append(Problem(origin, "", "no such setting", did_you_mean(guess)))
            layer.unknown.add(names.get(guess, ""))
    return layer


def _closest_variable(variable: str, variables: list[str]) -> str:
    """Guess which was meant; the prefix, which all share, is no likeness."""
    bare = [name.removeprefix(ENVIRONMENT_PREFIX) for name in variables]
    guess = closest(variable.removeprefix(ENVIRONMENT_PREFIX), bare)
    return ENVIRONMENT_PREFIX + guess if guess else ""


def _flag_layer(flags: Mapping[str, Any]) -> _Layer:
    layer = _Layer()
    for name, value in flags.items():
        if name not in KEYS:
            advice = did_you_mean(guess := closest(name, list(KEYS)))
            layer.problems.append(Problem(Origin("flag"), name, "no such key", advice))
            layer.unknown.add(guess)
        elif value is not None:
            layer.values[name] = value
            layer.origins[name] = Origin("flag")
    return layer
