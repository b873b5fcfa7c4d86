"""``--remote``: the broker's core receives, in a network namespace of the run's own."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks import machine, remote
from benchmarks.brokers import BrokerError
from benchmarks.machine import Cores

STEERING = Path("/sys/class/net/lo/queues/rx-0/rps_cpus")
ROOT = Path(__file__).parents[3]


def may_enter() -> bool:
    """Whether this process may make a namespace, and steer in it."""
    if os.geteuid() != 0 or not shutil.which("unshare") or not shutil.which("ip"):
        return False
    command = ["unshare", "--net", "--mount", "sh", "-c", remote.SCRIPT, "sh", "1", "true"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not shutil.which("gcc"), reason="the generator is a C program")
def test_a_remote_run_is_received_by_the_core_of_the_broker_and_changes_nothing_outside(tmp_path):
    if machine.cores().broker is None or not may_enter():
        pytest.skip("needs root, two cores, unshare and ip")
    before = STEERING.read_text()
    told = tmp_path / "told.jsonl"
    options = ["--remote", "--rounds", "1", "--seconds", "0.1", "--theirs", "none"]
    command = [sys.executable, "-m", "benchmarks", "A", *options, "--results", str(told)]
    command += ["--data-dir", str(tmp_path)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    run, measured, *_ = [json.loads(line) for line in told.read_text().splitlines()]
    assert int(run["machine"]["loopback_received_by"], 16) == 1 << run["cores"]["broker"]
    assert measured["load"]["delivered"] > 0, ran.stdout
    assert STEERING.read_text() == before


def test_who_has_one_core_is_told_what_a_remote_run_needs(monkeypatch):
    monkeypatch.delenv(remote.INSIDE, raising=False)
    with pytest.raises(BrokerError, match="needs two cores"):
        remote.enter(Cores(None, None))


def test_who_is_not_root_is_told_so(monkeypatch):
    monkeypatch.delenv(remote.INSIDE, raising=False)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(BrokerError, match="needs root"):
        remote.enter(Cores(1, 0))
