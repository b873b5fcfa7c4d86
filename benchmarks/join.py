"""``python -m benchmarks.join``: a node joins; how long does it take, and what do others feel?

::

    python -m benchmarks.join --megabytes 300
    python -m benchmarks.join --megabytes 1000 --rate 64MiB

A cluster of one is filled with payloads that cannot be compressed, over many topics, until they are
in blocks. Bystanders publish to it with QoS 1, each waiting for its PUBACK, at a modest rate; their
latency is measured before, and while a second node joins. The joining node's own clients ask it for
its health all the time: the longest time without an answer is what the switch to the received store
costs them.
"""

import argparse
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from benchmarks.brokers import HOST, BrokerError, free_port

TOPICS = 1_000
PAYLOAD_BYTES = 4_000
WINDOW = 200
TIMEOUT_S = 600.0


class Node:
    """A node of a cluster as a child process."""

    def __init__(self, number: int, directory: Path, settings: list[str]) -> None:
        self.number = number
        self.port, self.peer_port, self.http_port = free_port(), free_port(), free_port()
        self.log = directory / f"node{number}.log"
        self.data = directory / f"node{number}"
        script = Path(sys.executable).with_name("penstock")
        command = [str(script), "serve", "--data", str(self.data), "--node-id", str(number)]
        command += ["--peer-listen", f"{HOST}:{self.peer_port}", "--listen", f"{HOST}:{self.port}"]
        command += ["--http-listen", f"{HOST}:{self.http_port}", "--set", "log.format=json"]
        for setting in settings:
            command += ["--set", setting]
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        wait(lambda: self.get("/health") is not None, f"node {number} does not start")

    def get(self, path: str, timeout_s: float = 5.0) -> bytes | None:
        try:
            address = f"http://{HOST}:{self.http_port}{path}"
            with urllib.request.urlopen(address, timeout=timeout_s) as answer:
                found: bytes = answer.read()
                return found
        except (urllib.error.URLError, OSError):
            return None

    def cluster(self) -> dict[str, object]:
        found: dict[str, object] = json.loads(self.get("/cluster") or b"{}")
        return found

    def command(self, *words: str) -> None:
        script = Path(sys.executable).with_name("penstock")
        server = ("--server", f"{HOST}:{self.port}")
        subprocess.run([str(script), "cluster", *words, *server], check=True, capture_output=True)

    def events(self, name: str) -> list[dict[str, object]]:
        lines = self.log.read_text().splitlines()
        found = [json.loads(line) for line in lines if line.startswith("{")]
        return [line for line in found if line["event"] == name]

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()


def wait(condition: object, text: str, timeout_s: float = TIMEOUT_S) -> None:
    deadline = time.monotonic() + timeout_s
    assert callable(condition)
    while not condition():
        if time.monotonic() > deadline:
            raise BrokerError(text)
        time.sleep(0.02)


