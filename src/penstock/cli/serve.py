"""``penstock serve``: run the broker until it is told to stop."""

import asyncio
import contextlib
import ctypes
import gc
import resource
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import click
import msgspec

from penstock import __version__
from penstock.cli.columns import counted
from penstock.cli.options import configured
from penstock.cluster.status import NodeState, diagnosis
from penstock.config.load import Loaded
from penstock.config.schema import Config
from penstock.errors import StorageError, StorageFull
from penstock.obs import log
from penstock.server import Server


@click.command()
@configured
def serve(loaded: Loaded) -> None:
    """Start the broker: every protocol on every port it listens on."""
    config = loaded.config
    log.configure(config.log.level, config.log.format)
    _tune_malloc()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    config = _fit_files(config)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_serve(config))


class _StopAsked(BaseException):
    """A signal came while the broker was starting."""


async def _serve(config: Config) -> None:
    stop = asyncio.Event()
    server = Server(config)
    try:
        await _start(server, stop)
    except _StopAsked:
        click.echo("Stopped before it had started. Nothing is lost.")
        return
    _tune_collector()
    click.echo(_greeting(server))
    logger = log.get_logger("serve")
    logger.info("started", listening=", ".join(map(str, server.addresses)))
    while await _is_replaced(server, stop):
        logger.warning("store_replaced", why="this node was too far behind the others")
        await server.give_way()
        server = Server(config, snapshots_received=server.snapshots_received + 1)
        await server.start()
    click.echo("Stopping: no new clients; finishing what was accepted.")
    logger.info("stopping", clients=len(server.hub.connections.clients))
    if await server.stop():
        click.echo("Stopped. Everything acknowledged is on disk.")
    else:
        click.echo("Stopped, but the disk did not take all that was accepted.")
        raise StorageError(_loss(config), "Make room on the disk, and start again.")


async def _start(server: Server, stop: asyncio.Event) -> None:
    """Start, and stop that at once when a signal asks for it: it may take long.

    The loop does not turn while the journal is read, so a signal raises where that stands. To break
    off there is to crash, which loses nothing. If it raises elsewhere, ``stop`` is seen later.

    A broker that runs waits until a full disk has room; one that starts cannot.
    """

    def interrupt(_number: int, _frame: object) -> None:
        stop.set()
        raise _StopAsked

    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, interrupt)
    gc.disable()  # hundreds of thousands of objects are made, and none is garbage
    try:
        await server.start()
    except StorageFull as error:
        advice = "Make room on that disk, then start the broker again."
        raise StorageFull(error.message, advice) from error
    for name in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)


async def _is_replaced(server: Server, stop: asyncio.Event) -> bool:
    """Wait for one of the two: a copy of another node's store to start anew with, or the end."""
    waits = [asyncio.ensure_future(event.wait()) for event in (stop, server.replaced)]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for wait in waits:
        wait.cancel()
    return not stop.is_set()


def _loss(config: Config) -> str:
    if config.durability == "sync":
        return "what was not acknowledged is gone: its senders must send it again"
    return "acknowledged messages of the last moments are lost (durability = interval)"


def _greeting(server: Server) -> str:
    """Say where it listens, who may connect, where the data lies, what an ack means."""
    config = server.config
    addresses = ", ".join(str(address) for address in server.addresses)
    http, is_only = server.addresses[-1], len(server.addresses) == 1
    lines = [
        f"Penstock {__version__} is running (stop with Ctrl-C).",
        f"  listening  {addresses} ({'every protocol' if is_only else 'every protocol on each'})",
        *([f"  in use     {_in_use(server)}"] if server.skipped else []),
        f"  clients    {_who(server)}",
        f"  data       {Path(config.data).resolve()} ({_what(server)})",
        *([f"  cluster    {_cluster(server)}"] if config.cluster.peer_listen else []),
        f"  an ack     {_promise(config)}",
        f"  look       http://{http}/metrics, /health, /ready",
    ]
    return "\n".join(lines)


def _in_use(server: Server) -> str:
    skipped = ", ".join(map(str, server.skipped))
    return f"{skipped} by another program: skipped, the addresses above do the same"


def _who(server: Server) -> str:
    if all(address.is_loopback for address in server.addresses):
        return "anyone on this machine, without a password"
    return "ANYONE who can reach these addresses, without a password (allow_anonymous)"


def _what(server: Server) -> str:
    size = server.store.size()
    return f"{counted(size.messages, 'message')}, {size.bytes_used / 1024**2:,.1f} MiB"


def _cluster(server: Server) -> str:
    """Say which node it is, where others reach it, and how the cluster is."""
    cluster = server.config.cluster
    return f"node {cluster.node_id}, for other nodes {cluster.peer_listen}; {_state(server)}"


def _state(server: Server) -> str:
    status = server.cluster()
    return diagnosis(status) if status.state is not NodeState.MEMBER else "a member"


def _promise(config: Config) -> str:
    if config.cluster.peer_listen:
        return "means: written and flushed by most nodes of the cluster"
    if config.durability == "sync":
        return "means: written to this disk and flushed (durability = sync)"
    return (
        f"means: accepted; on disk within {config.durability_interval_ms} ms, so a crash can take"
        " back that much (durability = interval)"
    )


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop  # noqa: PLC0415 - absent on Windows, and optional anywhere
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


SWITCH_INTERVAL_S = 0.0005
"""How long the event loop may keep the interpreter from the writer thread while both have work.

A commit needs the interpreter several times; with Python's default of 5 ms each of these waits is
longer than the flush itself, and acknowledgements under load would wait for them all.
"""

FILES_BESIDE_CLIENTS = 128
"""Listeners, the store, logs, HTTP: files open beside those of the clients."""


def _fit_files(config: Config) -> Config:
    """Ask for as many open files as there may be clients; with fewer, there may be fewer clients.

    Else the system would cut newcomers off before we see them, uncounted and without a reason.
    """
    wanted = config.limits.clients_max + FILES_BESIDE_CLIENTS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    if allowed == wanted:
        return config
    clients_max = max(1, allowed - FILES_BESIDE_CLIENTS)
    log.get_logger("serve").warning(
        "too_few_files",
        allowed=hard,
        wanted=wanted,
        clients_max=clients_max,
        advice="raise the limit (ulimit -Hn, LimitNOFILE=) or lower limits.clients_max",
    )
    limits = msgspec.structs.replace(config.limits, clients_max=clients_max)
    return msgspec.structs.replace(config, limits=limits)


GC_THRESHOLDS = 50_000, 20, 50
"""Containers made before the collector looks; nothing of ours is cyclic on the hot path."""


def _tune_collector() -> None:
    gc.collect()
    gc.freeze()  # what exists by now lives as long as the process: never look at it again
    gc.set_threshold(*GC_THRESHOLDS)
    gc.enable()


_MALLOPT = {
    -1: 256 << 20,  # M_TRIM_THRESHOLD
    -2: 16 << 20,  # M_TOP_PAD
    -3: 64 << 20,  # M_MMAP_THRESHOLD
}


def _tune_malloc() -> None:
    """Keep glibc from giving each read buffer back to the kernel and asking for it again.

    Large chunks come and go thousands of times a second; with the defaults each costs page faults.
    """
    with contextlib.suppress(OSError, AttributeError):  # another C library: its own ways
        mallopt = ctypes.CDLL(None).mallopt
        for parameter, value in _MALLOPT.items():
            mallopt(parameter, value)
