"""``penstock serve``: run the broker until a signal stops it."""

import asyncio
import contextlib
import ctypes
import gc
import os
import resource
import signal
import sys
from collections.abc import Callable

import click
import msgspec

from penstock import kernel
from penstock.access.exposure import clear_text
from penstock.cli.greeting import greeting
from penstock.cli.options import configured
from penstock.cli.reloading import Reloader
from penstock.cli.service_manager import ServiceManager
from penstock.config.load import Loaded
from penstock.config.schema import Config
from penstock.errors import StorageError, StorageFull
from penstock.limits import FILES_BESIDE_CLIENTS
from penstock.obs import log
from penstock.server import Origins, Server


class _Serve(click.Command):
    """Says how a broker is told its address, to those who tell it as they tell a client."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if error.option_name not in {"-p", "--port", "--host"}:
                raise
            hint = f"No such option: {error.option_name}. {_LISTEN_HINT}"
            raise click.UsageError(hint, ctx) from None


_LISTEN_HINT = (
    "A broker listens at --listen HOST:PORT, as in --listen 127.0.0.1:1884; every listener"
    " accepts every protocol."
)


@click.command(cls=_Serve)
@configured
def serve(loaded: Loaded) -> None:
    """Run the broker. Every listener accepts every protocol."""
    config = loaded.config
    log.configure(config.log.level, config.log.format)
    _tune_malloc()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    config = _fit_files(config)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_serve(config, loaded))


class _StopRequested(BaseException):
    """A signal arrived while the broker was starting."""


async def _serve(config: Config, loaded: Loaded) -> None:
    stop = asyncio.Event()
    origins = Origins(loaded.sources, loaded.file)
    server = Server(config, origins=origins)
    try:
        await _start(server, stop)
    except _StopRequested:
        click.echo("Stopped during startup. No data was lost.")
        return
    _tune_collector()
    reloader = Reloader(loaded, server, _fit_files)
    reloading = _reload_on_hangup(reloader)
    click.echo(greeting(server))
    logger = log.get_logger("serve")
    listening = ", ".join(map(str, server.addresses))
    logger.info("started", listening=listening, speed=kernel.described)
    _warn_of_clear_text(server)
    manager = ServiceManager.of_environment(os.environ)
    manager.ready(f"Listening on {listening}")
    alive = asyncio.create_task(manager.keep_alive())
    while await _is_replaced(server, stop):
        logger.warning("store_replaced", why="this node was too far behind and received a snapshot")
        manager.recovering()
        await server.give_way()
        received = server.snapshots_received + 1
        server = Server(server.config, snapshots_received=received, origins=origins)
        reloader.server = server
        gc.unfreeze()
        gc.collect()  # what is left of the old one has a descriptor for each of its blocks
        await server.start()
        _tune_collector()
        manager.recovered(f"Listening on {listening}")
    reloading.cancel()
    manager.stopping()
    click.echo("Stopping: completing what was accepted.")
    logger.info("stopping", clients=len(server.parts.connections.clients))
    is_kept = await server.stop()
    alive.cancel()
    if is_kept:
        click.echo("Stopped. All acknowledged messages are on disk.")
    else:
        click.echo("Stopped, but not everything that was accepted could be written to disk.")
        raise StorageError(_loss(config), "Free disk space, then start the broker again.")


def _reload_on_hangup(reloader: Reloader) -> asyncio.Task[None]:
    """Reload at SIGHUP and when a file changes, until the task is cancelled."""
    hangup = asyncio.Event()

    async def reload_again() -> None:
        while True:
            await hangup.wait()
            hangup.clear()
            await reloader.reload("SIGHUP")

    async def both() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(reload_again())
            group.create_task(reloader.watch())

    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, hangup.set)
    return asyncio.create_task(both())


async def _start(server: Server, stop: asyncio.Event) -> None:
    # Starting may take long, and blocks the event loop while the journal is read, so the signal
    # handler raises. That is a crash, which loses nothing; elsewhere ``stop`` is checked later.

    def interrupt(_number: int, _frame: object) -> None:
        stop.set()
        raise _StopRequested

    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # what would be reloaded is being loaded
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, interrupt)
    gc.disable()  # creates hundreds of thousands of objects, none of them garbage
    try:
        await server.start()
    except StorageFull as error:
        advice = "Free disk space, then start the broker again."
        raise StorageFull(error.message, advice) from error
    for name in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)


async def _is_replaced(server: Server, stop: asyncio.Event) -> bool:
    waits = [asyncio.ensure_future(event.wait()) for event in (stop, server.replaced)]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for wait in waits:
        wait.cancel()
    return not stop.is_set()


def _warn_of_clear_text(server: Server) -> None:
    exposed = clear_text(server.config)
    if exposed and not server.broker.access.is_open:
        log.get_logger("serve").warning(
            "clear_text_logins",
            listeners=", ".join(str(settings.address) for settings in exposed),
            why="passwords from other machines can be read on the way",
            advice="set tls.cert and tls.key (penstock certs dev DIR makes some to try)",
        )


def _loss(config: Config) -> str:
    if config.durability == "sync":
        return "unacknowledged messages were lost; their publishers must retry"
    return "the latest acknowledged messages were lost (durability = interval)"


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop  # noqa: PLC0415 - optional
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


SWITCH_INTERVAL_S = 0.0005
"""How long the event loop may hold the interpreter while the writer thread waits for it. A commit
needs it several times; with Python's 5 ms each wait would be longer than the flush itself."""

FILES_OF_BLOCKS = 4_096  # before Python 3.13, one for each block of the journal


def _fit_files(config: Config) -> Config:
    # Otherwise the system would reject connections before the broker can count them.
    wanted = config.limits.clients_max + FILES_BESIDE_CLIENTS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    ample = wanted + FILES_OF_BLOCKS
    ample = ample if hard == resource.RLIM_INFINITY else min(ample, hard)
    if soft != resource.RLIM_INFINITY and soft < ample:
        resource.setrlimit(resource.RLIMIT_NOFILE, (ample, hard))
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


GC_THRESHOLDS = 50_000, 20, 50  # nothing on the hot path is cyclic


def _tune_collector() -> None:
    gc.collect()
    gc.freeze()  # what exists now lives as long as the process: never scan it again
    gc.set_threshold(*GC_THRESHOLDS)
    gc.enable()


_MALLOPT = {
    -1: 256 << 20,  # M_TRIM_THRESHOLD
    -2: 16 << 20,  # M_TOP_PAD
    -3: 64 << 20,  # M_MMAP_THRESHOLD
    -8: 1,  # M_ARENA_MAX: the writer's large buffers, too, are used again
}


def _tune_malloc() -> None:
    """Keep glibc from returning each read buffer to the kernel: that costs page faults."""
    with contextlib.suppress(OSError, AttributeError):  # another C library
        mallopt = ctypes.CDLL(None).mallopt
        for parameter, value in _MALLOPT.items():
            mallopt(parameter, value)
