"""Every threat on the page of threats names tests that exist, or says why it has none."""

import ast
import re

import pytest

from tests.tidy.files import ROOT

PAGE = ROOT / "docs" / "internals" / "threats.md"
THREATS = 46
ROW = re.compile(r"^\| (\d+) \|(.+)\|(.+)\|(.+)\|$", re.MULTILINE)
TEST = re.compile(r"`(tests/[a-z0-9_/]+\.py)::([A-Za-z0-9_:]+)`")


def rows() -> list[tuple[str, ...]]:
    return ROW.findall(PAGE.read_text())


def named_in(path) -> set[str]:
    """Test functions of a module, those of a class as ``Class::test``."""
    found: set[str] = set()
    for node in ast.parse(path.read_text()).body:
        inner = node.body if isinstance(node, ast.ClassDef) else [node]
        prefix = f"{node.name}::" if isinstance(node, ast.ClassDef) else ""
        for part in inner:
            is_function = isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)
            if is_function and part.name.startswith("test_"):
                found.add(prefix + part.name)
    return found


def exists(file: str, name: str) -> bool:
    path = ROOT / file
    return path.is_file() and name in named_in(path)


def test_all_threats_are_numbered_and_described():
    found = rows()
    assert [int(number) for number, *_ in found] == list(range(1, THREATS + 1))
    assert all(cell.strip() for row in found for cell in row)


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0])
def test_the_tests_that_a_threat_names_exist(row):
    named = TEST.findall(row[3])
    assert named or "not part of this release" in row[3]
    assert [f"{file}::{name}" for file, name in named if not exists(file, name)] == []


def test_a_test_that_is_not_there_is_noticed():
    assert not exists("tests/tidy/test_threats.py", "test_nothing")
    assert not exists("tests/tidy/no_such_file.py", "test_nothing")
    assert exists("tests/tidy/test_threats.py", "test_a_test_that_is_not_there_is_noticed")
