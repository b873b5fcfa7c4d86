"""The requirements of the extra ``penstock-mq[spark]``, read from the installed metadata."""

import operator as op
import re
from importlib import metadata
from typing import Final

import msgspec

# The name for pip. The import name is penstock, which belongs to another project on the package
# index.
DISTRIBUTION: Final = "penstock-mq"

# for an installation from a clone
INSTALL: Final = "in your clone of Penstock, run: .venv/bin/pip install -e '.[spark]'"
_EXTRA: Final = re.compile(r"([\w.-]+)\s*([^;]*);\s*extra == .spark.")
_BOUND: Final = re.compile(r"(>=|<=|==|!=|<|>)\s*([\d.]+)")
_SIGNS: Final = {">=": op.ge, "<=": op.le, "==": op.eq, "!=": op.ne, "<": op.lt, ">": op.gt}


class Requirement(msgspec.Struct, frozen=True):
    """A package and its accepted versions, as in ``>=4.3,<4.4``."""

    name: str
    bounds: str

    def admits(self, version: str) -> bool:
        here = _numbers(version)
        bounds = _BOUND.findall(self.bounds)
        return all(_SIGNS[sign](here, _numbers(bound)) for sign, bound in bounds)


def requirements() -> list[Requirement]:
    lines = metadata.requires(DISTRIBUTION) or []
    found = (_EXTRA.fullmatch(line) for line in lines)
    return [Requirement(match[1], match[2].strip()) for match in found if match]


def _numbers(version: str) -> tuple[int, ...]:
    """Return the leading numbers without trailing zeros: 4.3 equals 4.3.0."""
    digits = re.match(r"\d+(?:\.\d+)*", version)
    numbers = [int(part) for part in digits[0].split(".")] if digits else []
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)
