"""What all connections of the queue protocol have in common, blocking or not.

A connection on which nothing is said for hours is the normal state of a subscription to a quiet
topic. Whether the other end is still there is asked by pings (``heartbeat``), and, for brokers that
know none, by the system (TCP keep-alive).
"""

import socket
import struct
from typing import Final

from penstock.client.errors import ConnectionLostError

KEEP_ALIVE_IDLE_S: Final = 10
KEEP_ALIVE_INTERVAL_S: Final = 2
KEEP_ALIVE_COUNT: Final = 4
"""After so many questions without an answer the connection is given up."""

CONNECT_MAX_S: Final = 3.0
"""Time for a second packet, should the first get lost; then another address is tried."""


def connect_timeout_s(timeout_s: float) -> float:
    """How long one attempt may take, so that there is time for another address."""
    return min(timeout_s / 2, CONNECT_MAX_S)


def keep_alive(connection: socket.socket) -> None:
    """Have the system find out when the other end is gone."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEP_ALIVE_IDLE_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, KEEP_ALIVE_INTERVAL_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, KEEP_ALIVE_COUNT)


def keep_watch(connection: socket.socket, timeout_s: float) -> None:
    """Prepare a blocking connection: reading waits for ever, sending as long as is bearable."""
    connection.settimeout(None)
    keep_alive(connection)
    seconds, rest = divmod(timeout_s / 2, 1)
    limit = struct.pack("ll", int(seconds), int(rest * 1_000_000))
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)


def broker_silent() -> ConnectionLostError:
    """The other end does not answer pings."""
    return ConnectionLostError(
        "the broker does not answer any more", "is its machine up, and the network between?"
    )


def connection_lost() -> ConnectionLostError:
    """The other end hung up."""
    return ConnectionLostError(
        "the broker closed the connection",
        "its log or /metrics (penstock_disconnects_total) says why",
    )
