"""The process dies at any moment; everything it had acknowledged is there afterwards."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = [sys.executable, "-m", "tests.anomaly.store_script"]


def run(*command, **options):
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=200, **options
    )


@pytest.mark.parametrize(
    "first",
    [1, *(pytest.param(n, marks=pytest.mark.nightly) for n in range(2, 17))],
)
def test_a_crash_at_any_step_loses_nothing_acknowledged(tmp_path, first):
    """For n = 1, 2, 3 … until a run completes; every sixteenth n in each test."""
    done = run(*SCRIPT, "campaign", str(tmp_path), str(first), "16")
    lives = [line.split() for line in done.stdout.splitlines() if "[" not in line]  # no log
    *killed, (steps, end, sound) = lives
    assert (end, sound) == ("0", "0"), done.stdout[-3_000:]
    assert all(life[1:] == ["77", "0"] for life in killed)
    assert int(steps) > 100


STRACE = shutil.which("strace")


@pytest.mark.slow
@pytest.mark.skipif(STRACE is None, reason="needs strace")
@pytest.mark.parametrize("call", ["pwrite64", "writev", "fdatasync", "fsync"])
@pytest.mark.parametrize(
    "when",
    [1, 3, 8, 21, 55, *(pytest.param(n, marks=pytest.mark.nightly) for n in (2, 5, 13, 34))],
)
def test_a_kill_at_a_system_call_loses_nothing_acknowledged(tmp_path, call, when):
    """The same from below: SIGKILL on entry to the n-th call of a kind."""
    data = tmp_path / "data"
    inject = f"inject={call}:signal=KILL:when={when}"
    strace = [STRACE, "-f", "-qq", "-o", str(tmp_path / "trace"), "-e", f"trace={call}"]
    life = run(*strace, "-e", inject, *SCRIPT, "live", str(data))
    if "not permitted" in life.stderr:
        pytest.skip("strace is not allowed here")
    remains = run(*SCRIPT, "check", str(data), input=life.stdout)
    assert remains.returncode == 0, remains.stderr
