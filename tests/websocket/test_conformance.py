"""Every claim about MQTT holds by WebSocket, too: the whole suite, with frames around the bytes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(*tests: str) -> None:
    command = [sys.executable, "-bb", "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | {"PENSTOCK_TEST_WEBSOCKET": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]


@pytest.mark.slow
def test_the_essentials_by_websocket():
    both, five = "tests/conformance/test_{}.py".format, "tests/conformance/v5/test_v5_{}.py".format
    run(both("will"), both("retained"), five("publish"), five("will"))


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_the_whole_suite_by_websocket():
    run("tests/conformance", "-m", "not nightly", "--ignore", "tests/conformance/test_page.py")
