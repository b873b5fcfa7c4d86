"""``penstock spark run`` as a process: what it prints, and how it ends."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from penstock.client import connect
from tests.spark.quick import prepare, quick


def command(*arguments):
    prepare()
    conf = [part for item in quick().items() for part in ("--conf", "=".join(item))]
    return [sys.executable, "-m", "penstock", "spark", "run", *arguments, *conf]


def until(condition, process, seconds=100):
    end = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.slow
def test_a_signal_ends_a_stream_when_its_batch_is_done(servers, tmp_path):
    """The signal goes to all processes of the job, as a terminal sends it."""
    checkpoint = tmp_path / "c" / "topics"
    with connect([servers]) as client:
        client.produce_many("pump/1", [b"%d" % n for n in range(1000)])
    asked = ["--servers", servers, "--subscribe", "pump/#", "--checkpoint", str(tmp_path / "c")]
    process = subprocess.Popen(
        command("rollup", *asked, "--json"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    until((checkpoint / "offsets" / "0").exists, process)
    assert not (checkpoint / "commits" / "0").exists()
    os.killpg(process.pid, signal.SIGINT)
    said, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert "Traceback" not in errors
    assert (checkpoint / "commits" / "0").exists()
    first = json.loads(said.splitlines()[0])
    assert (first["query"], first["batch"], first["rows"]) == ("rollup", 0, 1000)


@pytest.mark.slow
def test_a_job_that_fails_says_why_once_and_nothing_else(servers, tmp_path):
    with connect([servers]) as client:
        client.produce("pump/1", b"no JSON")
    asked = ["--servers", servers, "--subscribe", "pump/#", "--checkpoint", str(tmp_path / "c")]
    unsigned = ["--to", "secure/quarantine", "--trigger", "available-now"]
    done = subprocess.run(
        command("quarantine", *asked, *unsigned),
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    said = done.stderr.splitlines()
    assert said[0] == "Starting Spark ..."
    assert said[1].startswith("Spark ")
    assert said[2].startswith("quarantine is running")
    assert said[3].startswith("penstock: quarantine failed: ")
    assert "signed" in said[3]
    assert "Traceback" not in done.stderr
