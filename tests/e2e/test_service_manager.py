"""The broker tells its service manager when it listens, that it lives, and when it ends."""

import re
import signal
import socket
import tempfile
from pathlib import Path

import pytest

from tests.e2e.process import TIMEOUT_S


@pytest.fixture(params=["path", "abstract"])
def manager(request, monkeypatch):
    """A socket like that of systemd; its name is short, as Unix sockets need."""
    with (
        tempfile.TemporaryDirectory() as folder,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver,
    ):
        path = str(Path(folder, "notify"))
        receiver.settimeout(TIMEOUT_S)
        receiver.bind(path if request.param == "path" else "\0" + path)
        address = path if request.param == "path" else "@" + path
        monkeypatch.setenv("NOTIFY_SOCKET", address)
        monkeypatch.setenv("WATCHDOG_USEC", "100000")
        yield receiver


def lines(receiver) -> list[str]:
    return receiver.recv(4096).decode().splitlines()


def test_the_broker_says_that_it_is_ready_alive_and_stopping(start, manager):
    broker = start()
    ready, status = lines(manager)
    assert ready == "READY=1"
    port = int(re.search(r"STATUS=Listening on 127\.0\.0\.1:(\d+)", status)[1])
    socket.create_connection(("127.0.0.1", port), TIMEOUT_S).close()
    assert [lines(manager) for _ in range(3)] == [["WATCHDOG=1"]] * 3
    broker.signal(signal.SIGTERM)
    while (told := lines(manager)) == ["WATCHDOG=1"]:
        pass
    assert told[0] == "STOPPING=1"
    assert broker.wait_stopped()[0] == 0


def test_a_watchdog_of_another_process_gets_nothing(start, manager, monkeypatch):
    monkeypatch.setenv("WATCHDOG_PID", "1")
    broker = start()
    assert lines(manager)[0] == "READY=1"
    broker.signal(signal.SIGTERM)
    assert lines(manager)[0] == "STOPPING=1"
    assert broker.wait_stopped()[0] == 0


def test_the_broker_starts_without_the_manager_it_was_told_of(start, monkeypatch, tmp_path):
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nobody"))
    broker = start()
    broker.stop()
