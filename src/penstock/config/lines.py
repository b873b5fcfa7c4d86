"""On which line of a TOML file each key was set; the parser of the standard library forgets it.

The text is cut into statements: the fewest lines, from where the last statement ended, that parse
by themselves. No proper beginning of a multi-line value parses, so the cut is exact, and what the
parser says about the statement tells the key, quoted, dotted or plain. A long array costs the
square of its lines, which configuration files can afford.
"""

import tomllib
from collections.abc import Iterator
from typing import Any


def key_lines(text: str) -> dict[str, int]:
    """Map dotted key names to line numbers, from 1; ``text`` must be valid TOML.

    The n-th table of an array is ``name[n]``, from 0. A section's own name maps to its header.
    """
    lines: dict[str, int] = {}
    section = ""
    tables: dict[str, int] = {}
    for line, statement, parsed in _statements(text):
        names = list(_names(parsed))
        if not statement.lstrip().startswith("["):
            lines.update({f"{section}.{name}" if section else name: line for name in names})
            continue
        section = names[-1] if names else ""
        if statement.lstrip().startswith("[["):
            tables[section] = tables.get(section, -1) + 1
            lines.setdefault(section, line)
            section = f"{section}[{tables[section]}]"
        lines[section] = line
    return lines


def _statements(text: str) -> Iterator[tuple[int, str, dict[str, Any]]]:
    start, pending = 1, ""
    for number, line in enumerate(text.split("\n"), start=1):
        pending += line + "\n"
        try:
            parsed = tomllib.loads(pending)
        except tomllib.TOMLDecodeError:
            continue
        yield start, pending, parsed
        start, pending = number + 1, ""


def _names(table: dict[str, Any], prefix: str = "") -> Iterator[str]:
    """List the dotted names in a parsed statement, outer ones first."""
    for name, value in table.items():
        yield prefix + name
        if isinstance(value, dict):
            yield from _names(value, f"{prefix}{name}.")
