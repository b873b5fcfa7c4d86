"""One broker per measurement: a fresh process, a free port, an empty directory on a real disk.

Nothing carries over from the previous measurement: no warm cache, no memory kept by the allocator,
no journal. Each kind knows its command line and its counters; the rest is shared.
"""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar, NamedTuple

from benchmarks import certificates
from benchmarks.machine import pinned
from penstock.testing import Broker as TestBroker
from penstock.trust.book import put
from penstock.trust.rows import Role

__all__ = [
    "BROKERS",
    "Broker",
    "BrokerError",
    "GuardedPenstockBroker",
    "InterpretedPenstockBroker",
    "MosquittoBroker",
    "MosquittoTlsBroker",
    "MosquittoWebSocketBroker",
    "NatsBroker",
    "PenstockBroker",
    "RedisBroker",
    "SyncedRedisBroker",
    "TrustedKey",
    "earlier",
    "free_port",
    "parse_metrics",
]

HOST = "127.0.0.1"
START_TIMEOUT_S = 20.0
STOP_TIMEOUT_S = 60.0
SPEEDS = ("compiled", "interpreted")

Metrics = Mapping[str, float]


class BrokerError(Exception):
    """A broker did not start, or ended unexpectedly."""


class TrustedKey(NamedTuple):
    """A key to register with a broker for signed publishes."""

    key_id: int
    public_key: bytes
    topics: str


class Broker(ABC):
    """A broker that runs inside the context of :meth:`running`."""

    name: ClassVar[str]
    environment: ClassVar[Mapping[str, str]] = {}
    """What the process has in its environment besides ours."""

    def __init__(self, directory: Path, settings: Mapping[str, str]) -> None:
        self.directory = directory
        self.settings = settings
        self.port = free_port()
        self._log = directory / "broker.log"
        self._process: subprocess.Popen[bytes] | None = None

    @classmethod
    @abstractmethod
    def program(cls) -> str | None:
        """Return the path of the broker; ``None`` if it is not installed."""

    @classmethod
    @abstractmethod
    def version(cls) -> str:
        """Return the version that the program reports."""

    @abstractmethod
    def command(self) -> list[str]:
        """Return the command line; may write configuration to the directory."""

    def metrics(self) -> Metrics:
        """Return the broker's counters, by name with labels; empty if it has none."""
        return {}

    def trust(self, key: TrustedKey) -> None:
        """Register ``key``."""
        raise BrokerError(f"{self.name} takes no keys, {key.key_id} neither")

    @property
    def pid(self) -> int:
        """The process, as the generator watches it."""
        assert self._process is not None, "the broker runs only inside running()"
        return self._process.pid

    @classmethod
    @contextmanager
    def running(
        cls, data: Path, *, settings: Mapping[str, str] | None = None, cpu: int | None = None
    ) -> "Iterator[Broker]":
        """Provide a broker that accepts connections; stop it and remove its data on exit."""
        data.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=f"{cls.name}-", dir=data) as directory:
            broker = cls(Path(directory), settings or {})
            try:
                broker.start(cpu)
                yield broker
            finally:
                broker.stop()

    def start(self, cpu: int | None) -> None:
        """Start the process on ``cpu`` and wait until its port answers."""
        with self._log.open("wb") as output, pinned(cpu):
            environment = {**os.environ, **self.environment}
            self._process = subprocess.Popen(
                self.command(), stdout=output, stderr=output, env=environment
            )
        deadline = time.monotonic() + START_TIMEOUT_S
        while not _answers(self.port):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise BrokerError(f"{self.name} did not start; {self.last_words()}")
            time.sleep(0.02)

    def last_words(self) -> str:
        """Return the last lines of the broker's log."""
        said = self._log.read_text(errors="replace").strip()[-2000:]
        return f"its last words:\n{said}" if said else "it said nothing"

    def stop(self) -> None:
        """Terminate the process; kill it if it does not end."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class PenstockBroker(Broker):
    """This project's broker, started as users start it."""

    name = "penstock"
    launcher: ClassVar[tuple[str, ...]] = ()
    """Prefix of the command: for example an interpreter with a profiler."""

    @classmethod
    def program(cls) -> str | None:
        beside = Path(sys.executable).parent / "penstock"
        return str(beside) if beside.exists() else shutil.which("penstock")

    @classmethod
    def version(cls) -> str:
        """Return the version and the speed: compiled or interpreted."""
        program = cls.program() or "penstock"
        said = _first_line([*cls.launcher, program, "--version"])
        asked = "from penstock.kernel import speed; print(speed)"
        python = str(Path(program).with_name("python"))
        speed = _first_line([*cls.launcher, python, "-c", asked], cls.environment)
        return f"{said}, {speed if speed in SPEEDS else 'interpreted'}"

    def command(self) -> list[str]:
        command = [*self.launcher, self.program() or "penstock", "serve"]
        command += ["--data", str(self.directory / "data"), "--listen", f"{HOST}:{self.port}"]
        command += ["--http-listen", f"{HOST}:{free_port()}", "--log-level", "warning"]
        for key, value in self.settings.items():
            command += ["--set", f"{key}={certificates.with_files(value)}"]
        return command

    def metrics(self) -> Metrics:
        with urllib.request.urlopen(f"http://{HOST}:{self.port}/metrics", timeout=10) as answer:
            return parse_metrics(answer.read().decode())

    def trust(self, key: TrustedKey) -> None:
        """Uses the admin API, like ``penstock keys add``."""
        told = {"device": "bench", **key._asdict(), "public_key": key.public_key.hex()}
        body = json.dumps(told).encode()
        url = f"http://{HOST}:{self.port}/keys"
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(url, data=body, headers=headers, method="POST")
        try:
            urllib.request.urlopen(request, timeout=10).close()
        except urllib.error.HTTPError as error:
            with error:
                said = error.read().decode(errors="replace")[:200]
            raise BrokerError(f"the key was refused: {error} {said}") from error


