"""What a changed configuration means for a broker that runs: what takes effect, what has to wait.

Most options are read once, at the start. ``LIVE`` names those that are read where they are used, so
that they can change under a running broker.
"""

from collections.abc import Iterator

import msgspec

from penstock.config.keys import KEYS, ConfigKey
from penstock.config.schema import Config
from penstock.config.values import encode

LIVE = frozenset(
    {
        "limits.address_connections_max",
        "limits.address_strangers_max",
        "limits.address_connects_per_second_max",
        "limits.address_connects_burst_max",
        "limits.strangers_max",
        "http.allowed_origins",
        "log.level",
        "log.format",
        "shutdown.timeout_s",
        "sys.interval_s",
        *(name for name, key in KEYS.items() if key.section == "tls"),
    }
)
"""Options that take effect without a restart. ``tls.cert`` does if there was one at the start."""


class ConfigChange(msgspec.Struct, frozen=True):
    """An option with another value than before."""

    name: str
    text: str  # as in log.level = "debug"
    is_live: bool


def changes(before: Config, after: Config) -> Iterator[ConfigChange]:
    is_encrypted = bool(before.tls.cert)
    for name, key in KEYS.items():
        value = _value(after, key)
        if value != _value(before, key):
            shown = "(hidden)" if key.form == "secret" else encode(key, value)
            is_live = name in LIVE and (key.section != "tls" or is_encrypted)
            yield ConfigChange(name, f"{name} = {shown}", is_live)


def _value(config: Config, key: ConfigKey) -> object:
    value: object = getattr(getattr(config, key.section) if key.section else config, key.leaf)
    return value


def with_changes(before: Config, after: Config, names: list[str]) -> Config:
    """``before`` with some values of ``after``; all of them are in sections."""
    config = before
    for name in names:
        key = KEYS[name]
        section = msgspec.structs.replace(
            getattr(config, key.section), **{key.leaf: _value(after, key)}
        )
        config = msgspec.structs.replace(config, **{key.section: section})
    return config
