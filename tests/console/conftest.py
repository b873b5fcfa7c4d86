"""Copies of the console's modules for the tools that run outside a browser."""

import shutil
from importlib.resources import files
from pathlib import Path

import pytest

from tests.console.browser import find_chromium, launched
from tests.console.seed import devices, letters
from tests.e2e.process import BrokerProcess

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


@pytest.fixture(scope="module")
def browser():
    """Chromium; tests that need it are skipped where it is not installed.

    It ends with each module: while Playwright is started, an event loop counts as running in this
    process, and tests that run their own would fail.
    """
    with launched() as browser:
        yield browser


@pytest.fixture(scope="module")
def seeded(tmp_path_factory):
    """A broker process with devices, readings, retained messages, jobs and dead letters."""
    find_chromium()
    with (
        BrokerProcess(tmp_path_factory.mktemp("console") / "data") as broker,
        devices(broker.port),
    ):
        letters(broker.port)
        yield broker


@pytest.fixture(scope="module")
def long_open_window(browser, seeded):
    """Opening one and loading the console costs a second of processor time, the next page a third."""
    with browser.window(seeded.port) as window:
        yield window


@pytest.fixture
def window(long_open_window):
    """As good as new. Tests that need a size, a theme or a login of their own open another."""
    with long_open_window.for_one_test() as window:
        yield window
