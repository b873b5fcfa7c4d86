"""Writes YAML: mappings, lists and scalars in block style, for people to read and change.

Only what our files need. A string is plain where no parser could take it for anything else, a block
if it has several lines, and quoted otherwise. Another parser reads it back in the tests.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

__all__ = ["Yaml", "to_yaml"]

Yaml = str | bool | int | Sequence["Yaml"] | Mapping[str, "Yaml"]

_PLAIN: Final = re.compile(r"[A-Za-z/](?:[A-Za-z0-9_./@+ -]*[A-Za-z0-9_./@+-])?")
_WORDS: Final = {"true", "false", "yes", "no", "on", "off", "y", "n", "null"}  # not strings
_UNPRINTABLE: Final = re.compile("[\x7f-\x9f\u2028\u2029\ufeff]")


def to_yaml(document: Mapping[str, Yaml]) -> str:
    return "\n".join(_lines(document)) + "\n"


def _lines(value: Yaml) -> Iterator[str]:
    """Yield the lines of a collection, without indentation of its own."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _entry(f"{_one_line(key)}:", item)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for item in value:
            yield from _item(item)


def _entry(head: str, value: Yaml) -> Iterator[str]:
    if _is_collection(value):
        yield head
        yield from (f"  {line}".rstrip() for line in _lines(value))
        return
    first, *rest = _scalar(value).split("\n")
    yield f"{head} {first}"
    yield from rest


def _item(value: Yaml) -> Iterator[str]:
    lines = list(_lines(value)) if _is_collection(value) else _scalar(value).split("\n")
    yield f"- {lines[0]}"
    is_block = not _is_collection(value)  # its lines are indented already
    yield from (line if is_block else f"  {line}".rstrip() for line in lines[1:])


def _is_collection(value: Yaml) -> bool:
    return not isinstance(value, str | bool | int) and len(value) > 0


def _scalar(value: Yaml) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if not isinstance(value, str):
        return "{}" if isinstance(value, Mapping) else "[]"
    if _fits_block(value):
        mark = "|" if value.endswith("\n") else "|-"
        return "\n".join([mark, *_indented(value.removesuffix("\n").split("\n"))])
    return _one_line(value)


def _fits_block(text: str) -> bool:
    """Whether a block keeps it unchanged: no indentation at its start, no blank end."""
    lines = text.removesuffix("\n").split("\n")
    return (
        "\n" in text
        and bool(lines[0].strip())
        and not lines[0].startswith(" ")
        and bool(lines[-1].strip())
        and all(line.isprintable() and line == line.rstrip() for line in lines)
    )


def _indented(lines: list[str]) -> list[str]:
    return [f"  {line}".rstrip() for line in lines]


def _one_line(text: str) -> str:
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    if ('"' in text or "\\" in text) and text.isprintable():
        return "'" + text.replace("'", "''") + "'"
    quoted = json.dumps(text, ensure_ascii=False)
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", quoted)
