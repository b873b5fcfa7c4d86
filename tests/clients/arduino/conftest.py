"""What the tests of the Arduino library share; without a compiler they are skipped."""

import os
import shutil
import subprocess
from collections.abc import Iterator

import pytest

from penstock.testing import Broker
from tests.clients.arduino.driver import LIBRARY, Driver

MISSING = [tool for tool in ("g++", "gcc", "make", "flock") if not shutil.which(tool)]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if MISSING and not os.environ.get("CI"):
        for item in items:
            if "clients/arduino" in item.path.as_posix():
                item.add_marker(pytest.mark.skip(f"to build the library: {', '.join(MISSING)}"))


@pytest.fixture(scope="session")
def built() -> None:
    """Build all programs, once per session and one session at a time."""
    test = LIBRARY / "test"
    (test / "build").mkdir(exist_ok=True)
    command = ["flock", "build/lock", "make", "--silent", "all"]
    result = subprocess.run(command, cwd=test, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def driver(built: None) -> Iterator[Driver]:
    with Driver() as driver:
        yield driver
