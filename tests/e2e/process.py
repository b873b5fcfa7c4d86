"""``penstock serve`` as a child process.

Ports are chosen by the system and read from the lines that the broker prints at its start, so tests
can run in parallel. Nothing waits for a fixed time: those lines show that the broker is up, the end
of its output that it is gone.
"""

import json
import os
import resource
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Self

__all__ = ["BrokerProcess", "serve_command"]

TIMEOUT_S = 30.0
"""How long a start or a stop may take; only a failing test waits this long."""

LAST_GREETING = "  look "
"""How the greeting's last line begins."""


def serve_command(data: Path, *arguments: str, listen: bool = True) -> list[str]:
    """Return the command line of a broker on ports chosen by the system."""
    ports = ("--listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0") if listen else ()
    script = Path(sys.executable).with_name("penstock")
    return [str(script), "serve", "--data", str(data), *ports, *arguments]


class BrokerProcess:
    """A running broker; ``with BrokerProcess(data) as broker``. Killed at the end if still running."""

    def __init__(
        self,
        data: Path,
        *arguments: str,
        listen: bool = True,
        prefix: tuple[str, ...] = (),
        log_name: str = "broker.log",
    ) -> None:
        self.host = "127.0.0.1"
        self.data = data
        self.log_path = data.parent / log_name
        with self.log_path.open("ab") as log:
            self._child = subprocess.Popen(
                [*prefix, *serve_command(data, *arguments, listen=listen)],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self.pid = self._child.pid
        self.greeting = self._read_greeting()
        if prefix:  # such as strace: the broker is its child
            self.pid = _only_child(self._child.pid)
        ports = self._ports()
        self.port, self.http_port = ports[0], ports[-1]

    def _read_greeting(self) -> str:
        assert self._child.stdout is not None
        lines = []
        for line in self._child.stdout:
            lines.append(line)
            if line.startswith(LAST_GREETING):
                return "".join(lines)
        self._close()
        raise AssertionError(f"the broker did not start: {self.log_path.read_text()}")

    def _ports(self) -> list[int]:
        line = next(line for line in self.greeting.splitlines() if "listening" in line)
        addresses = line.split("listening")[1].split("(")[0].split(",")
        return [int(address.strip().rsplit(":", 1)[1]) for address in addresses]

    # ── ends ──────────────────────────────────────────────────────────────────────────────────

    def line(self) -> str:
        """The next line that it prints after the greeting."""
        assert self._child.stdout is not None
        return self._child.stdout.readline().rstrip("\n")

    def kill(self) -> None:
        """Kill it with SIGKILL."""
        self.signal(signal.SIGKILL)

    def wait_killed(self) -> None:
        """Wait until the killed process is gone."""
        assert self._child.wait(TIMEOUT_S) == -signal.SIGKILL
        self._close()

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def wait_stopped(self) -> tuple[int, str, float]:
        """Return exit status, output after the start, and seconds taken."""
        started = time.monotonic()
        output, _ = self._child.communicate(timeout=TIMEOUT_S)
        self._close()
        return self._child.returncode, output, time.monotonic() - started

    def stop(self) -> None:
        """Stop cleanly."""
        self.signal(signal.SIGTERM)
        status, _, _ = self.wait_stopped()
        assert status == 0, self.log_path.read_text()

    def _close(self) -> None:
        if self._child.poll() is None:
            self.kill()
        self._child.wait()
        assert self._child.stdout is not None
        self._child.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._close()

    # ── looks from outside ────────────────────────────────────────────────────────────────────

    def page(self, path: str, *, port: int | None = None) -> tuple[int, str]:
        """Status and text of a page."""
        url = f"http://{self.host}:{port or self.http_port}{path}"
        try:
            with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def json(self, path: str) -> tuple[int, dict[str, Any]]:
        status, text = self.page(path)
        return status, json.loads(text)

    def metric(self, sample: str) -> float:
        """Return the value of one sample of /metrics; 0 if absent."""
        _, text = self.page("/metrics")
        for line in text.splitlines():
            name, _, value = line.rpartition(" ")
            if name == sample:
                return float(value)
        return 0.0

    def limit_file_bytes(self, file_bytes: int) -> None:
        """Simulate a full disk for the running process: no file may grow beyond this."""
        _, hard = resource.prlimit(self.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(self.pid, resource.RLIMIT_FSIZE, (file_bytes, hard))

    def unlimit_file_bytes(self) -> None:
        self.limit_file_bytes(resource.RLIM_INFINITY)


def _only_child(pid: int) -> int:
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text())
