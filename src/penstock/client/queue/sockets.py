"""Options and errors of the connections of both clients.

A connection without traffic for hours is the normal state of a subscription to a quiet topic. Pings
tell whether the other end is alive (``heartbeat``), and TCP keep-alive for brokers that know none.
"""

import socket
import struct
from typing import Final

from penstock.client.dial import Connection
from penstock.client.errors import (
    ClientError,
    ConnectionLostError,
    LoginFailedError,
    NotAuthorizedError,
    TlsFailedError,
)

KEEP_ALIVE_IDLE_S: Final = 10
KEEP_ALIVE_INTERVAL_S: Final = 2
KEEP_ALIVE_COUNT: Final = 4
CONNECT_MAX_S: Final = 3.0  # time for a second packet, should the first get lost


def connect_timeout_s(timeout_s: float) -> float:
    """Return the time limit of one attempt, which leaves time for another address."""
    return min(timeout_s / 2, CONNECT_MAX_S)


def is_mistake(error: ClientError) -> bool:
    """Whether the first connection failed for a reason that no later attempt would remove.

    A client that was connected before retries in spite of it: another node may do better.
    """
    return isinstance(error, TlsFailedError | LoginFailedError | NotAuthorizedError)


def keep_alive(connection: Connection) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEP_ALIVE_IDLE_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, KEEP_ALIVE_INTERVAL_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, KEEP_ALIVE_COUNT)


def keep_watch(connection: Connection, timeout_s: float) -> None:
    """Prepare a blocking connection: reads wait for ever, writes for half of ``timeout_s``."""
    connection.settimeout(None)
    keep_alive(connection)
    seconds, rest = divmod(timeout_s / 2, 1)
    limit = struct.pack("ll", int(seconds), int(rest * 1_000_000))
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)


def broker_silent() -> ConnectionLostError:
    return ConnectionLostError(
        "the broker does not answer pings", "is its machine up, and the network between?"
    )
