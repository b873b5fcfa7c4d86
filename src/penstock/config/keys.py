"""The schema as a flat table: one :class:`ConfigKey` per thing that can be set.

Loader, explanations, reference page and command-line options all go through ``KEYS``; none of them
looks at the structs. The order is that of the declaration.
"""

from difflib import get_close_matches
from typing import Any, Literal, get_args, get_origin

import msgspec
from msgspec.structs import FieldInfo

from penstock.config.schema import SECTIONS
from penstock.config.units import unit_of

ENVIRONMENT_PREFIX = "PENSTOCK_"

Kind = Literal["boolean", "integer", "number", "text", "choice", "choices", "list", "rules"]

_KINDS: dict[Any, Kind] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "text",
    Literal: "choice",
    tuple: "list",
}


class ConfigKey(msgspec.Struct, frozen=True, kw_only=True):
    """Everything there is to know about one key."""

    name: str
    """Section and field, with a dot between; a key of the top level has no dot."""
    kind: Kind
    text: str
    """One sentence on what it does."""
    default: Any
    low: float | None = None
    high: float | None = None
    choices: tuple[str | int, ...] = ()
    flag: str = ""
    """An option of its own on the command line, where it has one."""
    form: str = ""
    """What its texts must be beyond text: "address", "filter", "secret" or nothing further."""

    @property
    def section(self) -> str:
        """The section it stands in, empty for the top level."""
        return self.name.rpartition(".")[0]

    @property
    def leaf(self) -> str:
        """Its name within the section."""
        return self.name.rpartition(".")[2]

    @property
    def unit(self) -> str:
        """The unit of a bare number: "s", "ms", "bytes" or none."""
        return unit_of(self.name) if self.kind in {"integer", "number"} else ""

    @property
    def environment(self) -> str:
        """The environment variable that sets it."""
        return ENVIRONMENT_PREFIX + self.name.upper().replace(".", "_")


def _key(section: str, field: FieldInfo) -> ConfigKey:
    base, meta = get_args(field.type)
    return ConfigKey(
        name=f"{section}.{field.name}" if section else field.name,
        kind=_kind(base),
        text=meta.description,
        default=field.default,
        low=meta.ge,
        high=meta.le,
        choices=_choices(base),
        flag=meta.extra["flag"],
        form=meta.extra["form"],
    )


def _choices(base: Any) -> tuple[str | int, ...]:
    item = base if get_origin(base) is Literal else _item(base)
    return get_args(item) if get_origin(item) is Literal else ()


def _item(base: Any) -> Any:
    """The type of a list's items; None of what is no list."""
    return get_args(base)[0] if get_origin(base) is tuple else None


def _kind(base: Any) -> Kind:
    item = _item(base)
    if get_origin(item) is Literal:
        return "choices"
    if isinstance(item, type) and issubclass(item, msgspec.Struct):
        return "rules"
    return _KINDS[get_origin(base) or base]


def _keys_of(section: str, struct: type[msgspec.Struct]) -> list[ConfigKey]:
    fields = msgspec.structs.fields(struct)
    return [_key(section, field) for field in fields if field.name not in SECTIONS]


KEYS: dict[str, ConfigKey] = {
    key.name: key for section, struct in SECTIONS.items() for key in _keys_of(section, struct)
}
"""All keys by name, in the order in which the reference lists them."""


def _rule_keys(section: str, struct: type[msgspec.Struct]) -> dict[str, ConfigKey]:
    rules = next(field for field in msgspec.structs.fields(struct) if field.name == "rules")
    rule: type[msgspec.Struct] = _item(get_args(rules.type)[0])
    return {key.leaf: key for key in _keys_of(f"{section}.rules", rule)}


RULE_KEYS: dict[str, dict[str, ConfigKey]] = {
    key.name: _rule_keys(key.section, SECTIONS[key.section])
    for key in KEYS.values()
    if key.kind == "rules"
}
"""For each key that holds rules: the keys of one rule, by their bare names."""


_LIKENESS_MIN = 0.75
"""How alike a guess must be, from 0 to 1: a far-fetched one misleads more than none."""


def closest(name: str, names: list[str]) -> str:
    """The known name that was probably meant, or nothing.

    The right name in the wrong section (or with none) is a likelier slip than any misspelling.
    """
    leaf = name.rpartition(".")[2]
    same_leaf = [known for known in names if known.rpartition(".")[2] == leaf]
    if same_leaf:
        return same_leaf[0]
    by_leaf = {known.rpartition(".")[2]: known for known in names}
    for word, words in ((name, {known: known for known in names}), (leaf, by_leaf)):
        if found := get_close_matches(word, words, n=1, cutoff=_LIKENESS_MIN):
            return words[found[0]]
    return ""
