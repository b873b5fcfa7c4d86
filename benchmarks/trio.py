"""A cluster of three nodes, each a process with its own directory and ports.

The kernel chooses the cores: three nodes and a generator must share two. So figures are those of
the whole machine, and any other load shows; compare the CPU time per message.

With a delay, all traffic between nodes goes through relays (``benchmarks.delay``).
"""

import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self

from benchmarks.brokers import HOST, BrokerError, PenstockBroker, free_port

__all__ = ["Node", "Trio"]

NODES = 3
PATIENCE_S = 60.0


class Node(PenstockBroker):
    """One of the three nodes. It keeps its ports and its data across a kill and restart."""

    number = 0

    def __init__(self, directory: Path, settings: Mapping[str, str]) -> None:
        super().__init__(directory, settings)
        self.peer_port = free_port()
        self.relay_port = 0  # where other nodes reach it, if not directly

    @property
    def peer_address(self) -> str:
        """Return where other nodes reach it."""
        return f"{HOST}:{self.relay_port or self.peer_port}"

    def command(self) -> list[str]:
        """See ``Broker``."""
        cluster = ["--node-id", str(self.number), "--peer-listen", f"{HOST}:{self.peer_port}"]
        return [*super().command(), *cluster, "--advertise-peer", self.peer_address]

    def kill(self) -> None:
        """Kill it, like a crash."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    @property
    def is_leader(self) -> bool:
        """Return whether it reports to be the leader; false if it does not answer."""
        try:
            return self.metrics().get("penstock_raft_is_leader") == 1
        except OSError:
            return False

    @property
    def applied(self) -> float:
        """Return the last entry that it has applied; -1 if it does not answer."""
        try:
            return self.metrics().get("penstock_raft_applied_index", -1.0)
        except OSError:
            return -1.0

    @property
    def cpu_s(self) -> float:
        """Return the CPU time of all its threads so far."""
        tasks = Path(f"/proc/{self.pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


@contextmanager
def _relayed(nodes: list[Node], delay_ms: float) -> Iterator[None]:
    pairs = [f"{node.relay_port}:{node.peer_port}" for node in nodes]
    command = [sys.executable, "-m", "benchmarks.delay", str(delay_ms), *pairs]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        if not process.stdout.readline():
            raise BrokerError("the relay did not start")
        try:
            yield
        finally:
            process.communicate()


class Trio:
    """Three nodes that form a cluster inside the context of :meth:`running`."""

    def __init__(self, nodes: list[Node]) -> None:
        self.nodes = nodes

    @classmethod
    @contextmanager
    def running(cls, data: Path, delay_ms: float = 0.0, kind: type[Node] = Node) -> Iterator[Self]:
        """Start all and initialise the cluster; stop all and remove the data on exit.

        ``delay_ms``: between two nodes, one way.
        """
        data.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix="trio-", dir=data) as directory, ExitStack() as stack:
            nodes = []
            for number in range(1, NODES + 1):
                home = Path(directory) / str(number)
                home.mkdir()
                node = kind(home, {"cluster.secret": "three-nodes-for-a-benchmark"})
                node.number = number
                node.relay_port = free_port() if delay_ms else 0
                nodes.append(node)
            if delay_ms:
                stack.enter_context(_relayed(nodes, delay_ms))
            for node in nodes:
                stack.callback(node.stop)
                node.start(None)
            trio = cls(nodes)
            trio._begin()
            yield trio

    def _begin(self) -> None:
        first = self.nodes[0]
        command = [first.program() or "penstock", "cluster", "init"]
        command += ["--server", f"{HOST}:{first.port}"]
        for node in self.nodes:
            command += ["--node", f"{node.number}={node.peer_address}@{HOST}:{node.port}"]
        said = subprocess.run(command, capture_output=True, text=True, check=False)
        if said.returncode:
            raise BrokerError(f"the cluster did not begin: {said.stderr or said.stdout}")
        self.settled()

    @property
    def addresses(self) -> list[str]:
        """Return the client addresses of the nodes."""
        return [f"{HOST}:{node.port}" for node in self.nodes]

    def leader(self) -> Node:
        """Wait for a leader and return it."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            for node in self.nodes:
                if node.is_leader:
                    return node
            time.sleep(0.05)
        words = "\n".join(node.last_words() for node in self.nodes)
        raise BrokerError(f"no node leads within {PATIENCE_S:.0f} s\n{words}")

    def follower(self) -> Node:
        """Return a follower."""
        leader = self.leader()
        return next(node for node in self.nodes if node is not leader)

    def settled(self) -> None:
        """Wait until all have applied the same entries."""
        leader = self.leader()
        deadline = time.monotonic() + PATIENCE_S
        while len({node.applied for node in self.nodes}) > 1 or leader.applied < 0:
            if time.monotonic() > deadline:
                raise BrokerError(f"nodes differ after {PATIENCE_S:.0f} s")
            time.sleep(0.05)
