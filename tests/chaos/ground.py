"""The nodes: real processes, each with its directory, ports and log, and operations on them.

Ports are below the range that the system assigns: a node must find its port free when it restarts.
Nothing here waits for a fixed time; conditions are polled by HTTP.
"""

import asyncio
import base64
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from tests.chaos.history import now
from tests.chaos.network import Network

__all__ = ["SECRET", "Ground", "Node", "StuckError"]

SECRET = "a-secret-of-20-bytes"
LOGIN = base64.b64encode(f"root:{SECRET}".encode()).decode()

HOST = "127.0.0.1"
ASK_S = 3.0
"""How long a node may take to answer a question about itself."""
START_S = 60.0
HEALTHY_S = 60.0
"""Time-out of starts and elections on a busy machine."""
PORTS = range(20_000, 32_000)
_given: set[int] = set()


class StuckError(AssertionError):
    """An expected condition did not occur within a long time."""


class Node:
    """One node: what remains when the process is gone."""

    def __init__(self, number: int, directory: Path, ports: list[int], advertised: int) -> None:
        self.number = number
        self.data = directory / f"n{number}"
        self.log_path = directory / f"n{number}.log"
        self.port, self.http_port, self.peer_port = ports
        self.advertised = advertised
        self.child: subprocess.Popen[bytes] | None = None
        self.is_paused = False

    @property
    def is_up(self) -> bool:
        """Whether its process runs and is not paused."""
        return self.child is not None and self.child.poll() is None and not self.is_paused

    @property
    def address(self) -> str:
        """Return its client address."""
        return f"{HOST}:{self.port}"


