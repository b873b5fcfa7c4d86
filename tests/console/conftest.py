"""Copies of the console's modules for the tools that run outside a browser."""

import shutil
from importlib.resources import files
from pathlib import Path

import pytest

HERE = Path(__file__).parent
STATIC = Path(str(files("penstock.console") / "static"))


@pytest.fixture
def modules(tmp_path):
    """The modules, where Node takes them for modules, with the tests of them beside."""
    shutil.copytree(STATIC / "app", tmp_path / "app")
    shutil.copytree(STATIC / "vendor", tmp_path / "vendor")
    shutil.copytree(HERE / "js", tmp_path / "js")
    (tmp_path / "package.json").write_text('{"type": "module"}')
    return tmp_path


@pytest.fixture
def typed_modules(tmp_path):
    """The modules, with declarations in the place of other people's code."""
    shutil.copytree(STATIC / "app", tmp_path / "app")
    shutil.copytree(HERE / "types" / "vendor", tmp_path / "vendor")
    shutil.copy(HERE / "tsconfig.json", tmp_path)
    return tmp_path
