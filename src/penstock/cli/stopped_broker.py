"""A stopped broker's data directory, opened to be administered.

The broker starts in a thread of this process and listens on the administrator's socket alone. So
every command that administers a running broker works on a stopped one: the same checks, the same
journal, and a checkpoint at the end. A node of a cluster is refused: other nodes must agree.
"""

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from penstock.config.load import load
from penstock.config.schema import Cluster, Config
from penstock.errors import PenstockError, Refused, StorageForeign, StorageLocked
from penstock.obs.log import configure
from penstock.server import Server


@contextmanager
def opened(data: Path, config_file: str | None) -> Iterator[None]:
    """Serve the administrator's socket of a stopped broker while the context lasts."""
    configure("error", "auto")
    broker = _Private(_private_config(data, config_file))
    broker.start()
    try:
        yield
    finally:
        broker.stop()


def _private_config(data: Path, config_file: str | None) -> Config:
    """The configuration that the broker is served with, for its limits; it does not listen."""
    flags = {"data": str(data), "listen": "127.0.0.1:1883", "http_listen": ""}
    config = load(config_file, os.environ, flags).config
    if config.cluster.peer_listen:
        raise _cluster_refusal("this broker is a node of a cluster")
    return msgspec.structs.replace(config, cluster=Cluster())


def _cluster_refusal(what: str) -> Refused:
    return Refused(what, "start its nodes, and give the command without --data, to one of them")


class _Private:
    """A server in a thread."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._is_up = threading.Event()
        self._error: BaseException | None = None
        self._stop: Callable[[], object] = lambda: None
        self._thread = threading.Thread(target=self._run, name="stopped-broker", daemon=True)

    def start(self) -> None:
        self._thread.start()
        self._is_up.wait()
        if self._error is not None:
            self._thread.join()
            raise _explained(self._error)

    def stop(self) -> None:
        self._stop()
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # noqa: BLE001 - raised again by the other thread
            self._error = error
        finally:
            self._is_up.set()

    async def _serve(self) -> None:
        stopping, loop = asyncio.Event(), asyncio.get_running_loop()
        server = Server(self._config, is_private=True)
        await server.start()
        self._stop = lambda: loop.call_soon_threadsafe(stopping.set)
        self._is_up.set()
        await stopping.wait()
        if not await server.stop():
            raise PenstockError("not everything could be written to disk", "free disk space")


def _explained(error: BaseException) -> BaseException:
    if isinstance(error, StorageLocked):
        advice = "its socket does not answer; use its address instead of --data: -h HOST -p PORT"
        return Refused(f"a broker is running on this data directory: {error.message}", advice)
    if isinstance(error, StorageForeign) and "cluster" in error.message:
        return _cluster_refusal(error.message)
    return error
