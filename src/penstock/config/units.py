"""Durations and sizes as people write them: "24h", "500ms", "256KiB".

The unit of a key stands in its name (``session_expiry_s``, ``packet_bytes_max``); a bare number is
in that unit, and text may use any unit of the same kind. Sizes are powers of 1024 and say so:
"MB" is refused rather than guessed at.
"""

import re
from typing import Final

from penstock.limits import GIB, KIB, MIB

__all__ = ["unit_of", "with_unit", "without_unit"]

_DURATIONS_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_SIZES: Final = {"B": 1, "KiB": KIB, "MiB": MIB, "GiB": GIB, "TiB": 1024 * GIB}

_FACTORS: Final[dict[str, dict[str, float]]] = {
    "ms": dict(_DURATIONS_MS),
    "s": {suffix: ms / 1000 for suffix, ms in _DURATIONS_MS.items()},
    "bytes": dict(_SIZES),
    "": {},
}
"""For each unit a key may have: what the suffixes are worth in it."""

_EXAMPLES: Final = {
    "s": 'a duration such as "500ms", "10s", "15m", "24h" or "7d", or a number of seconds',
    "ms": 'a duration such as "500ms" or "10s", or a number of milliseconds',
    "bytes": 'a size such as "64KiB", "16MiB" or "1GiB", or a number of bytes',
    "": "a number",
}

_QUANTITY: Final = re.compile(r"([+-]?[0-9][0-9_]*(?:\.[0-9]+)?)\s*([A-Za-z]*)", re.ASCII)


def unit_of(name: str) -> str:
    """The unit in a key's name: "s", "ms", "bytes", or "" for a plain count."""
    leaf = name.rpartition(".")[2]
    return next((word for word in leaf.split("_") if word and word in _FACTORS), "")


def without_unit(text: str, unit: str) -> float:
    """Turn "24h" into a number of ``unit``; ValueError says what would have been right."""
    found = _QUANTITY.fullmatch(text.strip())
    factor = _factor(found[2], unit) if found else None
    if found is None or factor is None:
        raise ValueError(f"must be {_EXAMPLES[unit]}")
    number = float(found[1]) if "." in found[1] else int(found[1])
    return number * factor


def _factor(suffix: str, unit: str) -> float | None:
    return 1 if not suffix else _FACTORS[unit].get(suffix)


def with_unit(number: float, unit: str) -> str:
    """Write a number of ``unit`` with the largest suffix that leaves it whole."""
    if number == 0 or not unit:
        return f"{number:g}" if isinstance(number, float) else str(number)
    fitting = [
        (factor, suffix)
        for suffix, factor in _FACTORS[unit].items()
        if number >= factor and number % factor == 0
    ]
    if not fitting:
        return f"{number:g}{'B' if unit == 'bytes' else unit}"
    factor, suffix = max(fitting)
    return f"{number / factor:.0f}{suffix}"
