"""Connections to the broker, kept for as long as the process lives, and patience with it.

Spark uses a Python worker again for the next task and the next batch, so a connection is made once
per process and address and then stays. It belongs to the process that made it: what a fork has
inherited is not used.

Spark does not ask again when a reader fails: the query ends. So whatever we ask is asked again when
the broker is away. A call of the client already comes back over lost connections for ``CALL_S``;
``with_retries`` makes several such calls. By default that is two minutes: a broker may be restarted
under a running query. Two minutes without a word look like a program that hangs, to somebody whose
broker was never started or who mistyped its port: so whoever waits for a connection is told early.
"""

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from penstock.client.errors import (
    ClientError,
    ConnectionLostError,
    QueueRefusedError,
    ReplyTimeoutError,
    UnreachableError,
)
from penstock.client.queue.blocking import QueueClient
from penstock.spark.options import RetryPolicy

S = TypeVar("S")
T = TypeVar("T")

CALL_S: Final = 30.0
"""How long one call may take, lost connections included."""

NOTICE_S: Final = 3.0
"""How long a connection may take before we say that we wait for it."""

CALLS_AT_ONCE: Final = 8
"""Questions about single topics that are under way at a time."""

_LOG: Final = logging.getLogger("penstock.spark")
_clients: dict[tuple[int, tuple[str, ...]], QueueClient] = {}
_lock = threading.Lock()


def client_for(servers: tuple[str, ...]) -> QueueClient:
    """The connection of this process to these servers; any number of threads may use it."""
    key = (os.getpid(), servers)
    with _lock:
        client = _clients.get(key)
        if client is None:
            client = _clients[key] = _connected(servers)
    return client


def _connected(servers: tuple[str, ...]) -> QueueClient:
    notice = threading.Timer(NOTICE_S, _say_that_we_wait, [servers])
    notice.daemon = True
    notice.start()
    try:
        return QueueClient(servers, timeout_s=CALL_S).open()
    finally:
        notice.cancel()


def _say_that_we_wait(servers: tuple[str, ...]) -> None:
    _LOG.warning("no broker answers at %s, waiting for one: is it started?", ", ".join(servers))


def with_retries(patience: RetryPolicy, ask: Callable[[], T]) -> T:
    """Ask, and ask again for as long as the trouble may pass by itself."""
    for _ in range(patience.retries):
        try:
            return ask()
        except ClientError as error:
            if not is_transient(error):
                raise
            time.sleep(patience.pause_s)
    return ask()


def is_transient(error: ClientError) -> bool:
    """Whether it may be otherwise in a while, with nobody changing anything."""
    if isinstance(error, QueueRefusedError):
        return not error.is_final
    return isinstance(error, UnreachableError | ConnectionLostError | ReplyTimeoutError)


def map_concurrently(ask: Callable[[S], T], items: Iterable[S]) -> list[T]:
    """Ask about each, some at a time; answers are in the order of the items."""
    asked = list(items)
    if len(asked) == 1:
        return [ask(asked[0])]
    with ThreadPoolExecutor(CALLS_AT_ONCE) as pool:
        return list(pool.map(ask, asked))
