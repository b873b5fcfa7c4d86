"""Broker connections, kept for the life of the process, and retries.

Each process keeps one connection per address and user; a forked child makes its own. Spark ends the
query when a reader fails, so requests are retried while the broker is away. After ``NOTICE_S`` a
warning is logged, so that a wrong port does not look like a hang.
"""

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from penstock.client import errors
from penstock.client.queue.blocking import QueueClient
from penstock.spark.login import NO_LOGIN, BrokerLogin
from penstock.spark.options import RetryPolicy, SourceOptions

S = TypeVar("S")
T = TypeVar("T")
CALL_S: Final = 30.0  # limit for one call, reconnecting included
NOTICE_S: Final = 3.0  # wait this long for a connection before logging a warning
CALLS_AT_ONCE: Final = 8  # concurrent requests about single topics
_LOG: Final = logging.getLogger("penstock.spark")
_clients: dict[tuple[int, tuple[str, ...], BrokerLogin], QueueClient] = {}
_lock = threading.Lock()


def client_for(servers: tuple[str, ...], login: BrokerLogin = NO_LOGIN) -> QueueClient:
    """Return this process's connection to these servers, as this user. It is thread-safe."""
    key = (os.getpid(), servers, login)
    with _lock:
        client = _clients.get(key)
        if client is None:
            client = _clients[key] = _connected(servers, login)
    return client


def _connected(servers: tuple[str, ...], login: BrokerLogin) -> QueueClient:
    text = "no broker answers at %s yet; is it running? Retrying"
    notice = threading.Timer(NOTICE_S, _LOG.warning, [text, ", ".join(servers)])
    notice.daemon = True
    notice.start()
    try:
        return QueueClient(servers, timeout_s=CALL_S, **login.keywords()).open()
    finally:
        notice.cancel()


def with_retries(policy: RetryPolicy, call: Callable[[], T]) -> T:
    for _ in range(policy.retries):
        try:
            return call()
        except errors.ClientError as error:
            if not is_transient(error):
                raise
            time.sleep(policy.pause_s)
    return call()


def ask(options: SourceOptions, call: Callable[[QueueClient], T]) -> T:
    return with_retries(options.retry, lambda: call(client_for(options.servers, options.login)))


def is_transient(error: errors.ClientError) -> bool:
    if isinstance(error, errors.QueueRefusedError):
        return not error.is_final
    if isinstance(error, errors.TlsFailedError | errors.LoginFailedError):
        return False
    return isinstance(
        error, errors.UnreachableError | errors.ConnectionLostError | errors.ReplyTimeoutError
    )


def map_concurrently(call: Callable[[S], T], items: Iterable[S]) -> list[T]:
    asked = list(items)
    if len(asked) == 1:
        return [call(asked[0])]
    with ThreadPoolExecutor(CALLS_AT_ONCE) as pool:
        return list(pool.map(call, asked))
