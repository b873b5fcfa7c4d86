"""Faults that implementations of Raft have had, or could have. Each must be noticed.

``python -m tests.raft.mutants`` plants one after the other and says what noticed it;
``python -m tests.raft.mutants NAME ...`` only these; ``--intact`` none, and then nothing may be noticed.
"""

import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

from tests.raft import faults_of_elections, faults_of_logs, faults_seen
from tests.raft.planting import Fault, Malformed, Notices, Seeds, complaint_of, plant

ROOT = Path(__file__).resolve().parents[2]
SECONDS_MAX = 50

FAULTS = (*faults_seen.FAULTS, *faults_of_elections.FAULTS, *faults_of_logs.FAULTS)
BY_NAME = {fault.name: fault for fault in FAULTS}


def judge(fault: Fault) -> bool:
    """Plant a fault in this process, and say of all that must notice it whether they do."""
    plant(fault.patches)
    complaints = {notices: complaint_of(notices) for notices in fault.noticed_by}
    for notices, complaint in complaints.items():
        first = complaint.partition("\n")[0]
        print(f"{'noticed' if complaint else 'NOT NOTICED'} by {notices}: {first}")
    return all(complaints.values())


def judge_intact() -> bool:
    """Whether nothing is noticed where there is no fault.

    Of seeds the first is enough: the tests of the simulation run all of them.
    """
    everything = {_first(notices) for fault in FAULTS for notices in fault.noticed_by}
    complaints = {notices: complaint_of(notices) for notices in everything}
    for notices, complaint in complaints.items():
        if complaint:
            print(f"{notices} complains without any fault: {complaint}")
    return not any(complaints.values())


def _first(notices: Notices) -> Notices:
    return replace(notices, count=1) if isinstance(notices, Seeds) else notices


def in_own_process(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Judge in a fresh process: what is imported already cannot be made faulty."""
    return subprocess.run(
        [sys.executable, "-m", "tests.raft.mutants", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )


def main(arguments: list[str]) -> int:
    if arguments == ["--intact"]:
        return 0 if judge_intact() else 1
    if len(arguments) == 1:
        try:
            return 0 if judge(BY_NAME[arguments[0]]) else 1
        except Malformed as error:
            print(f"planted badly: {error}")
            return 2
    unnoticed = 0
    for name in arguments or BY_NAME:
        start = time.monotonic()
        done = in_own_process(name)
        unnoticed += done.returncode != 0
        print(
            f"{name} ({time.monotonic() - start:.1f} s)\n  {done.stdout.strip()}{done.stderr[-500:]}"
        )
    print(f"{unnoticed} not noticed")
    return 1 if unnoticed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
