"""The settings of a test's broker: keywords, read by the loader that reads the configuration file.

So what holds for the file holds here: a size may be written "64KiB", a misspelt key is answered
with the likely one, keys that contradict each other are refused. The environment is not looked at,
for a test must not depend on it.

One thing is easier than in the file. Some limits may not be above others, and a test that lowers
one of them should not have to know: the smaller one, where the test leaves it out, gives way.
"""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from penstock import limits
from penstock.config import Config, load
from penstock.config.keys import KEYS
from penstock.config.problems import ConfigFault
from penstock.config.schema import SECTIONS
from penstock.config.values import decode
from penstock.errors import ConfigError

__all__ = ["HOST", "settings"]

HOST = "127.0.0.1"

DEFAULTS: Mapping[str, Any] = {
    "http_listen": [],
    "journal.map_bytes_initial": 64 * limits.MIB,  # small enough to start at once, and it grows
    "log.format": "console",
    "log.level": "warning",
    "sys.interval_s": 0,
}
"""Where a test wants something else than a service does."""

ORDERED = (
    ("limits.outbound_bytes_max", "limits.packet_bytes_max"),
    ("limits.packet_bytes_max", "limits.connect_bytes_max"),
)
"""Pairs of keys of which the second may not be above the first."""


def settings(options: Mapping[str, Any], data: str | Path | None, port: int) -> Config:
    """Check the keywords of a test's broker; raises ``ConfigError`` with all that is wrong.

    Without ``data`` the configuration names a directory that is yet to be replaced.
    """
    flags = {
        **DEFAULTS,
        "data": None if data is None else str(data),
        "listen": [f"{HOST}:{port}"],
        **dict(_flat(options)),
    }
    for larger, smaller in ORDERED:
        if larger in flags and smaller not in flags:
            _give_way(flags, larger, smaller)
    return load(None, {}, flags).config


def _flat(options: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Keys by their dotted names; what is no key is passed on too, for the loader to refuse."""
    for name, value in options.items():
        if isinstance(value, Mapping) and (value or name in SECTIONS):
            yield from ((f"{name}.{leaf}", inner) for leaf, inner in value.items())
        elif name in SECTIONS:
            raise ConfigError(
                f"{name} is a section, not an option", f'write {name}={{"some_option": value}}'
            )
        else:
            yield name, value


def _give_way(flags: dict[str, Any], larger: str, smaller: str) -> None:
    with contextlib.suppress(ConfigFault):  # the loader will say it, with all the rest
        limit, default = decode(KEYS[larger], flags[larger]), KEYS[smaller].default
        if isinstance(limit, int) and isinstance(default, int):
            flags[smaller] = min(limit, default)
