"""The line of a TOML file on which each key was set; the parser of the standard library drops it.

The text is cut into statements: the fewest lines that parse by themselves. No proper prefix of a
multi-line value parses, so the cut is exact. The cost is quadratic in the lines of a long array.
"""

import tomllib
from collections.abc import Iterator


def key_lines(text: str) -> dict[str, int]:
    """The n-th table of an array is ``name[n]``, from 0; a section's name maps to its header."""
    lines: dict[str, int] = {}
    section = ""
    tables: dict[str, int] = {}
    for line, statement, parsed in _statements(text):
        names = list(_names(parsed))
        if not statement.lstrip().startswith("["):
            lines.update({f"{section}.{name}" if section else name: line for name in names})
            continue
        section = names[-1] if names else ""
        lines.update({name: line for name in names[:-1] if name not in lines})
        if statement.lstrip().startswith("[["):
            tables[section] = tables.get(section, -1) + 1
            lines.setdefault(section, line)
            section = f"{section}[{tables[section]}]"
        lines[section] = line
    return lines


def _statements(text: str) -> Iterator[tuple[int, str, dict[str, object]]]:
    start, pending = 1, ""
    for number, line in enumerate(text.split("\n"), start=1):
        pending += line + "\n"
        try:
            parsed = tomllib.loads(pending)
        except tomllib.TOMLDecodeError:
            continue
        yield start, pending, parsed
        start, pending = number + 1, ""


def _names(table: dict[str, object], prefix: str = "") -> Iterator[str]:
    for name, value in table.items():
        yield prefix + name
        if isinstance(value, dict):
            yield from _names(value, f"{prefix}{name}.")
