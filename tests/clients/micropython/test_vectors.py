"""The bytes and texts of the protocol that all clients are checked against."""

import json
import subprocess

import pytest

from tests.clients.micropython.machines import HERE, command, environment, need

VECTORS = HERE.parents[2] / "clients/vectors.json"


@pytest.mark.parametrize("machine", ["cpython", "native"])
def test_frames_cuts_faults_and_errors_are_as_the_vectors_say(machine):
    need(machine)
    done = subprocess.run(
        [*command(machine, "vectors_program.py"), str(VECTORS)],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    vectors = json.loads(VECTORS.read_text())
    counts = f"frames: {len(vectors['frames'])} errors: {len(vectors['errors'])}"
    assert done.stdout.splitlines() == [counts], done.stderr