class Ground:
    """Some nodes and the network between them."""

    def __init__(
        self,
        directory: Path,
        dice: random.Random,
        settings: Mapping[str, object] | None = None,
        distance_s: float = 0.0,
    ) -> None:
        self.directory = directory
        self.dice = dice
        self.network = Network(dice, distance_s)
        self.nodes: dict[int, Node] = {}
        self.gone: list[Node] = []
        """Those that were replaced."""
        self.has_users = False
        """Whether clients are judged; those that do not log in have the role ``local``."""
        self._settings = dict(settings or {})
        directory.mkdir(parents=True, exist_ok=True)

    # ── Processes ─────────────────────────────────────────────────────────────────────────────

    async def add(self, number: int) -> Node:
        """Start a new node, which waits for a cluster."""
        ports = _free_ports(3)
        node = Node(number, self.directory, ports, await self.network.add(number, ports[2]))
        self.nodes[number] = node
        self.launch(number)
        return node

    def launch(self, number: int, prefix: tuple[str, ...] = ()) -> None:
        """Start a node's process, on the data that it has."""
        node = self.nodes[number]
        settings = [part for k, v in self._settings.items() for part in ("--set", f"{k}={v}")]
        command = [
            *(*prefix, sys.executable, "-m", "penstock", "serve", "--data", str(node.data)),
            *("--listen", node.address, "--http-listen", f"{HOST}:{node.http_port}"),
            *("--node-id", str(number), "--peer-listen", f"{HOST}:{node.peer_port}"),
            *("--advertise-peer", f"{HOST}:{node.advertised}", "--log-level", "info", *settings),
        ]
        with node.log_path.open("ab") as log:
            node.child = subprocess.Popen(command, stdout=log, stderr=log)
        node.is_paused = False

    def signal(self, number: int, name: signal.Signals) -> None:
        """Send a signal to a node that runs."""
        node = self.nodes[number]
        if node.child is not None and node.child.poll() is None:
            os.kill(node.child.pid, name)
            node.is_paused = name is signal.SIGSTOP

    def kill(self, *numbers: int) -> None:
        """Kill nodes with SIGKILL."""
        for number in numbers:
            self.signal(number, signal.SIGKILL)
        for number in numbers:
            child = self.nodes[number].child
            if child is not None:
                child.wait()

    async def terminate(self, number: int) -> int:
        """Stop a node cleanly; return its exit status."""
        self.signal(number, signal.SIGTERM)
        child = self.nodes[number].child
        assert child is not None
        await self.until(lambda: _done(child.poll() is not None), f"node {number} stops", START_S)
        return child.returncode

    async def close(self) -> None:
        """Kill the remaining processes; the directory stays."""
        self.kill(*self.nodes)
        await self.network.close()

    def count_in_logs(self, text: str) -> int:
        """Count occurrences of a text in the logs of the nodes."""
        nodes = (*self.nodes.values(), *self.gone)
        logs = [node.log_path.read_text() for node in nodes if node.log_path.exists()]
        return sum(log.count(text) for log in logs)

    def remove_data(self) -> None:
        """Delete the directory."""
        shutil.rmtree(self.directory, ignore_errors=True)

    # ── The cluster ───────────────────────────────────────────────────────────────────────────

    async def begin(self, size: int) -> None:
        """Start nodes 1, 2, …, and make a cluster of them."""
        for number in range(1, size + 1):
            await self.add(number)
        for number in self.nodes:
            await self.until(lambda n=number: self._answers(n), f"node {number} starts", START_S)
        nodes = [self._member(node) for node in self.nodes.values()]

        async def begun() -> bool:
            return await self._asked(1, "POST", "/cluster/init", {"nodes": nodes})

        await self.until(begun, "the cluster begins", START_S)
        await self.until_healthy()

    async def add_users(self) -> None:
        """Add an administrator, as whom questions are asked from then on."""
        root = {"roles": ["admin"], "secrets": [sha256(SECRET.encode()).hexdigest()]}

        async def added() -> bool:
            leader, body = await self.leader(), {"document": {"users": {"root": root}}}
            return bool(leader) and await self._asked(leader, "POST", "/access/apply", body)

        await self.until(added, "there are users", START_S)
        self.has_users = True
        await self.until_healthy()

    async def join(self, number: int) -> None:
        """Start a new node and join it."""
        node = await self.add(number)
        await self.until(lambda: self._answers(number), f"node {number} starts", START_S)

        async def joined() -> bool:
            leader = await self.leader()
            if not leader:
                return False
            return await self._asked(leader, "POST", "/cluster/members", self._member(node))

        await self.until(joined, f"node {number} joins", HEALTHY_S)

    async def remove(self, number: int) -> None:
        """Remove a node and kill its process."""

        async def removed() -> bool:
            leader = await self.leader()
            if not leader:
                return False
            await self._asked(leader, "DELETE", f"/cluster/members?id={number}")
            told = await self.status(leader)
            return told is not None and number not in {m["id"] for m in told["members"]}

        await self.until(removed, f"node {number} is removed", HEALTHY_S)
        self.kill(number)
        self.gone.append(self.nodes.pop(number))

    def _member(self, node: Node) -> dict[str, Any]:
        peer = f"{HOST}:{node.advertised}"
        return {"id": node.number, "peer_addr": peer, "client_addr": node.address}

    async def transfer(self, to: int) -> None:
        """Ask the leader to transfer leadership; this may be refused or time out."""
        leader = await self.leader()
        if leader:
            await self._asked(leader, "POST", "/cluster/transfer", {"to": to})

    async def leader(self) -> int:
        """Return the leader according to the majority of answers; 0 if none."""
        told = [s for s in await self.statuses() if s is not None]
        leading = [status for status in told if status["is_leader"]]
        return max(leading, key=lambda status: status["term"])["node_id"] if leading else 0

    async def statuses(self) -> list[dict[str, Any] | None]:
        """Return the cluster as all nodes see it."""
        return await asyncio.gather(*(self.status(number) for number in self.nodes))

    async def status(self, number: int) -> dict[str, Any] | None:
        """Return the cluster as a node sees it; None if it does not answer."""
        if not self.nodes[number].is_up:
            return None
        try:
            return await self.ask(number, "GET", "/cluster")
        except (OSError, TimeoutError, ValueError):
            return None

    async def _answers(self, number: int) -> bool:
        child = self.nodes[number].child
        if child is not None and child.poll() is not None:
            raise StuckError(f"node {number} ended with status {child.returncode}")
        return await self.status(number) is not None

    async def until_healthy(self) -> None:
        """Wait until all nodes are up, agree on a leader, and have applied the same entries."""
        await self.until(self.is_healthy, "the cluster is healthy", HEALTHY_S)

    async def is_healthy(self) -> bool:
        """Return whether the cluster has settled."""
        for node in self.nodes.values():
            if node.child is not None and node.child.poll() is not None:
                raise StuckError(f"node {node.number} ended with status {node.child.returncode}")
        told = await self.statuses()
        if None in told or len({(s["term"], s["leader"], s["state"]) for s in told if s}) != 1:
            return False
        leader = next((s for s in told if s and s["is_leader"]), None)
        if leader is None or {m["id"] for m in leader["members"]} != self.nodes.keys():
            return False
        is_there = all(m["is_active"] and not m["is_learner"] for m in leader["members"])
        return is_there and all(s["applied"] >= leader["commit"] for s in told if s)

    # ── Asking ────────────────────────────────────────────────────────────────────────────────

    async def ask(
        self, number: int, method: str, path: str, body: object | None = None
    ) -> dict[str, Any]:
        """Send an HTTP request to a node; return the answer, including refusals."""
        data = b"" if body is None else json.dumps(body).encode()
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n"
            f"Authorization: Basic {LOGIN}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
        )
        async with asyncio.timeout(ASK_S):
            reader, writer = await asyncio.open_connection(HOST, self.nodes[number].http_port)
            try:
                writer.write(head.encode() + data)
                answer = await reader.read()
            finally:
                writer.transport.abort()
        told: dict[str, Any] = json.loads(answer.partition(b"\r\n\r\n")[2] or b"{}")
        return told

    async def _asked(self, number: int, method: str, path: str, body: object | None = None) -> bool:
        """Request a change from a node; return whether it confirms."""
        try:
            return "error" not in await self.ask(number, method, path, body)
        except (OSError, TimeoutError, ValueError):
            return False

    async def until(self, is_so: Callable[[], Awaitable[bool]], what: str, seconds: float) -> None:
        """Poll until a condition is true."""
        deadline = now() + seconds
        while not await is_so():
            if now() > deadline:
                raise StuckError(f"{seconds:g} s were not enough until {what}")
            await asyncio.sleep(0.05)


async def _done(value: bool) -> bool:
    return value


def _free_ports(count: int) -> list[int]:
    """Return free ports; not derived from the seed, because another campaign may run in parallel.

    Ports are not handed out twice: the node that gets them may not have bound them yet.
    """
    ports: set[int] = set()
    while len(ports) < count:
        port = random.SystemRandom().choice(PORTS)
        if port in _given:
            continue
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
        ports.add(port)
        _given.add(port)
    return list(ports)
