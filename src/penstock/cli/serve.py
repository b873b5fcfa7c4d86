"""``penstock serve``: run the broker until it is told to stop."""

import asyncio
import contextlib
import ctypes
import gc
import signal
from collections.abc import Callable
from pathlib import Path

import click

from penstock import __version__
from penstock.cli.options import configured
from penstock.config.load import Loaded
from penstock.config.schema import Config
from penstock.obs import log
from penstock.server import Server

__all__ = ["serve"]


@click.command()
@configured
def serve(loaded: Loaded) -> None:
    """Start the broker: MQTT and HTTP on every port it listens on."""
    config = loaded.config
    log.configure(config.log.level, config.log.format)
    _tune_malloc()
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_serve(config))


async def _serve(config: Config) -> None:
    server = Server(config)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, stop.set)
    await server.start()
    _tune_collector()
    click.echo(_greeting(server))
    await stop.wait()
    click.echo("Stopping: no new clients; finishing what was accepted.")
    await server.stop()
    click.echo("Stopped. Everything acknowledged is on disk.")


def _greeting(server: Server) -> str:
    """Say where it listens, who may connect, where the data lies, what an ack means."""
    config = server.config
    addresses = ", ".join(str(address) for address in server.addresses)
    http = server.addresses[-1]
    lines = [
        f"Penstock {__version__} is running (stop with Ctrl-C).",
        f"  listening  {addresses} (MQTT and HTTP on each)",
        f"  clients    {_who(server)}",
        f"  data       {Path(config.data).resolve()} ({_what(server)})",
        f"  an ack     {_promise(config)}",
        f"  look       http://{http}/metrics, /health, /ready",
    ]
    return "\n".join(lines)


def _who(server: Server) -> str:
    if all(address.is_loopback for address in server.addresses):
        return "anyone on this machine, without a password"
    return "ANYONE who can reach these addresses, without a password (allow_anonymous)"


def _what(server: Server) -> str:
    size = server.store.size()
    return f"{size.messages:,} messages, {size.bytes_used / 1024**2:,.1f} MiB"


def _promise(config: Config) -> str:
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


GC_THRESHOLDS = 50_000, 20, 50
"""Containers made before the collector looks; nothing of ours is cyclic on the hot path."""


def _tune_collector() -> None:
    gc.collect()
    gc.freeze()  # what exists by now lives as long as the process: never look at it again
    gc.set_threshold(*GC_THRESHOLDS)


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
