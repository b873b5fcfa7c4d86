"""The configuration that is in force."""

import msgspec


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """An option. Of a secret the value is only whether there is one."""

    name: str  # as in limits.clients_max
    section: str
    kind: str  # boolean, integer, number, text, choice, choices, list or rules
    unit: str  # empty: it has none
    value: object
    toml: str  # the value as the configuration file has it
    default: object
    is_default: bool
    source: str  # as in "environment PENSTOCK_LISTEN" or "default"
    text: str  # what it means
    environment: str  # the variable that sets it
    flag: str  # of penstock serve; empty: --set NAME=VALUE
    live: bool  # takes effect without a restart
    secret: bool
    used: float | None = None  # of a limit: how much is in use
    used_text: str = ""  # of what


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """All options, in the order of the reference."""

    items: list[Setting]
    file: str | None  # the configuration file, if there is one
