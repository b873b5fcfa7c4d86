"""The client for Node, tested in Node: each file of ``clients/node/test`` with its own brokers."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[3] / "clients/node"
FILES = sorted(PACKAGE.glob("test/*.test.mjs"))
SLOW = {"cluster", "faults"}
TIMEOUT_S = 300


def parameters():
    for file in FILES:
        name = file.name.removesuffix(".test.mjs")
        yield pytest.param(file, id=name, marks=[pytest.mark.slow] if name in SLOW else [])


@pytest.mark.timeout(TIMEOUT_S + 30)
@pytest.mark.parametrize("file", list(parameters()))
def test_in_node(package, file):
    broker = Path(sys.executable).with_name("penstock")
    done = subprocess.run(
        ["node", "--test", "--test-reporter=tap", str(file)],
        cwd=package,
        env={**os.environ, "PENSTOCK": str(broker)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_there_is_something_to_run():
    assert len(FILES) > 5