class Publisher:
    """An MQTT client that publishes with QoS 1."""

    def __init__(self, port: int, name: str) -> None:
        self.socket = socket.create_connection((HOST, port), timeout=60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        body = b"\0\4MQTT\4\2\0\0" + len(name).to_bytes(2, "big") + name.encode()
        self.socket.sendall(b"\x10" + bytes((len(body),)) + body)
        self.input = self.socket.makefile("rb")
        assert self.input.read(4) == b"\x20\2\0\0"

    def frame(self, topic: str, payload: bytes, packet: int) -> bytes:
        name = topic.encode()
        body = len(name).to_bytes(2, "big") + name + packet.to_bytes(2, "big") + payload
        size, length = len(body), bytearray()
        while True:
            size, low = divmod(size, 128)
            length.append(low | (0x80 if size else 0))
            if not size:
                return b"\x32" + bytes(length) + body

    def publish(self, frames: list[bytes]) -> None:
        self.socket.sendall(b"".join(frames))
        if len(self.input.read(4 * len(frames))) != 4 * len(frames):
            raise BrokerError("the broker closed the connection")


def fill(node: Node, megabytes: int) -> None:
    publisher, chance = Publisher(node.port, "filler"), random.Random(1)
    for start in range(0, megabytes * 1_000_000 // PAYLOAD_BYTES, WINDOW):
        frames = [
            publisher.frame(f"fleet/{(start + n) % TOPICS}", chance.randbytes(PAYLOAD_BYTES), n + 1)
            for n in range(WINDOW)
        ]
        publisher.publish(frames)


def block_bytes(node: Node) -> int:
    return sum(file.stat().st_size for file in (node.data / "blocks").glob("*.blk"))


class Bystanders:
    """Clients that publish at a modest rate and note how long each PUBACK took."""

    def __init__(self, port: int, count: int, rate: float) -> None:
        self.samples: list[tuple[float, float]] = []  # when sent, by time.monotonic; seconds
        self._is_over = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(Publisher(port, f"b{n}"), n, count / rate))
            for n in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def _run(self, publisher: Publisher, number: int, pause_s: float) -> None:
        chance = random.Random(number)
        frame = publisher.frame(f"by/{number}", b"x" * 100, 1)
        while not self._is_over.wait(pause_s * chance.uniform(0.5, 1.5)):
            began = time.monotonic()
            publisher.publish([frame])
            self.samples.append((began, time.monotonic() - began))

    def stop(self) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join()

    def between(self, start: float, end: float) -> dict[str, float]:
        found = sorted(took for at, took in self.samples if start <= at < end)
        return {
            "count": len(found),
            "p50_ms": round(1000 * found[len(found) // 2], 2),
            "p99_ms": round(1000 * found[len(found) * 99 // 100], 2),
            "max_ms": round(1000 * found[-1], 2),
        }


@contextmanager
def asking(node: Node) -> Iterator[list[float]]:
    """Ask a node for its health all the time; collects gaps between answers, in seconds."""
    gaps: list[float] = []
    is_over = threading.Event()

    def run() -> None:
        last = time.monotonic()
        while not is_over.wait(0.01):
            if node.get("/health", 1.0) is not None:
                now = time.monotonic()
                gaps.append(now - last)
                last = now

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield gaps
    finally:
        is_over.set()
        thread.join()


def member(node: Node) -> dict[str, object]:
    members = node.cluster().get("members", [])
    assert isinstance(members, list)
    return next((found for found in members if found["id"] == 2), {})


def measure(options: argparse.Namespace, directory: Path) -> dict[str, object]:
    settings = [f"cluster.snapshot_rate_bytes={options.rate}", *options.set]
    first = Node(1, directory, settings)
    nodes = [first]
    try:
        first.command("init")
        fill(first, options.megabytes)
        wanted = 0.8 * options.megabytes * 1e6 - 80e6
        wait(lambda: block_bytes(first) >= wanted, "too few blocks were made", 120)
        stored = block_bytes(first)
        bystanders = Bystanders(first.port, options.clients, options.msgs)
        time.sleep(options.calm)  # the measurement itself
        second = Node(2, directory, settings)
        nodes.append(second)
        time.sleep(2)
        with asking(second) as gaps:
            began = time.monotonic()
            second.command("join", "--to", f"{HOST}:{first.port}", "--timeout", "600s")
            joined = time.monotonic()
        bystanders.stop()
        arrived = second.events("snapshot_arrived")
        return {
            "megabytes_in_blocks": round(stored / 1e6),
            "join_s": round(joined - began, 2),
            "snapshots": [event["bytes"] for event in arrived],
            "blocks": [event["blocks"] for event in arrived],
            "before": bystanders.between(began - 2 - options.calm, began - 3),
            "during": bystanders.between(began, joined),
            "longest_silence_of_the_joining_node_s": round(max(gaps), 2),
        }
    finally:
        for node in nodes:
            node.stop()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.join")
    add = parser.add_argument
    add("--megabytes", type=int, default=300)
    add("--rate", default="64MiB", help="cluster.snapshot_rate_bytes")
    add("--clients", type=int, default=20)
    add("--msgs", type=float, default=500, help="messages per second of all bystanders together")
    add("--calm", type=float, default=10, help="seconds of measurement before the node joins")
    add("--set", action="append", default=[], help="further settings of the nodes")
    add("--data-dir", type=Path, default=Path(__file__).parent / "build" / "data")
    options = parser.parse_args()
    options.data_dir.mkdir(parents=True, exist_ok=True)
    directory = Path(tempfile.mkdtemp(dir=options.data_dir))
    try:
        found = measure(options, directory)
    finally:
        with suppress(OSError):
            shutil.rmtree(directory)
    print(json.dumps({**found, "cores": os.cpu_count()}, indent=2))


if __name__ == "__main__":
    main()
