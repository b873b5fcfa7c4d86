"""No module of the source imports itself by way of others, imports for types only included."""

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.tidy.files import SOURCE


def name_of(file: Path) -> str:
    parts = file.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


def imports(body: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    """Yield module and name of what a module imports when it is loaded, or for types."""
    for node in body:
        match node:
            case ast.ImportFrom(module=str(module), names=names):
                yield from ((module, alias.name) for alias in names)
            case ast.Import(names=names):
                yield from ((alias.name, "") for alias in names)
            case ast.If(body=inner, orelse=other) | ast.Try(body=inner, orelse=other):
                yield from imports(inner + other)


def graph(sources: dict[str, str]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for name, source in sources.items():
        targets = imports(ast.parse(source).body)
        full = {
            f"{module}.{part}" if f"{module}.{part}" in sources else module
            for module, part in targets
        }
        found[name] = (full & sources.keys()) - {name}
    return found


def test_no_module_imports_itself_by_way_of_others():
    sources = {name_of(file): file.read_text() for file in SOURCE.rglob("*.py")}
    TopologicalSorter(graph(sources)).prepare()  # raises CycleError


def test_a_cycle_is_noticed_even_if_it_is_for_types_only():
    sources = {
        "p.a": "from p.b import B",
        "p.b": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from p import a",
    }
    with pytest.raises(CycleError):
        TopologicalSorter(graph(sources)).prepare()
