"""Decode and check the value of an option; encode it as TOML.

Text from the environment or a flag and typed values from the file follow the same rules: a number
may be text, with or without a unit; a list may be text with commas; rules a TOML array as text.
"""

import json
import re
import tomllib
from collections.abc import Callable, Iterable
from ipaddress import ip_network
from typing import Final, TypeVar

import msgspec

from penstock.config.address import parse_listen, parse_listener
from penstock.config.bridge_options import address_fault
from penstock.config.keys import RULE_KEYS, ConfigKey, Kind, closest
from penstock.config.problems import ConfigFault, did_you_mean, faults_in
from penstock.config.units import with_unit, without_unit
from penstock.model.topic import filter_fault
from penstock.model.user_name import USER_NAME, USER_NAME_FAULT

_Item = TypeVar("_Item")
_Value = TypeVar("_Value")

_ORIGIN: Final = re.compile(r"\*|null|[a-z][a-z0-9+.-]*://[^\sA-Z/?#@,]+")
_BOOLEANS: Final = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def decode(key: ConfigKey, raw: object) -> object:
    """Return the value of an option. Raises a ConfigFault, or a group of them for a list."""
    return _DECODERS[key.kind](key, raw)


def _boolean(_key: ConfigKey, raw: object) -> bool:
    value = _BOOLEANS.get(raw.strip().lower()) if isinstance(raw, str) else raw
    if not isinstance(value, bool):
        raise ConfigFault(f"must be true or false, not {_shown(raw)}")
    return value


def _number(key: ConfigKey, raw: object) -> float:
    try:
        value = without_unit(raw, key.unit) if isinstance(raw, str) else raw
    except ValueError as error:
        raise ConfigFault(f"{error}, not {_shown(raw)}") from None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigFault(f"must be a number, not {_shown(raw)}")
    assert key.low is not None
    assert key.high is not None
    if not key.low <= value <= key.high:  # written so that nan fails too
        raise ConfigFault(f"must be {range_of(key)}, not {_shown(raw)}")
    return value


def _integer(key: ConfigKey, raw: object) -> int:
    value = _number(key, raw)
    if value != int(value):
        units = {"s": " of seconds", "ms": " of milliseconds", "bytes": " of bytes", "": ""}
        raise ConfigFault(f"must be a whole number{units[key.unit]}, not {_shown(raw)}")
    return int(value)


def _text(key: ConfigKey, raw: object) -> str:
    if not isinstance(raw, str):
        shown = "the value given" if key.form == "secret" else _shown(raw)
        raise ConfigFault(f"must be text in quotes, not {shown}")
    if raw:
        _FORMS[key.form](raw)
    elif key.default != "":
        raise ConfigFault("must not be empty")
    return raw


def _address(text: str) -> None:
    try:
        parse_listen(text)
    except ValueError as error:
        raise ConfigFault(str(error)) from None


def _listener(text: str) -> None:
    try:
        parse_listener(text)
    except ValueError as error:
        raise ConfigFault(str(error)) from None


def _network(text: str) -> None:
    try:
        ip_network(text)
    except ValueError as error:
        raise ConfigFault(
            f"{_shown(text)} is not an address range: {error}", 'write it as in "10.0.0.0/8"'
        ) from None


def _user(text: str) -> None:
    if not USER_NAME.fullmatch(text):
        raise ConfigFault(f"{_shown(text)} is not a user: {USER_NAME_FAULT}")


def _bridge_url(text: str) -> None:
    if fault := address_fault(text):
        raise ConfigFault(f"{_shown(text)}: {fault}")


def _filter(text: str) -> None:
    # Only the limits of the wire are checked: those on topics are configuration themselves.
    fault = filter_fault(text.encode("utf-8", "surrogateescape"), 65_535, 65_535)
    if fault:
        raise ConfigFault(f"{_shown(text)} is not a topic filter: {fault}")


def _secret(text: str) -> None:
    # It is sent in an HTTP header. It is never shown.
    if not (16 <= len(text) <= 256 and text.isascii() and text.isprintable() and " " not in text):
        raise ConfigFault("must have 16 to 256 printable ASCII characters, without spaces")


def _origin(text: str) -> None:
    if not _ORIGIN.fullmatch(text):
        raise ConfigFault(
            f"{_shown(text)} is not the origin of a web page",
            'write it in lower case and without a path, as in "https://app.example.com"',
        )


_FORMS: Final[dict[str, Callable[[str], None]]] = {
    "": lambda _text: None,
    "address": _address,
    "bridge_url": _bridge_url,
    "filter": _filter,
    "listener": _listener,
    "network": _network,
    "origin": _origin,
    "secret": _secret,
    "secret_file": lambda _text: None,
    "user": _user,
}


def _choice(key: ConfigKey, raw: object) -> str | int:
    # A number may be given as text, by the environment or a flag.
    choices = {str(choice): choice for choice in key.choices}
    if not isinstance(raw, bool) and (found := choices.get(str(raw))) is not None:
        return found
    guess = closest(raw, list(choices)) if isinstance(raw, str) else ""
    *others, last = choices
    raise ConfigFault(
        f"must be {', '.join(others)} or {last}, not {_shown(raw)}", did_you_mean(guess)
    )


