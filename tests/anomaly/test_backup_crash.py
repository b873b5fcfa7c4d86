"""Backup, restore, compaction or conversion are killed before and after each of their steps.

Of a backup and a restored directory there is all or nothing; a store that is worked on loses nothing.
"""

import sys

import pytest

from tests.anomaly.test_store_crash import run

STRIDES = {"backup": 8, "restore": 8, "compact": 8, "convert": 48}
RUNS = [
    pytest.param(what, first, marks=[pytest.mark.nightly] if first > 1 else [])
    for what, stride in STRIDES.items()
    for first in range(1, stride + 1)
]


@pytest.mark.parametrize(("what", "first"), RUNS)
def test_a_kill_at_any_step_leaves_nothing_half_and_loses_nothing(tmp_path, what, first):
    """For n = 1, 2, 3 … until a run completes; a share of them in each test."""
    script = [sys.executable, "-m", "tests.anomaly.backup_script"]
    done = run(*script, what, str(tmp_path), str(first), str(STRIDES[what]))
    runs = [line.split() for line in done.stdout.splitlines()]
    *killed, (steps, end, sound) = runs
    assert (end, sound) == ("0", "0"), done.stdout[-3_000:] + done.stderr
    assert all(ends == ["77", "0"] for _, *ends in killed)
    assert int(steps) > 20