class InterpretedPenstockBroker(PenstockBroker):
    """The same without its compiled kernel, as where there is no C compiler."""

    name = "penstock-interpreted"
    environment: ClassVar[Mapping[str, str]] = {"PENSTOCK_SPEED": "interpreted"}


def earlier(tree: Path) -> type[PenstockBroker]:
    """Return the broker of another checkout, run with the packages of this one."""
    source = tree.resolve() / "src"
    if not (source / "penstock").is_dir():
        raise BrokerError(f"{tree} is no checkout: there is no {source / 'penstock'}")
    fields = {"name": "earlier", "launcher": ("env", f"PYTHONPATH={source}")}
    return type("Earlier", (PenstockBroker,), fields)


class GuardedPenstockBroker(PenstockBroker):
    """The same with users: clients of this machine have a role of ``RULES`` rules.

    Compare it with ``penstock``: what do rules cost?
    """

    name = "penstock-users"

    def start(self, cpu: int | None) -> None:
        with TestBroker(data=self.directory / "data") as prepared:
            prepared.add_user("root", "a secret", roles=("admin",))
            prepared.change_access(put(Role("local", tuple(_rules()), ("monitor",))))
        super().start(cpu)


RULES = 100


def _rules() -> Iterator[str]:
    """Allow what the generator does, somewhere among rules that do not concern it."""
    for number in range(RULES // 2 - 1):
        yield f"allow publish,subscribe,read,work site/{number}/+/state"
        yield f"deny publish site/+/{number}/#"
    yield "allow publish,subscribe,read,work bench/#"
    yield "allow publish,subscribe,read,work q:bench"


class MosquittoBroker(Broker):
    """The peer for MQTT. Limits that would make it drop are lifted; it persists nothing."""

    name = "mosquitto"

    @classmethod
    def program(cls) -> str | None:
        return shutil.which("mosquitto", path="/usr/local/sbin:/usr/sbin") or shutil.which(
            "mosquitto"
        )

    @classmethod
    def version(cls) -> str:
        return _first_line([cls.program() or "mosquitto", "-h"])

    def more_lines(self) -> tuple[str, ...]:
        """Return further lines of the configuration."""
        return ()

    def command(self) -> list[str]:
        lines = (
            f"listener {self.port} {HOST}",
            "allow_anonymous true",
            "max_queued_messages 0",
            "max_inflight_messages 100",
            "persistence false",
            "log_dest none",
            *self.more_lines(),
        )
        config = self.directory / "mosquitto.conf"
        config.write_text("\n".join(lines) + "\n")
        return [self.program() or "mosquitto", "-c", str(config)]


class MosquittoTlsBroker(MosquittoBroker):
    """The same with the certificate that ours has in these workloads."""

    name = "mosquitto-tls"

    def more_lines(self) -> tuple[str, ...]:
        files = certificates.files()
        own = (f"certfile {files[certificates.CERT]}", f"keyfile {files[certificates.KEY]}")
        return (*own, "user root") if os.geteuid() == 0 else own  # it could not read the key


class MosquittoWebSocketBroker(MosquittoBroker):
    """The same with a listener for WebSocket."""

    name = "mosquitto-ws"

    def command(self) -> list[str]:
        command = super().command()
        config = self.directory / "mosquitto.conf"
        first, rest = config.read_text().split("\n", 1)
        # Mosquitto 2.0 does not start with listeners for WebSocket alone.
        other = f"listener {free_port()} {HOST}"
        config.write_text(f"{first}\nprotocol websockets\n{other}\n{rest}")
        return command


class NatsBroker(Broker):
    """The peer for live traffic of any kind: core NATS, which persists nothing. Defaults."""

    name = "nats"

    @classmethod
    def program(cls) -> str | None:
        return shutil.which("nats-server") or shutil.which("nats-server", path="/usr/sbin")

    @classmethod
    def version(cls) -> str:
        return _first_line([cls.program() or "nats-server", "--version"])

    def command(self) -> list[str]:
        return [self.program() or "nats-server", "-a", HOST, "-p", str(self.port)]


class RedisBroker(Broker):
    """The peer for RESP. Defaults, but without snapshots: it persists nothing."""

    name = "redis"
    options: ClassVar[tuple[str, ...]] = ("--appendonly", "no")

    @classmethod
    def program(cls) -> str | None:
        return shutil.which("redis-server")

    @classmethod
    def version(cls) -> str:
        return _first_line([cls.program() or "redis-server", "--version"])

    def command(self) -> list[str]:
        command = [self.program() or "redis-server", "--port", str(self.port), "--bind", HOST]
        return [*command, "--save", "", "--dir", str(self.directory), *self.options]


class SyncedRedisBroker(RedisBroker):
    """The peer for durable streams: a reply means on disk. The log is never rewritten."""

    name = "redis-synced"
    options = (
        "--appendonly",
        "yes",
        "--appendfsync",
        "always",
        "--auto-aof-rewrite-percentage",
        "0",
    )


BROKERS: dict[str, type[Broker]] = {
    kind.name: kind
    for kind in (
        PenstockBroker,
        InterpretedPenstockBroker,
        GuardedPenstockBroker,
        MosquittoBroker,
        MosquittoTlsBroker,
        MosquittoWebSocketBroker,
        NatsBroker,
        RedisBroker,
        SyncedRedisBroker,
    )
}


def parse_metrics(text: str) -> Metrics:
    """Parse the samples of a Prometheus exposition, by name and labels."""
    samples = {}
    for line in text.splitlines():
        match = re.match(r"([a-zA-Z_:][\w:]*(?:\{.*\})?) ([^ ]+)", line)
        if match:
            samples[match[1]] = float(match[2])
    return samples


def free_port() -> int:
    """Return a port that is free at the moment."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0


def _first_line(command: list[str], environment: Mapping[str, str] | None = None) -> str:
    everything = {**os.environ, **(environment or {})}
    try:
        said = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=20, env=everything
        )
    except OSError as error:
        return f"not found: {error}"
    return (said.stdout.strip() or said.stderr.strip() or "silent").splitlines()[0]