def _choices(key: ConfigKey, raw: object) -> tuple[str | int, ...]:
    items = _split(raw)
    if not isinstance(items, list | tuple):
        raise ConfigFault(f"must be a list, not {_shown(items)}")
    if not items and key.default:
        raise ConfigFault("must not be empty")
    return tuple(_each(items, lambda _index, item: _choice(key, item)))


def _split(raw: object) -> object:
    if not isinstance(raw, str):
        return raw
    return [part.strip() for part in raw.split(",") if part.strip()]


def _list(key: ConfigKey, raw: object) -> tuple[str, ...]:
    items = _split(raw)
    if not isinstance(items, list | tuple) or not all(isinstance(item, str) for item in items):
        raise ConfigFault(f"must be a list of texts, not {_shown(items)}")
    return tuple(_each(items, lambda _index, item: _text(key, item)))


def _rules(key: ConfigKey, raw: object) -> tuple[dict[str, object], ...]:
    if isinstance(raw, str):
        raw = _toml_array(key, raw)
    if not isinstance(raw, list | tuple) or not all(isinstance(rule, dict) for rule in raw):
        raise ConfigFault("must be an array of tables", f"write [[{key.name}]] above each of them")
    return tuple(_each(raw, lambda index, rule: _rule(f"{key.name}[{index}]", key, rule)))


def _toml_array(key: ConfigKey, text: str) -> object:
    try:
        rules: object = tomllib.loads(f"rules = {text}")["rules"]
    except tomllib.TOMLDecodeError:
        raise ConfigFault(
            "must be an array of tables", f"write it as in {_RULE_EXAMPLES[key.name]}"
        ) from None
    return rules


_RULE_EXAMPLES: Final = {
    "bridges": '[{name = "old", url = "mqtt://old.example:1883", topics_in = ["#"]}]',
    "listeners": '[{address = "0.0.0.0:8883", tls = "required"}]',
    "retention.rules": '[{filter = "logs/#", age_s_max = "1d"}]',
    "signing.rules": '[{filter = "plant/+/commands", versions = [2]}]',
}


_MISSING: Final = {
    "address": ("a listener needs an address", 'add address = "0.0.0.0:8883"'),
    "filter": ("a rule needs a filter", 'add filter = "some/topic/#"'),
    "name": ("a bridge needs a name", 'add name = "old"'),
    "url": ("a bridge needs an address", 'add url = "mqtt://old.example:1883"'),
}
"""Required options of a table: what to say if one is missing."""


def _rule(name: str, key: ConfigKey, rule: dict[str, object]) -> dict[str, object]:
    keys = RULE_KEYS[key.name]
    for leaf, inner in keys.items():
        if inner.default is msgspec.NODEFAULT and leaf not in rule:
            raise ConfigFault(*_MISSING[leaf], key=name)
    values = _each(rule.items(), lambda _index, item: _rule_value(f"{name}.{item[0]}", keys, *item))
    return dict(zip(rule, values, strict=True))


def _rule_value(name: str, keys: dict[str, ConfigKey], leaf: str, raw: object) -> object:
    if leaf not in keys:
        raise ConfigFault("unknown option", did_you_mean(closest(leaf, list(keys))), key=name)
    try:
        return decode(keys[leaf], raw)
    except* ConfigFault as group:
        for fault in faults_in(group):
            fault.key = name
        raise


def _each(items: Iterable[_Item], decoder: Callable[[int, _Item], _Value]) -> list[_Value]:
    values: list[_Value] = []
    faults: list[ConfigFault] = []
    for index, item in enumerate(items):
        try:
            values.append(decoder(index, item))
        except* ConfigFault as group:
            faults.extend(faults_in(group))
    if faults:
        raise ExceptionGroup("faults", faults)
    return values


_DECODERS: Final[dict[Kind, Callable[[ConfigKey, object], object]]] = {
    "boolean": _boolean,
    "integer": _integer,
    "number": lambda key, raw: float(_number(key, raw)),
    "text": _text,
    "choice": _choice,
    "choices": _choices,
    "list": _list,
    "rules": _rules,
}


def encode(key: ConfigKey, value: object) -> str:
    if key.kind == "rules" and isinstance(value, tuple):
        return "[" + ", ".join(_encode_rule(key, rule) for rule in value) + "]"
    if key.kind in {"integer", "number"} and isinstance(value, int | float):
        text = with_unit(value, key.unit)
        return text if key.unit == "" or value == 0 else f'"{text}"'
    # JSON and TOML escape alike, except for DEL, which JSON allows and TOML forbids.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _encode_rule(key: ConfigKey, rule: msgspec.Struct) -> str:
    leaves = RULE_KEYS[key.name].items()
    pairs = (f"{leaf} = {encode(inner, getattr(rule, leaf))}" for leaf, inner in leaves)
    return "{" + ", ".join(pairs) + "}"


def range_of(key: ConfigKey) -> str:
    if key.low is None or key.high is None:
        return ""
    return f"{with_unit(key.low, key.unit)} to {with_unit(key.high, key.unit)}"


def _shown(raw: object) -> str:
    text = json.dumps(raw, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else text[:57] + "..."
