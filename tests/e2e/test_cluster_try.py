"""``penstock cluster try``: three nodes by one command, as a user runs it."""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.client import connect
from tests.e2e.cluster_processes import free_port, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

PENSTOCK = "from penstock.cli import main; main()"


class Try:
    """Run the command as a process and read up to its last line."""

    def __init__(self, *options):
        self.process = subprocess.Popen(
            [sys.executable, "-c", PENSTOCK, "cluster", "try", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.said = ""
        while "In Python: " not in self.said:
            line = self.process.stdout.readline()
            assert line, self.said
            self.said += line
        self.addresses = re.findall(r'"(127\.0\.0\.1:\d+)"', self.said)
        rows = re.findall(r"^\d  +127\S+ +(\d+) *(leader)?", self.said, re.MULTILINE)
        self.pids = [int(pid) for pid, _ in rows]
        (self.leader,) = [int(pid) for pid, leads in rows if leads]

    def stop(self, number=signal.SIGINT):
        self.process.send_signal(number)
        output, _ = self.process.communicate(timeout=60)
        return self.process.returncode, output

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        if self.process.poll() is None:
            self.stop(signal.SIGTERM)


def is_gone(pid):
    return not Path(f"/proc/{pid}").exists()


def log_lines(directory):
    """Return what all nodes have logged so far."""
    files = Path(directory).glob("*.log")
    lines = [line for file in files for line in file.read_text().splitlines()]
    return [json.loads(line) for line in lines if line.startswith("{")]


def test_three_nodes_are_one_cluster_that_survives_a_kill_and_ends_with_ctrl_c():
    with Try("-p", str(free_port())) as tried:
        (directory,) = re.findall(r"Data and logs: (\S+),", tried.said)
        assert len(tried.addresses) == len(tried.pids) == 3
        with connect(tried.addresses, timeout_s=60) as client:
            assert client.produce("t", b"before") == 0
            subprocess.run(["kill", "-9", str(tried.leader)], check=True)
            assert "exited (by signal 9)" in tried.process.stdout.readline()
            assert client.produce("t", b"after") == 1
        lost = [line for line in log_lines(directory) if line["event"] == "leader_lost"]
        assert {line["level"] for line in lost} == {"warning"}
        status, output = tried.stop()
        assert (status, "Stopping all three nodes." in output) == (0, True)
        assert all(map(is_gone, tried.pids))
        assert not Path(directory).exists()


def test_a_named_directory_is_the_same_cluster_the_next_time(tmp_path):
    options = ("--data", str(tmp_path / "mine"), "-p", str(free_port()))
    with Try(*options) as tried, connect(tried.addresses, timeout_s=60) as client:
        client.produce("t", b"kept")
        first = tried.addresses
    with Try(*options) as tried, connect(tried.addresses, timeout_s=60) as client:
        assert tried.addresses == first
        assert [record.payload for record in client.messages("t")] == [b"kept"]


def test_nodes_do_not_outlive_the_command(tmp_path):
    with Try("--data", str(tmp_path)) as tried:
        tried.process.kill()
        tried.process.communicate()
        for pid in tried.pids:
            until(lambda pid=pid: is_gone(pid))
