"""``penstock cluster try``: a cluster of three nodes on this machine, with one command.

The nodes are processes in sessions of their own: Ctrl-C reaches only this command, which stops
them. If it is killed, the system sends them SIGTERM.

With a named directory the cluster is kept for the next run, including its ports, because nodes know
each other by address. A temporary directory is removed, unless a node still runs in it.
"""

import ctypes
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Final

import click
import msgspec

from penstock.cli.admin_client import AdminClient
from penstock.cli.cluster_status import PATH, status_of
from penstock.cli.connection import local_target
from penstock.cli.output import columns
from penstock.cluster.status import ClusterStatus
from penstock.config.address import Address
from penstock.errors import PenstockError, StorageLocked

NODES: Final = (1, 2, 3)
HOST: Final = "127.0.0.1"
PORT_MAX: Final = 65_535

START_S: Final = 60.0  # for the nodes to start and to elect a leader, on a loaded machine
STOP_S: Final = 40.0  # longer than ``shutdown.timeout_s``
POLL_S: Final = 0.1
PORTS_TRIED: Final = 20  # as the first of three consecutive ones, before the system chooses
PORTS_FILE: Final = "ports.json"

_PR_SET_PDEATHSIG: Final = 1


class _LocalNode(msgspec.Struct):
    """One node and its ports."""

    number: int
    port: int
    peer_port: int

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def peer_address(self) -> str:
        return f"{HOST}:{self.peer_port}"


@click.command("try")
@click.option(
    "--data",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Keep the data of the nodes here; by default it is removed at the end.",
)
@click.option(
    "-p",
    "--port",
    type=click.IntRange(1, 65_533),
    default=1883,
    show_default=True,
    help="Port of the first node; the others use the next two. If one is in use, the next free ones"
    " are chosen.",
)
def try_cluster(directory: Path | None, port: int) -> None:
    """Start three nodes on this machine as a cluster.

    Ctrl-C stops all three. Prints how to connect, and which process to kill to see the others take
    over.
    """
    with ExitStack() as stack:
        path = directory or stack.enter_context(_temporary_directory())
        path.mkdir(parents=True, exist_ok=True)
        running = _Running(_nodes(path, port), path)
        stack.callback(running.stop)
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.default_int_handler)
        try:
            running.start()
            click.echo(running.welcome(is_kept=directory is not None))
            running.watch()
        except KeyboardInterrupt:
            click.echo("\nStopping all three nodes.")


@contextmanager
def _temporary_directory() -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(prefix="penstock-try-"))
    try:
        yield directory
    finally:
        if user := _user(directory):
            click.echo(
                f"{user}. {directory} was kept: stop that broker, then remove the directory."
            )
        else:
            shutil.rmtree(directory, ignore_errors=True)


def _user(directory: Path) -> str:
    from penstock.store.directory import lock_directory  # noqa: PLC0415 - needs the store

    for path in sorted(directory.glob("node?")):
        try:
            lock_directory(path).close()
        except StorageLocked as error:
            return error.message
    return ""


def _program() -> str:
    """The command as the user can type it: ``penstock`` may not be in the PATH."""
    started, found = Path(sys.argv[0]), shutil.which("penstock")
    if started.name == "__main__.py":
        return shlex.join([sys.executable, "-m", "penstock"])
    if started.name != "penstock" or (found and Path(found).samefile(started)):
        return "penstock"
    return shlex.quote(sys.argv[0])


def _nodes(directory: Path, port: int) -> list[_LocalNode]:
    file = directory / PORTS_FILE
    if file.exists():
        return msgspec.json.decode(file.read_bytes(), type=list[_LocalNode])
    ports = _client_ports(port)
    pairs = zip(NODES, ports, _free_ports(len(NODES)), strict=True)
    made = [_LocalNode(number, client, peer) for number, client, peer in pairs]
    file.write_bytes(msgspec.json.encode(made))
    return made


def _client_ports(port: int) -> list[int]:
    """Find three consecutive free ports, from ``port`` on."""
    firsts = range(port, min(port + PORTS_TRIED, PORT_MAX - len(NODES) + 2))
    runs = (list(range(first, first + len(NODES))) for first in firsts)
    ports = next((run for run in runs if all(map(_is_free, run))), None) or _free_ports(len(NODES))
    if ports[0] != port:
        wanted = range(port, port + len(NODES))
        taken = next((each for each in wanted if not _is_free(each)), port)
        click.echo(f"Port {taken} is in use; the nodes use {', '.join(map(str, ports))}.")
    return ports


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def _free_ports(count: int) -> list[int]:
    """Let the system choose ports; all are held open at once, so that they differ."""
    with ExitStack() as stack:
        taken = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in taken:
            probe.bind((HOST, 0))
        return [probe.getsockname()[1] for probe in taken]


