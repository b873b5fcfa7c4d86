"""Opening a connection, and the errors when that fails."""

import socket

from penstock.client.errors import ClientError, ReplyTimeoutError, UnreachableError


def dial(host: str, port: int, timeout_s: float) -> socket.socket:
    """Connect, blocking; raise a ``ClientError`` with the reason if that fails."""
    try:
        connection = socket.create_connection((host, port), timeout_s)
    except OSError as error:
        raise unreachable(error, host, port, timeout_s) from error
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def unreachable(error: OSError, host: str, port: int, timeout_s: float) -> ClientError:
    """Return the ``ClientError`` for a failed attempt to connect."""
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    match error:
        case ConnectionRefusedError():
            return UnreachableError(
                f"no broker is listening on {address}", "start one with `penstock serve`"
            )
        case TimeoutError():
            return ReplyTimeoutError(
                f"no answer from {address} within {timeout_s:g} s",
                "check the address, and firewalls on the way",
            )
        case socket.gaierror():
            return UnreachableError(f"no address is known for {host}", "check the name")
        case _:
            return UnreachableError(f"cannot connect to {address}: {error.strerror or error}")
