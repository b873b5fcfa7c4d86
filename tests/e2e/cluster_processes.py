"""Nodes of a cluster as child processes, on ports that the system chose and that stay the same."""

import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from penstock.cli import penstock
from tests.e2e.process import BrokerProcess

__all__ = ["Nodes", "nodes", "until"]

PATIENCE_S = 100.0
"""Time-out on a busy machine, where an election may take ten seconds; only a failing test waits this long."""


def until(is_so: Callable[[], Any], patience_s: float = PATIENCE_S) -> Any:
    """Poll until the result is true, and return it."""
    deadline = time.monotonic() + patience_s
    while not (found := is_so()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)
    return found


class Nodes:
    """Processes by number. A node that was killed may be started again, at the same addresses."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        self._directory = directory
        self._stack = stack
        self._ports: dict[int, tuple[int, int]] = {}
        self.running: dict[int, BrokerProcess] = {}

    def start(self, number: int, *arguments: str) -> BrokerProcess:
        """Start a node, for the first time or again."""
        if number not in self._ports:
            self._ports[number] = self._reserved_port(), self._reserved_port()
        client, peer = self._ports[number]
        node = BrokerProcess(
            self._directory / f"node{number}",
            *("--node-id", str(number)),
            *("--peer-listen", f"127.0.0.1:{peer}"),
            *("--listen", f"127.0.0.1:{client}", "--http-listen", "127.0.0.1:0"),
            *arguments,
            listen=False,
            log_name=f"node{number}.log",
        )
        self._stack.enter_context(node)
        self.running[number] = node
        return node

    def _reserved_port(self) -> int:
        """A port that the system gives to nobody else, even while the node is down.

        A socket that is bound but does not listen keeps it; SO_REUSEADDR lets the node bind it, too.
        """
        keeper = self._stack.enter_context(socket.socket())
        keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        keeper.bind(("127.0.0.1", 0))
        port: int = keeper.getsockname()[1]
        return port

    def address(self, number: int) -> str:
        """Return the client address of a node."""
        return f"127.0.0.1:{self._ports[number][0]}"

    @property
    def addresses(self) -> list[str]:
        return [self.address(number) for number in self._ports]

    def peer_address(self, number: int) -> str:
        """Return the peer address of a node."""
        return f"127.0.0.1:{self._ports[number][1]}"

    def as_option(self, number: int) -> str:
        """Return the node in the form of ``penstock cluster init --node``."""
        return f"{number}={self.peer_address(number)}@{self.address(number)}"

    def kill(self, number: int) -> None:
        node = self.running.pop(number)
        node.kill()
        node.wait_killed()

    def command(self, number: int, *arguments: str) -> tuple[int, str]:
        """Run ``penstock cluster`` at a node; return its exit status and output."""
        command = ["cluster", *arguments, "--server", self.address(number)]
        result = CliRunner().invoke(penstock, command)
        return result.exit_code, result.output

    def status(self, number: int) -> dict[str, Any]:
        code, said = self.command(number, "status", "--json")
        assert code == 0, said
        found: dict[str, Any] = json.loads(said)
        return found

    def leader(self) -> int:
        """Return the leader, once all running nodes agree on it."""

        def agreed() -> int:
            told = {node.metric("penstock_raft_leader") for node in self.running.values()}
            leader = int(told.pop())
            return leader if not told and leader in self.running else 0

        found: int = until(agreed)
        return found


@contextmanager
def nodes(directory: Path, count: int, *arguments: str) -> Iterator[Nodes]:
    """Start this many nodes that wait for a cluster."""
    with ExitStack() as stack:
        made = Nodes(directory, stack)
        for number in range(1, count + 1):
            made.start(number, *arguments)
        yield made


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port
