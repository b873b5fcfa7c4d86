"""The settings of a test's broker: keywords, read by the loader of the configuration file.

The environment is ignored: a test must not depend on it. Some limits may not exceed others; if a
test lowers one of them and leaves out the smaller one, that is lowered, too.
"""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from penstock import limits
from penstock.config.keys import KEYS
from penstock.config.load import load
from penstock.config.problems import ConfigFault
from penstock.config.schema import SECTIONS, Config
from penstock.config.values import decode
from penstock.errors import ConfigError

__all__ = ["HOST", "settings"]

HOST = "127.0.0.1"

DEFAULTS: Mapping[str, object] = {
    "auth.scram_iterations": 4_096,  # a test does not wait for what makes guessing slow
    "http_listen": [],
    "journal.client_events": False,  # a test counts what it publishes itself
    "journal.map_bytes_initial": 64 * limits.MIB,  # small enough to start at once, and it grows
    "log.format": "console",
    "log.level": "warning",
    "sys.interval_s": 0,
}

ORDERED = (
    ("limits.outbound_bytes_max", "limits.packet_bytes_max"),
    ("limits.packet_bytes_max", "limits.connect_bytes_max"),
)  # the second of a pair may not exceed the first


def settings(options: Mapping[str, object], data: str | Path | None, port: int) -> Config:
    """Without ``data`` the data directory is a placeholder."""
    flags = {
        **DEFAULTS,
        "data": None if data is None else str(data),
        "listen": [f"{HOST}:{port}"],
        **dict(_flat(options)),
    }
    for larger, smaller in ORDERED:
        if larger in flags and smaller not in flags:
            _lower(flags, larger, smaller)
    return load(None, {}, flags).config


def _flat(options: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    for name, value in options.items():
        if isinstance(value, Mapping) and (value or name in SECTIONS):
            yield from ((f"{name}.{leaf}", inner) for leaf, inner in value.items())
        elif name in SECTIONS:
            raise ConfigError(
                f"{name} is a section, not an option", f'write {name}={{"some_option": value}}'
            )
        else:
            yield name, value


def _lower(flags: dict[str, object], larger: str, smaller: str) -> None:
    with contextlib.suppress(ConfigFault):  # the loader reports it
        limit, default = decode(KEYS[larger], flags[larger]), KEYS[smaller].default
        if isinstance(limit, int) and isinstance(default, int):
            flags[smaller] = min(limit, default)
