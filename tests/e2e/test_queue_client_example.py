"""The work queue example does what it documents, against a broker process."""

import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "work_queue.py"


def example(*arguments):
    done = subprocess.run(
        [sys.executable, EXAMPLE, *arguments],
        check=True,
        capture_output=True,
        text=True,
        timeout=40,
    )
    return done.stdout.splitlines()


def test_the_example_of_a_work_queue(start):
    address = ("--address", f"127.0.0.1:{start().port}")
    assert example("produce", "--jobs", "7", *address) == ["7 jobs are on the broker's disk"]
    said = example("work", "--drain", *address)
    done = [line for line in said if line.startswith("done")]
    assert len(done) == 6
    failed = [line for line in said if line.startswith("failed")]
    assert failed == [
        f"failed: cannot read image-6.broken (attempt {attempt})" for attempt in (1, 2, 3)
    ]
    dead = example("dead", "--redrive", *address)
    assert dead == ["dead: image-6.broken: cannot read image-6.broken", "put back: 1"]
