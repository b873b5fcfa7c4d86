"""The schema as a flat table: one :class:`ConfigKey` per option, in the order of declaration.

The loader, ``config explain``, the reference page and the command-line flags all use ``KEYS``.
"""

from difflib import get_close_matches
from typing import Literal, get_args, get_origin

import msgspec
from msgspec import Meta
from msgspec.structs import FieldInfo

from penstock.config.bridge_options import BridgeOptions
from penstock.config.schema import SECTIONS, ListenerOptions, RetentionRule, SigningRule
from penstock.config.units import unit_of

ENVIRONMENT_PREFIX = "PENSTOCK_"

Kind = Literal["boolean", "integer", "number", "text", "choice", "choices", "list", "rules"]

_KINDS: dict[object, Kind] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "text",
    Literal: "choice",
    tuple: "list",
}


class ConfigKey(msgspec.Struct, frozen=True, kw_only=True):
    """One option."""

    name: str  # section.field; without a dot at the top level
    kind: Kind
    text: str
    default: object
    low: float | None = None
    high: float | None = None
    choices: tuple[str | int, ...] = ()
    flag: str = ""
    form: str = ""  # of a text: one of ``declaring.FORMS``

    @property
    def section(self) -> str:
        return self.name.rpartition(".")[0]

    @property
    def leaf(self) -> str:
        return self.name.rpartition(".")[2]

    @property
    def unit(self) -> str:
        return unit_of(self.name) if self.kind in {"integer", "number"} else ""

    @property
    def environment(self) -> str:
        return ENVIRONMENT_PREFIX + self.name.upper().replace(".", "_")


def _key(section: str, field: FieldInfo) -> ConfigKey:
    base, *details, text = get_args(field.type)
    meta = details[0] if details else Meta()
    extra = meta.extra or {}
    return ConfigKey(
        name=f"{section}.{field.name}" if section else field.name,
        kind=_kind(base),
        text=text,
        default=field.default,
        low=meta.ge,
        high=meta.le,
        choices=_choices(base),
        flag=extra.get("flag", ""),
        form=extra.get("form", ""),
    )


def _choices(base: object) -> tuple[str | int, ...]:
    item = base if get_origin(base) is Literal else _item(base)
    return get_args(item) if get_origin(item) is Literal else ()


def _item(base: object) -> object:
    return get_args(base)[0] if get_origin(base) is tuple else None


def _kind(base: object) -> Kind:
    item = _item(base)
    if get_origin(item) is Literal:
        return "choices"
    if isinstance(item, type) and issubclass(item, msgspec.Struct):
        return "rules"
    return _KINDS[get_origin(base) or base]


def _keys_of(section: str, struct: type[msgspec.Struct]) -> list[ConfigKey]:
    fields = msgspec.structs.fields(struct)
    return [_key(section, field) for field in fields if section or field.name not in SECTIONS]


KEYS: dict[str, ConfigKey] = {
    key.name: key for section, struct in SECTIONS.items() for key in _keys_of(section, struct)
}


RULE_KEYS: dict[str, dict[str, ConfigKey]] = {
    name: {key.leaf: key for key in _keys_of(name, rule)}
    for name, rule in (
        ("bridges", BridgeOptions),
        ("listeners", ListenerOptions),
        ("retention.rules", RetentionRule),
        ("signing.rules", SigningRule),
    )
}
"""For each option that is an array of tables: the options of one table, by their bare names."""


_SIMILARITY_MIN = 0.75  # from 0 to 1: a far-fetched suggestion misleads


def closest(name: str, names: list[str]) -> str:
    """The right name in the wrong section is more likely than a misspelling."""
    leaf = name.rpartition(".")[2]
    same_leaf = [known for known in names if known.rpartition(".")[2] == leaf]
    if same_leaf:
        return same_leaf[0]
    by_leaf = {known.rpartition(".")[2]: known for known in names}
    for word, words in ((name, {known: known for known in names}), (leaf, by_leaf)):
        if found := get_close_matches(word, words, n=1, cutoff=_SIMILARITY_MIN):
            return words[found[0]]
    return ""
