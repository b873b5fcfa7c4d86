"""A flush that fails ends the process: a later one that succeeds would prove nothing about it."""

import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from penstock.client import connect
from penstock.errors import PenstockError

ROOT = Path(__file__).parents[2]
EXIT_STORAGE = 74

pytestmark = pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def serving(data: Path, port: int) -> list[str]:
    command = [sys.executable, "-m", "penstock", "serve", "--data", str(data)]
    command += ["--listen", f"127.0.0.1:{port}", "--http-listen", f"127.0.0.1:{free_port()}"]
    return command


def connected(port: int, process):
    deadline = time.monotonic() + 60
    while True:
        assert process.poll() is None, process.stdout.read()
        try:
            return connect([f"127.0.0.1:{port}"])
        except PenstockError:
            assert time.monotonic() < deadline, "the broker did not start"
            time.sleep(0.05)


def produced(client) -> int:
    """Return the number of messages acknowledged before the broker is gone."""
    for number in range(1_000):
        try:
            client.produce("t", b"%d" % number)
        except PenstockError:
            return number
    return 1_000


def test_a_broker_ends_when_a_flush_fails_and_keeps_what_it_had_acknowledged(tmp_path):
    port = free_port()
    broken = ["strace", "-f", "-qq", "-e", "trace=fdatasync", "-o", str(tmp_path / "trace")]
    broken += ["-e", "inject=fdatasync:error=EIO:when=40+"]
    with subprocess.Popen(
        [*broken, *serving(tmp_path / "data", port)],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    ) as process:  # fmt: skip
        with connected(port, process) as client:
            acknowledged = produced(client)
        assert process.wait(60) == EXIT_STORAGE
        assert "the disk failed" in process.stdout.read()
    assert 0 < acknowledged < 1_000
    with subprocess.Popen(serving(tmp_path / "data", port), cwd=ROOT) as process:
        with connected(port, process) as client:
            payloads = [record.payload for record in client.messages("t")]
        process.send_signal(signal.SIGTERM)
    assert payloads[:acknowledged] == [b"%d" % number for number in range(acknowledged)]
    assert len(payloads) <= acknowledged + 1
