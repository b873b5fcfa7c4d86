"""A backup or a restore is killed before and after each of its steps: there is all of it or none."""

import sys

import pytest

from tests.anomaly.test_store_crash import run


@pytest.mark.parametrize(
    "first", [1, *(pytest.param(n, marks=pytest.mark.nightly) for n in (2, 3, 4))]
)
@pytest.mark.parametrize("what", ["backup", "restore"])
def test_a_kill_at_any_step_leaves_nothing_half(tmp_path, what, first):
    """For n = 1, 2, 3 … until a run completes; every fourth n in each test."""
    script = [sys.executable, "-m", "tests.anomaly.backup_script"]
    done = run(*script, what, str(tmp_path), str(first), "4")
    runs = [line.split() for line in done.stdout.splitlines()]
    *killed, (steps, end, sound) = runs
    assert (end, sound) == ("0", "0"), done.stdout[-3_000:] + done.stderr
    assert all(ends == ["77", "0"] for _, *ends in killed)
    assert int(steps) > 20
