"""Files of commands with what they print, as etcd publishes its traces of Raft.

::

    # a comment
    propose-conf-change 1 transition=explicit     the command and its arguments
    l2 l3                                         its text: any number of lines, often none
    ----
    ok                                            what it prints, up to an empty line

An argument is ``name``, ``name=value`` or ``name=(value, value)``. The published files are not part
of this repository: ``trace_files`` finds them, or lets a test be skipped with the way to set it right.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

VARIABLE = "PENSTOCK_RAFT_TRACES"
BESIDE = Path("..", "shared", "raft-traces")
"""Where they are unless the variable says otherwise, seen from the root of the checkout."""

SEPARATOR = "----"
ARGUMENT = re.compile(r"([^\s=()]+)(?:=(?:\(([^()]*)\)|([^\s()]*)))?(?:\s+|$)")


@dataclass(frozen=True, slots=True)
class Directive:
    """One command. ``arguments`` are in order; a mere name has no values."""

    place: str
    """File and line, for complaints."""
    command: str
    arguments: tuple[tuple[str, tuple[str, ...]], ...]
    text: str
    expected: str

    @property
    def names(self) -> tuple[str, ...]:
        """The arguments that are mere names, in order: nodes, mostly."""
        return tuple(name for name, values in self.arguments if not values)

    def values(self, name: str) -> tuple[str, ...] | None:
        """What was given as ``name=…``, or None."""
        return next((values for key, values in self.arguments if key == name and values), None)

    def value(self, name: str, default: str) -> str:
        """What was given as ``name=…`` if it is a single value."""
        values = self.values(name)
        if values is None:
            return default
        assert len(values) == 1, f"{self.place}: {name} takes one value"
        return values[0]

    def flag(self, name: str) -> bool:
        """Whether ``name=true`` or the mere name was given."""
        return name in self.names or self.value(name, "false") == "true"


def directives(path: Path) -> list[Directive]:
    """All commands of a file."""
    return list(parse(path.read_text(encoding="utf-8"), path.name))


def parse(text: str, name: str = "text") -> Iterator[Directive]:
    """All commands of a text. What is no command, comment or empty line is an error."""
    lines = text.splitlines()
    at = 0
    while at < len(lines):
        if not lines[at].strip() or lines[at].startswith("#"):
            at += 1
            continue
        place = f"{name}:{at + 1}"
        command, *given = lines[at].split(maxsplit=1)
        until = _index(lines, SEPARATOR, at + 1)
        assert until < len(lines), f"{place}: no {SEPARATOR} behind the command"
        end = _index(lines, "", until + 1)
        yield Directive(
            place,
            command,
            _arguments(given[0] if given else "", place),
            "".join(f"{line}\n" for line in lines[at + 1 : until]),
            "".join(f"{line}\n" for line in lines[until + 1 : end]),
        )
        at = end


def _index(lines: list[str], wanted: str, start: int) -> int:
    return next((at for at in range(start, len(lines)) if lines[at] == wanted), len(lines))


def _arguments(given: str, place: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    found, at = [], 0
    while at < len(given):
        match = ARGUMENT.match(given, at)
        assert match, f"{place}: cannot read {given[at:]!r}"
        name, several, one = match.groups()
        found.append((name, _values(several, one)))
        at = match.end()
    return tuple(found)


def _values(several: str | None, one: str | None) -> tuple[str, ...]:
    if several is not None:
        return tuple(value.strip() for value in several.split(",") if value.strip())
    return () if one is None else (one,)


def traces_folder() -> Path:
    """Where the published traces are, or would be."""
    root = Path(__file__).resolve().parents[2]
    return Path(os.environ.get(VARIABLE) or root / BESIDE)


def trace_files(folder: str) -> list[Any]:
    """The files of a folder of the traces, to parametrize a test with; one skipped if absent."""
    files = sorted((traces_folder() / folder).glob("*.txt"))
    if files:
        return [pytest.param(path, id=path.stem) for path in files]
    reason = f"etcd's traces are not there: set {VARIABLE} to the folder that has {folder}"
    return [pytest.param(None, id="absent", marks=pytest.mark.skip(reason=reason))]
