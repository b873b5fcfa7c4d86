"""How much memory an idle client takes, with the record of its arrival."""

import subprocess
import sys
from pathlib import Path

import pytest

from penstock import kernel

ROOT = Path(__file__).parents[2]

UNCOMPILED = 0 if kernel.is_compiled else 1_300  # of it uvloop's transport, mostly


@pytest.mark.parametrize(
    ("way", "bytes_max"), [("tcp", 1_420), ("tcp5", 1_420), ("websocket", 1_650)]
)
def test_an_idle_client_takes_few_bytes(way, bytes_max):
    program = [sys.executable, "-m", "tests.e2e.idle_clients", way]
    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < bytes_max + UNCOMPILED
