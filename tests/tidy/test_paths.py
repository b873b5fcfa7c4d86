"""The paths on the architecture page name functions and classes that exist."""

import ast
import re

import pytest

from tests.tidy.files import ROOT, SOURCE

PAGES = sorted((ROOT / "docs" / "internals").glob("*.md"))
NAMED = re.compile(r"`((?:[a-z_]+/)*[a-z_]+\.py): ([A-Za-z_.]+)`")


def names_of(path) -> set[str]:
    """Functions and classes of a module, methods as ``method`` and ``Class.method``."""
    found: set[str] = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            methods = [
                part.name
                for part in node.body
                if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)
            ]
            found |= {*methods, *(f"{node.name}.{method}" for method in methods)}
    return found


def exists(file: str, name: str) -> bool:
    path = (ROOT if file.startswith("tests/") else SOURCE) / file
    return path.is_file() and name in names_of(path)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_function_that_a_page_names_exists(page):
    named = NAMED.findall(page.read_text())
    missing = [f"{file}: {name}" for file, name in named if not exists(file, name)]
    assert not missing, missing


def test_the_architecture_page_describes_six_paths():
    text = (ROOT / "docs" / "internals" / "architecture.md").read_text()
    paths = text.split("## Six paths")[1].split("\n## ")[0].split("\n### ")[1:]
    assert len(paths) == 6
    assert all(len(NAMED.findall(path)) >= 7 for path in paths)


def test_the_architecture_page_lists_every_package():
    text = (ROOT / "docs" / "internals" / "architecture.md").read_text()
    table = text.split("## Packages")[1].split("### ")[0]
    packages = [path.name for path in SOURCE.iterdir() if (path / "__init__.py").is_file()]
    assert [name for name in packages if f"`{name}" not in table] == []


@pytest.mark.parametrize("text", ["`core/broker.py: Broker.nothing`", "`no/such.py: thing`"])
def test_a_function_that_is_not_there_is_noticed(text):
    [(file, name)] = NAMED.findall(text)
    assert not exists(file, name)