class _Running:
    """The processes of three nodes."""

    def __init__(self, nodes: list[_LocalNode], directory: Path) -> None:
        self._nodes = nodes
        self._directory = directory
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        for node in self._nodes:
            self._processes[node.number] = self._started(node)
        deadline = monotonic() + START_S
        self._until(deadline, lambda: all(map(self._status, self._nodes)))
        members = [
            {"node": node.number, "peer_addr": node.peer_address, "client_addr": node.address}
            for node in self._nodes
        ]
        self._at(self._nodes[0]).post(f"{PATH}/init", nodes=members)
        self._until(deadline, lambda: all(self._is_ready(node) for node in self._nodes))

    def _started(self, node: _LocalNode) -> "subprocess.Popen[bytes]":
        with self._log(node).open("ab") as log:
            return subprocess.Popen(  # noqa: S603 - our own program
                self._command(node),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=_stop_with_parent,  # noqa: PLW1509 - no other thread yet
            )

    def _command(self, node: _LocalNode) -> list[str]:
        words = [sys.executable, "-m", "penstock", "serve", "--node-id", str(node.number)]
        words += ["--listen", node.address, "--http-listen", ""]
        words += ["--peer-listen", node.peer_address]
        return [*words, "--data", str(self._directory / f"node{node.number}")]

    def _log(self, node: _LocalNode) -> Path:
        return self._directory / f"node{node.number}.log"

    def _until(self, deadline: float, condition: Callable[[], bool]) -> None:
        while not condition():
            self._check_all_run()
            if monotonic() > deadline:
                what = f"the nodes have not formed a cluster after {START_S:g} s"
                advice = f"their logs are in {self._directory}; the machine may be overloaded"
                raise PenstockError(what, advice)
            sleep(POLL_S)

    def _check_all_run(self) -> None:
        for node in self._nodes:
            if self._processes[node.number].poll() is not None:
                log = self._log(node).read_text(errors="replace").strip().splitlines()[-3:]
                raise PenstockError(f"node {node.number} did not start", "\n  ".join(log))

    def _at(self, node: _LocalNode) -> AdminClient:
        return AdminClient(local_target(Address(HOST, node.port)))

    def _is_ready(self, node: _LocalNode) -> bool:
        status = self._status(node)
        return status is not None and bool(status.leader) and len(status.members) == len(NODES)

    def _status(self, node: _LocalNode) -> ClusterStatus | None:
        try:
            return status_of(self._at(node))
        except PenstockError:
            return None

    def welcome(self, *, is_kept: bool) -> str:
        status = self._status(self._nodes[0])
        leader = status.leader if status else 0
        rows = [("NODE", "FOR CLIENTS", "PROCESS", "")]
        rows += [
            (
                str(node.number),
                node.address,
                str(self._processes[node.number].pid),
                "leader" if node.number == leader else "",
            )
            for node in self._nodes
        ]
        first, second, _ = sorted(self._nodes, key=lambda node: node.number == leader)
        program = _program()
        addresses = ", ".join(f'"{node.address}"' for node in self._nodes)
        killed = self._processes[leader].pid if leader else "PROCESS"
        fate = "kept for the next run" if is_kept else "removed at the end"
        return "\n".join(
            [
                "A cluster of three nodes is running (Ctrl-C stops it).",
                f"Data and logs: {self._directory}, {fate}.",
                "",
                columns(rows),
                "",
                "Try in another terminal:",
                f"  {program} sub -p {first.port} 'plant/#'",
                f"  {program} pub -p {second.port} -q 1 plant/pump1 4.2",
                f"  {program} cluster status -p {first.port}",
                f"  kill -9 {killed}    # the others take over",
                f"In Python: connect([{addresses}])",
            ]
        )

    def watch(self) -> None:
        ended: set[int] = set()
        while len(ended) < len(self._nodes):
            for node in self._nodes:
                status = self._processes[node.number].poll()
                if status is not None and node.number not in ended:
                    ended.add(node.number)
                    again = f"{_program()} {shlex.join(self._command(node)[3:])}"
                    how = f"by signal {-status}" if status < 0 else f"exit status {status}"
                    click.echo(f"node {node.number} exited ({how}). To restart it: {again}")
            sleep(POLL_S)
        raise PenstockError("all nodes have exited", f"their logs are in {self._directory}")

    def stop(self) -> None:
        for process in self._processes.values():
            if process.poll() is None:
                process.terminate()
        deadline = monotonic() + STOP_S
        for process in self._processes.values():
            try:
                process.wait(max(0.0, deadline - monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _stop_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
