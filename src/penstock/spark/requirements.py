"""What the extra ``penstock-mq[spark]`` asks for, as the installed package says it itself."""

import re
from importlib import metadata
from typing import Final

import msgspec

DISTRIBUTION: Final = "penstock-mq"
"""What pip calls this package. The import name is ``penstock``; on the package index that name
belongs to another project."""

INSTALL: Final = "in your clone of Penstock, run: .venv/bin/pip install -e '.[spark]'"
"""How to get the extra while Penstock is installed from a clone."""

_EXTRA: Final = re.compile(r"([\w.-]+)\s*([^;]*);\s*extra == .spark.")
_BOUND: Final = re.compile(r"(>=|<=|==|!=|<|>)\s*([\d.]+)")


class Requirement(msgspec.Struct, frozen=True):
    """A package and which versions of it will do, as in ``>=4.3,<4.4``."""

    name: str
    bounds: str

    def admits(self, version: str) -> bool:
        """Say whether a version will do; a suffix (rc1, .post1) is not looked at."""
        here = _numbers(version)
        return all(
            _holds(here, sign, _numbers(bound)) for sign, bound in _BOUND.findall(self.bounds)
        )


def requirements() -> list[Requirement]:
    """Return what the extra asks for, in its order."""
    lines = metadata.requires(DISTRIBUTION) or []
    found = (_EXTRA.fullmatch(line) for line in lines)
    return [Requirement(match[1], match[2].strip()) for match in found if match]


def _numbers(version: str) -> tuple[int, ...]:
    """Take the leading numbers, without zeros at the end: 4.3 and 4.3.0 are the same."""
    digits = re.match(r"\d+(?:\.\d+)*", version)
    numbers = [int(part) for part in digits[0].split(".")] if digits else []
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)


def _holds(here: tuple[int, ...], sign: str, bound: tuple[int, ...]) -> bool:
    return {
        ">=": here >= bound,
        "<=": here <= bound,
        "==": here == bound,
        "!=": here != bound,
        "<": here < bound,
        ">": here > bound,
    }[sign]
