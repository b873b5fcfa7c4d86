"""Durations and sizes with units: "24h", "500ms", "256KiB".

A bare number is in the unit of the option's name; text may use any unit of the same kind. Sizes are
powers of 1024: "MB" is ambiguous and refused.
"""

import re
from typing import Final

from penstock.limits import GIB, KIB, MIB, TIB

_DURATIONS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_SIZES: Final = {"B": 1, "KiB": KIB, "MiB": MIB, "GiB": GIB, "TiB": TIB}

_SUFFIXES: Final[dict[str, dict[str, int]]] = {"s": _DURATIONS, "ms": _DURATIONS, "bytes": _SIZES}
"""For each unit of an option: the suffixes of its kind, in multiples of the smallest."""

_OWN_SUFFIX: Final = {"s": "s", "ms": "ms", "bytes": "B"}

_EXAMPLES: Final = {
    "s": 'a duration such as "500ms", "10s", "15m", "24h" or "7d", or a number of seconds',
    "ms": 'a duration such as "500ms" or "10s", or a number of milliseconds',
    "bytes": 'a size such as "64KiB", "16MiB" or "1GiB", or a number of bytes',
    "": "a number",
}

_QUANTITY: Final = re.compile(r"([+-]?[0-9][0-9_]{0,29}(?:\.[0-9]{1,9})?)\s*([A-Za-z]*)", re.ASCII)


def unit_of(name: str) -> str:
    """The unit in the name of an option: "s", "ms", "bytes", or "" for a plain number."""
    leaf = name.rpartition(".")[2]
    return next((word for word in leaf.split("_") if word in _SUFFIXES), "")


def without_unit(text: str, unit: str) -> float:
    """Turn "24h" into a number of ``unit``. Raises ValueError with the accepted forms."""
    found = _QUANTITY.fullmatch(text.strip())
    if found is None or (found[2] and found[2] not in _SUFFIXES.get(unit, {})):
        raise ValueError(f"must be {_EXAMPLES[unit]}")
    number = float(found[1]) if "." in found[1] else int(found[1])
    if not found[2] or found[2] == _OWN_SUFFIX[unit]:
        return number
    suffixes = _SUFFIXES[unit]
    smallest, own = number * suffixes[found[2]], suffixes[_OWN_SUFFIX[unit]]
    return smallest if own == 1 else smallest / own


def with_unit(number: float, unit: str) -> str:
    """Use the largest suffix that leaves the number whole, and underscores, as TOML allows."""
    if number == 0 or not unit:
        return _plain(number)
    suffixes = _SUFFIXES[unit]
    smallest = number * suffixes[_OWN_SUFFIX[unit]]
    fitting = [(worth, suffix) for suffix, worth in suffixes.items() if smallest % worth == 0]
    if not fitting:
        return _plain(number) + _OWN_SUFFIX[unit]
    worth, suffix = max(fitting)
    return _plain(int(smallest) // worth) + suffix


def _plain(number: float) -> str:
    return f"{int(number):_}" if number == int(number) else repr(number)
